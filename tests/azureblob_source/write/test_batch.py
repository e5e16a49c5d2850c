from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
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
    Throttle,
    TimeOut,
    at,
    on,
)
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction
from azureblob_source.log.live import live_blobs
from azureblob_source.log.naming import is_data, log_name, schema_name
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.metrics import batch_metrics
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.write import batch as batch_module
from azureblob_source.write.staged_task import StagedTask
from foundation.errors import ConfigurationError, ConflictError, FencedError, TransientError
from tests.azureblob_source.log.committing import ROWS, WEEK_AND_A_DAY, kept, rows
from tests.azureblob_source.write.sink_rows import (
    blob_rows,
    committer,
    new_account,
    plan_of,
    stage_rows,
    survives,
    visible_blobs,
    visible_rows,
)
from tests.scripted_clock import ActingClock

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount


def write(
    account: MemoryAccount,
    numbers: list[int],
    transaction: Transaction | None = None,
    *,
    seed: int = 0,
    overwrite: bool = False,
    **options: Any,
) -> list[LogEntry]:
    """One batch, by a process of its own."""
    container, plan = account.container("container"), plan_of(ROWS, **options)
    staged = [stage_rows(container, plan, [rows(numbers)], seed=seed)] if numbers else []
    return committer(container, plan, seed).commit(staged, transaction, overwrite=overwrite)


def numbers_in(account: MemoryAccount) -> list[int]:
    return sorted(row["n"] for of_level in visible_rows(account).values() for row in of_level)


def history(account: MemoryAccount, stream: str = "flights") -> list[LogEntry]:
    return CommitLog(account.container("container"), stream, readers=1).history()


# --- one stream -------------------------------------------------------------------------------------------------------


def test_an_entry_has_blobs_metrics_writers_and_attributes() -> None:
    account = new_account()
    plan = plan_of(ROWS, metadata__owner="ops", tags__class="raw", accessTier="Cool")
    container = account.container("container")
    staged = [
        replace(stage_rows(container, plan, [rows([1, 2])], seed=1), writer={"task": 0}),
        StagedTask(metrics={"messagesSent": 0}, writer={"task": 1}),
        replace(stage_rows(container, plan, [rows([3])], seed=2), writer={"task": 2}),
    ]
    (entry,) = committer(container, plan).commit(staged, Transaction("q", 7))
    assert [entry] == history(account)
    assert staged[0].blobs + staged[2].blobs == entry.blobs
    assert [{"task": t, "metrics": staged[t].metrics} for t in (0, 2)] == list(entry.writers)
    assert (3, 2, 2) == tuple(entry.metrics[name] for name in ("messagesSent", "blockUploads", "blobCommits"))
    assert sum(map(len, visible_blobs(account).values())) == entry.metrics["bytesCompressed"]
    for name in visible_blobs(account):
        properties = container.properties(name)
        assert properties is not None
        assert ("ops", "Cool") == (properties.metadata["owner"], properties.tier)
        assert {"class": "raw"} == container.tags(name)


def test_the_writer_schema_is_put_before_and_after_the_first_commit_and_not_any_more() -> None:
    account, plan = new_account(), plan_of(ROWS)
    faults = FaultInjector()
    container = account.restarted(faults).container("container")
    driver = committer(container, plan)
    for batch in range(3):
        driver.commit([stage_rows(container, plan, [rows([batch])], seed=batch)], Transaction("q", batch))
    name = schema_name("flights", plan.avro.fingerprint)
    assert plan.avro.json.encode() == account.service.contents("container")[name]
    assert 2 == sum(attempt.name == name for attempt in faults.attempts)


def test_a_batch_whose_schema_cannot_be_put_again_is_committed_and_the_next_one_puts_it() -> None:
    account, plan = new_account(), plan_of(ROWS)
    name = schema_name("flights", plan.avro.fingerprint)
    faults = FaultInjector(on("put", Refuse(), name=lambda each: each == name, skip=1))
    container = account.restarted(faults).container("container")
    driver = committer(container, plan)
    for batch in range(3):
        assert 1 == len(driver.commit([stage_rows(container, plan, [rows([batch])], seed=batch)], None))
    assert 4 == sum(attempt.name == name for attempt in faults.attempts)


