from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.memory.faults import (
    Crash,
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    ProcessDied,
    Reset,
    Throttle,
    TimeOut,
    at,
    on,
)
from azure_account.values import BlobAttributes
from azureblob_source.log import entry as log_entry
from azureblob_source.log.boundary import Boundary, move_boundary, read_boundary
from azureblob_source.log.commit import commit_and_publish, replacement
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, BlobEntry, Draft, GoneEntry, LogEntry, Transaction, to_json
from azureblob_source.log.naming import boundary_name, log_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance import vacuum as vacuum_module
from azureblob_source.maintenance.vacuum import (
    ListedEntry,
    VacuumPlan,
    check_retention,
    plan_from_listing,
    plan_vacuum,
    vacuum,
)
from azureblob_source.write import batch as batch_module
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from tests.azureblob_source.log.committing import committed, published
from tests.azureblob_source.write.sink_rows import committer, new_account, plan_of, stage_rows, visible_rows

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import AnyEntry
    from azureblob_source.log.publishing.publish import Unpublishable

DAY = 24 * 3600.0


@pytest.fixture(autouse=True)
def _every_entry_lists_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """So none is kept for its list; `log/test_commit_log_transactions.py` has vacuums that keep one."""
    monkeypatch.setattr(log_entry, "LIST_EVERY", 1)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def log_over(account: MemoryAccount, faults: FaultInjector | None = None, stream: str = "flights") -> CommitLog:
    container = account.restarted(faults).container("container")
    return CommitLog(container, stream, readers=1, clock=account.clock)


def write(account: MemoryAccount, version: int, *, blobs: int = 2) -> AnyEntry:
    """One published batch of a query, with `blobs` blobs."""
    container = account.container("container")
    names = [f"flights/{version}-{number}.avro" for number in range(blobs)]
    batch = [BlobEntry(name, "flights", None, f"{version:016x}", 1, 10, 200, 100, "f", "end") for name in names]
    for blob in batch:
        container.stage_block(blob.name, blob.block_ids[0], b"rows of " + blob.name.encode())
    draft = Draft(f"w{version}", "2026-01-01T00:00:00+00:00", blobs=tuple(batch),
                     transaction=Transaction("q", version))  # fmt: skip
    return commit_and_publish(log_over(account), draft, Publisher(container, threads=1))


def stream_of_days(days: int, *, blobs: int = 2) -> MemoryAccount:
    """A stream with one entry a day; the newest is a day old."""
    account = new_account()
    for version in range(days):
        write(account, version, blobs=blobs)
        account.clock.sleep(DAY)
    return account


def now(account: MemoryAccount) -> datetime:
    return EPOCH + timedelta(seconds=account.clock.now())


def run(
    account: MemoryAccount, days: float, faults: FaultInjector | None = None, stream: str = "flights"
) -> VacuumPlan:
    """One process that vacuums what is older than so many days."""
    log = log_over(account, faults, stream)
    plan = plan_vacuum(log, now(account) - timedelta(days=days))
    ids = itertools.count()
    vacuum(log.container, plan, lambda: f"{account.clock.now()}-{id(plan)}-{next(ids)}", threads=1)
    return plan


def names(account: MemoryAccount) -> list[str]:
    return sorted(account.service.contents("container"))


def kept(first: int, end: int, *, blobs: int = 2) -> list[str]:
    """The names of a stream that begins with version `first`."""
    data = [f"flights/{version}-{number}.avro" for version in range(first, end) for number in range(blobs)]
    entries = [log_name("flights", version) for version in range(first, end)]
    return sorted([*data, *entries, boundary_name("flights")])


# --- what is removed --------------------------------------------------------------------------------------------------


def test_entries_older_than_the_retention_are_removed_with_their_blobs() -> None:
    account = stream_of_days(6)
    plan = run(account, 3.5)
    assert (3, 6, 60, 600) == (len(plan.outdated), plan.blobs, plan.rows, plan.bytes)
    assert (3, 5) == (plan.first, plan.last)
    assert kept(3, 6) == names(account)
    assert [3, 4, 5] == [entry.version for entry in log_over(account).history()]
    boundary = read_boundary(account.container("container"), "flights")
    assert (3, {}) == (boundary.first, boundary.removing)


