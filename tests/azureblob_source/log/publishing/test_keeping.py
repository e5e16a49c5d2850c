"""What overwrites and restores have removed, and keep: reads of earlier versions, disturbed publishers, refusals."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import (
    Crash,
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    ProcessDied,
    Refuse,
    Reset,
    at,
    on,
)
from azure_account.memory.service import MemoryService, ServiceAssumptions
from azure_account.retrying.retry_loop import Intercept, Request, T
from azure_account.service import Absent
from azure_account.values import BlobAttributes
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.naming import may_be_data, of_replaced, replaced_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out
from azureblob_source.log.relocating import moving
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance.audit.auditing import audit
from azureblob_source.maintenance.audit.findings import Kind
from azureblob_source.maintenance.inventory import inventory
from azureblob_source.maintenance.repair import missing_blobs, plan_repair
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.vacuum import VacuumResult, plan_vacuum, vacuum
from azureblob_source.read.blobs import BlobSelection
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.relocating import read_moving_splits
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings
from azureblob_source.read.splits import split_blobs
from foundation.clock import ManualClock
from foundation.errors import AzureBlobError, ConfigurationError, NotFoundError, TransientError
from tests.azureblob_source.log.committing import ROWS, rows
from tests.azureblob_source.write.sink_rows import (
    NOON,
    blob_rows,
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azureblob_source.log.entry import LogEntry
    from azureblob_source.read.blobs import StreamBlob

FAULTS = [Crash(), Crash(after_effect=True), LostAnswer(), LateEffect(2), Reset()]
WEEK = timedelta(days=7)
seeds = itertools.count(1)


def write(
    account: MemoryAccount, numbers: list[int], *, overwrite: bool = False, keep: str | None = None, **options: str
) -> None:
    """A process of its own writes a batch."""
    kept = {} if keep is None else {"keepReplaced": keep}
    container, plan, seed = account.container("container"), plan_of(ROWS, **kept, **options), next(seeds)
    staged = [stage_rows(container, plan, [rows(numbers)], seed=seed)] if numbers else []
    committer(container, plan, seed).commit(staged, None, overwrite=overwrite)


def overwritten(account: MemoryAccount | None = None) -> MemoryAccount:
    """Rows 0 and 1, which an overwrite by row 2 keeps for a week, then row 3."""
    account = account or new_account()
    write(account, [0])
    write(account, [1])
    write(account, [2], overwrite=True, keep="7 days")
    write(account, [3])
    return account


AFTER = [[0], [0, 1], [2], [2, 3]]
"""The rows at each version then."""


def log_of(account: MemoryAccount) -> CommitLog:
    return CommitLog(account.restarted().container("container"), "flights", readers=1, clock=account.clock)


def numbers(account: MemoryAccount, version: int | None = None) -> list[int]:
    """The rows that readers of the log find; at the head, readers of the listing find the same."""
    log = log_of(account)
    blobs = take_snapshot(log, version, account.clock, publish_timeout=0).blobs
    found = rows_in(log, list(blobs))
    if version is None:
        assert found == sorted(row["n"] for data in visible_blobs(account).values() for row in blob_rows(data))
    return found


def rows_in(log: CommitLog, blobs: Sequence[StreamBlob]) -> list[int]:
    """The rows of blobs and of parts of blobs, as a task reads them."""
    found = read_moving_splits(log, list(split_blobs(blobs)), SplitSettings(), by_version=False)
    return sorted(n for _, _, batch in found for n in batch["n"].to_pylist())


def kept_names(account: MemoryAccount) -> list[str]:
    return [name for name in account.service.contents("container") if "/_replaced/" in name]


def move_rows(account: MemoryAccount) -> None:
    """A compaction of all blobs."""
    log = log_of(account)
    head = log.refresh()
    assert head is not None
    rules = CompactionRules(datetime.max.replace(tzinfo=NOON.tzinfo), small=1 << 20, large=1 << 20)
    draft = lambda: Draft(f"move-{next(seeds)}", NOON.isoformat())  # noqa: E731
    compact(log, plan_compaction(log, rules, head.version), draft, Publisher(log.container, threads=1))


def test_versions_before_an_overwrite_are_read_from_what_it_keeps() -> None:
    account = overwritten()
    assert AFTER == [numbers(account, version) for version in range(4)]
    assert [2, 3] == numbers(account)
    log = log_of(account)
    entries = {entry.version: entry for entry in log.history()}
    assert [None, None, None, 2] == [entry.last_kept for entry in entries.values()]
    timestamp, until = (datetime.fromisoformat(text or "") for text in (entries[2].timestamp, entries[2].kept_until))
    assert 7 == (until - timestamp).days
    names = [replaced_name("flights", 2, removal.name) for removal in entries[2].removed]
    assert sorted(names) == kept_names(account)
    assert [(2, removal.name) for removal in entries[2].removed] == [of_replaced("flights", name) for name in names]


def test_without_the_option_nothing_is_copied_and_earlier_versions_are_gone() -> None:
    account, faults = new_account(), FaultInjector()
    write(account, [0])
    write(account.restarted(faults), [1], overwrite=True)
    assert not any(attempt.operation == "copy" for attempt in faults.attempts)
    assert [] == kept_names(account)
    with pytest.raises(NotFoundError, match="the blob is gone"):
        numbers(account, 0)


def test_overwrites_follow_each_other_and_rows_that_were_moved_are_kept_too() -> None:
    account = overwritten()
    move_rows(account)
    write(account, [5], overwrite=True, keep="12 hours")
    write(account, [6], overwrite=True)
    write(account, [7], overwrite=True, keep="1 day")
    for version, expected in enumerate([*AFTER, [2, 3], None, [6], [7]]):
        if expected is not None:
            assert expected == numbers(account, version), version
    with pytest.raises(NotFoundError, match="the blob is gone"):
        numbers(account, 5)


def test_a_blob_that_is_kept_has_the_rows_of_each_version_that_was_moved_to_it() -> None:
    account = new_account()
    for number in range(3):
        write(account, [number])
    move_rows(account)
    write(account, [9], overwrite=True, keep="7 days")
    assert [[0], [0, 1], [0, 1, 2], [0, 1, 2], [9]] == [numbers(account, version) for version in range(5)]


def test_partitions_that_an_overwrite_replaces_are_kept() -> None:
    account, options = new_account(), {"partitionColumn": "stream", "partitionOverwriteMode": "dynamic"}
    container = account.container("container")
    for number, (partition, overwrite) in enumerate([("a", False), ("b", False), ("a", True), ("b", True)]):
        plan = plan_of(ROWS, keepReplaced="1 day", **options)
        staged = [stage_rows(container, plan, [rows([number], [partition])], seed=next(seeds))]
        committer(container, plan, next(seeds)).commit(staged, None, overwrite=overwrite)
    assert [[0], [0, 1], [1, 2], [2, 3]] == [numbers(account, version) for version in range(4)]


def test_a_read_that_runs_while_an_overwrite_keeps_its_blobs_goes_on() -> None:
    account = new_account()
    write(account, [0])
    write(account, [1])
    log = log_of(account)
    blobs = take_snapshot(log, None, account.clock).blobs
    write(account, [2], overwrite=True, keep="7 days")
    assert [0, 1] == rows_in(log, list(blobs))


def test_a_streaming_read_that_is_behind_reads_what_is_kept() -> None:
    account = new_account()
    write(account, [0])
    write(account, [1])
    write(account, [2], overwrite=True, keep="7 days")
    follower, found = Follower(log_of(account), 60.0, account.clock), []
    for after in range(-1, 2):
        assert after + 1 == follower.latest(after, TriggerLimits(blobs=1))
        found.append(rows_in(follower.log, [blob for blob, _ in follower.blobs(after, after + 1)]))
    assert [[0], [1], [2]] == found


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("looks", [0, 1])
def test_an_overwrite_that_is_disturbed_at_any_request_loses_nothing(fault: Fault, looks: int) -> None:
    def before() -> MemoryAccount:
        service = MemoryService(clock=ManualClock(), behaviour=ServiceAssumptions(copy_looks=looks))
        account = MemoryAccount(service)
        account.container("container").create()
        write(account, [0])
        write(account, [1])
        return account

    quiet = FaultInjector()
    write(before().restarted(quiet), [2], overwrite=True, keep="7 days")
    assert any(attempt.operation == "copy" for attempt in quiet.attempts)
    for number in range(1, quiet.count + 1):
        account, faults = before(), FaultInjector(at(number, fault))
        with suppress(ProcessDied, AzureBlobError):
            write(account.restarted(faults), [2], overwrite=True, keep="7 days")
        assert {0, 1} <= {row["n"] for data in stored(account) for row in blob_rows(data)}, f"request {number}"
        write(account, [3])
        faults.apply_late_effects()
        assert [0, 1] == numbers(account, 1), f"request {number}"
        assert [3] == [each for each in numbers(account) if each > 2], f"request {number}"
        if 2 in numbers(account):
            assert 2 == len(kept_names(account)), f"request {number}"


def stored(account: MemoryAccount) -> list[bytes]:
    """All Avro blobs of the stream, also those that are kept."""
    contents = account.service.contents("container")
    return [data for name, data in contents.items() if name.endswith(".avro") and "/_iceberg/" not in name and data]


def test_two_publishers_at_once_keep_each_blob_once() -> None:
    account = new_account()
    write(account, [0])
    crash = on("copy", Crash(), name=lambda name: "/_replaced/" in name)
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(crash)), [1], overwrite=True, keep="7 days")

    class Other(FaultInjector):
        done = False

        def attempt(self, request: Any, send: Any) -> Any:
            if request.operation in ("copy", "delete") and "flights/2" in request.name and not self.done:
                self.done = True
                write(account, [2])
            return super().attempt(request, send)

    write(account.restarted(Other()), [3])
    assert [[0], [1], [1, 2], [1, 2, 3]] == [numbers(account, version) for version in range(4)]
    assert 1 == len(kept_names(account))


def test_a_copy_that_does_not_end_leaves_the_blob_where_it_is() -> None:
    service = MemoryService(clock=ManualClock(), behaviour=ServiceAssumptions(copy_looks=10_000))
    account = MemoryAccount(service)
    account.container("container").create()
    write(account, [0])
    log = log_of(account)
    head = log.refresh()
    draft = Draft("late", NOON.isoformat(), "overwrite", keep=NOON - NOON.replace(day=1))
    from azureblob_source.log.commit import commit_and_publish

    with pytest.raises(TransientError, match="the service is still copying it"):
        commit_and_publish(log, draft, Publisher(log.container, deadline=30, threads=1, clock=account.clock))
    assert head is not None
    assert head.blobs[0].name in visible_blobs(account)


class NoSource(Intercept):
    """A service that says of a source that may not be read that it does not exist."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "copy":
            raise Absent("404 CannotVerifyCopySource")
        return super().attempt(request, send)


