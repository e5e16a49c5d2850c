"""Batches that are committed and cannot be published: they stop no writer for ever, and no row is visible twice."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import Crash, FaultInjector, NumberedAttempt, ProcessDied, Refuse, on
from azure_account.values import IF_ABSENT, BlobAttributes
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import ATTEMPT, DISCARDED, Draft, LogEntry, Transaction
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import is_data, log_name
from azureblob_source.log.publishing.fencing import publish_unless_fenced
from azureblob_source.log.publishing.publish import Publisher, Unpublishable
from azureblob_source.log.publishing.roll_forward import publish_committed
from azureblob_source.log.publishing.status import Voided, status_of
from azureblob_source.log.publishing.void import leave_out, void_version
from azureblob_source.maintenance.repair import missing_blobs, plan_repair
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read.snapshot import take_snapshot
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, FencedError
from tests.azureblob_source.log.committing import ROWS, WEEK_AND_A_DAY, committed, published, rows
from tests.azureblob_source.write.sink_rows import blob_rows, committer, new_account, plan_of, stage_rows, visible_blobs
from tests.scripted_clock import ActingClock

if TYPE_CHECKING:
    from typing import Any

    from azure_account.memory.account import MemoryAccount

QUERY = Transaction("q", 0)
NOW = "2026-01-01T00:00:00+00:00"
STREAMS = ["a", "b"]


def write(
    account: MemoryAccount,
    tasks: list[list[int]],
    transaction: Transaction | None = None,
    *,
    seed: int = 0,
    overwrite: bool = False,
    **options: Any,
) -> list[LogEntry]:
    """One batch of several tasks, by a process of its own."""
    container, plan = account.container("container"), plan_of(ROWS, **options)
    staged = [stage_rows(container, plan, [rows(task)], seed=100 * seed + at) for at, task in enumerate(tasks)]
    return committer(container, plan, seed).commit(staged, transaction, overwrite=overwrite)


def write_streams(account: MemoryAccount, numbers: list[int], transaction: Transaction, seed: int) -> list[LogEntry]:
    """One batch whose rows go to two streams."""
    container, plan = account.container("container"), plan_of(ROWS, "container", streamColumn="stream")
    streams = [STREAMS[n % 2] for n in numbers]
    staged = [stage_rows(container, plan, [rows(numbers, streams)], seed=seed)]
    return committer(container, plan, seed).commit(staged, transaction)


def log_of(account: MemoryAccount, stream: str = "flights") -> CommitLog:
    return CommitLog(account.container("container"), stream, readers=1, clock=account.clock)


def publisher(account: MemoryAccount) -> Publisher:
    return Publisher(account.container("container"), threads=1)


def numbers(account: MemoryAccount) -> list[int]:
    """What a reader sees who lists the blobs; it must be what the logs say."""
    blobs = visible_blobs(account)
    streams = {name.split("/")[0] for name in blobs}
    assert set(blobs) == {name for stream in streams for name in live_blobs(log_of(account, stream).history())}
    return sorted(row["n"] for data in blobs.values() for row in blob_rows(data))


def operations(account: MemoryAccount) -> list[str]:
    return [entry.operation for entry in log_of(account).history()]


def dies(account: MemoryAccount, operation: str, *, skip: int = 0) -> MemoryAccount:
    """The account as a process sees it that dies at a request for a data blob."""
    return account.restarted(FaultInjector(on(operation, Crash(), name=is_data, skip=skip)))


def draft(account: MemoryAccount) -> Draft:
    return Draft(f"w{account.clock.now()}", "2026-01-01T00:00:00+00:00")


# --- a replacement is published before the batch is acknowledged ------------------------------------------------------


def test_a_driver_that_finds_its_batch_replaced_publishes_the_replacement_before_it_acknowledges() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list"), [[1]], QUERY, seed=1)
    found = log_of(account).read(0)
    account.clock.sleep(WEEK_AND_A_DAY)
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list", skip=2), [[1]], QUERY, seed=2)
    assert ["append", "void", "replace"] == operations(account)
    assert {} == visible_blobs(account)
    late = Draft("late", found.timestamp, transaction=QUERY, blobs=found.blobs)
    entry = published(log_of(account), late, publisher(account))
    assert "replace" == entry.operation
    assert [1] == numbers(account)


def test_a_replacement_that_expires_too_is_replaced_by_the_next_run() -> None:
    account = new_account()
    for seed in range(3):
        with pytest.raises(ProcessDied):
            write(dies(account, "commit_block_list", skip=0 if seed == 0 else 2), [[1]], QUERY, seed=seed)
        account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [[1]], QUERY, seed=9)
    assert [1] == numbers(account)
    assert ["append", "void", "replace", "void", "replace", "void", "replace"] == operations(account)


def test_a_batch_entry_that_was_replaced_meanwhile_is_read_again() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write_streams(dies(account, "commit_block_list"), [0, 1], QUERY, 1)
    account.clock.sleep(WEEK_AND_A_DAY)
    for skip in range(2, 8):
        copy = dies(account, "commit_block_list", skip=skip)
        try:
            write_streams(copy, [0, 1], QUERY, 10 + skip)
        except ProcessDied:
            account.clock.sleep(WEEK_AND_A_DAY)
    write_streams(account, [0, 1], QUERY, 99)
    assert [0, 1] == numbers(account)


def test_a_part_that_was_voided_for_an_earlier_batch_entry_is_published_for_the_next_one() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write_streams(dies(account, "commit_block_list"), [0, 1], QUERY, 1)
    account.clock.sleep(WEEK_AND_A_DAY)
    publish_committed(log_of(account, "a"), draft(account), publisher(account))
    next_part = FaultInjector(on("put", Crash(), name=lambda name: name == log_name("a", 2)))
    with pytest.raises(ProcessDied):
        write_streams(account.restarted(next_part), [0, 1], QUERY, 2)
    second = log_of(account, "_batches/q").history()[-1]
    write_streams(account, [0, 1], QUERY, 3)
    assert [0, second.version] == [entry.version for entry in log_of(account, "_batches/q").history()]
    assert {blob.name for blob in second.blobs} == set(visible_blobs(account))
    assert [0, 1] == numbers(account)


def test_an_entry_that_was_voided_and_vacuumed_is_not_taken_for_published() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list"), [[1]], QUERY, seed=1)
    entry = log_of(account).read(0)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [[5]], Transaction("other", 0), seed=2)
    write(account, [[6]], Transaction("other", 1), seed=3)
    log = log_of(account)
    vacuum(log.container, plan_vacuum(log, datetime(9999, 1, 1, tzinfo=UTC)), lambda: "v", threads=1)
    assert 3 == log_of(account).first()
    assert Voided() == status_of(log_of(account), entry)
    write(account, [[1]], QUERY, seed=4)
    assert [1, 6] == numbers(account)


# --- what the service refuses -----------------------------------------------------------------------------------------


def refusing(account: MemoryAccount, operation: str, **when: Any) -> MemoryAccount:
    """The account with a service that refuses an operation on data blobs."""
    return account.restarted(FaultInjector(on(operation, Refuse(), **{"name": is_data, "times": 10**6, **when})))


def test_what_the_service_refuses_is_voided_by_its_own_writer_and_stops_no_other_writer() -> None:
    account = new_account()
    write(account, [[1]], Transaction("q", 0), seed=1)
    with pytest.raises(ConflictError, match=r"cannot be published.*403.*was voided"):
        write(refusing(account, "commit_block_list", skip=1, times=1), [[2], [3]], Transaction("q", 1), seed=2)
    assert [1] == numbers(account)
    write(account, [[9]], Transaction("other", 0), seed=3)
    write(account, [[2], [3]], Transaction("q", 1), seed=4)
    assert [1, 2, 3, 9] == numbers(account)


def test_tags_that_the_account_does_not_support_are_refused_before_anything_is_committed() -> None:
    account = new_account()
    with pytest.raises(ConfigurationError, match=r"trial blob.*403.*Nothing was committed\. Change the options `tags"):
        write(refusing(account, "put", name=lambda name: "_probe" in name), [[1]], QUERY, tags__class="raw")
    assert [] == operations(account)
    write(account, [[1]], QUERY, seed=2)
    assert [1] == numbers(account)


def test_an_overwrite_without_the_permission_to_delete_is_refused_before_it_is_committed() -> None:
    account = new_account()
    write(account, [[1]], seed=1)
    with pytest.raises(ConfigurationError, match="Grant the permission to delete; plain appends do not need it"):
        write(refusing(account, "delete", name=lambda _: True), [[2]], seed=2, overwrite=True)
    assert ["append"] == operations(account)
    write(refusing(account, "delete", name=lambda _: True), [[2]], seed=2)
    assert [1, 2] == numbers(account)


def leased(account: MemoryAccount) -> str:
    """A stream of one blob that is leased, and an overwrite that cannot delete it. The blob's name."""
    container = account.container("container")
    write(account, [[1]], seed=1)
    (name,) = visible_blobs(account)
    container.acquire_lease(name, "00000000-0000-0000-0000-000000000001", 60)
    with pytest.raises(ConflictError, match=r"version 1: delete blob .*Break its lease.*--void 1 --leave-blobs"):
        write(account, [[2]], seed=2, overwrite=True)
    return name