def test_the_head_stays_however_old_it_is() -> None:
    account = stream_of_days(3)
    run(account, 0)
    assert kept(2, 3) == names(account)
    assert run(account, 0).is_empty


def test_young_entries_stay_and_nothing_is_written() -> None:
    account = stream_of_days(3)
    before = account.service.contents("container")
    assert run(account, 10).is_empty
    assert before == account.service.contents("container")


def test_a_plan_changes_nothing() -> None:
    account = stream_of_days(5)
    faults = FaultInjector()
    plan = plan_vacuum(log_over(account, faults), now(account))
    assert 4 == len(plan.outdated)
    assert {"get", "properties", "list"} == {attempt.operation for attempt in faults.attempts}


def test_a_vacuumed_stream_takes_new_batches() -> None:
    account = stream_of_days(5)
    run(account, 1.5)
    for version in range(5, 9):
        assert version == write(account, version).version
        account.clock.sleep(DAY)
    run(account, 2.5)
    assert kept(7, 9) == names(account)


def test_entries_that_are_not_published_stay() -> None:
    account = stream_of_days(4)
    container, log = account.container("container"), log_over(account)
    log_id = log.read(0).log_id
    lagging = LogEntry("x", "2026-01-01T00:00:00+00:00", version=4, published_up_to=1, log_id=log_id)
    container.put(log_name("flights", 4), to_json(lagging))
    account.clock.sleep(DAY)
    assert [0, 1] == [entry.version for entry in plan_vacuum(log, now(account)).outdated]


def test_a_blob_of_another_writer_is_kept() -> None:
    account = stream_of_days(3)
    container = account.container("container")
    container.put("flights/0-0.avro", b"others", BlobAttributes({ATTEMPT: "another"}))
    container.put("flights/0-1.avro", b"others")
    log = log_over(account)
    plan = plan_vacuum(log, now(account))
    done = vacuum(container, plan, lambda: "id")
    assert (2, 2, ("flights/0-0.avro", "flights/0-1.avro")) == (done.entries, done.blobs, done.foreign)
    assert sorted([*kept(2, 3), "flights/0-0.avro", "flights/0-1.avro"]) == names(account)


def test_many_entries_are_removed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_module, "_ENTRIES_AT_ONCE", 2)
    account = stream_of_days(8, blobs=1)
    steps: list[int] = []
    plan = plan_vacuum(log_over(account), now(account), steps.append)
    assert [2, 2, 2, 1] == steps
    steps.clear()
    vacuum(account.container("container"), plan, iter("abcdefgh").__next__, steps.append)
    assert 7 == sum(steps)
    assert kept(7, 8, blobs=1) == names(account)


def test_an_absent_log_is_named() -> None:
    with pytest.raises(NotFoundError, match=r"vacuum memory://memory/container/flights failed: there is no commit log"):
        plan_vacuum(log_over(new_account()), EPOCH)


def test_a_blob_under_a_lease_stops_the_vacuum_which_can_be_repeated() -> None:
    account = stream_of_days(4)
    container = account.container("container")
    lease = "00000000-0000-0000-0000-000000000001"
    container.acquire_lease("flights/1-0.avro", lease, 60)
    with pytest.raises(ConflictError, match=r"delete flights/1-0\.avro in .*lease or a policy.*run the vacuum again"):
        run(account, 0)
    assert log_over(account).first() == 3
    container.break_lease("flights/1-0.avro")
    run(account, 0)
    assert kept(3, 4) == names(account)


@pytest.mark.parametrize("older_than", [timedelta(minutes=59), timedelta(0)])
def test_a_retention_below_an_hour_needs_force(older_than: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="shorter than an hour.*--force"):
        check_retention(older_than)
    assert older_than == check_retention(older_than, forced=True)
    assert timedelta(hours=1) == check_retention(timedelta(hours=1))


