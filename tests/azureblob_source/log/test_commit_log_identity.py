"""A stream that is deleted by hand and begun again while others know the old log: nothing is mixed, nothing stops.

Writer `old` and the readers know the deleted log, writer `new` begins the stream again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import Crash, FaultInjector, NumberedAttempt, ProcessDied, Refuse, on
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction, from_json, to_json
from azureblob_source.log.hint import put_hint
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import log_name, log_version, schema_name
from azureblob_source.log.stream_notes import LogFacts
from azureblob_source.read.following import Follower, TriggerLimits, new_blobs
from azureblob_source.read.snapshot import take_snapshot
from foundation.errors import ConflictError, NotFoundError
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.write.sink_rows import blob_rows, committer, new_account, plan_of, stage_rows

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

STREAM = "flights"
PLAN = plan_of(ROWS)


class Writer:
    """A process that writes batches of one query, one row each, and keeps its logs."""

    def __init__(self, account: MemoryAccount, query: str, faults: FaultInjector | None = None) -> None:
        self.account = account
        self.container = account.restarted(faults).container("container")
        self.query = query
        self.committer = committer(self.container, PLAN, sum(map(ord, query)))

    def write(self, batch: int, *, plain: bool = False) -> None:
        """The row is the batch's number."""
        staged = stage_rows(self.container, PLAN, [rows([batch])], seed=sum(map(ord, self.query)) * 1000 + batch)
        self.committer.commit([staged], None if plain else Transaction(self.query, batch))


def delete_stream(account: MemoryAccount) -> None:
    """What a person does: everything below the stream."""
    container = account.container("container")
    for blob in list(container.list(f"{STREAM}/", uncommitted=True)):
        container.delete(blob.name)


def numbers(account: MemoryAccount) -> list[int]:
    """The rows that a new reader of the log reads; their schemas are there."""
    container = account.container("container")
    live = live_blobs(CommitLog(container, STREAM).history()).values()
    assert all(container.properties(schema_name(STREAM, blob.schema)) is not None for blob in live)
    return sorted(row["n"] for blob in live for row in blob_rows(container.get(blob.name).data))


def versions(account: MemoryAccount) -> list[int]:
    """Every entry that is stored, in the log or not."""
    names = account.service.contents("container")
    return sorted(version for name in names if (version := log_version(name)) is not None)


def follower(account: MemoryAccount) -> Follower:
    log = CommitLog(account.container("container"), STREAM, clock=account.clock)
    return Follower(log, 30.0, account.clock)


# --- identity ---------------------------------------------------------------------------------------------------------


def test_every_entry_carries_the_write_id_of_the_first() -> None:
    account = new_account()
    for query in ("a", "b"):
        for batch in range(2):
            Writer(account, query).write(batch)
    history = CommitLog(account.container("container"), STREAM).history()
    assert [history[0].write_id] * 4 == [entry.log_id for entry in history]
    assert history[-1] == from_json(to_json(history[-1]), "x")


# --- a writer that knows the deleted log ------------------------------------------------------------------------------


@pytest.mark.parametrize("old_batches", [1, 3, 8])
@pytest.mark.parametrize("new_batches", [0, 1, 2, 3, 4, 8, 9])
def test_a_writer_whose_stream_was_deleted_and_begun_again_says_so_and_goes_on_in_the_new_one(
    old_batches: int, new_batches: int
) -> None:
    account = new_account()
    old = Writer(account, "old")
    for batch in range(old_batches):
        old.write(batch)
    delete_stream(account)
    for batch in range(new_batches):
        Writer(account, "new").write(100 + batch)
    with pytest.raises(ConflictError, match=r"flights in .*was deleted.*A writer: run the batch again"):
        old.write(old_batches)
    assert list(range(new_batches)) == versions(account)
    old.write(old_batches)
    Writer(account, "new").write(100 + new_batches)
    old.write(old_batches + 1)
    expected = [old_batches, old_batches + 1, *range(100, 101 + new_batches)]
    assert expected == numbers(account)
    assert list(range(new_batches + 3)) == versions(account)