def test_a_leased_blob_that_an_overwrite_removes_is_an_error_and_deleted_once_the_lease_is_broken() -> None:
    account = new_account()
    name = leased(account)
    with pytest.raises(ConflictError, match="Break its lease"):
        write(account, [[3]], seed=3)
    account.container("container").break_lease(name)
    write(account, [[3]], seed=4)
    assert [2, 3] == numbers(account)


def test_old_blobs_that_cannot_be_deleted_can_be_left_visible_to_the_listing() -> None:
    account = new_account()
    name = leased(account)
    with pytest.raises(ConflictError, match="Break its lease"):
        void_version(log_of(account), 1, draft(account), publisher(account))
    void_version(log_of(account), 1, draft(account), publisher(account), leave_blobs=True)
    write(account, [[3]], seed=4)
    live = live_blobs(log_of(account).history())
    assert {name, *live} == set(visible_blobs(account))
    assert [2, 3] == sorted(row["n"] for each in live for row in blob_rows(visible_blobs(account)[each]))


def test_after_an_overwrite_is_voided_no_deleted_blob_is_live() -> None:
    account = new_account()
    write(account, [[1]], seed=1)
    write(account, [[2]], QUERY, seed=2, overwrite=True)
    (name,) = visible_blobs(account)
    account.container("container").delete(name)
    write(account, [[3]], seed=3)
    assert [3] == numbers(account)