@pytest.mark.parametrize("fault", [TimeOut(), Reset(), LostAnswer(), Throttle(1.0), LateEffect(2)])
def test_the_schema_is_kept_even_if_answers_are_lost(fault: Fault) -> None:
    account, plan = new_account(), plan_of(ROWS)
    faults = FaultInjector(on("put", fault, name=lambda name: "_schemas" in name, times=2))
    container = account.restarted(faults).container("container")
    committer(container, plan).commit([stage_rows(container, plan, [rows([1])])], None)
    assert plan.avro == take_snapshot(CommitLog(account.container("container"), "flights"), None, no_wait).reader_schema


def test_a_schema_that_cannot_be_kept_stops_the_batch_before_it_is_committed() -> None:
    account, plan = new_account(), plan_of(ROWS)
    faults = FaultInjector(on("put", TimeOut(), name=lambda name: "_schemas" in name, times=100))
    container = account.restarted(faults).container("container")
    with pytest.raises(TransientError, match=r"put blob flights/_schemas/.*5 attempts.*Run the batch again"):
        committer(container, plan).commit([stage_rows(container, plan, [rows([1])])], None)
    assert {} == account.service.contents("container")


no_wait = ActingClock(lambda seconds: pytest.fail(f"waited for {seconds} s"))


def test_a_batch_without_rows_leaves_no_entry() -> None:
    account = new_account()
    assert [] == write(account, [], Transaction("q", 0))
    assert {} == account.service.contents("container")


def test_a_repeated_batch_is_the_first_one_whatever_is_staged_the_second_time() -> None:
    account = new_account()
    first = write(account, [1, 2, 3], Transaction("q", 0), seed=1)
    assert first == write(account, [1, 2], Transaction("q", 0), seed=2)
    assert [1, 2, 3] == numbers_in(account)
    assert 1 == len(history(account))


def test_a_batch_older_than_the_last_one_of_its_transaction_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    account = new_account()
    write(account, [1], Transaction("app", 5), seed=1)
    write(account, [2], Transaction("app", 3), seed=2, txnAppId="app", txnVersion=3)
    assert [1] == numbers_in(account)
    assert "batch 3 of app was committed before batch 5" in caplog.text


def test_a_query_whose_checkpoint_was_set_back_is_stopped_and_not_ignored() -> None:
    account = new_account()
    for batch in range(3):
        write(account, [batch], Transaction("q", batch), seed=batch)
    with pytest.raises(ConflictError, match=r"batch 1 of query q failed: the log has batch 2 .* version 2.*checkpoint"):
        write(account, [7], Transaction("q", 1), seed=7)
    write(account, [7], Transaction("new checkpoint", 0), seed=8)
    assert [0, 1, 2, 7] == numbers_in(account)


def test_a_repeat_with_another_number_of_rows_is_logged_as_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    account = new_account()
    write(account, [1, 2], Transaction("q", 0), seed=1)
    write(account, [1, 2], Transaction("q", 0), seed=2)
    assert "" == caplog.text
    write(account, [1, 2, 3], Transaction("q", 0), seed=3)
    assert "batch 0 of q was committed with 2 rows; this attempt has 3" in caplog.text
    assert [1, 2] == numbers_in(account)


def test_a_repeat_without_rows_publishes_what_was_committed() -> None:
    account = new_account()
    commit_and_die(account, [1, 2], Transaction("q", 0), 1)
    (entry,) = write(account, [], Transaction("q", 0), seed=2)
    assert 2 == entry.rows
    assert [1, 2] == numbers_in(account)
    assert [] == write(account, [], Transaction("q", 1), seed=3)
    assert 1 == len(history(account))


def test_a_repeat_without_rows_replaces_what_has_expired_by_nothing() -> None:
    account = new_account()
    commit_and_die(account, [1, 2], Transaction("q", 0), 1)
    account.clock.sleep(WEEK_AND_A_DAY)
    (entry,) = write(account, [], Transaction("q", 0), seed=2)
    assert ("replace", 0) == (entry.operation, entry.rows)
    assert [] == numbers_in(account)
    assert [entry] == write(account, [], Transaction("q", 0), seed=3)


def test_an_old_version_never_replaces_a_newer_one_that_has_expired() -> None:
    account = new_account()
    write(account, [3], Transaction("app", 3), seed=1)
    commit_and_die(account, [5], Transaction("app", 5), 2)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [3], Transaction("app", 3), seed=3, txnAppId="app", txnVersion=3)
    assert [3] == numbers_in(account)
    write(account, [5], Transaction("app", 5), seed=4, txnAppId="app", txnVersion=5)
    assert [3, 5] == numbers_in(account)