@pytest.mark.parametrize("refusal", [FaultInjector(on("copy", Refuse(), times=9)), NoSource()])
def test_a_service_that_refuses_copies_is_found_before_anything_is_committed(refusal: Intercept) -> None:
    account = new_account()
    write(account, [0])
    with pytest.raises(ConfigurationError, match=r"Nothing was committed.*Or leave option `keepReplaced` out"):
        write(account.restarted(refusal), [1], overwrite=True, keep="7 days")
    assert [0] == numbers(account)


def test_a_publisher_that_may_not_copy_deletes_nothing_and_says_what_to_do() -> None:
    account = new_account()
    write(account, [0])
    crash = on("copy", Crash(), name=lambda name: "/_replaced/" in name)
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(crash)), [1], overwrite=True, keep="7 days")
    refusing = account.restarted(FaultInjector(on("copy", Refuse(), times=99)))
    with pytest.raises(ConfigurationError, match="grant the permission, then write again, which finishes version 1"):
        write(refusing, [2])
    assert 2 == len(visible_blobs(account))
    write(account, [2])
    assert [[0], [1], [1, 2]] == [numbers(account, version) for version in range(3)]


def test_a_copy_that_was_changed_or_failed_is_made_again() -> None:
    account = new_account()
    write(account, [0])
    crash = on("delete", Crash(), name=lambda name: name.endswith(".avro"))
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(crash)), [1], overwrite=True, keep="7 days")
    (name,) = kept_names(account)
    account.container("container").put(name, b"")
    write(account, [2])
    assert [0] == numbers(account, 0)