def test_what_is_refused_here_and_published_by_another_driver_is_not_voided() -> None:
    account, plan = new_account(), plan_of(ROWS)
    staged = stage_rows(account.container("container"), plan, [rows([1])], seed=1)

    class Overtaken(Publisher):
        def publish(self, entry: LogEntry, stream: str) -> list[Unpublishable]:
            failed = super().publish(entry, stream)
            if failed:
                write(account, [[1]], QUERY, seed=2)
            return failed

    first = Draft("first", "2026-01-01T00:00:00+00:00", transaction=QUERY, blobs=staged.blobs)
    once = refusing(account, "commit_block_list", times=1)
    assert "append" == published(log_of(account), first, Overtaken(once.container("container"), threads=1)).operation
    assert [1] == numbers(account)
    assert ["append"] == operations(account)


def test_what_the_service_refuses_is_published_once_the_cause_is_corrected() -> None:
    account = new_account()
    with pytest.raises(ConfigurationError, match=r"publish version 0 .*403.*Correct the cause, then start the query"):
        write(refusing(account, "commit_block_list"), [[1]], QUERY, seed=1)
    with pytest.raises(ConflictError, match="finish version 0"):
        write(refusing(account, "commit_block_list"), [[9]], Transaction("other", 0), seed=2)
    write(account, [[1]], QUERY, seed=3)
    assert [1] == numbers(account)
    assert ["append"] == operations(account)


def test_a_writer_that_may_not_delete_goes_on_after_an_entry_without_any_visible_blob() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list"), [[1]], QUERY, seed=1)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(refusing(account, "delete"), [[2]], seed=2)
    assert [2] == numbers(account)