def test_transactions_of_other_applications_and_writes_without_one_are_independent() -> None:
    account = new_account()
    write(account, [1], Transaction("one", 5), seed=1)
    write(account, [2], Transaction("two", 5), seed=2)
    write(account, [3], seed=3)
    write(account, [4], seed=4)
    assert [1, 2, 3, 4] == numbers_in(account)


def test_at_least_once_repeats_the_rows_of_a_repeated_batch() -> None:
    account = new_account()
    for seed in (1, 2):
        write(account, [1, 2], Transaction("q", 0), seed=seed, deliveryGuarantee="at-least-once")
    assert [1, 1, 2, 2] == numbers_in(account)
    assert 2 == len(history(account))


def test_at_least_once_without_suffix_commits_the_blobs_that_its_tasks_have_published() -> None:
    account = new_account()
    plan = plan_of(ROWS, deliveryGuarantee="at-least-once", suffixRandomStringToBlobName=False)
    container = account.container("container")

    def publish(blob: BlobEntry) -> None:
        assert Publisher(container).publish_blob(blob, plan.options.attributes) is None

    staged = stage_rows(container, plan, [rows([1, 2])], publish=publish)
    (entry,) = committer(container, plan).commit([staged], None)
    assert list(visible_blobs(account)) == [blob.name for blob in entry.blobs]
    assert [1, 2] == numbers_in(account)


# --- overwriting ------------------------------------------------------------------------------------------------------


def test_overwriting_replaces_all_earlier_blobs_of_the_stream() -> None:
    account = new_account()
    write(account, [1], Transaction("q", 0), seed=1)
    write(account, [2], Transaction("q", 1), seed=2)
    (entry,) = write(account, [3], seed=3, overwrite=True)
    assert ("overwrite", 2) == (entry.operation, len(entry.removed))
    assert [3] == numbers_in(account)
    assert {blob.name for blob in entry.blobs} == set(live_blobs(history(account)))
    write(account, [4], seed=4)
    assert [3, 4] == numbers_in(account)


def test_overwriting_with_no_rows_empties_the_stream() -> None:
    account = new_account()
    write(account, [1], seed=1)
    write(account, [], overwrite=True)
    assert {} == visible_blobs(account)
    snapshot = take_snapshot(CommitLog(account.container("container"), "flights"), None, no_wait)
    assert ((), plan_of(ROWS).avro) == (snapshot.blobs, snapshot.reader_schema)


def test_a_batch_that_was_overwritten_is_not_written_again_by_its_repeat() -> None:
    account = new_account()
    write(account, [1], Transaction("q", 0), seed=1)
    write(account, [2], seed=2, overwrite=True)
    write(account, [1], Transaction("q", 0), seed=3)
    assert [2] == numbers_in(account)


def test_an_overwrite_that_dies_before_it_removes_is_finished_by_the_next_writer() -> None:
    account = new_account()
    write(account, [1], seed=1)
    dying = account.restarted(FaultInjector(on("delete", Crash(), name=is_data)))
    with pytest.raises(ProcessDied):
        write(dying, [2], seed=2, overwrite=True)
    assert [1, 2] == numbers_in(account)
    write(account, [3], seed=3)
    assert [2, 3] == numbers_in(account)


# --- names without suffix (P4) ----------------------------------------------------------------------------------------


def test_without_suffix_a_name_that_is_taken_is_an_error_and_nothing_is_lost() -> None:
    account = new_account()
    write(account, [1], Transaction("q", 0), seed=1, suffixRandomStringToBlobName=False)
    with pytest.raises(ConflictError, match=r"another blob has this name.*suffixRandomStringToBlobName"):
        write(account, [2], Transaction("q", 1), seed=2, suffixRandomStringToBlobName=False)
    assert [1] == numbers_in(account)
    assert 1 == len(history(account))


def test_without_suffix_two_tasks_with_one_name_are_an_error() -> None:
    account, plan = new_account(), plan_of(ROWS, suffixRandomStringToBlobName=False)
    container = account.container("container")
    staged = [stage_rows(container, plan, [rows([n])], seed=n) for n in (1, 2)]
    with pytest.raises(ConflictError, match=r"two tasks of this batch gave it.*suffixRandomStringToBlobName"):
        committer(container, plan).commit(staged, Transaction("q", 0))
    assert {} == visible_blobs(account)
    assert [] == history(account)