def test_names_without_room_are_refused_before_anything_is_committed() -> None:
    account = new_account()
    container = account.container("container")
    for overwrite in (False, True):
        plan = plan_of(ROWS, f"container/{'f' * 960}", keepReplaced="1 day")
        staged = [stage_rows(container, plan, [rows([1])], seed=next(seeds))]
        if not overwrite:
            committer(container, plan, next(seeds)).commit(staged, None)
            continue
        with pytest.raises(ConfigurationError, match="more than 1024 characters below `_replaced`"):
            committer(container, plan, next(seeds)).commit(staged, None, overwrite=True)


# --- restores ---------------------------------------------------------------------------------------------------------


def back_to(
    account: MemoryAccount, version: int, keep: timedelta | None = WEEK, faults: FaultInjector | None = None
) -> LogEntry | None:
    log = CommitLog(account.restarted(faults).container("container"), "flights", readers=1, clock=account.clock)
    draft = Draft(f"restore-{next(seeds)}", NOON.isoformat(), keep=keep)
    return restore(log, version, draft, Publisher(log.container, threads=1, clock=account.clock))


def versions_in(account: MemoryAccount, version: int | None = None) -> dict[int, int | None]:
    """The version of each row, as metadata column `_version` has it."""
    log = log_of(account)
    selection = BlobSelection(by_version=True)
    blobs = take_snapshot(log, version, account.clock, selection=selection).blobs
    found = {}
    for split, first, batch in read_moving_splits(log, list(split_blobs(blobs)), SplitSettings(), by_version=True):
        part = split.blob.part
        of_rows = [version for version, count in part.versions for _ in range(count)] if part else []
        for place, number in enumerate(batch["n"].to_pylist()):
            found[number] = of_rows[first + place] if of_rows else split.blob.version
    return found