def test_an_empty_overwrite_is_tried_before_it_is_committed_too() -> None:
    account = new_account()
    write(account, [[1]], seed=1)
    with pytest.raises(ConfigurationError, match="Grant the permission to delete"):
        write(refusing(account, "delete", name=lambda _: True), [], seed=2, overwrite=True)
    assert ["append"] == operations(account)


def test_blobs_that_a_policy_protects_can_be_left_visible_to_the_listing_too() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list", skip=1), [[1], [2]], QUERY, seed=1)
    account.clock.sleep(WEEK_AND_A_DAY)
    protecting = refusing(account, "delete")
    with pytest.raises(ConfigurationError, match=r"lift the hold"):
        write(protecting, [[7]], seed=2)
    log = CommitLog(protecting.container("container"), "flights", readers=1)
    head = log.refresh()
    assert head is not None
    void_version(
        log, head.version, draft(account), Publisher(protecting.container("container"), threads=1), leave_blobs=True
    )
    write(protecting, [[7]], seed=3)
    assert 1 == len(live_blobs(log_of(account).history()))


# --- what was deleted, or changed, by hand ----------------------------------------------------------------------------


def test_a_young_version_that_lacks_a_blob_is_not_taken_for_expired() -> None:
    account = new_account()
    write(account, [[1], [2]], QUERY, seed=1)
    name = min(visible_blobs(account))
    account.container("container").delete(name)
    with pytest.raises(ConflictError, match=r"version 0 .*If a blob was deleted by hand, restore it.*--void 0"):
        write(account, [[3]], Transaction("other", 0), seed=2)
    assert 1 == len(visible_blobs(account))
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [[3]], Transaction("other", 0), seed=3)
    assert [3] == numbers(account)


@pytest.mark.parametrize("advice", ["restore", "its own writer", "void"])
def test_the_advice_for_a_version_that_lacks_a_blob_works(advice: str) -> None:
    account = new_account()
    container = account.container("container")
    write(account, [[1], [2]], QUERY, seed=1)
    name = min(visible_blobs(account))
    there = container.properties(name)
    assert there is not None
    data = container.get(name).data
    container.delete(name)
    with pytest.raises(ConflictError) as refused:
        write(account, [[3]], Transaction("other", 0), seed=2)
    match advice:
        case "restore":
            container.put(name, data, BlobAttributes(there.metadata))
        case "its own writer":
            write(account, [[1], [2]], QUERY, seed=3)
        case _:
            version = re.search(r"repair container/flights --void (\d+)`", str(refused.value))
            assert version is not None
            void_version(log_of(account), int(version[1]), draft(account), publisher(account))
    write(account, [[3]], Transaction("other", 0), seed=4)
    assert ([3] if advice == "void" else [1, 2, 3]) == numbers(account)


def test_a_blob_whose_metadata_another_tool_has_replaced_is_recognised_by_its_blocks() -> None:
    account = new_account()
    write(account, [[1]], QUERY, seed=1)
    (name,) = visible_blobs(account)
    blob = account.service._containers["container"][name]
    blob.attributes = BlobAttributes({"owner": "somebody"})
    write(account, [[2]], Transaction("other", 0), seed=2)
    assert [1, 2] == numbers(account)


def test_voiding_what_is_published_is_refused() -> None:
    account = new_account()
    write(account, [[1]], QUERY, seed=1)
    for seed in (2, 3):
        with pytest.raises(ConflictError, match="void version 0 .* it is published"):
            void_version(log_of(account), 0, draft(account), publisher(account))
        write(account, [[seed]], seed=seed)
    assert [1, 2, 3] == numbers(account)


def test_a_repair_that_was_interrupted_between_its_two_steps_leaves_no_version_unpublished() -> None:
    account, plan = new_account(), plan_of(ROWS)
    container = account.container("container")
    staged = stage_rows(container, plan, [rows([1])], seed=1)
    name = staged.blobs[0].name
    container.commit_block_list(name, [], BlobAttributes({ATTEMPT: DISCARDED}), condition=IF_ABSENT)
    with pytest.raises(ConflictError, match="run the batch again"):
        committer(container, plan).commit([staged], QUERY)
    write(account, [[1]], QUERY, seed=2)
    assert [1] == numbers(account)


