"""Restores of versions: what is live again, what is refused, what is left when a restore is disturbed."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

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
from azureblob_source.log import live_state
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.publishing.status import Published, status_of
from azureblob_source.log.publishing.void import void_version
from azureblob_source.log.relocating.compaction import CompactionRules, compact, plan_compaction
from azureblob_source.log.relocating.restore import restoration, restore
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.iceberg import make_iceberg_table, refresh_table
from azureblob_source.maintenance.repair import plan_repair
from azureblob_source.maintenance.restoring import plan_restore, restored_version
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read import following
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.errors import ConfigurationError, ConflictError, FencedError, NotFoundError
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
    from collections.abc import Sequence

    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.read.blobs import StreamBlob

seeds = itertools.count(1)


def write(account: MemoryAccount, numbers: list[int], batch: int | None = None, *, overwrite: bool = False) -> None:
    """A process of its own writes a batch, of query q if it has a number."""
    container, plan, seed = account.container("container"), plan_of(ROWS), next(seeds)
    staged = [stage_rows(container, plan, [rows(numbers)], seed=seed)] if numbers else []
    transaction = None if batch is None else Transaction("q", batch)
    committer(container, plan, seed).commit(staged, transaction, overwrite=overwrite)


def written(versions: int = 5) -> MemoryAccount:
    """Version *n* is batch *n*, and has the row *n*."""
    account = new_account()
    for version in range(versions):
        write(account, [version], version)
    return account


def draft(epoch: int | None = None) -> Draft:
    return Draft(f"restore-{next(seeds)}", NOON.isoformat(), epoch=epoch)


def log_of(account: MemoryAccount, faults: FaultInjector | None = None) -> CommitLog:
    return CommitLog(account.restarted(faults).container("container"), "flights", readers=1, clock=account.clock)


def back_to(
    account: MemoryAccount, version: int, faults: FaultInjector | None = None, planned: int | None = None
) -> LogEntry | None:
    log = log_of(account, faults)
    return restore(log, version, draft(), Publisher(log.container, threads=1), planned)


def numbers(account: MemoryAccount, version: int | None = None) -> list[int]:
    """The rows that readers of the log find; at the head, readers of the listing find the same."""
    log = log_of(account)
    log.refresh()
    blobs = take_snapshot(log, version, account.clock, publish_timeout=0).blobs
    found = rows_in(log, list(blobs))
    if version is None:
        assert found == sorted(row["n"] for data in visible_blobs(account).values() for row in blob_rows(data))
    return found


def rows_in(log: CommitLog, blobs: Sequence[StreamBlob]) -> list[int]:
    """The rows of blobs and of parts of blobs."""
    batches = read_splits(log.container, list(split_blobs(blobs)), SplitSettings())
    return sorted(n for _, batch in batches for n in batch["n"].to_pylist())


def test_what_was_live_at_a_version_is_live_again() -> None:
    for version in range(5):
        account = written()
        entry = back_to(account, version)
        assert list(range(version + 1)) == numbers(account)
        if version == 4:
            assert entry is None
            continue
        assert entry is not None
        assert (5, "restore", version, 4 - version) == (
            entry.version, entry.operation, entry.restores, len(entry.removed),
        )  # fmt: skip
        write(account, [9], 5)
        assert [*range(version + 1), 9] == numbers(account)


def test_a_query_goes_on_after_its_last_batch_and_its_repeat_writes_nothing() -> None:
    account = written()
    back_to(account, 1)
    write(account, [4], 4)
    assert [0, 1] == numbers(account)
    write(account, [5], 5)
    assert [0, 1, 5] == numbers(account)


def test_a_restored_version_can_be_restored_again_and_one_in_between_cannot() -> None:
    account = written()
    back_to(account, 2)
    write(account, [9])
    assert back_to(account, 5) is not None
    assert back_to(account, 2) is None
    assert [0, 1, 2] == numbers(account)
    cause = (
        r"version 4 of .* version 5 has deleted rows that it has, those of .* among them\. Restore version 5 or a la"
    )
    with pytest.raises(ConfigurationError, match=cause):
        back_to(account, 4)


def test_what_an_overwrite_has_deleted_cannot_be_restored_and_what_it_wrote_can() -> None:
    account = written(3)
    write(account, [7], overwrite=True)
    write(account, [8])
    with pytest.raises(ConfigurationError, match="Restore version 3 or a later one"):
        back_to(account, 2)
    back_to(account, 3)
    assert [7] == numbers(account)


def test_a_version_without_rows_empties_the_stream_and_its_schemas_bind_nobody() -> None:
    account = new_account()
    write(account, [1])
    write(account, [], overwrite=True)
    write(account, [2])
    entry = back_to(account, 1)
    assert entry is not None
    assert (entry.version, ()) == (entry.since, entry.live_schemas)
    assert [] == numbers(account)
    write(account, [3])
    assert [3] == numbers(account)


def test_schemas_that_came_later_bind_nobody() -> None:
    import pyarrow as pa

    account = written(2)
    container = account.container("container")
    before = log_of(account).refresh()
    wider = pa.schema([*ROWS, ("late", pa.string())])
    plan = plan_of(wider)
    batch = pa.record_batch([["-"], [2], ["x"]], schema=wider)
    committer(container, plan, 77).commit([stage_rows(container, plan, [batch], seed=77)], None)
    entry = back_to(account, 1)
    assert entry is not None and before is not None
    assert (before.schemas, before.since) == (entry.schemas, entry.since)
    other = pa.schema([*ROWS, ("late", pa.int64())])  # which could not follow rows with a string there
    plan = plan_of(other)
    batch = pa.record_batch([["-"], [3], [4]], schema=other)
    committer(container, plan, 78).commit([stage_rows(container, plan, [batch], seed=78)], None)
    assert [0, 1, 3] == numbers(account)


@pytest.mark.parametrize("fault", [Crash(), Crash(after_effect=True), LostAnswer(), LateEffect(2), Reset()], ids=repr)
def test_a_restore_that_is_disturbed_at_any_request_and_run_again_changes_nothing(fault: Fault) -> None:
    quiet = FaultInjector()
    back_to(written(), 1, quiet)
    died = 0
    for number in range(1, quiet.count + 1):
        account, faults = written(), FaultInjector(at(number, fault))
        try:
            back_to(account, 1, faults)
        except ProcessDied:
            died += 1
        faults.apply_late_effects()
        back_to(account, 1)
        assert [0, 1] == numbers(account), f"request {number}"
        assert 1 == sum(entry.operation == "restore" for entry in log_of(account).history())
        assert not plan_repair(account.container("container"), None, NOON).unpublished
    assert quiet.count * isinstance(fault, Crash) == died


def test_a_restore_that_died_is_finished_by_the_next_writer_or_by_another_run() -> None:
    for again in (False, True):
        account = written()
        with pytest.raises(ProcessDied):
            back_to(account, 1, FaultInjector(on("delete", Crash(), name=lambda name: name.endswith(".avro"))))
        assert 5 == len(visible_blobs(account))
        log = log_of(account)
        assert plan_restore(log, 1).is_needed and () == plan_restore(log, 1).restoration.removed
        (found,) = plan_repair(log.container, "flights", NOON).unpublished
        assert 3 == len(found.still_there)
        back_to(account, 1) if again else write(account, [9])
        assert [0, 1] == [each for each in numbers(account) if each < 9]
        head = log.refresh()
        assert head is not None and not plan_restore(log, head.version).is_needed


def test_what_is_committed_while_it_is_planned_is_removed_only_if_no_plan_was_shown() -> None:
    account = written()
    with pytest.raises(ConflictError, match="version 4 was written after the restore was planned. Stop the writers"):
        back_to(account, 1, planned=3)
    assert [0, 1, 2, 3, 4] == numbers(account)
    log = log_of(account)
    append_epoch(log, draft(3), Publisher(log.container))
    restore(log, 1, draft(3), Publisher(log.container), 4)
    assert [0, 1] == numbers(account)


def test_a_writer_that_is_first_is_restored_away_too() -> None:
    account = written()

    class Writes(FaultInjector):
        done = False

        def attempt(self, request: Any, send: Any) -> Any:
            if request.operation == "put" and request.name.endswith("05.json") and not self.done:
                self.done = True
                write(account, [9], 5)
            return super().attempt(request, send)

    entry = back_to(account, 1, Writes())
    assert entry is not None
    assert (6, 4) == (entry.version, len(entry.removed))
    assert [0, 1] == numbers(account)


def test_an_overwrite_that_cannot_be_published_is_voided_first() -> None:
    account = written(2)
    dying = account.restarted(FaultInjector(on("commit_block_list", Crash(), skip=1)))
    with pytest.raises(ProcessDied):
        write(dying, [9], overwrite=True)
    account.clock.sleep(8 * 24 * 3600.0)
    entry = back_to(account, 0)
    assert entry is not None
    assert ["overwrite", "void", "restore"] == [each.operation for each in log_of(account).history()[2:]]
    assert [0] == numbers(account)


def test_a_paused_process_learns_that_its_blobs_were_restored_away() -> None:
    account = written()
    log = log_of(account)
    log.refresh()
    entry = log.read(3)
    back_to(account, 1)
    assert Published(frozenset(blob.name for blob in entry.blobs)) == status_of(log, entry)
    assert Published() == status_of(log, log.read(1))


def test_a_follower_that_is_behind_leaves_out_what_was_restored_away() -> None:
    account = written()
    write(account, [5, 6], 5)
    back_to(account, 1)
    write(account, [9], 6)
    follower, found = Follower(log_of(account), 60.0, account.clock), []
    after = -1
    while after < 7:
        end = follower.latest(after, TriggerLimits(blobs=1))
        found += rows_in(follower.log, [blob for blob, _ in follower.blobs(after, end)])
        after = end
    assert [0, 1, 9] == found


def test_a_restore_is_neither_voided_nor_reverted() -> None:
    account = written()
    entry = back_to(account, 2)
    assert entry is not None
    log = log_of(account)
    with pytest.raises(ConflictError, match="it is published"):
        void_version(log, entry.version, draft(), Publisher(log.container))
    write(account, [5], 5)
    plan = plan_revert(log.container, "flights", Transaction("q", 0))
    assert [1, 2, 3, 4, 5] == plan.batches
    carry_out(log.container, plan, draft, Publisher(log.container))
    assert [0] == numbers(account)
    with pytest.raises(ConfigurationError, match="version 7 has deleted rows that it has"):
        back_to(account, 2)
    assert back_to(account, 0) is None


def test_a_blob_that_must_not_be_deleted_is_found_before_anything_is_committed() -> None:
    account = written()
    with pytest.raises(ConfigurationError, match="Nothing was committed. Grant the permission to delete"):
        back_to(account, 1, FaultInjector(on("delete", Refuse(), times=9)))
    assert 5 == len(log_of(account).history())


def test_a_version_that_a_vacuum_has_removed_is_not_found_and_one_that_it_has_cut_is_restored() -> None:
    account = new_account()
    for version in range(6):
        write(account, [version], version)
    log = log_of(account)
    plan = plan_vacuum(log, datetime.max.replace(tzinfo=NOON.tzinfo))
    vacuum(log.container, plan, lambda: "v")
    for version in range(6, 9):
        write(account, [version], version)
    with pytest.raises(NotFoundError, match="the oldest entry kept is 5, the newest 8"):
        back_to(account, 4)
    back_to(account, 6)
    assert [5, 6] == numbers(account)


def test_it_has_an_epoch_as_writers_have() -> None:
    account = written()
    log = log_of(account)
    append_epoch(log, draft(7), Publisher(log.container))
    with pytest.raises(FencedError, match="the stream is at epoch 7"):
        back_to(account, 1)
    restore(log, 1, draft(7), Publisher(log.container))
    assert [0, 1] == numbers(account)


def test_batch_logs_and_streams_without_a_log_are_refused() -> None:
    account = new_account()
    with pytest.raises(NotFoundError, match="there is none"):
        back_to(account, 0)
    plan = plan_of(ROWS, "container", streamColumn="stream")
    container = account.container("container")
    staged = [stage_rows(container, plan, [rows([1], ["flights"])])]
    committer(container, plan).commit(staged, Transaction("q", 0))
    log = CommitLog(container, "_batches/q")
    log.refresh()
    with pytest.raises(ConfigurationError, match="a batch log, which has no rows. Restore its streams"):
        restoration(log, 0)


def test_a_version_is_named_by_its_number_or_by_a_time() -> None:
    account = written()
    log = log_of(account)
    times = [datetime.fromisoformat(entry.timestamp) for entry in log.history()]
    assert [0, 1, 2, 3, 4] == [restored_version(log, None, time, account.clock) for time in times]
    assert 2 == restored_version(log, None, times[2].replace(tzinfo=None), account.clock)
    assert 3 == restored_version(log, 3, None)
    for version, time in ((None, None), (3, times[3])):
        with pytest.raises(ConfigurationError, match="to a version or to a time: give one of the two"):
            restored_version(log, version, time)


def test_the_iceberg_table_of_the_stream_is_brought_up_to_date() -> None:
    account = written()
    log = log_of(account)
    make_iceberg_table(log, "abfss://container@memory/", draft(), Publisher(log.container))
    back_to(account, 1)
    table = refresh_table(log, draft(), Publisher(log.container))
    assert table is not None
    assert (5, "2") == (table.version, table.snapshots[-1]["summary"]["total-records"])


# --- rows that were moved ---------------------------------------------------------------------------------------------


def move_rows(account: MemoryAccount, large: int = 1 << 20) -> None:
    """A compaction of all blobs, into blobs of so many bytes."""
    log = log_of(account)
    head = log.refresh()
    assert head is not None
    rules = CompactionRules(datetime.max.replace(tzinfo=NOON.tzinfo), small=1 << 20, large=large)
    compact(log, plan_compaction(log, rules, head.version), draft, Publisher(log.container, threads=1))


def test_a_blob_with_rows_of_later_versions_is_cut() -> None:
    account = written(4)
    move_rows(account)
    write(account, [5], 5)
    log = log_of(account)
    plan = plan_restore(log, 1).restoration
    assert (2, 3, 2) == (plan.rows_kept, plan.rows_removed, len(plan.removed))
    entry = back_to(account, 1)
    assert entry is not None
    (left,) = entry.blobs
    assert [0, 1] == numbers(account) == numbers(account, 1)
    assert [0] == numbers(account, 0)
    assert [0, 1] == [rows.version for rows in left.moved]
    move_rows(account)
    write(account, [6], 6)
    assert [0, 1, 6] == numbers(account)
    with pytest.raises(ConfigurationError, match="version 6 has deleted rows that it has"):
        back_to(account, 3)
    back_to(account, 0)
    assert [0] == numbers(account)


def test_a_blob_to_which_only_earlier_rows_were_moved_stays_as_it_is() -> None:
    account = written(2)
    move_rows(account)
    write(account, [3], 3)
    plan = plan_restore(log_of(account), 1).restoration
    assert (2, 1, ()) == (plan.rows_kept, plan.rows_removed, plan.cut)
    entry = back_to(account, 1, planned=3)
    assert entry is not None
    assert ((), 0) == (entry.blobs, entry.since)
    assert [0, 1] == numbers(account) == numbers(account, 1)
    follower = Follower(log_of(account), 60.0, account.clock)
    assert 4 == follower.latest(-1, TriggerLimits())
    for after, until, expected in ((-1, 0, [0]), (-1, 2, [0, 1]), (-1, 3, [0, 1]), (0, 3, [1]), (1, 3, []), (2, 4, [])):
        assert expected == rows_in(follower.log, [blob for blob, _ in follower.blobs(after, until)])


def test_a_compaction_is_no_batch_and_deletes_no_rows() -> None:
    account = written(3)
    write(account, [7], 3, overwrite=True)
    write(account, [8], 4)
    move_rows(account)
    assert back_to(account, 3, planned=4) is not None
    assert [7] == numbers(account)
    account = written(3)
    move_rows(account)
    write(account, [7], 4, overwrite=True)
    with pytest.raises(ConfigurationError, match="version 4 has deleted rows.*Restore version 4 or a later one"):
        back_to(account, 1)


@pytest.mark.parametrize("fault", [Crash(), Crash(after_effect=True), LostAnswer(), LateEffect(2)], ids=repr)
def test_a_cut_that_is_disturbed_at_any_request_and_run_again_changes_nothing(fault: Fault) -> None:
    def moved() -> MemoryAccount:
        account = written(3)
        move_rows(account)
        return account

    quiet = FaultInjector()
    back_to(moved(), 0, quiet)
    for number in range(1, quiet.count + 1):
        account, faults = moved(), FaultInjector(at(number, fault))
        with suppress(ProcessDied):
            back_to(account, 0, faults)
        faults.apply_late_effects()
        back_to(account, 0)
        assert [0] == numbers(account), f"request {number}"


def test_a_restore_whose_blob_cannot_be_published_is_voided_and_changes_nothing() -> None:
    account = written(3)
    move_rows(account)
    dying = FaultInjector(on("commit_block_list", Crash(), skip=1))  # the first is that of the compaction
    with pytest.raises(ProcessDied):
        back_to(account, 0, dying)
    account.clock.sleep(8 * 24 * 3600.0)
    write(account, [9])
    assert [0, 1, 2, 9] == numbers(account)
    assert ["restore", "void", "append"] == [entry.operation for entry in log_of(account).history()[4:]]
    back_to(account, 0)
    assert [0] == numbers(account)


def test_a_restore_that_is_voided_after_it_has_deleted_leaves_no_deleted_blob_in_the_log() -> None:
    account = written(3)
    move_rows(account)
    write(account, [4], 4)
    entry = back_to(account, 0)
    assert entry is not None
    account.container("container").delete(entry.blobs[0].name)
    account.clock.sleep(8 * 24 * 3600.0)
    write(account, [9])
    assert [9] == numbers(account)


@dataclass
class _Stream:
    """A stream, and by plain sets what each of its versions has. done: how often what has happened."""

    draws: random.Random
    account: MemoryAccount = field(default_factory=new_account)
    live: frozenset[int] = frozenset()
    at_version: list[frozenset[int]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    def happen(self, number: int) -> None:
        what = self.draws.choice(["write"] * 6 + ["compact"] * 4 + ["restore"] * 4 + ["overwrite"])
        if what == "write" or not self.at_version:
            self.live |= {number}
            write(self.account, [number], number)
        elif what == "overwrite":
            self.live = frozenset((number,))
            write(self.account, [number], number, overwrite=True)
        elif what == "compact":
            move_rows(self.account, self.draws.choice([1500, 1 << 20]))
        else:
            self.restore(self.draws.randrange(len(self.at_version)))
        head = log_of(self.account).refresh()
        assert head is not None
        self.at_version += [self.live] * (head.version + 1 - len(self.at_version))
        assert sorted(self.live) == numbers(self.account)
        if self.draws.random() < 0.3:
            checkpoints.make(log_of(self.account))

    def restore(self, version: int) -> None:
        try:
            entry = back_to(self.account, version)
        except ConfigurationError:
            assert not self.at_version[version] <= self.live
            self.done["refused"] += 1
            return
        assert self.at_version[version] <= self.live
        self.live = self.at_version[version]
        self.done["restored"] += entry is not None
        self.done["cut"] += entry is not None and bool(entry.blobs)

    def check_versions(self) -> None:
        """Each version of which all is live has the rows that it had."""
        for version, rows_then in enumerate(self.at_version):
            if rows_then <= self.live:
                assert sorted(rows_then) == numbers(self.account, version), version

    def check_follower(self, start: int) -> None:
        """A follower that has read up to a version reads what has come since then, and is live still."""
        follower, found, after = Follower(log_of(self.account), 60.0, self.account.clock), list[int](), start
        while after < len(self.at_version) - 1:
            end = follower.latest(after, TriggerLimits(self.draws.choice([None, 1, 3])))
            found += rows_in(follower.log, [blob for blob, _ in follower.blobs(after, end)])
            after = end
        assert sorted(self.live - self._at(start)) == sorted(found), start
        for until in range(start + 1, len(self.at_version)):
            expected = (self._at(until) - self._at(start)) & self.live
            got = rows_in(follower.log, [blob for blob, _ in follower.blobs(start, until)])
            assert sorted(expected) == got, (start, until)

    def _at(self, version: int) -> frozenset[int]:
        return self.at_version[version] if version >= 0 else frozenset()


def test_random_restores_beside_compactions_and_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Counter[str]()
    for seed in range(40):
        for name in ("FEW_ENTRIES", "MANY_ENTRIES"):
            monkeypatch.setattr(live_state, name, 0 if seed % 3 else 1000)
        monkeypatch.setattr(following, "_MANY", 2 if seed % 2 else 200)
        stream = _Stream(random.Random(seed))
        for number in range(stream.draws.choice([8, 16])):
            stream.happen(number)
        stream.check_versions()
        overwrites = (entry.version for entry in log_of(stream.account).history() if entry.operation == "overwrite")
        for start in range(max(overwrites, default=0) - 1, len(stream.at_version) - 1):
            stream.check_follower(start)
        done += stream.done
    assert min(done[each] for each in ("refused", "restored", "cut")) > 5, done