def test_a_writer_without_transactions_is_told_that_nothing_was_committed() -> None:
    account = new_account()
    old = Writer(account, "old")
    old.write(0, plain=True)
    delete_stream(account)
    with pytest.raises(ConflictError, match="run the batch again"):
        old.write(1, plain=True)
    assert [] == versions(account)
    old.write(1, plain=True)
    assert [1] == numbers(account)


def dead_writers_stray(new_batches: int = 2) -> MemoryAccount:
    """A writer of the deleted log has put version 3 and died before it looked; the new log is shorter."""
    account = new_account()
    first = FaultInjector(on("put", Crash(after_effect=True), name=lambda name: name == log_name(STREAM, 3)))
    old = Writer(account, "old", first)
    for batch in range(3):
        old.write(batch)
    delete_stream(account)
    for batch in range(new_batches):
        Writer(account, "new").write(100 + batch)
    with pytest.raises(ProcessDied):
        old.write(3)
    assert [*range(new_batches), 3] == versions(account)
    return account


@pytest.mark.parametrize("restarted", [False, True])
def test_an_entry_that_a_dead_writer_of_the_deleted_log_has_left_stops_nobody(restarted: bool) -> None:
    account = dead_writers_stray()
    new = Writer(account, "new")
    for batch in range(2, 7):
        if restarted:
            new = Writer(account, "new")
        new.write(100 + batch)
        assert list(range(100, 101 + batch)) == numbers(account)
    assert list(range(7)) == versions(account)


def test_a_reader_passes_over_an_entry_of_the_deleted_log_that_is_next_in_the_new_one() -> None:
    account = dead_writers_stray(new_batches=2)
    reader = follower(account)
    assert 1 == reader.latest(-1, TriggerLimits())
    Writer(account, "new").write(102)
    assert 2 == reader.latest(1, TriggerLimits())
    assert [100, 101, 102] == numbers(account)
    Writer(account, "new").write(103)
    assert 3 == reader.latest(2, TriggerLimits())


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("new_batches", range(4))
def test_a_process_that_is_given_a_version_of_the_deleted_log_finds_the_head_of_the_new_one(
    new_batches: int, version: int
) -> None:
    account = dead_writers_stray(new_batches)
    log = CommitLog(account.container("container"), STREAM, facts=LogFacts(version, "of the deleted log"))
    head = CommitLog(account.container("container"), STREAM).head()
    assert head == log.head() == log.refresh()


@pytest.mark.parametrize("strays", [[3], [2, 3], [2]])
@pytest.mark.parametrize("hint", [2, 3])
def test_a_hint_of_the_deleted_log_at_an_entry_of_it_misleads_no_search(strays: list[int], hint: int) -> None:
    """A writer that dies late can leave both."""
    account = new_account()
    for batch in range(4):
        Writer(account, "old").write(batch)
    container = account.container("container")
    left = {name: container.get(name).data for name in (log_name(STREAM, version) for version in strays)}
    delete_stream(account)
    for batch in (100, 101):
        Writer(account, "new").write(batch)
    for name, data in left.items():
        container.put(name, data)
    put_hint(container, STREAM, hint)
    assert 1 == take_snapshot(CommitLog(container, STREAM), None, account.clock).version
    Writer(account, "newer").write(102)
    assert [100, 101, 102] == numbers(account)


def test_two_writers_of_the_new_log_that_meet_the_stray_lose_no_batch() -> None:
    account = dead_writers_stray(new_batches=3)
    done: list[str] = []

    def overtake(attempt: NumberedAttempt) -> None:
        if attempt.operation == "delete" and attempt.name == log_name(STREAM, 3) and not done:
            done.append("overtaken")
            Writer(account, "other").write(500)

    Writer(account, "new", FaultInjector(overtake)).write(103)
    assert ["overtaken"] == done
    assert [100, 101, 102, 103, 500] == numbers(account)


def test_a_writer_of_the_deleted_log_deletes_no_entry_of_the_new_one() -> None:
    account = new_account()
    old = Writer(account, "old")
    old.write(0)
    delete_stream(account)
    for batch in range(4):
        Writer(account, "new").write(100 + batch)
    with pytest.raises(ConflictError, match="was deleted"):
        old.write(1)
    assert [100, 101, 102, 103] == numbers(account)