# --- names ------------------------------------------------------------------------------------------------------------


def test_two_blobs_of_a_batch_with_one_name_are_found_before_the_batch_is_committed() -> None:
    account, plan = new_account(), plan_of(ROWS)
    container = account.container("container")
    one = stage_rows(container, plan, [rows([1])], seed=1)
    two = stage_rows(container, plan, [rows([2])], seed=2)
    (blob,) = two.blobs
    twin = replace(two, blobs=(replace(blob, name=one.blobs[0].name),))
    with pytest.raises(ConflictError, match=r"two tasks of this batch.*Nothing of this batch was committed"):
        committer(container, plan).commit([one, twin], QUERY)
    assert [] == operations(account)
    write(account, [[1], [2]], QUERY, seed=3)
    assert [1, 2] == numbers(account)


def test_over_many_streams_a_taken_name_is_found_before_the_batch_is_committed() -> None:
    account = new_account()
    plan = plan_of(ROWS, "container", streamColumn="stream", suffixRandomStringToBlobName=False)
    container, begun = account.container("container"), plan_of(ROWS, "container", streamColumn="stream")
    committer(container, begun, 1).commit([stage_rows(container, begun, [rows([0, 1], STREAMS)])], None)
    entries = [name for name in account.service.contents("container") if "/_log/" in name]
    staged = [stage_rows(container, plan, [rows([0, 1], STREAMS)], seed=1)]
    container.put(staged[0].blobs[0].name, b"precious")
    with pytest.raises(ConflictError, match=r"another blob has this name.*Nothing of this batch was committed"):
        committer(container, plan).commit(staged, QUERY)
    assert entries == [name for name in account.service.contents("container") if "/_log/" in name]


# --- overwriting ------------------------------------------------------------------------------------------------------


def test_the_repeat_of_a_voided_overwrite_deletes_nothing_before_its_own_blobs_are_visible() -> None:
    account = new_account()
    write(account, [[1]], seed=1)
    for seed, skip in ((2, 1), (3, 2)):
        with pytest.raises(ProcessDied):
            write(dies(account, "commit_block_list", skip=skip), [[2]], QUERY, seed=seed, overwrite=True)
        account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [[7]], seed=5)
    assert [1, 7] == numbers(account)
    write(account, [[2]], QUERY, seed=4, overwrite=True)
    assert [2] == numbers(account)


def test_overwriting_again_and_again_costs_the_same_each_time() -> None:
    account, plan = new_account(), plan_of(ROWS)
    faults = FaultInjector()
    container = account.restarted(faults).container("container")
    driver = committer(container, plan)
    costs = []
    for batch in range(40):
        before = faults.count
        staged = [stage_rows(container, plan, [rows([batch])], seed=batch)]
        driver.commit(staged, Transaction("q", batch), overwrite=True)
        costs.append(faults.count - before)
    assert max(costs[1:]) == min(costs[1:])
    assert [39] == numbers(account)


# --- fencing ----------------------------------------------------------------------------------------------------------


def test_a_batch_over_many_streams_that_one_of_them_refuses_is_published_in_none() -> None:
    account = new_account()
    container = account.container("container")
    write_streams(account, [0, 1], QUERY, 1)
    log = log_of(account, "b")
    committed(log, Draft("leader", "2026-01-01T00:00:00+00:00", "epoch", epoch=5), publisher(account))
    before = visible_blobs(account)
    with pytest.raises(AzureBlobError, match=r"at epoch 5.*Nothing of this batch was published"):
        write_streams(account, [2, 3], Transaction("q", 1), 2)
    assert before == visible_blobs(account)
    assert 1 == len(CommitLog(container, "_batches/q", readers=1).history())