def test_a_version_before_an_overwrite_is_restored_with_versions_and_times_as_they_were() -> None:
    account = overwritten()
    before = {entry.version: entry for entry in log_of(account).history()}
    entry = back_to(account, 1)
    assert entry is not None
    assert (4, 1, 2, 2) == (entry.version, entry.restores, len(entry.removed), len(entry.blobs))
    assert [0, 1] == numbers(account)
    assert {0: 0, 1: 1} == versions_in(account) == versions_in(account, 1)
    moved = {rows.version: rows for blob in entry.blobs for rows in blob.moved}
    assert {0, 1} == set(moved)
    for version, of in moved.items():
        assert (before[version].timestamp, before[version].blobs[0].name, 1) == (of.committed, of.name, of.rows)
    assert (0, before[1].schemas, before[3].totals) == (entry.since, entry.schemas, entry.totals)
    assert AFTER == [numbers(account, version) for version in range(4)]


def test_a_restore_that_keeps_can_be_undone_and_one_that_does_not_cannot() -> None:
    account = overwritten()
    back_to(account, 1)
    write(account, [9])
    back_to(account, 3)
    assert [2, 3] == numbers(account)
    assert {2: 2, 3: 3} == versions_in(account)
    back_to(account, 5, None)
    assert [0, 1, 9] == numbers(account)
    assert [*AFTER, [0, 1], [0, 1, 9]] == [numbers(account, each) for each in range(6)]
    with pytest.raises(NotFoundError, match="the blob is gone"):
        numbers(account, 6)
    write(account, [10])
    back_to(account, 7, None)
    with pytest.raises(ConfigurationError, match="version 9 has deleted rows that it has"):
        back_to(account, 8)


def test_of_a_kept_blob_with_moved_rows_some_come_back() -> None:
    account = new_account()
    for number in range(4):
        write(account, [number])
    move_rows(account)
    back_to(account, 1)  # cuts the blob, and keeps it
    assert [0, 1] == numbers(account)
    back_to(account, 2)
    assert [0, 1, 2] == numbers(account)
    assert {0: 0, 1: 1, 2: 2} == versions_in(account)
    write(account, [9], overwrite=True, keep="1 day")
    back_to(account, 6)
    assert {0: 0, 1: 1, 2: 2} == versions_in(account)
    expected = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1], [0, 1, 2], [9], [0, 1, 2]]
    assert expected == [numbers(account, version) for version in range(9)]