def test_a_foreign_blob_of_the_same_name_is_left_as_it_is() -> None:
    account, plan = new_account(), plan_of(ROWS)
    container = account.container("container")
    write(account, [0], seed=1)
    staged = stage_rows(container, plan, [rows([1])])
    container.put(staged.blobs[0].name, b"precious")
    with pytest.raises(ConflictError, match=r"another writer's blob has this name.*was voided.*run the"):
        committer(container, plan).commit([staged], Transaction("q", 0))
    assert b"precious" == account.service.contents("container")[staged.blobs[0].name]
    write(account, [1], Transaction("q", 0), seed=2)
    write(account, [2], Transaction("q", 1), seed=3)
    assert {"append", "void"} == {entry.operation for entry in history(account)}
    container.delete(staged.blobs[0].name)
    assert [0, 1, 2] == numbers_in(account)


# --- epochs (P5) ------------------------------------------------------------------------------------------------------


def open_for(account: MemoryAccount, epoch: int) -> LogEntry:
    container = account.container("container")
    draft = Draft(f"open-{epoch}", "2013-01-31T12:00:05+00:00", epoch=epoch)
    return kept(append_epoch(CommitLog(container, "flights", readers=1), draft, Publisher(container)))


def test_a_writer_of_an_older_epoch_is_fenced_and_publishes_nothing() -> None:
    account = new_account()
    old_plan = plan_of(ROWS, epoch=1)
    old = committer(account.container("container"), old_plan)
    container = account.container("container")
    old.commit([stage_rows(container, old_plan, [rows([1])], seed=1)], Transaction("q", 0))
    write(account, [2], Transaction("q", 1), seed=2, epoch=2)
    staged = stage_rows(container, old_plan, [rows([3])], seed=3)
    for _ in range(2):
        with pytest.raises(FencedError, match=r"flights in .* is at epoch 2 .version 1 of its log., this writer has"):
            old.commit([staged], Transaction("q", 2))
    assert [1, 2] == numbers_in(account)
    assert 2 == len(history(account))


def test_a_guarded_stream_refuses_a_writer_without_epoch() -> None:
    account = new_account()
    write(account, [1], seed=1, epoch=0)
    with pytest.raises(FencedError, match="is at epoch 0 .version 0 of its log., this writer carries none"):
        write(account, [2], seed=2)
    assert [1] == numbers_in(account)


def test_opening_an_epoch_fences_older_writers_before_any_row_is_written() -> None:
    account = new_account()
    write(account, [1], Transaction("q", 0), seed=1, epoch=1)
    opened = open_for(account, 2)
    assert ("epoch", 2, 1, ()) == (opened.operation, opened.epoch, opened.version, opened.blobs)
    with pytest.raises(FencedError):
        write(account, [2], Transaction("q", 1), seed=2, epoch=1)
    with pytest.raises(FencedError):
        open_for(account, 1)
    assert opened == open_for(account, 2)
    write(account, [3], Transaction("q", 1), seed=3, epoch=2)
    assert [1, 3] == numbers_in(account)


def test_opening_an_epoch_publishes_what_the_old_leader_had_committed() -> None:
    account = new_account()
    dying = account.restarted(FaultInjector(on("commit_block_list", Crash())))
    with pytest.raises(ProcessDied):
        write(dying, [1], Transaction("q", 0), seed=1, epoch=1)
    assert [] == numbers_in(account)
    open_for(account, 2)
    assert [1] == numbers_in(account)


# --- expired blocks (P6) ----------------------------------------------------------------------------------------------


def commit_and_die(
    account: MemoryAccount, numbers: list[int], transaction: Transaction, seed: int, *, overwrite: bool = False
) -> None:
    dying = account.restarted(FaultInjector(on("commit_block_list", Crash(), skip=1 if overwrite else 0)))
    with pytest.raises(ProcessDied):
        write(dying, numbers, transaction, seed=seed, overwrite=overwrite)


def test_an_expired_batch_is_voided_by_another_writer_and_replaced_by_its_own_repeat() -> None:
    account = new_account()
    commit_and_die(account, [1, 2], Transaction("q", 0), 1)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [9], Transaction("other", 0), seed=2)
    assert [9] == numbers_in(account)
    write(account, [1, 2], Transaction("q", 0), seed=3)
    assert [1, 2, 9] == numbers_in(account)
    operations = [(entry.operation, entry.replaces) for entry in history(account)]
    assert [("append", None), ("void", 0), ("append", None), ("append", None)] == operations
    live = live_blobs(history(account))
    assert set(visible_blobs(account)) == set(live)


