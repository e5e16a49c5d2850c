"""Compactions that die, and others that take rows away meanwhile: what random histories of compaction have found."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from arrow_avro import ReadLimits
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, on
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import log_version
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction, staged_here
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.repair import missing_blobs, plan_repair, repair
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.tailing import Tail
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read.following import Follower, SchemaGuard, TriggerLimits, new_blobs
from azureblob_source.read.options import source_options
from azureblob_source.read.query_schema import QuerySchema
from azureblob_source.read.read_ahead import ReadAhead
from azureblob_source.read.relocating import read_moving_splits
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from azureblob_source.read.split_reader import SplitSettings
from azureblob_source.read.splits import split_blobs
from foundation.clock import SYSTEM_CLOCK, ManualClock
from foundation.errors import ConflictError, NotFoundError
from tests.azureblob_source.log.relocating.compacting import ROWS, compacted, newest, rows_followed, rows_read, write
from tests.azureblob_source.write.sink_rows import (
    ACCOUNT,
    NOON,
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
    visible_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from azure_account.container import BlobContainer
    from azureblob_source.log.relocating.compaction import Staged, Staging
    from azureblob_source.read.splits import Split

STREAMS = pa.schema([("stream", pa.string()), ("n", pa.int64())])
DAY = 86_400.0
LATER = datetime.now(UTC) + timedelta(days=365)
ids = (f"id{number}" for number in itertools.count())


@pytest.fixture
def account() -> MemoryAccount:
    """A stream of ten versions, each with two rows: those of version 3 are 6 and 7."""
    account = new_account()
    for batch in range(10):
        write(account, batch, [2 * batch, 2 * batch + 1])
        account.clock.sleep(60.0)
    return account


def log_of(account: MemoryAccount) -> CommitLog:
    """The log as a new process knows it."""
    log = CommitLog(account.container("container"), "flights", readers=1)
    log.refresh()
    return log


def dies(account: MemoryAccount) -> None:
    """A compaction is killed when its first entry is committed."""
    fault = on("put", Crash(after_effect=True), name=lambda name: log_version(name) is not None)
    with pytest.raises(ProcessDied):
        compacted(MemoryAccount(account.service, intercept=FaultInjector(fault)))


def repaired(account: MemoryAccount) -> None:
    """A repair."""
    container = account.container("container")
    repair(container, plan_repair(container, None, LATER), lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container))


def vacuumed(account: MemoryAccount, first: int) -> None:
    """A vacuum that moves the boundary to a version, or less far."""
    log = log_of(account)
    entries = log.container.list("flights/_log/")
    before = next(blob.last_modified for blob in entries if log_version(blob.name) == first)
    vacuum(log.container, plan_vacuum(log, before), lambda: next(ids), threads=1)


def reverted(account: MemoryAccount, batch: int) -> None:
    """The batches after this one are taken back."""
    container = account.container("container")
    plan = plan_revert(container, "flights", Transaction("q", batch))
    carry_out(container, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container, threads=1))


def listed(account: MemoryAccount) -> Counter[int]:
    """The rows that a reader of the listing sees."""
    return Counter(row["n"] for rows in visible_rows(account).values() for row in rows)


def test_rows_are_read_where_they_are_until_a_compaction_is_published(account: MemoryAccount) -> None:
    before = rows_read(account, versionAsOf="9")
    dies(account)
    assert before == rows_read(account, versionAsOf="9")
    assert Counter(range(4, 12)) == rows_followed(account, 1, 5)


def test_readers_do_not_wait_for_a_compaction_to_be_published(account: MemoryAccount) -> None:
    before = rows_read(account)
    dies(account)
    assert before == rows_read(account, publishTimeoutMs="1")
    clock = ManualClock()
    follower = Follower(log_of(account), 60.0, clock)
    for _ in range(3):
        assert 9 == follower.latest(9, TriggerLimits())
        clock.sleep(60.0)


def test_a_compaction_whose_blocks_have_expired_is_voided_and_versions_are_read_as_before(
    account: MemoryAccount,
) -> None:
    before = rows_read(account, versionAsOf="9")
    dies(account)
    account.clock.sleep(8 * DAY)
    write(account, 10, [20, 21])
    assert "void" == log_of(account).read(11).operation
    assert before == rows_read(account, versionAsOf="9")
    assert Counter(range(4, 12)) == rows_followed(account, 1, 5)
    assert 2 == compacted(account).made
    assert before == rows_read(account, versionAsOf="9")


def test_missing_blobs_of_a_compaction_that_was_never_published_are_not_left_out(account: MemoryAccount) -> None:
    before = rows_read(account)
    dies(account)
    account.clock.sleep(8 * DAY)
    log = log_of(account)
    put = leave_out(log, missing_blobs(log), new_draft(SYSTEM_CLOCK, None), Publisher(log.container, threads=1))
    assert "void" == put.operation
    assert before == rows_read(account)
    repaired(account)
    assert Counter(range(20)) == listed(account)


def test_a_blob_of_the_newest_entry_is_left_out_though_a_checkpoint_has_it() -> None:
    account = new_account()
    for batch in range(20):
        write(account, batch, [2 * batch, 2 * batch + 1])
    log = log_of(account)
    checkpoints.make(log)
    log.container.delete(log.read(19).blobs[0].name)
    with pytest.raises(ConflictError, match="--leave-out-missing"):
        write(account, 20, [40])
    leave_out(log, missing_blobs(log), new_draft(SYSTEM_CLOCK, None), Publisher(log.container, threads=1))
    write(account, 20, [40])
    assert {*range(38), 39, 40} == {n for _, n in rows_read(account)}


@pytest.mark.parametrize("seed", range(4))
def test_a_task_amid_a_blob_that_a_revert_divides_has_each_row_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The revert dies then. By their names, which are random, either part may come first."""
    monkeypatch.setattr("azureblob_source.read.split_reader.ReadAhead", lambda at, of, *_: ReadAhead(at, of, 1, 1))
    account = new_account()
    container, plan = account.container("container"), plan_of(ROWS)
    for batch, query in enumerate("pqpp"):
        batch_rows = pa.record_batch([["y" * 600_000] * 3, [10 * batch + row for row in range(3)]], schema=ROWS)
        staged = stage_rows(container, plan, [batch_rows], seed=batch)
        committer(container, plan, batch).commit([staged], Transaction(query, batch))
    compacted(account)
    drafts = (f"{seed}-{number}" for number in itertools.count())

    def take_back(dying: BlobContainer) -> None:
        plan = plan_revert(dying, "flights", Transaction("q", -1))
        carry_out(dying, plan, lambda: Draft(next(drafts), NOON.isoformat()), Publisher(dying, threads=1))

    log = log_of(account)
    splits = list(split_blobs(take_snapshot(log, None).blobs))
    settings = SplitSettings(limits=ReadLimits(batch_bytes=1 << 20))
    found: list[int] = []
    for _, _, read in read_moving_splits(log, splits, settings, by_version=False):
        found += read["n"].to_pylist()
        if len(found) == 5:
            put = on("put", Crash(), name=lambda name: log_version(name) == 6)
            dying = MemoryAccount(account.service, intercept=FaultInjector(put)).container("container")
            with pytest.raises(ProcessDied):
                take_back(dying)
    assert [10 * batch + row for batch in range(4) for row in range(3)] == sorted(found)


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_query_that_lags_goes_on_without_blobs_that_were_left_out(account: MemoryAccount, is_moved: bool) -> None:
    """The range that it has failed in is in its checkpoint, and ends before the entry that leaves the blob out."""
    if is_moved:
        compacted(account)
    log = log_of(account)
    log.container.delete(next(blob.name for blob in blobs_live_at(log, newest(log), ["b"])))
    with pytest.raises(NotFoundError, match="--leave-out-missing"):
        rows_followed(account, -1, 5)
    (missing,) = missing_blobs(log)
    lost = {2 * rows.version + 1 for rows in missing.moved} or {1}
    leave_out(log, [missing], new_draft(SYSTEM_CLOCK, None), Publisher(log.container, threads=1))
    assert set(range(12)) - lost == set(rows_followed(account, -1, 5))