def test_what_is_not_kept_any_more_is_not_restored() -> None:
    account = overwritten()
    (first, _) = kept_names(account)
    account.container("container").delete(first)
    with pytest.raises(ConfigurationError, match="version 2 has deleted rows that it has"):
        back_to(account, 1)
    assert [2, 3] == numbers(account)


def test_gzipped_blobs_are_kept_for_reads_and_not_copied_back() -> None:
    account = new_account()
    write(account, [0], compression__type="gzip")
    write(account, [1], overwrite=True, keep="1 day")
    assert [0] == numbers(account, 0)
    with pytest.raises(ConfigurationError, match=r"is gzipped, and is kept for reads only\. Read the version"):
        back_to(account, 0)


def test_a_blob_of_many_blocks_comes_back_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    account = new_account()
    write(account, list(range(1000)))
    write(account, [-1], overwrite=True, keep="1 day")
    monkeypatch.setattr(moving, "_BLOCK_BYTES", 256)
    entry = back_to(account, 0)
    assert entry is not None
    assert entry.blobs[0].blocks > 2
    assert list(range(1000)) == numbers(account)
    assert {0} == set(versions_in(account).values())


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_a_restore_from_what_is_kept_that_is_disturbed_and_run_again_changes_nothing(fault: Fault) -> None:
    quiet = FaultInjector()
    back_to(overwritten(), 1, faults=quiet)
    for number in range(1, quiet.count + 1):
        account, faults = overwritten(), FaultInjector(at(number, fault))
        with suppress(ProcessDied, AzureBlobError):
            back_to(account, 1, faults=faults)
        faults.apply_late_effects()
        back_to(account, 1)
        assert [0, 1] == numbers(account), f"request {number}"
        assert AFTER == [numbers(account, version) for version in range(4)], f"request {number}"
        assert 1 == sum(entry.operation == "restore" for entry in log_of(account).history())


def test_a_streaming_read_begins_with_what_was_restored_and_one_that_is_behind_reads_it_once() -> None:
    account = overwritten()
    back_to(account, 1)
    write(account, [9])
    for last in range(-1, 2):
        follower, found, after = Follower(log_of(account), 60.0, account.clock), [], last
        while after < 5:
            end = follower.latest(after, TriggerLimits(blobs=1))
            found += rows_in(follower.log, [blob for blob, _ in follower.blobs(after, end)])
            after = end
        assert [*range(last + 1, 2), 9] == found, last
    assert -1 == Follower(log_of(account), 60.0, account.clock).version_before("earliest")


def test_a_streaming_read_that_is_behind_reads_what_a_second_restore_has_brought_back() -> None:
    account = overwritten()
    back_to(account, 1)
    back_to(account, 3)
    write(account, [9])
    follower, found, after = Follower(log_of(account), 60.0, account.clock), [], 1
    while after < 6:
        end = follower.latest(after, TriggerLimits(blobs=1))
        found += rows_in(follower.log, [blob for blob, _ in follower.blobs(after, end)])
        after = end
    assert [2, 3, 9] == found


def test_partitions_that_were_replaced_and_restored_are_not_left_out_by_a_streaming_read() -> None:
    account, options = new_account(), {"partitionColumn": "stream", "partitionOverwriteMode": "dynamic"}
    container = account.container("container")
    for number, (partition, overwrite) in enumerate([("a", False), ("b", False), ("a", True)]):
        plan = plan_of(ROWS, keepReplaced="1 day", **options)
        staged = [stage_rows(container, plan, [rows([number], [partition])], seed=next(seeds))]
        committer(container, plan, next(seeds)).commit(staged, None, overwrite=overwrite)
    back_to(account, 1)
    follower = Follower(log_of(account), 60.0, account.clock)
    assert [0, 1] == rows_in(follower.log, [blob for blob, _ in follower.blobs(-1, 1)])
    assert [] == follower.blobs(1, 3)


# --- what deletes, counts and checks ----------------------------------------------------------------------------------


def swept(account: MemoryAccount, before: datetime, now: datetime | None = None) -> VacuumResult:
    log = log_of(account)
    return vacuum(log.container, plan_vacuum(log, before, now=now), lambda: f"vacuum-{next(seeds)}", threads=1)


