from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import (
    Crash,
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    ProcessDied,
    Reset,
    Throttle,
    at,
)
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction
from azureblob_source.log.naming import blob_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.repair import RepairPlan, RepairResult, plan_repair, repair
from foundation.errors import FencedError
from tests.azureblob_source.log.committing import committed, published
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

DAY = 24 * 3600.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WHEN = "2026-01-01T00:00:00+00:00"


def staged(account: MemoryAccount, version: int, count: int = 2, stream: str = "flights") -> tuple[BlobEntry, ...]:
    names = [blob_name(stream, str(number), EPOCH, f"{version:08x}", ".avro") for number in range(count)]
    blobs = tuple(BlobEntry(name, stream, None, f"{version:016x}", 1, 5, 9, 9, "f", "end") for name in names)
    for blob in blobs:
        account.container("container").stage_block(blob.name, blob.block_ids[0], b"rows")
    return blobs


def draft(account: MemoryAccount, version: int, *, epoch: int | None = None) -> Draft:
    return Draft(f"w{version}", WHEN, transaction=Transaction("q", version), epoch=epoch,
                    blobs=staged(account, version))  # fmt: skip


def unpublished(account: MemoryAccount, *, publish: int = 0, epoch: int | None = None) -> LogEntry:
    """A stream of two entries: one is published, of the other only `publish` blobs, because its driver died."""
    container = account.container("container")
    log = CommitLog(container, "flights", readers=1)
    publisher = Publisher(container, threads=1)
    published(log, draft(account, 0, epoch=epoch), publisher)
    entry = committed(log, draft(account, 1, epoch=epoch), publisher)
    for blob in entry.blobs[:publish]:
        publisher.publish_blob(blob, entry.attributes)
    return entry


def plan(account: MemoryAccount, stream: str | None = None, age: float = DAY) -> RepairPlan:
    before = EPOCH + timedelta(seconds=account.clock.now() - age)
    return plan_repair(account.container("container"), stream, before)


def repaired(account: MemoryAccount, faults: FaultInjector | None = None, *, epoch: int | None = None) -> RepairResult:
    container = account.restarted(faults).container("container")
    ids = itertools.count()
    found = plan_repair(container, None, EPOCH + timedelta(seconds=account.clock.now() - DAY))
    return repair(container, found, lambda: Draft(f"repair-{id(found)}-{next(ids)}", WHEN, epoch=epoch),
                  Publisher(container, threads=1), leftovers=True)  # fmt: skip


def visible(account: MemoryAccount) -> list[str]:
    return [name for name in account.service.contents("container") if "/_log/" not in name]


def test_a_published_stream_needs_no_repair() -> None:
    account = new_account()
    published(CommitLog(account.container("container"), "flights"), draft(account, 0),
           Publisher(account.container("container")))  # fmt: skip
    assert RepairPlan(("flights",), (), (), ()) == plan(account)
    assert plan(account).is_empty


@pytest.mark.parametrize("published", [0, 1])
def test_a_committed_entry_that_is_not_published_is_published(published: int) -> None:
    account = new_account()
    entry = unpublished(account, publish=published)
    [found] = plan(account).unpublished
    names = tuple(blob.name for blob in entry.blobs)
    assert ("flights", 1, names[published:], ()) == (
        found.stream, found.entry.version, found.missing, found.lost
    )  # fmt: skip
    assert 2 + published == len(visible(account)), "a plan changes nothing"
    assert RepairResult(1, 0, 0) == repaired(account)
    assert 4 == len(visible(account))
    assert plan(account).is_empty


def test_an_entry_whose_blocks_have_expired_is_voided_and_its_repeat_writes_it_anew() -> None:
    account = new_account()
    entry = unpublished(account, publish=1)
    account.clock.sleep(8 * DAY)
    [found] = plan(account).unpublished
    assert (entry.blobs[1].name,) == found.missing == found.lost
    assert RepairResult(0, 1, 0) == repaired(account)
    assert 2 == len(visible(account))
    container = account.container("container")
    log = CommitLog(container, "flights", readers=1)
    assert ["append", "append", "void"] == [each.operation for each in log.history()]
    again = Draft("again", WHEN, transaction=Transaction("q", 1), blobs=staged(account, 9))
    assert "append" == published(log, again, Publisher(container, threads=1)).operation
    assert 4 == len(visible(account))


def test_a_stream_with_an_epoch_is_repaired_with_that_epoch() -> None:
    account = new_account()
    unpublished(account, epoch=3)
    with pytest.raises(FencedError, match="at epoch 3 .version 1 of its log., this writer carries none"):
        repaired(account)
    assert RepairResult(1, 0, 0) == repaired(account, epoch=3)


def test_leftovers_are_removed_when_they_are_old_enough() -> None:
    account = new_account()
    unpublished(account)
    account.clock.sleep(2 * DAY)
    old = sorted(blob.name for blob in staged(account, 5))
    account.clock.sleep(2 * DAY)
    young = sorted(blob.name for blob in staged(account, 6))
    account.container("container").stage_block("flights/upload-of-somebody-else.bin", "00", b"x")
    found = plan(account)
    assert old == [leftover.name for leftover in found.leftovers]
    assert young == [leftover.name for leftover in found.recent]
    assert RepairResult(1, 0, 2) == repaired(account)
    assert sorted([*young, "flights/upload-of-somebody-else.bin"]) == sorted(account.service.staged("container"))
    assert 4 == len(visible(account))