def test_an_expired_overwrite_is_replaced_with_all_that_it_was_to_remove() -> None:
    account = new_account()
    write(account, [1], seed=1)
    commit_and_die(account, [2, 3], Transaction("app", 0), 2, overwrite=True)
    assert [1] == numbers_in(account)
    assert "overwrite" == history(account)[-1].operation
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [2, 3], Transaction("app", 0), seed=3, overwrite=True)
    assert [2, 3] == numbers_in(account)
    assert set(visible_blobs(account)) == set(live_blobs(history(account)))


def test_an_overwrite_that_is_voided_has_overwritten_nothing() -> None:
    account = new_account()
    write(account, [1], seed=1)
    commit_and_die(account, [2, 3], Transaction("app", 0), 2, overwrite=True)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [9], seed=3)
    assert ["append", "overwrite", "void", "append"] == [entry.operation for entry in history(account)]
    assert [1, 9] == numbers_in(account)
    snapshot = take_snapshot(CommitLog(account.container("container"), "flights"), None, no_wait)
    assert set(visible_blobs(account)) == {blob.name for blob in snapshot.blobs}
    write(account, [4], seed=4, overwrite=True)
    assert [4] == numbers_in(account)


def test_the_error_for_an_expired_batch_asks_its_own_writer_to_run_it_again() -> None:
    account, plan = new_account(), plan_of(ROWS)
    container = account.container("container")
    staged = stage_rows(container, plan, [rows([1])])
    account.clock.sleep(WEEK_AND_A_DAY)
    with pytest.raises(ConflictError, match=r"1 of its 1 blobs.*its staged blocks are gone.*run the batch again"):
        committer(container, plan).commit([staged], Transaction("q", 0))
    write(account, [1], Transaction("q", 0), seed=2)
    assert [1] == numbers_in(account)


# --- several streams --------------------------------------------------------------------------------------------------

STREAMS = ["a", "b/c", "d"]
NUMBERS = list(range(6))


def spread(shift: int) -> pa.RecordBatch:
    """The same rows, sent to other streams by every repeat of the query, as a random or clock-bound column would."""
    return rows(NUMBERS, [STREAMS[(n + shift) % (2 + shift % 2)] for n in NUMBERS])


def by_stream(account: MemoryAccount) -> dict[str, list[int]]:
    return {stream: [row["n"] for row in of_stream] for stream, of_stream in visible_rows(account).items()}


def run_batch(account: MemoryAccount, faults: FaultInjector, run: int, batch: int = 0) -> bool:
    """One process of the query: True if it lived to the end of the batch. It repeats the batch on an error."""
    container = account.restarted(faults).container("container")
    plan = plan_of(ROWS, "container", streamColumn="stream", threadPoolCount=1)

    def commit_batch(repeat: int) -> None:
        staged = stage_rows(container, plan, [spread(run + repeat)], seed=100 * run + repeat)
        driver = committer(container, plan, seed=100 * run + repeat + (49 if repeat else 0))
        driver.commit([staged], Transaction("q", batch))
        faults.apply_late_effects()

    return survives(commit_batch)


def test_rows_that_name_their_streams_are_committed_to_each() -> None:
    account = new_account()
    assert run_batch(account, FaultInjector(), 0)
    assert {"a": [0, 2, 4], "b/c": [1, 3, 5]} == by_stream(account)
    for stream in ("a", "b/c"):
        (entry,) = history(account, stream)
        assert {stream} == {blob.stream for blob in entry.blobs}
        assert batch_metrics(entry.blobs) == entry.metrics
    (entry,) = history(account, "_batches/q")
    assert {"a", "b/c"} == {blob.stream for blob in entry.blobs}