def test_a_vacuum_deletes_what_is_kept_when_its_time_is_over() -> None:
    account = overwritten()
    write(account, [4], overwrite=True, keep="30 days")
    long_ago = NOON - timedelta(days=365)
    assert 0 == swept(account, long_ago, NOON + timedelta(days=6)).copies
    result = swept(account, long_ago, NOON + timedelta(days=8))
    assert (0, 0, 2) == (result.entries, result.blobs, result.copies)
    assert [4] == numbers(account)
    assert [[2], [2, 3]] == [numbers(account, version) for version in (2, 3)]
    with pytest.raises(NotFoundError, match="the blob is gone"):
        numbers(account, 1)
    with pytest.raises(ConfigurationError, match="version 2 has deleted rows that it has"):
        back_to(account, 1)
    assert 2 == swept(account, long_ago, NOON + timedelta(days=31)).copies
    assert [] == kept_names(account)


def test_a_vacuum_deletes_what_is_kept_of_the_entries_that_it_removes() -> None:
    account = new_account()
    write(account, [0])
    account.clock.sleep(86_400)
    write(account, [1])
    write(account, [2], overwrite=True, keep="7 days")
    before = datetime.fromtimestamp(account.clock.now() - 3600, UTC)
    result = swept(account, before, NOON)
    assert (0, 1) == (result.blobs, result.copies)
    assert [[1], [2]] == [numbers(account, version) for version in (1, 2)]
    account.clock.sleep(86_400)
    write(account, [3])
    before = datetime.fromtimestamp(account.clock.now() - 3600, UTC)
    assert 1 == swept(account, before, NOON).copies
    assert [] == kept_names(account)


def test_a_vacuum_of_a_stream_that_keeps_nothing_lists_nothing_more() -> None:
    account = new_account()
    write(account, [0])
    write(account, [1], overwrite=True)
    faults = FaultInjector()
    log = CommitLog(account.restarted(faults).container("container"), "flights", readers=1, clock=account.clock)
    plan_vacuum(log, NOON)
    assert not any("_replaced" in attempt.name for attempt in faults.attempts)


@pytest.mark.parametrize("fault", [Crash(), Crash(after_effect=True)], ids=repr)
def test_a_vacuum_that_dies_goes_on_when_it_is_run_again(fault: Fault) -> None:
    def before() -> tuple[MemoryAccount, datetime]:
        account = new_account()
        write(account, [0])
        account.clock.sleep(86_400)
        write(account, [1])
        write(account, [2], overwrite=True, keep="7 days")
        return account, datetime.fromtimestamp(account.clock.now() - 3600, UTC)

    def run(account: MemoryAccount, moment: datetime, faults: FaultInjector) -> None:
        log = CommitLog(account.restarted(faults).container("container"), "flights", readers=1, clock=account.clock)
        vacuum(log.container, plan_vacuum(log, moment, now=NOON), lambda: f"v-{next(seeds)}", threads=1)

    quiet = FaultInjector()
    run(*before(), quiet)
    for number in range(1, quiet.count + 1):
        account, moment = before()
        with pytest.raises(ProcessDied):
            run(account, moment, FaultInjector(at(number, fault)))
        run(account, moment, FaultInjector())
        assert 1 == len(kept_names(account)), f"request {number}"
        assert [1] == numbers(account, 1)


def test_no_tool_that_lists_a_folder_takes_what_is_kept_for_data() -> None:
    account = overwritten()
    container = account.container("container")
    (summary,) = inventory(container, "")
    assert ("flights", 2, 2, ()) == (summary.name, summary.blobs, summary.rows, summary.strangers)
    plan = plan_repair(container, None, NOON)
    assert not plan.unpublished and not plan.leftovers
    assert [] == [name for name in container_names(account) if "/_replaced/" in name and may_be_data(name, "flights")]
    found = audit(log_of(account), timedelta(0))
    assert found.sound, found.findings


def container_names(account: MemoryAccount) -> list[str]:
    return [*account.service.contents("container")]