def test_leftovers_are_kept_unless_their_removal_is_requested() -> None:
    account = new_account()
    staged(account, 5)
    account.clock.sleep(2 * DAY)
    container = account.container("container")
    done = repair(container, plan(account), lambda: draft(account, 0), Publisher(container))
    assert RepairResult(0, 0, 0) == done
    assert 2 == len(account.service.staged("container"))


def test_a_blob_that_a_batch_entry_names_is_no_leftover() -> None:
    account = new_account()
    committed(
        CommitLog(account.container("container"), "_batches/q"),
        draft(account, 0),
        Publisher(account.container("container")),
    )
    account.clock.sleep(2 * DAY)
    found = plan(account)
    assert ((), (), ()) == (found.leftovers, found.recent, found.streams)


def test_a_blob_that_is_committed_after_the_plan_is_no_leftover() -> None:
    account = new_account()
    unpublished(account)
    late = draft(account, 2)
    account.clock.sleep(2 * DAY)
    container = account.container("container")
    found = plan(account)
    assert 2 == len(found.leftovers)
    committed(CommitLog(container, "flights", readers=1), late, Publisher(container, threads=1))
    assert 0 == repair(container, found, lambda: draft(account, 7), Publisher(container), leftovers=True).removed
    assert {blob.name for blob in late.blobs} <= set(visible(account)) | set(account.service.staged("container"))


def test_a_blob_that_was_published_after_the_plan_is_never_discarded() -> None:
    account = new_account()
    blobs = staged(account, 5)
    account.clock.sleep(2 * DAY)
    container, found = account.container("container"), plan(account)
    for blob in blobs:
        container.commit_block_list(blob.name, blob.block_ids)
    assert 0 == repair(container, found, lambda: draft(account, 7), Publisher(container), leftovers=True).removed
    assert sorted(blob.name for blob in blobs) == visible(account)


def test_a_blob_of_a_stream_whose_log_begins_after_the_plan_is_no_leftover() -> None:
    account = new_account()
    first = draft(account, 0)
    account.clock.sleep(2 * DAY)
    container, found = account.container("container"), plan(account)
    assert (2, ()) == (len(found.leftovers), found.streams)
    committed(CommitLog(container, "flights", readers=1), first, Publisher(container, threads=1))
    assert 0 == repair(container, found, lambda: draft(account, 7), Publisher(container), leftovers=True).removed


def test_a_revived_blob_is_deleted() -> None:
    account = new_account()
    container = account.container("container")
    lost = draft(account, 0)
    committed(CommitLog(container, "flights", readers=1), lost, Publisher(container, threads=1))
    account.clock.sleep(8 * DAY)
    published(CommitLog(container, "flights", readers=1), draft(account, 1), Publisher(container, threads=1))
    blob = lost.blobs[0]
    container.stage_block(blob.name, blob.block_ids[0], b"late")
    assert Publisher(container).publish_blob(blob, lost.attributes) is None
    assert [blob.name] == [revived.name for revived in plan(account).revived]
    assert RepairResult(0, 0, 0, 1) == repaired(account)
    assert plan(account).is_empty
    assert 2 == len(visible(account))


def test_one_stream_can_be_repaired_alone() -> None:
    account = new_account()
    unpublished(account)
    committed(CommitLog(account.container("container"), "other"),
           Draft("o", WHEN, blobs=staged(account, 3, stream="other")),
           Publisher(account.container("container")))  # fmt: skip
    assert ["other"] == [found.stream for found in plan(account, "other").unpublished]
    assert ["flights", "other"] == [found.stream for found in plan(account).unpublished]


def calls_of_a_repair() -> int:
    faults = FaultInjector()
    repaired(broken(), faults)
    return faults.count


def broken() -> MemoryAccount:
    account = new_account()
    unpublished(account, publish=1)
    account.clock.sleep(4 * DAY)
    staged(account, 5)
    account.clock.sleep(4 * DAY)
    return account


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_repair_that_dies_at_any_request_is_finished_by_the_next(after_effect: bool) -> None:
    for n in range(1, calls_of_a_repair() + 1):
        account = broken()
        with pytest.raises(ProcessDied):
            repaired(account, FaultInjector(at(n, Crash(after_effect=after_effect))))
        account.clock.sleep(2 * DAY)
        repaired(account)
        assert 2 == len(visible(account)), f"attempt {n}"
        assert {} == account.service.staged("container"), f"attempt {n}"
        assert plan(account).is_empty, f"attempt {n}"


@pytest.mark.parametrize("fault", [LostAnswer(), Reset(), Throttle(1.0), LateEffect(1), LateEffect(3)])
def test_after_a_single_fault_at_any_request_the_next_repair_finishes_everything(fault: Fault) -> None:
    for n in range(1, calls_of_a_repair() + 1):
        account = broken()
        faults = FaultInjector(at(n, fault))
        repaired(account, faults)
        faults.apply_late_effects()
        account.clock.sleep(2 * DAY)
        repaired(account)
        assert 2 == len(visible(account)), f"attempt {n}"
        assert plan(account).is_empty, f"attempt {n}"