def test_what_a_writer_says_of_a_batch_is_in_all_its_entries_and_in_no_other() -> None:
    account = new_account()

    def run(number: int, info: str, faults: FaultInjector) -> bool:
        plan = plan_of(ROWS, "container", streamColumn="stream", commitInfo=info)
        container = account.restarted(faults).container("container")
        staged = stage_rows(container, plan, [rows([1, 2], ["a", "b"])], seed=number)
        return survives(lambda _: committer(container, plan, number).commit([staged], Transaction("q", 0)))

    assert not run(0, "back-fill", FaultInjector(on("put", Crash(), name=lambda name: name.startswith("a/_log"))))
    assert run(1, "another try", FaultInjector())
    assert ["back-fill"] * 3 == [history(account, each)[0].commit_info for each in ("_batches/q", "a", "b")]


def test_a_void_does_not_say_what_the_writer_of_the_next_batch_says_of_that() -> None:
    account = new_account()
    commit_and_die(account, [1], Transaction("q", 0), 1)
    account.clock.sleep(WEEK_AND_A_DAY)
    write(account, [9], seed=2, commitInfo="late rows")
    write(account, [1], Transaction("q", 0), seed=3)
    assert [None, None, "late rows", None] == [entry.commit_info for entry in history(account)]


def test_a_batch_fails_when_no_stream_is_committed_any_more() -> None:
    """Else a repeat of the batch would run beside what this one has left."""

    class Slow(FaultInjector):
        running, refused, ended = threading.Event(), threading.Event(), threading.Event()

        def attempt(self, request: Any, send: Any) -> Any:
            match request.operation, request.name:
                case "put", "a/_log/00000000000000000000.json":
                    assert self.running.wait(60)
                    self.refused.set()
                case "put", "b/c/_log/00000000000000000000.json":
                    self.running.set()
                    assert self.refused.wait(60)
                    threading.Event().wait(0.2)  # as long as the error of the other stream needs to arrive
                    self.ended.set()
            return super().attempt(request, send)

    account = new_account()
    slow = Slow(on("put", Refuse(), name=lambda name: name == log_name("a", 0)))
    container, plan = account.restarted(slow).container("container"), plan_of(ROWS, "container", streamColumn="stream")
    staged = stage_rows(container, plan, [spread(0)])
    with pytest.raises(ConfigurationError):
        committer(container, plan).commit([staged], None)
    assert slow.ended.is_set()


def test_a_stream_of_the_path_takes_rows_without_a_stream() -> None:
    account = new_account()
    plan = plan_of(ROWS, streamColumn="stream", dropRoutingColumns=True)
    batch = pa.record_batch([pa.array(["a", None], pa.string()), [1, 2]], schema=ROWS)
    container = account.container("container")
    committer(container, plan).commit([stage_rows(container, plan, [batch])], Transaction("q", 0))
    assert {"a": [{"n": 1}], "flights": [{"n": 2}]} == visible_rows(account)


def test_overwriting_by_stream_column_replaces_the_streams_that_the_rows_name() -> None:
    account = new_account()
    container, plan = account.container("container"), plan_of(ROWS, "container", streamColumn="stream")
    for seed, (overwrite, streams) in enumerate([(False, ["a", "b"]), (True, ["b", "b"])]):
        staged = stage_rows(container, plan, [rows([2 * seed, 2 * seed + 1], streams)], seed=seed)
        committer(container, plan, seed).commit([staged], None, overwrite=overwrite)
    assert {"a": [0], "b": [2, 3]} == by_stream(account)


def calls_of_a_batch() -> int:
    faults = FaultInjector()
    assert run_batch(new_account(), faults, 0)
    return faults.count


@pytest.mark.parametrize("expire", [False, True], ids=["at once", "after the blocks have expired"])
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_driver_of_many_streams_killed_at_any_request_writes_each_row_once(after_effect: bool, expire: bool) -> None:
    for n in range(1, calls_of_a_batch() + 1):
        account, run = new_account(), 0
        faults = FaultInjector(at(n, Crash(after_effect=after_effect)))
        while not run_batch(account, faults, run):
            assert set(Counter(numbers_in(account)).values()) <= {1}
            run += 1
            faults = FaultInjector()
            if expire:
                account.clock.sleep(WEEK_AND_A_DAY)
        assert NUMBERS == numbers_in(account), f"attempt {n}"
        check_logs(account)


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.long), 11])
@pytest.mark.parametrize("again", [False, True], ids=["then at once", "then expired again"])
def test_a_driver_that_dies_again_while_it_replaces_expired_blocks_writes_each_row_once(
    again: bool, every: int
) -> None:
    for first in range(6, calls_of_a_batch() + 1):
        for second in range(1 + first % every, 60, every):
            account = new_account()
            assert not run_batch(account, FaultInjector(at(first, Crash())), 0)
            account.clock.sleep(WEEK_AND_A_DAY)
            lived = run_batch(account, FaultInjector(at(second, Crash(after_effect=True))), 1)
            assert set(Counter(numbers_in(account)).values()) <= {1}
            if again:
                account.clock.sleep(WEEK_AND_A_DAY)
            assert lived or run_batch(account, FaultInjector(), 2)
            assert NUMBERS == numbers_in(account), f"attempts {first} and {second}"
            check_logs(account)
            if lived:
                break