def test_a_retention_in_the_future_cannot_be_forced() -> None:
    with pytest.raises(ConfigurationError):
        check_retention(timedelta(seconds=-1), forced=True)


# --- the plan ---------------------------------------------------------------------------------------------------------


@given(
    ages=st.lists(st.integers(0, 9), max_size=12),
    first=st.integers(0, 5),
    published=st.integers(-1, 14),
    needed=st.integers(0, 14),
    removing=st.dictionaries(st.integers(0, 5), st.sampled_from(["e", "other"])),
    cut=st.integers(0, 9),
)
def test_a_plan_removes_consecutive_old_published_entries_and_never_the_head(
    ages: list[int], first: int, published: int, needed: int, removing: dict[int, str], cut: int
) -> None:
    listed = [ListedEntry(version, "e", EPOCH + timedelta(days=age)) for version, age in enumerate(ages)]
    head = LogEntry("w", "t", version=first + len(ages), published_up_to=published)
    plan = plan_from_listing(
        "s",
        listed,
        Boundary(first, removing, list_version=needed),
        head,
        before=EPOCH + timedelta(days=cut),
        needed=needed,
    )
    versions = [entry.version for entry in plan.outdated]
    assert list(range(first, first + len(versions))) == versions
    assert all(version <= published and version < min(head.version, needed) for version in versions)
    assert all(ages[version] < cut for version in versions)
    assert plan.first == first + len(versions)
    assert all(entry.version < first and removing[entry.version] == "e" for entry in plan.interrupted)
    kept = set() if plan.list_entry is None else {plan.list_entry.version}
    assert kept == ({needed} if needed < min(first, len(ages)) else set())
    below = {entry.version for entry in (*plan.interrupted, *plan.strays)}
    assert {entry.version for entry in listed if entry.version < first} == below | kept
    assert not kept & {entry.version for entry in plan.strays}


# --- crashes and faults -----------------------------------------------------------------------------------------------


def calls_of_a_vacuum() -> int:
    faults = FaultInjector()
    run(stream_of_days(5), 1.5, faults)
    return faults.count


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("more", [0, 3])
def test_a_vacuum_that_dies_at_any_request_is_finished_by_the_next(after_effect: bool, more: int) -> None:
    for n in range(1, calls_of_a_vacuum() + 1):
        account = stream_of_days(5)
        with pytest.raises(ProcessDied):
            run(account, 1.5, FaultInjector(at(n, Crash(after_effect=after_effect))))
        for version in range(5, 5 + more):
            write(account, version)
            account.clock.sleep(DAY)
        entries = log_over(account).history()
        assert list(range(entries[0].version, 5 + more)) == [entry.version for entry in entries], f"attempt {n}"
        assert {blob.name for entry in entries for blob in entry.blobs} <= set(names(account)), f"attempt {n}"
        run(account, 1.5)
        assert kept(4 + more, 5 + more) == names(account), f"attempt {n}"


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), Reset(), Throttle(1.0), LateEffect(1), LateEffect(3)])
def test_a_single_fault_at_any_request_changes_nothing(fault: Fault) -> None:
    for n in range(1, calls_of_a_vacuum() + 1):
        account = stream_of_days(5)
        faults = FaultInjector(at(n, fault))
        run(account, 1.5, faults)
        faults.apply_late_effects()
        assert kept(4, 5) == names(account), f"attempt {n}"


def test_of_two_concurrent_vacuums_one_fails() -> None:
    account = stream_of_days(5)
    slow = plan_vacuum(log_over(account), now(account))
    run(account, 2.5)
    with pytest.raises(ConflictError, match="another vacuum is at work"):
        vacuum(account.container("container"), slow, lambda: "slow")
    assert kept(3, 5) == names(account)