def test_a_task_that_publishes_at_once_is_fenced_before_it_does() -> None:
    account, plan = new_account(), plan_of(ROWS, deliveryGuarantee="at-least-once", epoch=1)
    container = account.container("container")

    def publish_with(epoch: int) -> Any:
        log_of = cache(lambda stream: CommitLog(container, stream, readers=1))
        return publish_unless_fenced(log_of, publisher(account), plan.options.attributes, epoch)

    staged = stage_rows(container, plan, [rows([1])], seed=1, publish=publish_with(1))
    committer(container, plan).commit([staged], None)
    committed(log_of(account), Draft("leader", "2026-01-01T00:00:00+00:00", "epoch", epoch=2), publisher(account))
    with pytest.raises(FencedError, match=r"at epoch 2.*this writer has epoch 1.*stays visible"):
        stage_rows(container, plan, [rows([2])], seed=2, publish=publish_with(1))
    assert [1] == numbers(account)
    staged = stage_rows(container, plan, [rows([3])], seed=3, publish=publish_with(2))
    assert 2 == len(visible_blobs(account))
    with pytest.raises(FencedError, match=r"this writer has epoch 1.*its tasks have published stays visible") as fenced:
        committer(container, plan).commit([staged], None)
    assert "Nothing of this batch" not in str(fenced.value)


def test_blobs_that_were_deleted_by_hand_can_be_left_out_and_the_others_stay_live() -> None:
    account = new_account()
    container = account.container("container")
    (old,) = write(account, [[1]], Transaction("q", 0), seed=1)
    (new,) = write(account, [[2], [3]], Transaction("q", 1), seed=2)
    gone = {old.blobs[0], new.blobs[0]}
    for blob in gone:
        container.delete(blob.name)
    with pytest.raises(ConflictError, match="--leave-out-missing"):
        write(account, [[9]], Transaction("other", 0), seed=3)
    assert gone == set(missing_blobs(log_of(account)))
    leave_out(log_of(account), gone, draft(account), publisher(account))
    assert [] == missing_blobs(log_of(account))
    write(account, [[9]], Transaction("other", 0), seed=3)
    assert [3, 9] == numbers(account)


# --- a new leader -----------------------------------------------------------------------------------------------------


def torn(account: MemoryAccount, *, overwrite: bool = False) -> None:
    """A batch of epoch 1 that is visible in part: its driver died, and the visible blob was deleted by hand."""
    if overwrite:
        write(account, [[7]], Transaction("q", -1), seed=9, epoch=1)
    before = set(visible_blobs(account))
    dying = dies(account, "commit_block_list", skip=2)
    with pytest.raises(ProcessDied):
        write(dying, [[1], [2], [3]], QUERY, seed=1, epoch=1, overwrite=overwrite)
    name = min(set(visible_blobs(account)) - before)
    account.container("container").delete(name)


def lead(account: MemoryAccount, epoch: int) -> LogEntry:
    """What a new leader does before it starts the writer."""
    return append_epoch(log_of(account), Draft(f"leader-{epoch}", NOW, epoch=epoch), publisher(account))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_new_leader_opens_its_epoch_beside_a_torn_batch_and_its_writer_writes_that_again(overwrite: bool) -> None:
    account = new_account()
    torn(account, overwrite=overwrite)
    with pytest.raises(ConflictError, match=r"of its 3 blobs cannot be published.*start that writer again"):
        write(account, [[9]], Transaction("other", 0), seed=2, epoch=1)
    for epoch in (2, 3):  # the first leader dies before its writer starts
        entry = lead(account, epoch)
        assert ("epoch", epoch) == (entry.operation, entry.epoch)
        assert entry.version > entry.published_up_to + 1
    with pytest.raises(FencedError, match="at epoch 3"):
        write(account, [[1], [2], [3]], QUERY, seed=2, epoch=2, overwrite=overwrite)
    write(account, [[1], [2], [3]], QUERY, seed=3, epoch=3, overwrite=overwrite)
    assert [1, 2, 3] == numbers(account)
    write(account, [[4]], Transaction("q", 1), seed=4, epoch=3)
    assert [1, 2, 3, 4] == numbers(account)