def test_a_log_that_another_process_has_continued_is_not_torn_by_a_withdrawal() -> None:
    account = new_account()
    done: list[str] = []

    def overtake(attempt: NumberedAttempt) -> None:
        if attempt.operation == "get" and attempt.name == log_name(STREAM, 1) and len(done) == 1:
            done.append("continued")
            Writer(account, "new").write(100)
        if attempt.operation == "put" and attempt.name == log_name(STREAM, 2):
            delete_stream(account)
            done.append("deleted")

    old = Writer(account, "old", FaultInjector(overtake))
    old.write(0)
    old.write(1)
    with pytest.raises(ConflictError, match="Run the batch again"):
        old.write(2)
    assert ["deleted", "continued"] == done
    old.write(2)
    Writer(account, "new").write(101)
    assert [2, 100, 101] == numbers(account)


def stray_in_flight(old: Writer, batch: int) -> tuple[MemoryAccount, str]:
    """The stream is deleted and begun again by batch 100, while `old` is just putting an entry; returns its name.

    `old` can be about to withdraw it, as nobody can see.
    """
    account = old.account
    old.write(batch)
    name = log_name(STREAM, versions(account)[-1])
    entry = account.container("container").get(name).data
    delete_stream(account)
    Writer(account, "new").write(100)
    account.container("container").put(name, entry)
    return account, name


def test_a_search_does_not_go_on_after_an_entry_of_the_deleted_log_which_its_writer_is_about_to_withdraw() -> None:
    old = Writer(new_account(), "old")
    old.write(0)
    log = CommitLog(old.account.container("container"), STREAM)
    assert log.head() is not None
    stray_in_flight(old, 1)
    with pytest.raises(ConflictError, match="was deleted"):
        log.refresh()
    head = log.refresh()
    assert head is not None
    assert 0 == head.version


def test_a_writer_does_not_go_on_after_another_ones_entry_of_the_deleted_log() -> None:
    old = Writer(new_account(), "old")
    other = Writer(old.account, "other")
    old.write(0)
    other.write(0)
    account, name = stray_in_flight(old, 1)
    with pytest.raises(ConflictError, match="was deleted"):
        other.write(1)
    account.container("container").delete(name)
    other.write(1)
    assert [1, 100] == numbers(account)


def test_a_writer_whose_version_was_taken_and_freed_again_drops_what_it_knew_of_the_deleted_log() -> None:
    old = Writer(new_account(), "old")
    done: list[str] = []

    def withdraw(attempt: NumberedAttempt) -> None:
        if attempt.operation == "get" and attempt.name == log_name(STREAM, 2) and not done:
            done.append("withdrawn")
            old.account.container("container").delete(attempt.name)

    other = Writer(old.account, "other", FaultInjector(withdraw))
    old.write(0)
    other.write(1)
    account, _ = stray_in_flight(old, 2)
    with pytest.raises(ProcessDied):
        Writer(account, "new", FaultInjector(on("commit_block_list", Crash(), skip=1))).write(101)
    with pytest.raises(ConflictError, match="was deleted"):
        other.write(2)
    assert ["withdrawn"] == done
    assert [0, 1] == versions(account)
    other.write(2)
    assert [2, 100, 101] == numbers(account)


def test_a_schema_that_was_deleted_with_the_stream_before_the_first_commit_of_its_writer_is_stored_again() -> None:
    account = new_account()
    Writer(account, "other").write(0)
    done: list[str] = []

    def delete(attempt: NumberedAttempt) -> None:
        if attempt.name == log_name(STREAM, 0) and not done:
            done.append("deleted")
            for blob in list(account.container("container").list(f"{STREAM}/")):
                account.container("container").delete(blob.name)

    Writer(account, "late", FaultInjector(delete)).write(1)
    assert ["deleted"] == done
    assert [1] == numbers(account)


