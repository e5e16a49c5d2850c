"""Compaction of streams in memory: the same rows of the same versions, whoever reads them, and fewer blobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from arrow_avro import read_header
from azure_account.memory.faults import Crash, FaultInjector, NumberedAttempt, ProcessDied, Refuse, on
from azure_account.values import BlobAttributes
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, LogEntry, Removal, Transaction
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import boundary_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.void import leave_out
from azureblob_source.log.relocating.moving import part_of
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.repair import missing_blobs, plan_repair, repair
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.tailing import Tail
from azureblob_source.read import moved
from azureblob_source.read.options import source_options
from azureblob_source.read.read_ahead import ReadAhead
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError
from tests.azureblob_source.iceberg_files import iceberg_table, planned
from tests.azureblob_source.log.relocating.compacting import (
    ROWS,
    compacted,
    newest,
    rows_followed,
    rows_read,
    write,
)
from tests.azureblob_source.write.sink_rows import (
    ACCOUNT,
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
    visible_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azureblob_source.read.splits import Split


@pytest.fixture
def account() -> MemoryAccount:
    """A stream of twenty versions, each with one row more than the one before."""
    account = new_account()
    first = 0
    for batch in range(20):
        write(account, batch, list(range(first, first + batch + 2)))
        first += batch + 2
    return account


def test_small_blobs_become_one_of_each_partition(account: MemoryAccount) -> None:
    before, listed = rows_read(account), {gate: len(rows) for gate, rows in visible_rows(account).items()}
    done = compacted(account)
    assert (40, 2) == (done.replaced, done.made)
    assert listed == {gate: len(rows) for gate, rows in visible_rows(account).items()}
    log = CommitLog(account.container("container"), "flights")
    assert 2 == len(blobs_live_at(log, newest(log)))
    assert before == rows_read(account)
    assert 0 == compacted(account).made


@pytest.mark.parametrize("options", [{}, {"columns": "n"}, {"partitions": "a"}], ids=str)
@pytest.mark.parametrize("version", [0, 7, 19])
def test_a_version_before_the_compaction_has_the_same_rows(
    account: MemoryAccount, version: int, options: dict[str, str]
) -> None:
    before = rows_read(account, versionAsOf=str(version), **options)
    compacted(account, large=2000)
    compacted(account)
    assert before == rows_read(account, versionAsOf=str(version), **options)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_follower_that_slept_reads_each_row_once(account: MemoryAccount, rounds: int) -> None:
    ranges = [(after, until) for after in range(-1, 19) for until in range(after + 1, 20)]
    before = [rows_followed(account, *each) for each in ranges]
    for each in range(rounds):
        compacted(account, large=2000 * (each + 1))
        write(account, 100 + each, [1000 + each, 1001 + each])
    assert before == [rows_followed(account, *each) for each in ranges]
    last = newest(CommitLog(account.container("container"), "flights"))
    assert not rows_followed(account, 19, 20 if rounds == 1 else 21)
    assert rows_followed(account, -1, last) == Counter(n for _, n in rows_read(account).elements())


@pytest.mark.parametrize("metadata", ["", "version"])
@pytest.mark.parametrize("read", [0, 1, 3, 20, 60])
def test_a_task_goes_on_where_a_compaction_has_moved_the_rows(
    account: MemoryAccount, read: int, metadata: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_ahead(container: BlobContainer, splits: Sequence[Split], *_: int) -> ReadAhead:
        return ReadAhead(container, splits, 1, 1)

    monkeypatch.setattr("azureblob_source.read.split_reader.ReadAhead", nothing_ahead)
    expected = rows_read(account)
    raw = {"path": "container/flights", **ACCOUNT, "metadataColumns": metadata}
    plan = ReadPlan(source_options({key: value for key, value in raw.items() if value}, {}))
    plan.container = account.container("container")
    reader = SnapshotReader(plan, spark_schema(plan))
    (partition,) = reader.partitions()
    found: list[dict[str, Any]] = []
    batches = iter(reader.read(partition))
    while len(found) < read:
        found += next(batches).to_pylist()
    assert 2 == compacted(account, large=10**6).made
    write(account, 99, [5000])
    plan.log.refresh()
    for batch in batches:
        found += batch.to_pylist()
    assert Counter(n for _, n in expected.elements()) == Counter(row["n"] for row in found)
    if metadata:
        assert expected == Counter((row["_version"], row["n"]) for row in found)


def test_moved_rows_keep_their_partition_column_if_it_is_the_same(account: MemoryAccount) -> None:
    """The texts of the two columns are the same, so their blobs are joined."""
    log = CommitLog(account.container("container"), "flights")
    compacted(account)
    assert ["gate"] == [blob.partition_column for blob in log.read(newest(log)).blobs]
    other = new_account()
    for batch, column in enumerate(("gate", "n", "n")):
        rows = pa.record_batch([["7"], [7]], schema=ROWS)
        plan, container = plan_of(ROWS, partitionColumn=column), other.container("container")
        staged = stage_rows(container, plan, [rows], seed=batch)
        committer(container, plan, batch).commit([staged], Transaction("q", batch))
    assert (3, 1) == ((done := compacted(other)).replaced, done.made)
    log = CommitLog(other.container("container"), "flights")
    assert [None] == [blob.partition_column for blob in log.read(newest(log)).blobs]


def test_what_a_revert_leaves_of_a_blob_has_its_partition_and_no_bounds(account: MemoryAccount) -> None:
    """Batches 0 to 15 of 20 are kept."""
    compacted(account)
    container = account.container("container")
    log = CommitLog(container, "flights")
    assert all(blob.bounds for blob in log.read(newest(log)).blobs)
    plan = plan_revert(container, "flights", Transaction("q", 15))
    carry_out(container, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container))
    left = blobs_live_at(log, newest(log))
    assert {"a", "b"} == {blob.partition for blob in left}
    assert [("gate", {}), ("gate", {})] == [(blob.partition_column, blob.bounds) for blob in left]


def test_what_a_revert_leaves_of_a_blob_has_no_larger_blocks() -> None:
    account = new_account()
    container, plan = account.container("container"), plan_of(ROWS, codec="zstandard")
    for batch in range(3):
        rows = pa.record_batch([["x" * 100_000] * 40, [batch] * 40], schema=ROWS)
        staged = stage_rows(container, plan, [rows], seed=batch)
        committer(container, plan, batch).commit([staged], Transaction("q", batch))
    compacted(account)
    carry_out(
        container, plan_revert(container, "flights", Transaction("q", 1)), lambda: new_draft(SYSTEM_CLOCK, None),
        Publisher(container),
    )  # fmt: skip
    assert {(0, 0): 40, (1, 1): 40} == rows_read(account, maxBlockBytes=str(2 << 20))


@pytest.mark.parametrize("rows", [{"rows": 3}, {"uncompressed": 6}, {"rows": 5, "uncompressed": 6}])
def test_a_blob_of_other_rows_than_were_moved_to_it_is_not_divided(
    account: MemoryAccount, rows: dict[str, Any]
) -> None:
    compacted(account)
    log = CommitLog(account.container("container"), "flights")
    (blob,) = log.read(newest(log)).blobs
    first, *others = blob.moved
    changed = replace(blob, moved=(replace(first, **rows), *others))
    with pytest.raises(CorruptError, match="it has not the 115 rows, of .* bytes, that the log says"):
        part_of(log, changed, lambda _: True, "x")


def test_tail_shows_no_row_again_and_the_newest_ones_last(account: MemoryAccount) -> None:
    of = Tail(CommitLog(account.container("container"), "flights"), account.clock)
    found = rows_read(account)
    newest_rows = {n for version, n in found if version == max(version for version, _ in found)}
    (last,) = [row["n"] for each in of.last(1) for row in each.batch.to_pylist()]
    assert last in newest_rows
    write(account, 20, [5000, 5001])
    compacted(account)
    write(account, 21, [6000])
    assert [5000, 5001, 6000] == sorted(n for each in next(of.following()) for n in each.batch["n"].to_pylist())
    again = Tail(CommitLog(account.container("container"), "flights"), account.clock).last(3)
    assert 6000 == again[-1].batch["n"].to_pylist()[-1]


def test_the_sink_compacts_what_its_batches_have_left() -> None:
    account = new_account()
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="gate", checkpointInterval=4, autoCompact=True, icebergTable=True)
    driver = committer(container, plan, 7)
    for batch in range(24):
        rows = pa.record_batch([["a", "b"], [2 * batch, 2 * batch + 1]], schema=ROWS)
        driver.commit([stage_rows(container, plan, [rows], seed=100 + batch)], Transaction("q", batch))
    assert Counter(range(48)) == Counter(n for _, n in rows_read(account).elements())
    assert Counter(range(48)) == Counter(row["n"] for rows in visible_rows(account).values() for row in rows)
    log = CommitLog(container, "flights")
    live = {blob.name for blob in blobs_live_at(log, newest(log))}
    assert len(live) <= 16
    of_a = {name for name in live if "/a/" in name}
    assert of_a == set(planned(iceberg_table(container), row_filter="gate = 'a'"))
    _, table = newest_table(log)
    assert table is not None
    found = log.checkpoints.find(table.version)
    assert found is not None
    assert {
        name for each in found.manifests for name in log.checkpoints.read(each, ["name"])["name"].to_pylist()
    } <= live


def test_blobs_of_several_codecs_become_one_of_the_newest() -> None:
    account = new_account()
    container = account.container("container")
    codecs = ["null", "zstandard", "null", "deflate"]
    for batch, name in enumerate(codecs):
        plan = plan_of(ROWS, partitionColumn="gate", codec=name)
        rows = pa.record_batch([["a"] * 9, [batch] * 9], schema=ROWS)
        committer(container, plan, batch).commit([stage_rows(container, plan, [rows], seed=batch)], None)
    assert 1 == compacted(account).made
    (data,) = visible_blobs(account).values()
    assert "deflate" == read_header(data).codec
    assert {(batch, batch): 9 for batch in range(4)} == rows_read(account)


def test_a_compaction_within_a_commit_that_fails_fails_no_batch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    account = new_account()
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="gate", checkpointInterval=2, autoCompact=True)

    def fails(*_: object) -> None:
        raise ConflictError("compact", "x", "it does not work", "Wait.")

    monkeypatch.setattr("azureblob_source.log.relocating.compaction.moved_together", fails)
    driver = committer(container, plan, 7)
    for batch in range(4):
        rows = pa.record_batch([["a", "a"], [2 * batch, 2 * batch + 1]], schema=ROWS)
        driver.commit([stage_rows(container, plan, [rows], seed=100 + batch)], Transaction("q", batch))
    assert 8 == rows_read(account).total()
    assert "small blobs stay at version 1: compact x failed: it does not work" in caplog.text


def test_a_writer_that_may_not_delete_compacts_nothing_and_writes_on(caplog: pytest.LogCaptureFixture) -> None:
    """An entry whose blobs it could not delete would stop it at its next batch."""
    account = new_account().restarted(FaultInjector(on("delete", Refuse(), times=10**6)))
    plan = plan_of(ROWS, partitionColumn="gate", checkpointInterval=2, autoCompact=True)
    container = account.container("container")
    driver = committer(container, plan, 7)
    for batch in range(4):
        rows = pa.record_batch([["a", "a"], [2 * batch, 2 * batch + 1]], schema=ROWS)
        driver.commit([stage_rows(container, plan, [rows], seed=100 + batch)], Transaction("q", batch))
    assert 3 == newest(CommitLog(container, "flights"))
    assert 8 == rows_read(account).total()
    assert "small blobs stay at version 1: delete a trial blob" in caplog.text
    with pytest.raises(ConfigurationError, match=r"Nothing was committed\. Grant the permission to delete"):
        compacted(account)


def test_each_entry_and_small_blob_is_read_once_and_deleted_without_another_look() -> None:
    account = new_account()
    for batch in range(20):
        write(account, batch, [2 * batch])
    faults = FaultInjector()
    assert 20 == compacted(account.restarted(faults)).replaced
    asked = Counter((each.operation, each.name) for each in faults.attempts if each.name.startswith("flights/"))
    removed = [name for operation, name in asked if operation == "delete" and name.endswith(".avro")]
    assert 20 == len(removed)
    assert {1} == {asked["get", name] for name in removed}
    # the newest is looked at before the plan, since its entry may not have been published
    assert 19 == sum(not asked["properties", name] for name in removed)
    assert asked["get", boundary_name("flights")] < 10


@pytest.mark.parametrize("end", ["commit", "repair"])
def test_a_listing_has_rows_twice_after_a_process_dies_until_the_next_commit_or_repair(
    account: MemoryAccount, end: str
) -> None:
    expected = visible_numbers(account)
    dies = on("delete", Crash(), name=lambda name: name.endswith(".avro"), skip=3)
    with pytest.raises(ProcessDied):
        compacted(account.restarted(FaultInjector(dies)))
    assert expected != visible_numbers(account)
    if end == "commit":
        write(account, 50, [1000, 1001])
        expected += Counter([1000, 1001])
    else:
        container = account.container("container")
        plan = plan_repair(container, None, datetime.now(UTC) - timedelta(days=1))
        repair(container, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container))
    assert expected == visible_numbers(account)


def visible_numbers(account: MemoryAccount) -> Counter[int]:
    """The numbers that a reader by listing sees."""
    return Counter(row["n"] for rows in visible_rows(account).values() for row in rows)


def test_an_entry_replaces_no_more_blobs_than_a_listing_may_show_twice(
    account: MemoryAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("azureblob_source.log.relocating.compaction.MOST_BLOBS", 6)
    compacted(account)
    removed = [len(entry.removed) for entry in CommitLog(account.container("container"), "flights").history()]
    assert 6 == max(removed)


@pytest.mark.parametrize("attempt", ["of-another", "own"])
def test_a_blob_that_was_read_is_deleted_only_as_it_was_read(attempt: str) -> None:
    container = new_account().container("container")
    entry = LogEntry("w", "2026-01-01T00:00:00+00:00", version=1, published_up_to=0, operation="compact")
    container.put("flights/x.avro", b"read", BlobAttributes({ATTEMPT: "own"}))
    etag = container.get("flights/x.avro").properties.etag
    container.put("flights/x.avro", b"later", BlobAttributes({ATTEMPT: attempt}))
    publisher = Publisher(container, threads=1, etags={"flights/x.avro": etag})
    publisher.remove([Removal("flights/x.avro", "own")], entry)
    assert (attempt == "own") == (container.properties("flights/x.avro") is None)


def test_a_blob_whose_attempt_is_not_seen_is_looked_at_before_it_is_deleted(account: MemoryAccount) -> None:
    container = account.container("container")
    name = next(iter(visible_blobs(account)))
    data = container.get(name).data
    container.put(name, data, BlobAttributes())  # another blob with the same rows
    compacted(account)
    assert data == container.get(name).data


def test_a_blob_that_was_deleted_by_hand_stops_no_other_group(account: MemoryAccount) -> None:
    log = CommitLog(account.container("container"), "flights")
    log.container.delete(next(blob.name for blob in blobs_live_at(log, newest(log), ["a"])))
    with pytest.raises(NotFoundError, match=r"one of its blobs is gone.*`audit` names it.*--leave-out-missing"):
        compacted(account)
    assert 1 == len(blobs_live_at(log, newest(log), ["b"]))
    leave_out(log, missing_blobs(log), new_draft(SYSTEM_CLOCK, None), Publisher(log.container))
    assert 1 == compacted(account).made


def test_a_blob_that_has_other_rows_than_the_log_says_is_not_moved(account: MemoryAccount) -> None:
    container = account.container("container")
    first, *_, last = sorted(name for name in visible_blobs(account) if name.startswith("flights/a/"))
    metadata = container.get(first).properties.metadata
    container.put(first, container.get(last).data, BlobAttributes(metadata))
    with pytest.raises(CorruptError, match=rf"move rows of blob {first}.*it has 10 rows, by the log 1"):
        compacted(account)


# --- beside overwrites of partitions ----------------------------------------------------------------------------------


def overwrite_gate(account: MemoryAccount, gate: str, n: int, batch: int = 0) -> None:
    """A batch that replaces the rows of a gate by one."""
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="gate", partitionOverwriteMode="dynamic")
    staged = stage_rows(container, plan, [pa.record_batch([[gate], [n]], schema=ROWS)], seed=2000 + n)
    committer(container, plan, 2000 + n).commit([staged], Transaction("other", batch), overwrite=True)


def of_gate(gate: str, versions: range) -> Counter[int]:
    """What the versions of the stream have added of a gate."""
    starts = [sum(batch + 2 for batch in range(version)) for version in range(21)]
    return Counter(n for at in versions for n in range(starts[at], starts[at + 1]) if "ab"[n % 2] == gate)


@pytest.mark.parametrize("steps", [0, 16])
def test_a_query_that_lags_behind_an_overwrite_of_all_fails_also_if_partitions_were_overwritten_too(
    account: MemoryAccount, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved, "_STEPS", steps)
    compacted(account)
    overwrite_gate(account, "a", 7000)
    container, plan = account.container("container"), plan_of(ROWS)
    staged = stage_rows(container, plan, [pa.record_batch([["a"], [7001]], schema=ROWS)], seed=2001)
    committer(container, plan, 2001).commit([staged], None, overwrite=True)
    with pytest.raises(NotFoundError, match="the blob is gone"):
        rows_followed(account, -1, 9)


@pytest.mark.parametrize("steps", [0, 16])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_query_is_not_given_moved_rows_of_a_partition_that_was_overwritten_since(
    account: MemoryAccount, times: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved, "_STEPS", steps)
    for _ in range(times):
        compacted(account, most_blobs=12)
    overwrite_gate(account, "a", 1000)
    head = newest(CommitLog(account.container("container"), "flights"))
    for after, until in ((-1, 0), (3, 9), (9, 19), (-1, 19)):
        assert of_gate("b", range(after + 1, until + 1)) == rows_followed(account, after, until)
    assert of_gate("b", range(20)) + Counter([1000]) == rows_followed(account, -1, head)
    compacted(account)
    assert of_gate("b", range(4, 10)) == rows_followed(account, 3, 9)


@pytest.mark.parametrize("steps", [0, 16])
def test_as_long_as_the_overwrite_is_not_published_the_moved_rows_are_read(
    account: MemoryAccount, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved, "_STEPS", steps)
    overwrite_gate(account, "c", 999)
    compacted(account)

    def dies(attempt: NumberedAttempt) -> Crash | None:
        own = attempt.operation == "commit_block_list" and attempt.name not in visible
        return Crash() if own else None

    log, visible = CommitLog(account.container("container"), "flights"), visible_blobs(account)
    with pytest.raises(ProcessDied):
        overwrite_gate(account.restarted(FaultInjector(dies)), "a", 1000, batch=1)
    head = log.refresh()
    assert head is not None and head.removed and "overwrite-partitions" == head.operation
    assert of_gate("a", range(4, 10)) + of_gate("b", range(4, 10)) == rows_followed(account, 3, 9)


def test_a_revert_looks_for_no_moved_rows_that_were_overwritten_since(account: MemoryAccount) -> None:
    compacted(account)
    overwrite_gate(account, "a", 1000)
    container = account.container("container")
    plan = plan_revert(container, "flights", Transaction("q", 9))
    carry_out(container, plan, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container, threads=1))
    found = Counter(n for _, n in rows_read(account))
    assert of_gate("b", range(10)) + Counter([1000]) == found
    assert found == Counter(row["n"] for rows in visible_rows(account).values() for row in rows)
