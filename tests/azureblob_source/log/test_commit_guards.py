"""Guards against what happens rarely, each with the mistake that it prevents: without the guard its story fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, NumberedAttempt, ProcessDied, Refuse, on
from azure_account.memory.service import MemoryService, ServiceAssumptions
from azure_account.values import BlobAttributes
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, LogEntry, Transaction
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import is_data, log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out
from foundation.clock import Clock
from foundation.errors import AzureBlobError, ConflictError
from tests.azureblob_source.log.committing import ROWS, WEEK_AND_A_DAY, rows
from tests.azureblob_source.write.sink_rows import blob_rows, new_account, plan_of, stage_rows, visible_blobs
from tests.histories.mutants import Mutant, edited

if TYPE_CHECKING:
    from collections.abc import Callable

    from azureblob_source.log.entry import AnyEntry

NOW = "2026-01-01T00:00:00+00:00"


def draft(account: MemoryAccount, query: str, number: int) -> Draft:
    """One batch of one row, staged. Its write id is the number."""
    staged = stage_rows(account.container("container"), plan_of(ROWS), [rows([number])], seed=number)
    return Draft(f"w{number}", NOW, transaction=Transaction(query, 0), blobs=staged.blobs)


def log_of(account: MemoryAccount) -> CommitLog:
    return CommitLog(account.container("container"), "flights", readers=1, clock=account.clock)


def commit(account: MemoryAccount, of: Draft) -> AnyEntry:
    return commit_and_publish(log_of(account), of, Publisher(account.container("container"), threads=1))


def numbers(account: MemoryAccount) -> list[int]:
    """What a reader of the listing sees; it must be what the log says."""
    visible = visible_blobs(account)
    assert set(live_blobs(log_of(account).history())) == set(visible)
    return sorted(row["n"] for data in visible.values() for row in blob_rows(data))


# --- the stories ------------------------------------------------------------------------------------------------------


def a_paused_writer_takes_back_what_was_revoked_meanwhile() -> None:
    """It sleeps before it publishes. Its blocks expire, another writer voids the entry, and its blocks arrive late."""
    account = new_account()
    slow = draft(account, "slow", 1)

    def sleep(attempt: NumberedAttempt) -> None:
        if attempt.operation == "commit_block_list" and not slept:
            slept.append(attempt)
            account.clock.sleep(WEEK_AND_A_DAY)
            commit(account, draft(account, "other", 2))
            draft(account, "slow", 1)

    slept: list[NumberedAttempt] = []
    with pytest.raises(ConflictError, match="was voided"):
        commit(account.restarted(FaultInjector(sleep)), slow)
    assert [2] == numbers(account)


def what_is_left_out_is_not_all_that_is_missing() -> None:
    """`--leave-out-missing` says that all earlier entries are published, so it publishes them."""
    account = new_account()
    first, second = draft(account, "first", 1), draft(account, "second", 2)
    commit(account, first)
    own = second.blobs[0].name
    dying = account.restarted(FaultInjector(on("commit_block_list", Crash(), name=lambda name: name == own)))
    with pytest.raises(ProcessDied):
        commit(dying, second)
    lost = first.blobs[0]
    account.container("container").delete(lost.name)
    leave_out(log_of(account), {lost}, Draft("by hand", NOW), Publisher(account.container("container"), threads=1))
    assert [2] == numbers(account)


def a_void_that_came_second_voids_nothing() -> None:
    """The writer is refused its blob and wants to void its entry; the batch's repeat has done so, and replaced it."""
    account = new_account()
    first, repeat = draft(account, "q", 1), draft(account, "q", 2)

    def overtake(attempt: NumberedAttempt) -> Refuse | None:
        if attempt.operation == "put" and attempt.name == log_name("flights", 1) and not done:
            done.append(attempt)
            commit(account, repeat)
        refused = attempt.operation == "commit_block_list" and is_data(attempt.name) and not done and not asked
        if refused:
            asked.append(attempt)
        return Refuse() if refused else None

    asked: list[NumberedAttempt] = []
    done: list[NumberedAttempt] = []
    entry = commit(account.restarted(FaultInjector(overtake)), first)
    assert 1 == len(done)
    assert isinstance(entry, LogEntry)
    assert ("replace", repeat.write_id) == (entry.operation, entry.write_id)
    assert [2] == numbers(account)


def a_block_list_that_lacks_its_blocks_may_be_that_of_a_blob_that_was_restored() -> None:
    """A blob was deleted by hand and restored as a copy, which has no blocks: there is nothing that it lacks."""
    account = MemoryAccount(MemoryService(behaviour=ServiceAssumptions(list_before_condition=True)))
    container = account.container("container")
    container.create()
    first = draft(account, "first", 1)
    commit(account, first)
    content = container.get(first.blobs[0].name)
    container.delete(first.blobs[0].name)
    container.put(first.blobs[0].name, content.data, BlobAttributes(content.properties.metadata))
    commit(account, draft(account, "second", 2))
    assert [1, 2] == numbers(account)


Story = tuple["Callable[[], None]", Mutant]
STORIES: dict[str, Story] = {
    "paused": (
        a_paused_writer_takes_back_what_was_revoked_meanwhile,
        edited(
            "azureblob_source.log.publishing.roll_forward:_publish_and_look_again", " and log.boundary_is_recent()", ""
        ),
    ),
    "left out": (
        what_is_left_out_is_not_all_that_is_missing,
        edited("azureblob_source.log.publishing.void:_stuck", "publisher.publish_blobs(entry)", "[]"),
    ),
    "second void": (
        a_void_that_came_second_voids_nothing,
        edited("azureblob_source.log.publishing.void:void", "put.write_id != candidate.write_id", "False"),
    ),
    "missing": (
        a_block_list_that_lacks_its_blocks_may_be_that_of_a_blob_that_was_restored,
        edited(
            "azureblob_source.log.publishing.publish:Publisher.publish_blob",
            "match self._clear_name(blob), answer:",
            "match _Occupant.NOTHING if isinstance(answer, Missing) else self._clear_name(blob), answer:",
        ),
    ),
}


@pytest.mark.parametrize("story", [story for story, _ in STORIES.values()], ids=list(STORIES))
def test_the_guard_holds(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize(("story", "mutant"), STORIES.values(), ids=list(STORIES))
def test_without_the_guard_the_story_fails(
    story: Callable[[], None], mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises((AssertionError, AzureBlobError, pytest.fail.Exception)):
        story()


def test_a_log_measures_pauses_by_a_clock_that_goes_on_while_the_machine_sleeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("this system has no clock that goes on while the machine sleeps")
    asked: list[int] = []
    asleep = [0.0]

    def clock_gettime(clock: int) -> float:
        asked.append(clock)
        return asleep[0]

    log = CommitLog(new_account().container("container"), "flights", readers=1)
    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    log.refresh_boundary()
    assert log.boundary_is_recent()
    asleep[0] = 31.0
    assert not log.boundary_is_recent()
    assert {time.CLOCK_BOOTTIME} == set(asked)
    assert 31.0 == Clock().monotonic()