@pytest.mark.parametrize("versions", [0, 2, 6])
def test_a_stream_that_was_deleted_since_the_plan_is_left_as_it_is(versions: int) -> None:
    """Somebody may answer the question hours later."""
    account = stream_of_days(5)
    plan, container = plan_vacuum(log_over(account), now(account)), account.container("container")
    for name in names(account):
        container.delete(name)
    for version in range(versions):
        write(account, version)
    there = names(account)
    with pytest.raises(ConflictError, match=r"the stream was deleted since this was planned\. Run it again"):
        vacuum(container, plan, lambda: "late", threads=1)
    assert there == names(account)


# --- entries of stale writers below the boundary ----------------------------------------------------------------------


def test_an_entry_put_below_the_boundary_is_deleted_and_its_blobs_stay() -> None:
    """Another entry may name the blobs: a repeat of a batch over several streams follows the same batch entry."""
    account = stream_of_days(5)
    run(account, 1.5)
    account.container("container").put(log_name("flights", 2), to_json(log_over(account).read(4)))
    plan = run(account, 1.5)
    assert [2] == [entry.version for entry in plan.strays]
    assert kept(4, 5) == names(account)


def test_an_entry_put_where_a_vacuum_died_is_distinguished_from_the_entry_being_removed() -> None:
    account = stream_of_days(5)
    container = account.container("container")
    listed = {version: container.properties(log_name("flights", version)) for version in (0, 1, 2)}
    removing = {version: there.etag for version, there in listed.items() if there is not None}
    move_boundary(container, "flights", Boundary(), Boundary(3, removing, "died", 3))
    stray = to_json(log_over(account).read(4))
    container.delete(log_name("flights", 1))
    container.put(log_name("flights", 1), stray)
    plan = run(account, 30)
    assert ([0, 2], [1]) == ([entry.version for entry in plan.interrupted], [entry.version for entry in plan.strays])
    assert sorted([*kept(3, 5), "flights/1-0.avro", "flights/1-1.avro"]) == names(account)


def test_a_batch_whose_entry_was_vacuumed_counts_as_done() -> None:
    account = stream_of_days(3)
    other = Draft("o", "2026-01-01T00:00:00+00:00", transaction=Transaction("other", 0))
    published(log_over(account), other, Publisher(account.container("container")))
    account.clock.sleep(DAY)
    run(account, 0)
    assert GoneEntry(Transaction("q", 2), 2, None) == write(account, 2)
    assert [3] == [entry.version for entry in log_over(account).history()]
    assert write(account, 3).version == 4


def test_an_overwrite_by_a_writer_whose_head_was_vacuumed_removes_all_live_blobs() -> None:
    account = stream_of_days(2)
    log = log_over(account)
    head = log.head()
    assert head is not None
    assert 1 == head.version
    log.notes.published(1)
    for version in (2, 3, 4):
        write(account, version)
        account.clock.sleep(DAY)
    run(account, 1.5)
    draft = Draft("o", "2026-01-01T00:00:00+00:00", operation="overwrite", transaction=Transaction("o", 0))
    entry = published(log, draft, Publisher(account.container("container"), threads=1))
    assert (5, ("flights/4-0.avro", "flights/4-1.avro")) == (entry.version, tuple(each.name for each in entry.removed))


def test_a_writer_whose_batch_was_published_by_another_and_vacuumed_while_it_was_paused_is_done() -> None:
    account = stream_of_days(2)
    container = account.container("container")
    blob = BlobEntry("flights/late.avro", "flights", None, "a" * 16, 1, 1, 1, 1, "f", "end")
    container.stage_block(blob.name, blob.block_ids[0], b"late")
    draft = Draft("late", "2026-01-01T00:00:00+00:00", blobs=(blob,), transaction=Transaction("slow", 0))

    class Sleepy(Publisher):
        def publish(self, entry: LogEntry, stream: str) -> list[Unpublishable]:
            if entry.write_id == "late":
                assert 3 == write(account, 3).version
                assert "flights/late.avro" in names(account)
                account.clock.sleep(DAY)
                run(account, 0)
                assert "flights/late.avro" not in names(account)
            return super().publish(entry, stream)

    entry = published(log_over(account), draft, Sleepy(container, threads=1))
    assert (2, "late") == (entry.version, entry.write_id)
    assert kept(3, 4) == names(account)