def test_an_audit_finds_what_is_kept_and_missing_altered_or_left() -> None:
    account = overwritten()
    container = account.container("container")
    first, second = kept_names(account)
    container.delete(first)
    content = container.get(second)
    container.put(second, content.data[:-1], BlobAttributes(content.properties.metadata))
    container.put("flights/_replaced/00000000000000000002/2013/01/31/12/00-00-x.avro", b"-")
    found = audit(log_of(account), timedelta(0), history=True)
    kinds = {(finding.kind, finding.name) for finding in found.findings}
    extra = "flights/_replaced/00000000000000000002/2013/01/31/12/00-00-x.avro"
    assert {(Kind.MISSING, first), (Kind.ALTERED, second), (Kind.FOREIGN, extra)} == kinds
    assert {2} == {finding.version for finding in found.findings}
    assert found.kept == 2


@pytest.mark.parametrize("history", [False, True])
def test_an_audit_counts_what_is_kept_and_waits_for_what_is_being_copied(history: bool) -> None:
    account = overwritten()
    found = audit(log_of(account), timedelta(0), history=history)
    assert (True, 2) == (found.sound, found.kept)
    crash = on("copy", Crash(), name=lambda name: "/_replaced/" in name, skip=1)
    with pytest.raises(ProcessDied):
        write(account.restarted(FaultInjector(crash)), [9], overwrite=True, keep="7 days")
    found = audit(log_of(account), timedelta(days=1), history=history)
    assert (True, 3) == (found.sound, found.kept), found.findings
    write(account, [10])
    found = audit(log_of(account), timedelta(0), history=history)
    assert (True, 4) == (found.sound, found.kept), found.findings
    long_after = NOON + timedelta(days=8)
    swept(account, NOON - timedelta(days=365), long_after)
    account.clock.sleep(8 * 86_400)
    assert (True, 0) == (audit(log_of(account), timedelta(0), history=history).sound, len(kept_names(account)))


def test_a_streaming_read_has_what_a_revert_took_back_and_a_restore_has_brought_back() -> None:
    account = new_account()
    container, plan = account.container("container"), plan_of(ROWS)
    for batch in range(3):
        staged = [stage_rows(container, plan, [rows([batch])], seed=next(seeds))]
        committer(container, plan, next(seeds)).commit(staged, Transaction("q", batch))
    write(account, [9], overwrite=True, keep="7 days")
    revert_plan = plan_revert(container, "flights", Transaction("q", 1))

    def new() -> Draft:
        return Draft(f"revert-{next(seeds)}", NOON.isoformat())

    carry_out(container, revert_plan, new, Publisher(container))
    assert [9] == numbers(account)
    restore(log_of(account), 2, new(), Publisher(container))
    assert [0, 1, 2] == numbers(account)
    follower = Follower(log_of(account), 60.0, account.clock)
    after, found = follower.version_before("earliest"), list[int]()
    while after < 5:
        end = follower.latest(after, TriggerLimits(blobs=1))
        found += rows_in(follower.log, [blob for blob, _ in follower.blobs(after, end)])
        after = end
    assert [0, 1, 2] == found
    assert {2} == follower.taken_back(-1, 2), "its control messages come again"


def test_a_query_that_lags_looks_for_nothing_that_was_brought_back_and_restored_away_again() -> None:
    account = new_account()
    write(account, [0], partitionColumn="stream")
    write(account, [1], overwrite=True, keep="7 days", partitionColumn="stream", partitionOverwriteMode="dynamic")
    for version in (0, 1):
        log = log_of(account)
        restore(log, version, Draft(f"restore-{next(seeds)}", NOON.isoformat(), keep=WEEK), Publisher(log.container))
    assert [1] == numbers(account)
    follower = Follower(log_of(account), 60.0, account.clock)
    follower.log.refresh()
    assert [[], [1]] == [rows_in(follower.log, [blob for blob, _ in follower.blobs(-1, until)]) for until in (0, 1)]


def test_of_restored_rows_only_those_are_left_out_that_were_deleted_by_hand() -> None:
    account = new_account()
    write(account, [0])
    write(account, [1])
    write(account, [2], overwrite=True, keep="7 days")
    log = log_of(account)
    restored = restore(log, 1, Draft(f"restore-{next(seeds)}", NOON.isoformat()), Publisher(log.container))
    assert restored is not None
    lost = next(blob for blob in restored.blobs if blob.moved[0].version == 1)
    log.container.delete(lost.name)
    leave_out(log, missing_blobs(log), Draft(f"left-{next(seeds)}", NOON.isoformat()), Publisher(log.container))
    assert [0] == numbers(account)