def test_a_part_of_a_blob_is_found_again_where_it_was_moved(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_ahead(container: BlobContainer, splits: Sequence[Split], *_: int) -> ReadAhead:
        return ReadAhead(container, splits, 1, 1)

    monkeypatch.setattr("azureblob_source.read.split_reader.ReadAhead", nothing_ahead)
    compacted(account)
    for batch in (10, 11):
        write(account, batch, [100 * batch, 100 * batch + 1])
    raw = {"path": "container/flights", **ACCOUNT, "metadataColumns": "version", "versionAsOf": "4"}
    plan = ReadPlan(source_options(raw, {}))
    plan.container = account.container("container")
    reader = SnapshotReader(plan, spark_schema(plan))
    partitions = reader.partitions()
    before = visible_blobs(account)
    assert 2 == compacted(account).made
    assert before.keys().isdisjoint(visible_blobs(account))
    found = Counter(row["n"] for each in partitions for batch in reader.read(each) for row in batch.to_pylist())
    assert Counter(range(10)) == found


@pytest.mark.parametrize("first", [5, 9])
def test_a_vacuum_that_passes_rows_while_a_compaction_moves_them_hides_them(account: MemoryAccount, first: int) -> None:
    log = log_of(account)

    def staged_then_vacuumed(groups: Sequence[Staging]) -> Iterator[Staged]:
        found = list(staged_here(log, groups))
        vacuumed(account, first)
        return iter(found)

    plan = plan_compaction(log, CompactionRules(LATER), 9)
    compact(log, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(log.container), stage=staged_then_vacuumed)
    assert Counter(range(2 * first, 20)) == Counter(n for _, n in rows_read(account).elements())
    assert Counter(range(2 * first, 20)) == rows_followed(account, first - 1, newest(log))


def test_a_group_whose_blobs_a_vacuum_has_deleted_is_left_for_the_next_plan(account: MemoryAccount) -> None:
    log = log_of(account)
    plan = plan_compaction(log, CompactionRules(LATER), 9)
    vacuumed(account, 5)
    done = compact(log, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(log.container))
    assert (0, 2) == (done.made, done.outdated)
    assert 2 == compacted(account).made


def test_a_vacuum_removes_moved_rows_of_a_stream_that_nobody_writes_to_any_more(account: MemoryAccount) -> None:
    compacted(account)
    account.clock.sleep(60.0)
    vacuumed(account, newest(log_of(account)))
    assert not listed(account)
    log = log_of(account)
    assert () == log.read(newest(log)).blobs == plan_vacuum(log, LATER).newest_moved


def test_moved_rows_are_reverted_though_the_revert_dies_and_stays_away_for_a_week(account: MemoryAccount) -> None:
    compacted(account)
    fault = on("put", Crash(after_effect=True), name=lambda name: log_version(name) is not None)
    with pytest.raises(ProcessDied):
        reverted(MemoryAccount(account.service, intercept=FaultInjector(fault)), 6)
    account.clock.sleep(8 * DAY)
    reverted(account, 6)
    assert Counter(range(14)) == listed(account) == Counter(n for _, n in rows_read(account).elements())
    write(account, 7, [100, 101])
    assert Counter([*range(14), 100, 101]) == listed(account)


@pytest.mark.parametrize("rounds", [1, 2])
def test_rows_that_were_moved_several_times_are_reverted_one_batch_after_the_other(
    account: MemoryAccount, rounds: int
) -> None:
    for batch in range(10, 10 + rounds):
        compacted(account)
        write(account, batch, [*range(10 * batch, 10 * batch + 30)])
    compacted(account)
    metadata = {blob.name: blob.metadata for blob in account.container("container").list("flights/")}
    for last in (8, 6, 2):
        reverted(account, last)
        assert Counter(range(2 * last + 2)) == listed(account) == Counter(n for _, n in rows_read(account).elements())
    assert metadata.keys().isdisjoint(visible_blobs(account))


def test_batches_whose_moved_rows_were_overwritten_are_reverted(account: MemoryAccount) -> None:
    compacted(account)
    container, plan = account.container("container"), plan_of(ROWS, partitionColumn="gate")
    staged = stage_rows(container, plan, [pa.record_batch([["a"], [1000]], schema=ROWS)], seed=7)
    committer(container, plan, 7).commit([staged], None, overwrite=True)
    reverted(account, 6)
    assert Counter([1000]) == listed(account) == Counter(n for _, n in rows_read(account).elements())


def test_the_last_part_of_a_batch_over_many_streams_waits_as_it_may_be_replaced() -> None:
    account = new_account()
    container, plan = account.container("container"), plan_of(STREAMS, "container", streamColumn="stream")

    def commit(batch: int, streams: Sequence[str], seed: int) -> None:
        rows = pa.record_batch([list(streams), [batch] * len(streams)], schema=STREAMS)
        staged = stage_rows(container, plan, [rows], seed=seed)
        committer(container, plan, seed).commit([staged], Transaction("q", batch))

    for batch in range(3):
        commit(batch, ["flights"], batch)
    log = log_of(account)
    assert [0, 1] == [
        blob.version for group in plan_compaction(log, CompactionRules(LATER), 2).groups for blob in group.blobs
    ]
    assert 1 == compacted(account).made


def test_tail_shows_the_new_rows_of_a_blob_wherever_they_are_in_it() -> None:
    account, large = new_account(), list(range(10_000, 12_000, 2))
    for batch in (0, 1):
        write(account, batch, [2 * batch])
    tail = Tail(CommitLog(account.container("container"), "flights"), account.clock)
    tail.last(1)
    write(account, 2, large)
    for batch in (3, 4):
        write(account, batch, [2 * batch])
    assert (4, 1) == ((done := compacted(account)).replaced, done.made)
    write(account, 5, [2 * row for row in large])
    assert (3, 1) == ((done := compacted(account)).replaced, done.made)
    shown = Counter(n for each in next(tail.following()) for n in each.batch["n"].to_pylist())
    assert Counter([*large, 6, 8, *(2 * row for row in large)]) == shown


def test_tail_shows_rows_that_are_moved_before_it_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    account = new_account()
    write(account, 0, [0])
    tail = Tail(CommitLog(account.container("container"), "flights"), account.clock)
    tail.last(1)
    following, found = tail.following(), list[int]()
    for batch in (1, 2):
        write(account, batch, [2 * batch])
        found += [n for each in next(following) for n in each.batch["n"].to_pylist()]
    write(account, 3, [6])

    def late(*given: object) -> object:
        if 3 == newest(log_of(account)):
            assert 1 == compacted(account).made
            write(account, 4, [8])
        return new_blobs(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("azureblob_source.maintenance.tailing.new_blobs", late)
    while 8 not in found:
        found += [n for each in next(following) for n in each.batch["n"].to_pylist()]
    assert [2, 4, 6, 8] == found


def test_a_query_ends_before_a_version_that_brings_a_column_also_if_its_rows_were_moved() -> None:
    account = new_account()
    container, wide = account.container("container"), ROWS.append(pa.field("x", pa.int64()))
    write(account, 0, [0])
    log = log_of(account)
    narrow = log.writer_schema(log.read(0).schemas[0])
    for batch in range(1, 6):
        plan, rows = plan_of(wide, partitionColumn="gate"), pa.record_batch([["a"], [batch], [1]], schema=wide)
        staged = stage_rows(container, plan, [rows], seed=batch)
        committer(container, plan, batch).commit([staged], Transaction("q", batch))
    assert 1 == compacted(account).made
    guard = SchemaGuard(Follower(log_of(account), 60.0), QuerySchema(narrow, None, strict=True))
    assert 0 == guard.end(-1, 5)
    with pytest.raises(ConflictError, match="version 1 of .* it adds column 'x'"):
        guard.end(0, 5)