def test_a_withdrawal_that_is_refused_leaves_a_stray_that_stops_nobody() -> None:
    account = new_account()
    old = Writer(account, "old", FaultInjector(on("delete", Refuse(), times=100)))
    for batch in range(3):
        old.write(batch)
    delete_stream(account)
    Writer(account, "new").write(100)
    with pytest.raises(ConflictError, match="was deleted"):
        old.write(3)
    assert [0, 3] == versions(account)
    for batch in range(1, 6):
        Writer(account, "new").write(100 + batch)
    assert list(range(100, 106)) == numbers(account)


def test_a_batch_is_not_acknowledged_by_a_log_that_was_begun_while_its_writer_searched_for_the_head() -> None:
    account = new_account()
    lengths: list[int] = []

    def begin_again(attempt: NumberedAttempt) -> None:
        published = attempt.operation == "commit_block_list" and versions(account) == [0, 1]
        searched = attempt.operation == "get" and attempt.name == log_name(STREAM, 5) and lengths == [6]
        if published or searched:
            delete_stream(account)
            lengths.append(6 if published else 5)
            for batch in range(lengths[-1]):
                Writer(account, f"new{len(lengths)}").write(100 + batch)

    old = Writer(account, "old", FaultInjector(begin_again))
    old.write(0)
    with pytest.raises(ConflictError, match="was deleted"):
        old.write(1)
    assert [6, 5] == lengths
    old.write(1)
    assert [1, 100, 101, 102, 103, 104] == numbers(account)


# --- a reader that knows the deleted log ------------------------------------------------------------------------------


@pytest.mark.parametrize("new_batches", [0, 2, 3, 5])
@pytest.mark.parametrize("keeps_its_log", [True, False])
def test_a_reader_whose_stream_was_deleted_and_begun_again_says_so(new_batches: int, keeps_its_log: bool) -> None:
    account = new_account()
    for batch in range(3):
        Writer(account, "old").write(batch)
    reader = follower(account)
    at = reader.latest(-1, TriggerLimits())
    assert 2 == at
    delete_stream(account)
    for batch in range(new_batches):
        Writer(account, "new").write(100 + batch)
    log_id = reader.log_id
    assert log_id is not None
    if not keeps_its_log:
        reader = follower(account)
        reader.expect(log_id)
    account.clock.sleep(601)
    with pytest.raises(ConflictError, match="with a new checkpoint"):
        reader.latest(at, TriggerLimits())
    fresh = follower(account)
    at = fresh.latest(-1, TriggerLimits())
    found = [blob.name for _, blob in new_blobs(fresh.entries(-1, at))]
    assert new_batches == len(found)


def test_an_offset_without_identity_is_of_the_log_that_is_there() -> None:
    account = new_account()
    for batch in range(3):
        Writer(account, "new").write(batch)
    reader = follower(account)
    reader.expect(None)
    assert 2 == reader.latest(0, TriggerLimits())
    assert reader.log_id is not None
    with pytest.raises(ConflictError, match="begun again"):
        reader.expect("another")


def test_a_range_that_is_planned_again_is_not_read_from_another_log() -> None:
    account = new_account()
    for batch in range(3):
        Writer(account, "new").write(batch)
    reader = follower(account)
    reader.expect("the log that was deleted")
    with pytest.raises(ConflictError, match=r"the log that was deleted.*begun again.*new checkpoint"):
        reader.entries(0, 2)


# --- a hole -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advice", ["restore", "write again"])
def test_the_advice_for_a_log_with_a_hole_works(advice: str) -> None:
    account = new_account()
    container = account.container("container")
    for batch in range(4):
        Writer(account, "q").write(batch)
    name = log_name(STREAM, 2)
    data = container.get(name).data
    container.delete(name)
    with pytest.raises(NotFoundError, match=rf"version 2 .*is missing: it was deleted by hand\. Restore {name}"):
        numbers(account)
    if advice == "restore":
        container.put(name, data)
        assert [0, 1, 2, 3] == numbers(account)
    else:
        delete_stream(account)
        for batch in range(4):
            Writer(account, "q").write(batch)
        assert [0, 1, 2, 3] == numbers(account)
