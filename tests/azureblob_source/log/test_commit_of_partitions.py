"""An overwrite of partitions: one entry replaces the rows of the partitions that it has rows in, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import Crash, FaultInjector, NumberedAttempt, ProcessDied
from azure_account.values import BlobAttributes
from azureblob_source.log.checkpoint import building
from azureblob_source.log.commit import commit_and_publish, commit_entry, replacement
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, Draft, LogEntry, Removal, Transaction, to_json
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.repair import plan_repair, repair
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.snapshot import take_snapshot
from foundation.errors import ConfigurationError
from tests.azureblob_source.log.checkpoint.stored_logs import STREAM, Requests, checkpoint, entry
from tests.azureblob_source.log.committing import ROWS, WEEK_AND_A_DAY, committed, rows
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
    from typing import Any

    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import Operation

Partitions = dict[str | None, list[int]]
QUERY = Transaction("q", 0)
ONE = TriggerLimits(blobs=1)


def write(
    account: MemoryAccount,
    given: Partitions,
    transaction: Transaction | None = None,
    *,
    overwrite: bool = True,
    seed: int = 0,
    **options: Any,
) -> list[LogEntry]:
    """A batch with these rows in these partitions, by a process of its own."""
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="stream", partitionOverwriteMode="dynamic", **options)
    numbers = [(partition, n) for partition, of in given.items() for n in of]
    batch = rows([n for _, n in numbers], [partition for partition, _ in numbers])  # type: ignore[misc]
    staged = [stage_rows(container, plan, [batch], seed=seed)]
    return committer(container, plan, seed).commit(staged, transaction, overwrite=overwrite)


def filled() -> MemoryAccount:
    """Rows in three partitions, one of which has no name."""
    account = new_account()
    write(account, {"x": [1, 2], "y": [3], None: [4]}, overwrite=False, seed=1)
    write(account, {"x": [5]}, overwrite=False, seed=2)
    return account


def log_of(account: MemoryAccount) -> CommitLog:
    return CommitLog(account.container("container"), "flights", readers=1, clock=account.clock)


def found(account: MemoryAccount) -> Partitions:
    """The rows by partition: the same by the log and by the listing."""
    snapshot = take_snapshot(log_of(account), None, account.clock, publish_timeout=0)
    visible = visible_blobs(account)
    assert set(visible) == {blob.name for blob in snapshot.blobs}
    rows_of: Partitions = {}
    for data in visible.values():
        for row in blob_rows(data):
            rows_of.setdefault(row["stream"], []).append(row["n"])
    return {partition: sorted(of) for partition, of in rows_of.items()}


def delivered(account: MemoryAccount, limits: TriggerLimits = ONE) -> list[int]:
    """The rows that a new streaming query reads."""
    follower, after = Follower(log_of(account), 0.0, account.clock), -1
    numbers: list[int] = []
    while (until := follower.latest(after, limits)) > after:
        for blob, _ in follower.blobs(after, until):
            numbers += [row["n"] for row in blob_rows(account.container("container").get(blob.name).data)]
        after = until
        follower.forget(until)
    return sorted(numbers)


def dies(account: MemoryAccount, own: int) -> MemoryAccount:
    """A process that dies before it publishes so many blobs of its batch; it publishes that of the last version too."""
    seen = iter(range(10**6))

    def fault(attempt: NumberedAttempt) -> Crash | None:
        return Crash() if attempt.operation == "commit_block_list" and next(seen) == 1 + own else None

    return account.restarted(FaultInjector(fault))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"x": [9]}, {"x": [9], "y": [3], None: [4]}),
        ({"x": [8], "z": [9]}, {"x": [8], "y": [3], "z": [9], None: [4]}),
        ({None: [9]}, {"x": [1, 2, 5], "y": [3], None: [9]}),
        ({"x": [7], "y": [8], None: [9]}, {"x": [7], "y": [8], None: [9]}),
        ({"z": [9]}, {"x": [1, 2, 5], "y": [3], "z": [9], None: [4]}),
    ],
)
def test_the_partitions_of_a_batch_are_replaced_in_one_entry_and_no_others(
    given: Partitions, expected: Partitions
) -> None:
    account = filled()
    (put,) = write(account, given, seed=3)
    assert (2, "overwrite-partitions", 0) == (put.version, put.operation, put.since)
    assert expected == found(account)
    assert sorted(n for of in expected.values() for n in of) == delivered(account)


def test_rows_written_without_a_partition_column_are_those_without_a_partition() -> None:
    account = new_account()
    container, plan = account.container("container"), plan_of(ROWS)
    committer(container, plan, 1).commit([stage_rows(container, plan, [rows([1], ["x"])])], None)
    write(account, {"x": [2]}, seed=2)
    assert {"x": [1, 2]} == found(account)
    write(account, {None: [3]}, seed=3)
    assert {"x": [2], None: [3]} == found(account)


@pytest.mark.parametrize("transaction", [None, QUERY])
def test_a_batch_without_rows_replaces_nothing_and_leaves_no_entry(transaction: Transaction | None) -> None:
    account = filled()
    assert [] == write(account, {}, transaction, seed=3)
    assert {"x": [1, 2, 5], "y": [3], None: [4]} == found(account)
    assert 1 == head_of(account).version


def head_of(account: MemoryAccount) -> LogEntry:
    head = log_of(account).refresh()
    assert head is not None
    return head


def test_what_it_removes_is_worked_out_again_when_another_batch_is_first() -> None:
    account = filled()

    def overtake(attempt: NumberedAttempt) -> None:
        if (attempt.operation, attempt.name) == ("put", log_name("flights", 2)) and not overtaken:
            overtaken.append(attempt.name)
            write(account, {"x": [6], "y": [7]}, overwrite=False, seed=4)

    overtaken: list[str] = []
    (put,) = write(account.restarted(FaultInjector(overtake)), {"x": [9]}, seed=3)
    assert (3, 3) == (put.version, len(put.removed))
    assert {"x": [9], "y": [3, 7], None: [4]} == found(account)


def test_its_repeat_is_the_same_batch() -> None:
    account = filled()
    for seed in (3, 4):
        with pytest.raises(ProcessDied):
            write(dies(account, own=0), {"x": [8], "y": [9]}, QUERY, seed=seed)
    write(account, {"x": [8], "y": [9]}, QUERY, seed=6)
    assert {"x": [8], "y": [9], None: [4]} == found(account)
    assert 2 == head_of(account).version


def test_an_append_finishes_it_when_its_writer_has_died() -> None:
    account = filled()
    with pytest.raises(ProcessDied):
        write(dies(account, own=0), {"x": [9]}, seed=3)
    assert 1 == len(plan_repair(account.container("container"), None, NOON).unpublished)
    write(account, {"y": [7]}, overwrite=False, seed=4)
    assert {"x": [9], "y": [3, 7], None: [4]} == found(account)


def test_when_it_is_voided_all_that_it_would_have_replaced_is_live() -> None:
    account = filled()
    with pytest.raises(ProcessDied):
        write(dies(account, own=0), {"x": [9]}, QUERY, seed=3)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, {"y": [7]}, overwrite=False, seed=4)
    assert ["void", "append"] == [each.operation for each in log_of(account).history()[3:]]
    assert {"x": [1, 2, 5], "y": [3, 7], None: [4]} == found(account)
    assert [1, 2, 3, 4, 5, 7] == delivered(account)
    write(account, {"x": [9]}, QUERY, seed=5)
    assert {"x": [9], "y": [3, 7], None: [4]} == found(account)


def test_one_that_could_be_published_after_all_is_not_replaced() -> None:
    """A blob of another tool had a name of its; that is gone when the repeat is about to replace the entry."""
    account = filled()
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="stream", partitionOverwriteMode="dynamic")
    writer, log = committer(container, plan, 3), log_of(account)
    blobs = stage_rows(container, plan, [rows([8, 9], ["x", "y"])], seed=3).blobs
    draft = Draft("w", "2026-01-01T00:00:00+00:00", "overwrite-partitions", QUERY, blobs=tuple(blobs))
    first = committed(log, draft, writer.publisher)
    other = stage_rows(container, plan, [rows([8, 9], ["x", "x"])], seed=4).blobs
    repeat = replacement(first, replace(draft, write_id="v", blobs=tuple(other)))
    assert first == commit_entry(log_of(account), repeat, writer.publisher)
    assert {"x": [8], "y": [9], None: [4]} == found(account)


def test_one_of_which_a_blob_was_deleted_by_hand_is_voided_before_it_is_replaced() -> None:
    account = filled()
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="stream", partitionOverwriteMode="dynamic")
    writer, log = committer(container, plan, 3), log_of(account)
    blobs = stage_rows(container, plan, [rows([8, 9], ["x", "y"])], seed=3).blobs
    draft = Draft("w", "2026-01-01T00:00:00+00:00", "overwrite-partitions", QUERY, blobs=tuple(blobs))
    first = commit_and_publish(log, draft, writer.publisher)
    container.delete(blobs[0].name)
    other = stage_rows(container, plan, [rows([8, 9], ["x", "y"])], seed=4).blobs
    repeat = replace(draft, write_id="v", blobs=tuple(other))
    assert first.version is not None
    put = commit_and_publish(log, replacement(first, repeat), writer.publisher)
    assert ["overwrite-partitions", "void", "overwrite-partitions"] == [each.operation for each in log.history()[2:]]
    assert (put.version, {"x": [8], "y": [9], None: [4]}) == (4, found(account))


def test_a_wider_schema_stays_with_the_stream_and_one_that_does_not_fit_is_refused() -> None:
    account = filled()
    before = head_of(account).schemas
    container, plan = account.container("container"), plan_of(ROWS, partitionColumn="stream")
    other = replace(plan.of_commit, schema="other", schema_json='{"type":"record","name":"row","fields":['
        '{"name":"n","type":"string"}]}', overwrite_partitions=True)  # fmt: skip
    staged = stage_rows(container, plan, [rows([1], ["x"])], seed=3)
    with pytest.raises(ConfigurationError, match="column 'n' is long in the stream and string in this write"):
        replace(committer(container, plan, 3), plan=other).commit([staged], None, overwrite=True)
    write(account, {"x": [7], "y": [8], None: [9]}, seed=4)
    assert before == head_of(account).schemas


def test_an_overwrite_without_the_permission_to_delete_is_refused_before_it_is_committed() -> None:
    account = filled()

    def refuse(attempt: NumberedAttempt) -> None:
        if attempt.operation == "delete":
            raise ConfigurationError("not permitted")

    with pytest.raises(ConfigurationError, match=r"not permitted|plain appends do not need it"):
        write(account.restarted(FaultInjector(refuse)), {"x": [9]}, seed=3)
    assert 1 == head_of(account).version


def test_a_repair_deletes_what_came_back() -> None:
    account = filled()
    container = account.container("container")
    old = {name: data for name, data in visible_blobs(account).items() if "/x/" in name}
    attempts = {blob.name: blob.attempt for entry in log_of(account).history() for blob in entry.blobs}
    write(account, {"x": [9]}, seed=3)
    write(account, {"y": [7]}, overwrite=False, seed=4)
    for name, data in old.items():
        container.put(name, data, BlobAttributes({ATTEMPT: attempts[name]}))
    plan = plan_repair(container, None, NOON)
    assert sorted(old) == sorted(each.name for each in plan.revived)
    repair(container, plan, lambda: Draft("r", "2026-01-01T00:00:00+00:00"), Publisher(container, threads=1))
    assert {"x": [9], "y": [3, 7], None: [4]} == found(account)


# --- the price --------------------------------------------------------------------------------------------------------


def stored(count: int, operation: Operation = "append", partitions: int = 6) -> MemoryAccount:
    """A log of so many entries with a blob each, of partitions that follow one another."""
    account = new_account()
    before: dict[int, Removal] = {}
    for version in range(count):
        at = version * partitions // count if operation == "append" else version % partitions
        blob = replace(entry(version).blobs[0], partition=f"d{at}")
        removed = (before[at],) if operation != "append" and at in before else ()
        put = replace(entry(version), operation=operation, blobs=(blob,), removed=removed)
        put = replace(put, last_deletion=version - 1 if version else None)
        account.container("container").put(log_name(STREAM, version), to_json(put))
        before[at] = blob.removal
    return account


def test_only_manifests_that_may_have_a_partition_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "MANIFEST_BLOBS", 10)
    account, requests = stored(60), Requests()
    checkpoint(account.container("container"), 59)
    log = CommitLog(account.restarted(requests).container("container"), STREAM)
    assert list(range(20, 30)) == sorted(int(blob.attempt, 16) for blob in blobs_live_at(log, 59, {"d2", None}))
    assert 1 == requests.of_checkpoints().count(("get", "manifest"))


def test_a_query_reads_the_overwrites_after_a_range_many_at_a_time() -> None:
    account, requests = stored(100, "overwrite-partitions"), Requests()
    follower = Follower(CommitLog(account.restarted(requests).container("container"), STREAM), 0.0, account.clock)
    assert [] == [blob.name for blob, _ in follower.blobs(-1, 0)]
    assert len(requests.made) < 130
    assert [99] == [blob.version for blob, _ in follower.blobs(98, 99)]