def test_a_torn_overwrite_that_is_voided_after_an_epoch_was_opened_leaves_what_was_live_before() -> None:
    account = new_account()
    torn(account, overwrite=True)
    lead(account, 2)
    void_version(log_of(account), 1, replace(draft(account), epoch=2), publisher(account))
    assert [7] == numbers(account)
    head = log_of(account).refresh()
    assert head is not None
    assert 0 == head.since


def test_an_epoch_that_is_opened_again_publishes_what_was_committed_before_it() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list"), [[1]], QUERY, seed=1, epoch=1)
    with pytest.raises(ProcessDied):
        lead(dies(account, "commit_block_list"), 2)
    assert {} == visible_blobs(account)
    lead(account, 2)
    assert [1] == numbers(account)
    assert ["append", "epoch"] == operations(account)


@pytest.mark.parametrize("version", [None, 0])
def test_a_read_of_a_torn_batch_sees_its_void_after_an_epoch_was_opened(version: int | None) -> None:
    account = new_account()
    torn(account)
    log = log_of(account)

    def meanwhile(_: float) -> None:
        lead(account, 2)
        void_version(log_of(account), 0, replace(draft(account), epoch=2), publisher(account))

    snapshot = take_snapshot(log, version, ActingClock(meanwhile), publish_timeout=1.0)
    assert () == snapshot.blobs


# --- what another tool has put under a name ---------------------------------------------------------------------------


def committed_and_taken(account: MemoryAccount, **options: Any) -> str:
    """A batch whose driver died after it had committed it; then another tool puts a blob under its name."""
    with pytest.raises(ProcessDied):
        write(dies(account, "commit_block_list"), [[1, 2]], QUERY, seed=1, **options)
    (name,) = (blob.name for blob in log_of(account).read(0).blobs)
    account.container("container").put(name, b"precious", BlobAttributes({"owner": "another tool"}))
    return name


def test_a_repeat_does_not_delete_another_tools_blob_that_took_a_name_of_the_batch() -> None:
    account = new_account()
    name = committed_and_taken(account, suffixRandomStringToBlobName=False)
    container, plan = account.container("container"), plan_of(ROWS)
    staged = [stage_rows(container, plan, [rows([n])], seed=20 + n) for n in (1, 2)]
    committer(container, plan, 2).commit(staged, QUERY)
    assert b"precious" == account.service.contents("container").pop(name)
    container.delete(name)
    assert [1, 2] == numbers(account)


def test_a_repeat_over_many_streams_does_not_delete_another_tools_blob() -> None:
    account = new_account()
    with pytest.raises(ProcessDied):
        write_streams(dies(account, "commit_block_list"), [0, 1], QUERY, 1)
    name = log_of(account, "_batches/q").read(0).blobs[0].name
    container = account.container("container")
    container.put(name, b"precious")
    write_streams(account, [0, 1], QUERY, 2)
    assert b"precious" == container.get(name).data
    container.delete(name)
    assert [0, 1] == numbers(account)


def test_an_overwrite_does_not_delete_another_tools_blob_that_took_the_name_of_one_deleted_by_hand() -> None:
    account = new_account()
    write(account, [[1]], seed=1)
    (name,) = visible_blobs(account)
    container = account.container("container")
    container.delete(name)
    container.put(name, b"precious")
    write(account, [[2]], seed=2, overwrite=True)
    assert b"precious" == container.get(name).data


def test_a_repair_does_not_wait_for_another_tools_blob_to_go() -> None:
    account = new_account()
    name = committed_and_taken(account, suffixRandomStringToBlobName=False)
    write(account, [[1], [2]], QUERY, seed=2)
    container = account.container("container")
    assert plan_repair(container, None, datetime(9999, 1, 1, tzinfo=UTC)).is_empty
    assert b"precious" == container.get(name).data


def test_a_blob_that_was_put_again_before_its_delete_arrives_is_kept() -> None:
    account = new_account()
    write(account, [[1]], seed=1)
    (name,) = visible_blobs(account)
    container = account.container("container")

    def overtake(attempt: NumberedAttempt) -> None:
        if attempt.operation == "delete" and attempt.name == name:
            container.put(name, b"precious")

    write(account.restarted(FaultInjector(overtake)), [[2]], seed=2, overwrite=True)
    assert b"precious" == container.get(name).data