# --- batch logs -------------------------------------------------------------------------------------------------------


def decisions(account: MemoryAccount, count: int, *, replaced: bool = False) -> None:
    log = log_over(account, stream="_batches/q")
    blob = BlobEntry("flights/0-0.avro", "flights", None, f"{0:016x}", 1, 10, 200, 100, "f", "end")
    for version in range(count):
        draft = Draft(f"d{version}", "2013-01-31T12:00:00+00:00", blobs=(blob,), transaction=Transaction("q", version))
        entry = committed(log, draft, Publisher(log.container))
    if replaced:
        committed(log, replacement(entry, replace(draft, write_id="r")), Publisher(log.container))
    account.clock.sleep(DAY)


def test_of_a_batch_log_only_entries_are_removed() -> None:
    account = stream_of_days(1)
    decisions(account, 4)
    before = [name for name in names(account) if name.startswith("flights/")]
    run(account, 0, stream="_batches/q")
    assert before == [name for name in names(account) if name.startswith("flights/")]
    assert [3] == [entry.version for entry in log_over(account, stream="_batches/q").history()]


def test_a_batch_entry_that_the_newest_replaces_stays() -> None:
    account = stream_of_days(1)
    decisions(account, 4, replaced=True)
    run(account, 0, stream="_batches/q")
    assert [3, 4] == [entry.version for entry in log_over(account, stream="_batches/q").history()]


def test_a_repeat_writes_nothing_to_a_stream_whose_entry_of_the_batch_was_vacuumed() -> None:
    """The query restarts late and repeats the batch: what it stages again is written to neither stream."""
    account = new_account()
    container = account.container("container")
    schema = pa.schema([("s", pa.string()), ("n", pa.int64())])
    plan = plan_of(schema, "container", streamColumn="s")

    def repeat(seed: int) -> None:
        staged = stage_rows(container, plan, [pa.record_batch([["x", "y"], [1, 2]], schema=schema)], seed=seed)
        committer(container, plan, seed).commit([staged], Transaction("q", 0))

    repeat(1)
    other = plan_of(schema, "container/x")
    staged = stage_rows(container, other, [pa.record_batch([["x"], [3]], schema=schema)], seed=2)
    committer(container, other, 2).commit([staged], Transaction("other", 0))
    account.clock.sleep(DAY)
    assert 1 == len(run(account, 0, stream="x").outdated)
    repeat(3)
    rows = {stream: [row["n"] for row in rows] for stream, rows in visible_rows(account).items()}
    assert {"x": [3], "y": [2]} == rows


def test_a_batch_entry_that_replaces_another_is_written_where_the_earlier_part_was_vacuumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver dies between two streams, the first is vacuumed, and the repeat sends the second one's row to it."""
    monkeypatch.setattr(batch_module, "_STREAMS_AT_ONCE", 1)
    account = new_account()
    schema = pa.schema([("s", pa.string()), ("n", pa.int64())])
    plan = plan_of(schema, "container", streamColumn="s")

    def write_rows(transaction: str, streams: list[str], numbers: list[int], faults: FaultInjector) -> None:
        container, batch = account.restarted(faults).container("container"), pa.record_batch([streams, numbers], schema)
        staged = stage_rows(container, plan, [batch], seed=numbers[0])
        committer(container, plan, numbers[0]).commit([staged], Transaction(transaction, 0))

    dies = FaultInjector(on("put", Crash(), name=lambda name: name == log_name("y", 0)))
    with pytest.raises(ProcessDied):
        write_rows("q", ["x", "y"], [1, 2], dies)
    write_rows("other", ["x"], [3], FaultInjector())
    account.clock.sleep(8 * DAY)
    assert 1 == len(run(account, 0, stream="x").outdated)
    write_rows("q", ["x", "y"], [2, 1], FaultInjector())
    assert {"x": [2, 3], "y": [1]} == {
        stream: sorted(row["n"] for row in rows) for stream, rows in visible_rows(account).items()
    }