def test_a_row_that_moves_to_another_stream_is_gone_from_the_old_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "_STREAMS_AT_ONCE", 1)
    account, plan = new_account(), plan_of(ROWS, "container", streamColumn="stream")
    visible: list[list[int]] = []

    class LooksAfterEachCall(FaultInjector):
        def attempt(self, request: Any, send: Any) -> Any:
            answer = super().attempt(request, send)
            visible.append(numbers_in(account))
            return answer

    for streams, faults in [
        (["y", "z"], LooksAfterEachCall(on("commit_block_list", Crash(), skip=1))),
        (["a", "b"], LooksAfterEachCall()),
    ]:
        container = account.restarted(faults).container("container")
        staged = stage_rows(account.container("container"), plan, [rows([1, 2], streams)], seed=len(visible))
        try:
            committer(container, plan, len(visible)).commit([staged], Transaction("q", 0))
        except ProcessDied:
            assert {"y": [1]} == by_stream(account)
        account.clock.sleep(WEEK_AND_A_DAY)
    assert {"a": [1], "b": [2]} == by_stream(account)
    assert [[], [1], [], [1], [1, 2]] == [seen for seen, _ in groupby(visible)]


@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), LateEffect(1), LateEffect(3)])
def test_a_fault_at_any_request_of_a_batch_of_many_streams_changes_nothing(fault: Fault) -> None:
    for n in range(1, calls_of_a_batch() + 1):
        account = new_account()
        assert run_batch(account, FaultInjector(at(n, fault)), 0)
        assert NUMBERS == numbers_in(account), f"attempt {n}"
        check_logs(account)


def check_logs(account: MemoryAccount) -> None:
    """Readers who follow the logs see what readers see who list the blobs."""
    live = {name for stream in STREAMS for name in live_blobs(history(account, stream))}
    assert set(visible_blobs(account)) == live


def test_an_old_batch_of_many_streams_that_comes_late_changes_nothing() -> None:
    account = new_account()
    for run, batch in enumerate([0, 1]):
        assert run_batch(account, FaultInjector(), run, batch)
    before = account.service.contents("container")
    container, plan = account.container("container"), plan_of(ROWS, "container", streamColumn="stream")
    staged = stage_rows(container, plan, [spread(7)], seed=7)
    with pytest.raises(ConflictError, match="the log has batch 1 of this query already"):
        committer(container, plan, 7).commit([staged], Transaction("q", 0))
    assert before == account.service.contents("container")


def test_a_batch_after_a_repeated_one_is_another_batch() -> None:
    account = new_account()
    for run, batch in enumerate([0, 0, 1, 1, 2]):
        assert run_batch(account, FaultInjector(), run, batch)
    assert sorted(3 * NUMBERS) == numbers_in(account)


# --- what is written is what is read ----------------------------------------------------------------------------------


def test_counters_of_a_batch_are_sums_over_its_blobs() -> None:
    blob = BlobEntry("n", "s", None, "a", 2, 10, 100, 50, "f", "end")
    totals = batch_metrics([blob, replace(blob, blocks=1, rows=5)])
    assert {
        "messagesSent": 15, "bytesSent": 200, "bytesCompressed": 100, "messageErrors": 0, "blockUploads": 3,
        "blobCommits": 2, "connectionErrors": 0,
    } == totals  # fmt: skip
    assert set(batch_metrics([]).values()) == {0}


def test_a_log_entry_is_plain_json_that_other_tools_can_read() -> None:
    account = new_account()
    (entry,) = write(account, [1, 2], Transaction("q", 0))
    document = json.loads(account.service.contents("container")[log_name("flights", 0)])
    assert 2 == sum(len(blob_rows(visible_blobs(account)[blob["name"]])) for blob in document["blobs"])
    assert entry.transactions["q"].version == document["transactions"]["q"][0]
