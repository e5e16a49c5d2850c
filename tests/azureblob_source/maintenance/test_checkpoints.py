"""Checkpoints of a log: made by the command, compared with the entries, and deleted when nothing needs them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, FaultInjector, LateEffect, LostAnswer, ProcessDied, Throttle, at
from azureblob_source.log import live_state
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
from azureblob_source.log.checkpointing import make_checkpoint
from azureblob_source.log.commit import commit_entry
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.naming import (
    checkpoint_name,
    checkpoint_version,
    hint_name,
    manifest_name,
    manifest_version,
    metadata_prefix,
)
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.revert import revert
from azureblob_source.maintenance.checkpoints import make, unneeded, verify
from azureblob_source.maintenance.vacuum import VacuumPlan, plan_vacuum, vacuum
from foundation.errors import NotFoundError
from tests.azureblob_source.log.checkpointed import (
    DAY,
    STREAM,
    draft_of,
    log_of,
    names_by_entries,
    names_with_checkpoints,
    stream_of_days,
    write,
)
from tests.azureblob_source.write.sink_rows import new_account
from tests.histories.process import SteppedProcess

if TYPE_CHECKING:
    from azure_account.container import BlobContainer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _short_logs_are_read_by_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_state, "FEW_ENTRIES", 0)


def box(account: MemoryAccount, faults: FaultInjector | None = None) -> BlobContainer:
    return account.restarted(faults).container("container")


def run_vacuum(account: MemoryAccount, days: float, container: BlobContainer | None = None) -> VacuumPlan:
    """One process that vacuums what is older than so many days."""
    log = log_of(account, container)
    plan = plan_vacuum(log, EPOCH + timedelta(seconds=account.clock.now()) - timedelta(days=days))
    ids = itertools.count()
    vacuum(log.container, plan, lambda: f"{account.clock.now()}-{next(ids)}", threads=1)
    return plan


def checkpoints(account: MemoryAccount) -> list[int]:
    """The versions of the checkpoints that are there."""
    names = sorted(account.service.contents("container"))
    return [version for name in names if (version := checkpoint_version(name)) is not None]


def manifests(account: MemoryAccount) -> list[int]:
    """The versions of the checkpoints that have put the manifests that are there."""
    names = sorted(account.service.contents("container"))
    return [version for name in names if (version := manifest_version(name)) is not None]


def check_reads(account: MemoryAccount) -> None:
    """All versions that are kept read the same with and without checkpoints."""
    log = log_of(account)
    head, first = log.refresh(), log.first()
    assert head is not None
    assert first is not None
    for version in range(first, head.version + 1):
        assert names_by_entries(log, version) == names_with_checkpoints(log_of(account), version), f"version {version}"
    assert [] == [fault for each in verify(log_of(account), every=True) for fault in each.faults]


# --- making -----------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_made_at_the_newest_version_and_only_once() -> None:
    account = stream_of_days(6)
    done = make(log_of(account))
    assert (5, 6, True) == (done.checkpoint.version, done.checkpoint.blobs, done.made)
    before = account.service.contents("container")
    assert not make(log_of(account)).made
    assert before == account.service.contents("container")
    check_reads(account)


def test_a_batch_that_is_not_published_is_left_out() -> None:
    account = stream_of_days(3)
    container = account.container("container")
    entry = commit_entry(log_of(account), draft_of(container, 3), Publisher(container, threads=1))
    assert (3, 2) == (entry.version, make(log_of(account)).checkpoint.version)


def test_without_a_published_version_there_is_nothing_to_make() -> None:
    account = new_account()
    with pytest.raises(NotFoundError, match="there is none"):
        make(log_of(account))
    container = account.container("container")
    commit_entry(log_of(account), draft_of(container, 0), Publisher(container, threads=1))
    with pytest.raises(NotFoundError, match="no version is published yet"):
        make(log_of(account))


def test_a_damaged_checkpoint_is_made_again_and_a_lost_hint_is_put() -> None:
    account = stream_of_days(4)
    container = account.container("container")
    container.put(checkpoint_name(STREAM, 3), b"damaged")
    assert make(log_of(account)).made
    container.delete(hint_name(STREAM))
    assert not make(log_of(account)).made
    assert 3 == log_of(account).checkpoint_hint()
    check_reads(account)


def test_one_with_vacuumed_blobs_whose_manifest_is_damaged_is_made_again() -> None:
    """It was once tried again without end."""
    account = stream_of_days(8)
    run_vacuum(account, 1.5)
    for manifest in found_at(account, 7).manifests:
        account.container("container").put(manifest.name, b"damaged")
    assert make(log_of(account)).made
    assert all(each.whole for each in verify(log_of(account)))
    check_reads(account)


def test_a_rebuilt_checkpoint_is_made_from_the_entries_alone_and_keeps_the_ids_of_columns() -> None:
    account = stream_of_days(4)
    wrong = replace(found_at(account, 3), removers=(1,), manifests=(), field_ids={"n": 7})
    log_of(account).checkpoints.put(wrong, replaces=True)
    assert not make(log_of(account)).made, "it can be read"
    done = make(log_of(account), rebuild=True)
    assert (True, {"n": 7}) == (done.made, dict(done.checkpoint.field_ids))
    check_reads(account)


def test_a_writer_goes_on_after_a_vacuum_has_moved_the_boundary_above_its_checkpoint() -> None:
    account = stream_of_days(7)
    run_vacuum(account, 1.5)
    assert [3] == checkpoints(account), "the newest stays"
    write(account, account.container("container"), 7)
    assert [3, 7] == checkpoints(account)
    assert 2 == found_at(account, 7).blobs
    check_reads(account)


# --- comparing with the entries ---------------------------------------------------------------------------------------


def found_at(account: MemoryAccount, version: int) -> LogCheckpoint:
    found = log_of(account).checkpoints.find(version)
    assert found is not None
    return found


def test_checkpoints_of_a_stream_with_an_overwrite_a_revert_and_a_vacuum_are_whole() -> None:
    account = stream_of_days(14, overwrites=[5])
    container = account.container("container")
    draft = Draft("revert", "2026-01-01T00:00:00+00:00")
    revert(log_of(account), Transaction("q", 11), draft, Publisher(container, threads=1), planned=[12, 13])
    for batch in range(12, 17):
        write(account, container, batch)
    assert 15 < make(log_of(account)).checkpoint.version
    run_vacuum(account, 6)
    verified = verify(log_of(account), every=True)
    assert 2 < len(verified)
    assert sorted((each.version for each in verified), reverse=True) == [each.version for each in verified]
    check_reads(account)
    assert verified[:1] == verify(log_of(account))


def test_a_stream_without_checkpoints_has_none_to_compare() -> None:
    assert [] == verify(log_of(stream_of_days(2)))
    with pytest.raises(NotFoundError, match="there is none"):
        verify(log_of(new_account()))


def other_blobs(change: Callable[[dict[str, object]], dict[str, object] | None]) -> Callable[[CommitLog], None]:
    """Damage of the checkpoint at version 3: its only manifest has other rows."""

    def damage(log: CommitLog) -> None:
        found = log.checkpoints.find(3)
        assert found is not None
        table = log.checkpoints.read(found.manifests[0])
        rows = [changed for row in table.to_pylist() if (changed := change(row)) is not None]
        manifest = log.checkpoints.write(type(table).from_pylist(rows, table.schema), 3)
        log.checkpoints.put(replace(found, manifests=(manifest,)), replaces=True)

    return damage


def other_list(**changes: object) -> Callable[[CommitLog], None]:
    """Damage of the checkpoint at version 3: fields of it, or of its only manifest."""

    def damage(log: CommitLog) -> None:
        found = log.checkpoints.find(3)
        assert found is not None
        of_manifest = changes.get("manifest")
        if isinstance(of_manifest, dict):
            found = replace(found, manifests=(replace(found.manifests[0], **of_manifest),))
        else:
            found = replace(found, **changes)  # type: ignore[arg-type]
        log.checkpoints.put(found, replaces=True)

    return damage


def without_manifest(log: CommitLog) -> None:
    found = log.checkpoints.find(3)
    assert found is not None
    log.container.delete(found.manifests[0].name)


DAMAGES: dict[str, tuple[Callable[[CommitLog], object], str]] = {
    "blob missing": (other_blobs(lambda row: None if row["version"] == 1 else row), "avro is live, and the checkpoint"),
    "blob of another name": (other_blobs(lambda row: row | {"name": f"{row['name']}x"}), "avrox is not live"),
    "other rows": (other_blobs(lambda row: row | {"rows": 7}), r"rows of flights/.*avro is 7, by the entries 1"),
    "blob twice": (other_blobs(lambda row: row | {"name": f"{STREAM}/a.avro"}), "is there twice"),
    "versions": (other_list(manifest={"first": 1}), "has other blobs than the checkpoint says"),
    "times": (other_list(manifest={"latest": 1}), "has other blobs than the checkpoint says"),
    "bounds": (other_blobs(lambda row: row | {"lower_bounds": []}), "lower_bounds of flights/.*avro is "),
    "no manifests": (other_list(manifests=()), "avro is live, and the checkpoint has not"),
    "removers": (other_list(removers=(2,)), r"removers is \[2\], by the entries \[\]"),
    "other write": (other_list(write_id="x"), "write_id is 'x', by the entries"),
    "manifest gone": (without_manifest, "there is no such blob|BlobNotFound"),
    "damaged": (lambda log: log.container.put(checkpoint_name(STREAM, 3), b"x"), "it stops within the magic bytes"),
    "other log": (lambda log: log.container.put(checkpoint_name(STREAM, 9), b"x"), "the log has no such version"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_differs_from_the_entries_is_named(damage: str) -> None:
    account, (act, fault) = stream_of_days(5), DAMAGES[damage]
    act(log_of(account))
    [verified] = verify(log_of(account))
    assert not verified.whole
    assert re.search(fault, "\n".join(verified.faults)), verified.faults
    assert damage != "manifest gone" or len(verified.faults) == 1, "its blobs are not said to be missing too"


# --- what nothing needs any more --------------------------------------------------------------------------------------


def test_a_vacuum_deletes_the_checkpoints_below_the_boundary_and_their_manifests() -> None:
    account = stream_of_days(18)
    assert ([3, 7, 11, 15], [3, 7, 11, 15]) == (checkpoints(account), manifests(account))
    plan = run_vacuum(account, 6.5)
    assert 12 == plan.first
    assert ([15], [15]) == (checkpoints(account), manifests(account))
    assert 6 == len(plan.checkpoints)
    assert all(blob.size for blob in plan.checkpoints)
    assert run_vacuum(account, 6.5).is_empty
    check_reads(account)


def test_a_manifest_that_a_later_checkpoint_names_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("azureblob_source.log.checkpoint.building.OPEN_BLOBS", 4)
    account = stream_of_days(12)
    assert [3, 7, 11] == manifests(account)
    run_vacuum(account, 6.5)
    assert ([7, 11], [3, 7, 11]) == (checkpoints(account), manifests(account))
    run_vacuum(account, 3.5)
    assert ([11], [3, 7, 11]) == (checkpoints(account), manifests(account)), "that of 11 was put before the vacuum"
    for batch in range(12, 16):
        write(account, account.container("container"), batch)
        account.clock.sleep(DAY)
    run_vacuum(account, 4.5)
    assert ([15], [15, 15]) == (checkpoints(account), manifests(account)), "11 has lost a blob, and is put again"
    check_reads(account)


def test_files_of_other_names_stay() -> None:
    account = stream_of_days(10)
    others = ["v1.metadata.json", "version-hint.text", "m-7.avro", "old/snap-00000000000000000003.avro", "snap-x.avro"]
    for name in others:
        account.container("container").put(metadata_prefix(STREAM) + name, b"x")
    run_vacuum(account, 1.5)
    left = [name.removeprefix(metadata_prefix(STREAM)) for name in account.service.contents("container")]
    assert set(others) <= set(left)
    assert [7] == [each for each in checkpoints(account) if each != 3], "3 is the one in the folder `old`"


def test_manifests_stay_as_long_as_a_checkpoint_cannot_be_read() -> None:
    account = stream_of_days(10)
    container = account.container("container")
    container.put(checkpoint_name(STREAM, 7), b"of a newer release")
    container.put(manifest_name(STREAM, 2, "ff"), b"which it may name")
    run_vacuum(account, 3.5)
    assert ([3, 7], [2, 3, 7]) == (checkpoints(account), manifests(account))
    make(log_of(account), rebuild=True)
    account.clock.sleep(DAY)
    run_vacuum(account, 1.5)
    assert ([9], [9]) == (checkpoints(account), manifests(account))


def leftovers(account: MemoryAccount) -> list[str]:
    log = log_of(account)
    log.refresh()
    return [blob.name for blob in unneeded(log, log.kept_from)]


def changes_of_a_vacuum() -> list[int]:
    """The numbers of its requests that change something."""
    faults, account = FaultInjector(), stream_of_days(10)
    run_vacuum(account, 3.5, box(account, faults))
    return [attempt.number for attempt in faults.attempts if attempt.operation in ("put", "delete")]


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_vacuum_that_dies_at_any_change_has_deleted_nothing_that_is_needed(after_effect: bool) -> None:
    for n in changes_of_a_vacuum():
        account = stream_of_days(10)
        with pytest.raises(ProcessDied):
            run_vacuum(account, 3.5, box(account, FaultInjector(at(n, Crash(after_effect=after_effect)))))
        check_reads(account)
        run_vacuum(account, 3.5)
        check_reads(account)
        assert ([7], [7]) == (checkpoints(account), manifests(account)), f"attempt {n}"


@pytest.mark.parametrize("fault", [LostAnswer(), Throttle(1.0), LateEffect(2)])
def test_a_single_fault_at_any_change_leaves_nothing_over(fault: Fault) -> None:
    for n in changes_of_a_vacuum():
        account = stream_of_days(10)
        faults = FaultInjector(at(n, fault))
        run_vacuum(account, 3.5, box(account, faults))
        faults.apply_late_effects()
        assert ([7], [7]) == (checkpoints(account), manifests(account)), f"attempt {n}"
        check_reads(account)


def stepped(account: MemoryAccount, act: Callable[[BlobContainer], object]) -> SteppedProcess:
    """A process that rests before its first request."""
    process: SteppedProcess
    process = SteppedProcess(lambda: act(account.restarted(process).container("container")))
    process.step()
    return process


def run_between(act: Callable[[MemoryAccount, BlobContainer], object], between: Callable[[MemoryAccount], object],
                days: int) -> None:  # fmt: skip
    """Run a process over a stream of `days`, once for each of its requests with `between` just before that."""
    for n in itertools.count():
        account = stream_of_days(days)
        process = stepped(account, lambda container, account=account: act(account, container))  # type: ignore[misc]
        for _ in range(n):
            process.step()
        if process.ended:
            break
        between(account)
        process.finish()
        check_reads(account)
        account.clock.sleep(DAY)
        run_vacuum(account, 1.5)
        run_vacuum(account, 1.5)
        check_reads(account)
        assert [] == leftovers(account), f"before request {n}"
    assert n > 5, "the process has made requests"


def write_7(account: MemoryAccount, container: BlobContainer) -> None:
    write(account, container, 7)


def test_a_vacuum_beside_a_writer_that_puts_a_checkpoint() -> None:
    run_between(write_7, lambda account: run_vacuum(account, 1.5), days=7)


def test_a_writer_that_puts_a_checkpoint_beside_a_vacuum() -> None:
    run_between(
        lambda account, container: run_vacuum(account, 1.5, container),
        lambda account: write_7(account, account.container("container")),
        days=7,
    )


def test_a_vacuum_beside_a_checkpoint_that_is_rebuilt() -> None:
    run_between(
        lambda account, container: make(log_of(account, container), rebuild=True),
        lambda account: run_vacuum(account, 1.5),
        days=9,
    )


def test_a_writer_that_has_read_a_checkpoint_before_it_was_rebuilt_and_vacuumed_makes_the_next_one() -> None:
    account = stream_of_days(9)
    running = log_of(account)
    assert running.refresh() is not None
    assert running.checkpoints.find(7) is not None
    make(log_of(account), rebuild=True)
    make(log_of(account), rebuild=True)
    run_vacuum(account, 2.5)
    write(account, account.container("container"), 9)
    last = running.refresh()
    assert last is not None
    made = make_checkpoint(running, last)
    assert made is not None
    assert 9 == made.version
    check_reads(account)


def test_a_read_whose_checkpoint_is_vacuumed_meanwhile_goes_by_the_entries() -> None:
    expected = names_by_entries(log_of(stream_of_days(10)), 9)
    for n in itertools.count():
        account = stream_of_days(10)
        found: list[str] = []

        def read(container: BlobContainer, account: MemoryAccount = account, found: list[str] = found) -> None:
            found += names_with_checkpoints(log_of(account, container), 9)

        process = stepped(account, read)
        for _ in range(n):
            process.step()
        if process.ended:
            break
        run_vacuum(account, 3.5)
        process.finish()
        assert found in (expected, expected[7:]), f"before request {n}"
    assert n > 4, "the read has made requests"


def test_an_old_read_whose_manifest_is_gone_goes_by_the_entries() -> None:
    account = stream_of_days(10)
    log = log_of(account)
    state = live_state.live_state(log, 6)
    assert state.base is not None
    assert 3 == state.base.version
    run_vacuum(account, 5.5)
    assert names_by_entries(log_of(account), 6) == names_with_checkpoints(log, 6)
