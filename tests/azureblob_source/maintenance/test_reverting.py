"""Batches are taken back and written again, each row once: whatever kills the revert, and wherever the query writes."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest
from _pytest.outcomes import Failed

from azure_account.memory.faults import (
    Crash,
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    ProcessDied,
    Reset,
    at,
)
from azure_account.retrying.retry_loop import Intercept
from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, Transaction
from azureblob_source.log.live import entries_in_effect
from azureblob_source.log.naming import batches_stream
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.repair import plan_repair
from azureblob_source.maintenance.reverting import RevertPlan, carry_out, plan_revert
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.read.following import Follower, TriggerLimits
from azureblob_source.read.snapshot import take_snapshot
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, FencedError, NotFoundError
from tests.azureblob_source.write.sink_rows import (
    NOON,
    blob_rows,
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
)
from tests.histories.mutants import both, edited, replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.memory.account import MemoryAccount
    from azure_account.memory.faults import NumberedAttempt
    from azure_account.retrying.retry_loop import Request
    from tests.histories.mutants import Mutant

ROWS = pa.schema([("stream", pa.string()), ("query", pa.string()), ("n", pa.int64())])
STREAMS = ("container/a", "container")
"""Where a query writes: to one stream, or to those that its rows name."""
seeds = itertools.count()
T = TypeVar("T")


def write(
    account: MemoryAccount,
    batch: int,
    numbers: Sequence[int],
    path: str = "container/a",
    query: str = "q",
    **given: object,
) -> None:
    """A driver process writes a batch; the rows go by turns to the streams a and b, if they name their stream."""
    container = account.restarted(None).container("container")
    named = {} if "/" in path else {"streamColumn": "stream"}
    plan, seed = plan_of(ROWS, path, **named, **given), next(seeds)
    rows = pa.record_batch([["ab"[n % 2] for n in numbers], [query] * len(numbers), list(numbers)], schema=ROWS)
    task = stage_rows(container, plan, [rows], seed=seed)
    overwrite = given.get("mode") == "overwrite"
    committer(container, plan, seed).commit([task], Transaction(query, batch), overwrite=overwrite)


def draft(epoch: int | None = None) -> Draft:
    return Draft(f"revert-{next(seeds)}", NOON.isoformat(), epoch=epoch)


def revert(
    account: MemoryAccount, after: int, faults: FaultInjector | None = None, stream: str = "a", **given: int | None
) -> RevertPlan:
    container = account.restarted(faults).container("container")
    plan = plan_revert(container, stream, Transaction("q", after))
    carry_out(container, plan, lambda: draft(**given), Publisher(container, threads=1))
    return plan


def numbers_in(account: MemoryAccount, query: str = "q") -> list[int]:
    """The rows of a query that readers of the listing see."""
    found = (row for data in visible_blobs(account).values() for row in blob_rows(data))
    return sorted(row["n"] for row in found if row["query"] == query)


def numbers_by_log(account: MemoryAccount, query: str = "q") -> list[int]:
    """Those that readers of the log see."""
    container, found = account.container("container"), []
    for stream in ("a", "b"):
        log = CommitLog(container, stream, readers=1)
        if log.refresh() is not None:
            blobs = take_snapshot(log, None, account.clock).blobs
            found += [row for blob in blobs for row in blob_rows(container.get(blob.name).data)]
    return sorted(row["n"] for row in found if row["query"] == query)


def written(path: str = "container/a", batches: int = 5) -> MemoryAccount:
    """Batches of ten rows of a query, among those of another one."""
    account = new_account()
    for batch in range(batches):
        write(account, batch, range(10 * batch, 10 * batch + 10), path)
        write(account, batch, [batch], "container/a", "other")
    return account


@pytest.mark.parametrize("path", STREAMS)
def test_a_query_that_was_set_back_writes_each_row_once(path: str) -> None:
    account = written(path)
    assert revert(account, 1).batches == [2, 3, 4]
    assert numbers_in(account) == numbers_by_log(account) == list(range(20))
    for batch, numbers in ((2, range(20, 27)), (3, range(27, 45)), (4, range(45, 50)), (5, range(50, 60))):
        write(account, batch, numbers, path)
    assert numbers_in(account) == numbers_by_log(account) == list(range(60))
    assert numbers_in(account, "other") == numbers_by_log(account, "other") == list(range(5))


@pytest.mark.parametrize("path", STREAMS)
def test_the_last_batch_that_stays_is_known_when_it_is_repeated(path: str) -> None:
    account = written(path)
    revert(account, 2)
    write(account, 2, range(20, 30), path)
    write(account, 3, range(30, 50), path)
    assert numbers_in(account) == numbers_by_log(account) == list(range(50))


def test_the_entries_that_are_taken_back_have_no_effect() -> None:
    account = written()
    revert(account, 1)
    log = CommitLog(account.container("container"), "a")
    in_effect = [entry.transaction for entry in entries_in_effect(log.history()) if entry.operation == "append"]
    assert [each.version for each in in_effect if each is not None and each.id == "q"] == [0, 1]
    assert len(in_effect) == 7


def test_all_of_a_query_can_be_taken_back() -> None:
    account = written()
    assert revert(account, -1).batches == [0, 1, 2, 3, 4]
    assert numbers_in(account) == numbers_by_log(account) == []
    write(account, 0, range(50), query="a new one")
    assert numbers_in(account, "a new one") == numbers_by_log(account, "a new one") == list(range(50))


@pytest.mark.parametrize("path", STREAMS)
def test_nothing_is_taken_back_twice(path: str) -> None:
    account = written(path)
    revert(account, 1)
    contents = account.service.contents("container")
    assert revert(account, 1).batches == revert(account, 7).batches == []
    assert account.service.contents("container") == contents


@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 1), (1, 2), (3, 1), (1, 3)])
def test_a_query_may_be_set_back_again(first: int, second: int) -> None:
    account = written()
    revert(account, first)
    for batch in range(first + 1, 5):
        write(account, batch, range(10 * batch, 10 * batch + 10))
    revert(account, second)
    assert numbers_in(account) == numbers_by_log(account) == list(range(10 * second + 10))
    for batch in range(second + 1, 5):
        write(account, batch, range(10 * batch, 10 * batch + 10))
    assert numbers_in(account) == numbers_by_log(account) == list(range(50))


FAULTS = (Crash(), Crash(after_effect=True), LostAnswer(), LateEffect(2), Reset())


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("fault", FAULTS, ids=repr)
def test_a_revert_that_is_disturbed_at_any_request_and_run_again_changes_nothing(path: str, fault: Fault) -> None:
    quiet = FaultInjector()
    revert(written(path, 3), 0, quiet)
    crashes = isinstance(fault, Crash)
    died = advised = 0
    for number in range(1, quiet.count + 1, 1 if crashes else 3):
        account, faults = written(path, 3), FaultInjector(at(number, fault))
        try:
            revert(account, 0, faults)
        except ProcessDied:
            died += 1
        faults.apply_late_effects()
        try:
            write(account, 1, range(10, 30, 2), path)
        except ConflictError as error:
            advised += "--query q --after 0`" in str(error)
            revert(account, 0)
            write(account, 1, range(10, 30, 2), path)
        expected = [*range(10), *range(10, 30, 2)]
        assert numbers_in(account) == numbers_by_log(account) == expected, f"request {number}"
        assert numbers_in(account, "other") == numbers_by_log(account, "other") == list(range(3))
    assert (died == quiet.count, advised > 10) == (crashes, crashes)


def test_the_entry_takes_all_batches_back_at_once() -> None:
    """Readers of the log see all of them, or none, whatever the revert does."""
    faults = FaultInjector()
    revert(written(), 1, faults)
    for number in range(1, faults.count + 1):
        account = written()
        with pytest.raises(ProcessDied):
            revert(account, 1, FaultInjector(at(number, Crash(after_effect=True))))
        log = CommitLog(account.container("container"), "a")
        log.refresh()
        names = {blob.name for blob in take_snapshot(log, None, account.clock).blobs}
        assert len(names) in (10, 7)
        assert not plan_repair(account.container("container"), None, NOON).leftovers


def test_a_revert_is_finished_by_the_next_writer_and_by_a_repair() -> None:
    for number in range(1, 100):
        account, faults = written(), FaultInjector(at(number, Crash(after_effect=True)))
        try:
            revert(account, 1, faults)
        except ProcessDied:
            log = CommitLog(account.container("container"), "a")
            head = log.refresh()
            if head is not None and head.operation == "revert" and len(numbers_in(account)) > 20:
                break
    (found,) = plan_repair(account.container("container"), "a", NOON).unpublished
    assert found.still_there
    write(account, 5, [5], query="other")
    assert numbers_in(account) == list(range(20))


def follow(account: MemoryAccount, after: int, at_most: int | None = None) -> tuple[int, list[int]]:
    """One batch of a streaming read, of `at_most` blobs: where it ends, and the rows of the query."""
    container = account.container("container")
    follower = Follower(CommitLog(container, "a", readers=1), 60.0, account.clock)
    end = follower.latest(after, TriggerLimits(at_most))
    found = (blob for blob, _ in follower.blobs(after, end))
    rows = [row for blob in found for row in blob_rows(container.get(blob.name).data)]
    return end, sorted(row["n"] for row in rows if row["query"] == "q")


def test_a_follower_that_is_behind_reads_each_row_once() -> None:
    account = written()
    revert(account, 1)
    for batch in (2, 3, 4):
        write(account, batch, range(10 * batch, 10 * batch + 10))
    for start in range(-1, 4):
        after, rows = start, list(range(10 * (start // 2 + 1)))
        while after < 13:
            end, new = follow(account, after, 1)
            assert end > after
            after, rows = end, rows + new
        assert sorted(rows) == list(range(50)), f"it had read up to version {start}"


def test_a_follower_that_is_behind_two_reverts_reads_nothing_that_either_took_back() -> None:
    account = written()
    for _ in range(2):
        revert(account, 1)
        write(account, 2, range(20, 30))
    container = account.container("container")
    follower = Follower(CommitLog(container, "a", readers=1), 60.0, account.clock)
    end = follower.latest(-1, TriggerLimits(4))
    assert end < follower.latest(-1, TriggerLimits(9))
    assert follow(account, -1, 4)[1] == list(range(20))
    assert follower.taken_back(-1, end) == frozenset(range(4, end + 1, 2))


def test_a_follower_that_has_read_a_batch_reads_it_again() -> None:
    account = written()
    end, rows = follow(account, -1)
    assert rows == list(range(50))
    revert(account, 1)
    after, rows = follow(account, end)
    assert rows == []
    write(account, 2, range(20, 50))
    assert follow(account, after)[1] == list(range(20, 50))


@pytest.mark.parametrize("again", [False, True])
def test_a_driver_that_was_suspended_while_it_was_set_back_writes_nothing_twice(again: bool) -> None:
    account = new_account()
    write(account, 0, [0])
    plan = plan_of(ROWS, "container/a")
    container = account.restarted(None).container("container")
    suspended = committer(container, plan, 77)
    rows = pa.record_batch([["a"], ["q"], [1]], schema=ROWS)
    suspended.commit([stage_rows(container, plan, [rows], seed=77)], Transaction("q", 1))
    revert(account, 0)
    if again:
        write(account, 1, [1])
    suspended.commit([stage_rows(container, plan, [rows], seed=78)], Transaction("q", 1))
    write(account, 1, [1])
    write(account, 2, [2])
    assert numbers_in(account) == numbers_by_log(account) == [0, 1, 2]


def test_a_process_that_knew_the_log_before_the_revert_goes_on() -> None:
    account = new_account()
    plan = plan_of(ROWS, "container/a")
    container = account.restarted(None).container("container")
    process = committer(container, plan, 77)

    def commit(batch: int, seed: int) -> None:
        rows = pa.record_batch([["a"], ["q"], [batch]], schema=ROWS)
        process.commit([stage_rows(container, plan, [rows], seed=seed)], Transaction("q", batch))

    for batch in range(4):
        commit(batch, batch)
    revert(account, 0)
    for batch in range(1, 4):
        commit(batch, 10 + batch)
    assert numbers_in(account) == numbers_by_log(account) == [0, 1, 2, 3]


def test_what_a_vacuum_may_have_removed_is_refused() -> None:
    account = written()
    before = NOON + timedelta(days=400)
    log = CommitLog(account.container("container"), "a")
    plan = plan_vacuum(log, datetime.max.replace(tzinfo=before.tzinfo))
    vacuum(account.container("container"), plan, lambda: "v")
    with pytest.raises(ConflictError, match="removed the versions below 9, which had batch 4 of q"):
        revert(account, 1)
    assert revert(account, 4).batches == []


def test_a_vacuum_of_batches_that_stay_does_not_matter() -> None:
    account = new_account()
    write(account, 0, [0])
    write(account, 1, [1])
    log = CommitLog(account.container("container"), "a")
    vacuum(account.container("container"), plan_vacuum(log, datetime.max.replace(tzinfo=NOON.tzinfo)), lambda: "v")
    write(account, 2, [2])
    assert revert(account, 1).batches == [2]
    assert revert(account, 0).batches == [1]
    assert numbers_in(account) == []


@pytest.mark.parametrize("path", STREAMS)
def test_a_vacuum_of_batches_that_stay_may_pass_a_revert_at_any_request(path: str) -> None:
    number, ended = 0, False
    while not ended:
        number, account = number + 1, new_account()
        for batch in range(4):
            write(account, batch, range(10 * batch, 10 * batch + 10), path)
            account.clock.sleep(60.0)
        faults = FaultInjector(partial(_vacuums_at, account, number))
        assert [2, 3] == revert(account, 1, faults).batches
        ended = faults.count < number
        assert list(range(0 if ended else 10, 20)) == numbers_in(account) == numbers_by_log(account)
        write(account, 2, range(20, 25), path)
        assert list(range(0 if ended else 10, 25)) == numbers_in(account) == numbers_by_log(account)
    assert number > 20


def _vacuums_at(account: MemoryAccount, number: int, attempt: NumberedAttempt) -> None:
    """At one request of another process a vacuum removes the first of four batches."""
    container = account.container("container")
    before = datetime.fromtimestamp(account.clock.now() - 200.0, UTC)
    for name in ("a", "b", batches_stream("q")) if attempt.number == number else ():
        if CommitLog(container, name).refresh() is not None:
            vacuum(container, plan_vacuum(CommitLog(container, name), before), lambda: "v", threads=1)


def test_batches_that_replace_all_rows_are_refused() -> None:
    account = new_account()
    write(account, 0, [0])
    container = account.restarted(None).container("container")
    plan = plan_of(ROWS, "container/a")
    rows = pa.record_batch([["a"], ["q"], [1]], schema=ROWS)
    committer(container, plan, 5).commit(
        [stage_rows(container, plan, [rows], seed=next(seeds))], Transaction("q", 1), overwrite=True
    )
    with pytest.raises(ConfigurationError, match="batch 1 of q .version 1. has replaced all earlier rows"):
        revert(account, 0)
    assert numbers_in(account) == numbers_by_log(account) == [1]


def test_it_has_an_epoch_as_writers_have() -> None:
    account = new_account()
    container = account.container("container")
    append_epoch(CommitLog(container, "a"), draft(7), Publisher(container))
    write(account, 0, [0], epoch=7)
    with pytest.raises(FencedError, match="the stream is at epoch 7"):
        revert(account, -1)
    assert revert(account, -1, epoch=8).batches == [0]
    with pytest.raises(FencedError):
        write(account, 0, [0], epoch=7)
    write(account, 0, [0], epoch=8)
    assert numbers_in(account) == [0]


@pytest.mark.parametrize("epoch", [None, 3])
@pytest.mark.parametrize("path", STREAMS)
def test_a_stream_without_a_log_is_an_error_and_nothing_is_created(path: str, epoch: int | None) -> None:
    account = written(path, 2)
    contents = account.service.contents("container")
    with pytest.raises(NotFoundError, match="revert flight in .* there is no commit log. Check container and stream"):
        revert(account, 0, stream="flight", epoch=epoch)
    assert contents == account.service.contents("container")


def test_a_plan_that_is_carried_out_late_takes_nothing_back_that_was_written_since() -> None:
    account = written()
    container = account.container("container")
    late = plan_revert(container, "a", Transaction("q", 1))
    revert(account, 1)
    write(account, 2, range(20, 50))
    with pytest.raises(ConflictError, match="was written after the revert was planned. Stop the query"):
        carry_out(container, late, draft, Publisher(container))
    assert numbers_in(account) == numbers_by_log(account) == list(range(50))


def test_a_later_batch_that_was_voided_is_taken_back_too() -> None:
    account = new_account()
    write(account, 0, [0])
    container = account.restarted(None).container("container")
    plan = plan_of(ROWS, "container/a")
    rows = pa.record_batch([["a"], ["q"], [2]], schema=ROWS)
    task = stage_rows(container, plan, [rows], seed=9)
    faults = FaultInjector(lambda attempt: Crash() if attempt.name == task.blobs[0].name else None)
    dying = committer(account.restarted(faults).container("container"), plan, 9)
    with pytest.raises(ProcessDied):
        dying.commit([task], Transaction("q", 2))
    account.clock.sleep(8 * 24 * 3600.0)
    write(account, 0, [7], query="another one")
    with pytest.raises(ConflictError, match="batch 2 of this query already, which was voided"):
        write(account, 1, [1])
    assert revert(account, 0).batches == []
    write(account, 1, [1, 2])
    assert numbers_in(account) == numbers_by_log(account) == [0, 1, 2]


def test_an_epoch_is_opened_in_all_streams_of_the_query() -> None:
    account = written("container")
    revert(account, 1, epoch=7)
    for stream in ("a", "b"):
        with pytest.raises(FencedError):
            write(account, 9, [9], f"container/{stream}", "other")


class Suspended(Intercept):
    """A process that is suspended before it puts an entry of a log, while something else happens."""

    def __init__(self, log: str, meanwhile: Callable[[], object]) -> None:
        self.prefix, self.meanwhile = f"{log}/_log/", [meanwhile]

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "put" and request.name.startswith(self.prefix) and self.meanwhile:
            self.meanwhile.pop()()
        return send()


def write_suspended(
    account: MemoryAccount, batch: int, numbers: Sequence[int], log: str, meanwhile: Callable[[], object], **given: int
) -> None:
    """A driver process writes a batch over many streams, and is suspended before it puts an entry of a log."""
    container, seed = account.restarted(Suspended(log, meanwhile)).container("container"), next(seeds)
    plan = plan_of(ROWS, "container", streamColumn="stream", **given)
    rows = pa.record_batch([["ab"[n % 2] for n in numbers], ["q"] * len(numbers), list(numbers)], schema=ROWS)
    task = stage_rows(container, plan, [rows], seed=seed)
    committer(container, plan, seed).commit([task], Transaction("q", batch))


@pytest.mark.parametrize("batches", [0, 1])
def test_a_driver_that_is_suspended_between_its_parts_puts_no_more_of_what_is_taken_back(batches: int) -> None:
    """Whether the other stream has a log or not, and whether the batch has rows for it when it is written again."""
    account = written("container", batches)

    def set_back() -> None:
        assert revert(account, batches - 1, stream="b").batches == [batches]
        write(account, batches, [100], "container")

    with pytest.raises(ConflictError, match=f"commit batch {batches} of q to b in .* a revert has taken it back"):
        write_suspended(account, batches, [100, 101], "b", set_back)
    write(account, batches + 1, [101], "container")
    assert numbers_in(account) == numbers_by_log(account) == [*range(10 * batches), 100, 101]


def test_a_driver_of_a_lower_epoch_commits_to_no_stream_although_nothing_was_taken_back() -> None:
    account = new_account()
    for batch in (0, 1):
        write(account, batch, [batch], "container", epoch=1)
    contents: list[dict[str, bytes]] = []

    def taken_over() -> None:
        assert revert(account, 1, epoch=2).batches == []
        contents.append(account.service.contents("container"))

    with pytest.raises(FencedError, match="_batches/q in .*: the stream is at epoch 2 .* this writer has epoch 1"):
        write_suspended(account, 2, [3, 5], "_batches/q", taken_over, epoch=1)
    assert contents == [account.service.contents("container")]
    write(account, 2, [3], "container", epoch=2)
    write(account, 3, [5], "container", epoch=2)
    assert numbers_in(account) == numbers_by_log(account) == [0, 1, 3, 5]


def test_a_batch_entry_below_an_epoch_is_kept_for_the_streams_that_lack_it() -> None:
    """By repairs and vacuums: the driver has died before the first part of its batch."""
    account = new_account()
    write(account, 0, [0, 1], "container", epoch=1)

    def dies() -> None:
        raise ProcessDied

    with pytest.raises(ProcessDied):
        write_suspended(account, 1, [2, 3], "a", dies, epoch=1)
    assert revert(account, 1, epoch=2).batches == []
    container = account.container("container")
    repairs = plan_repair(container, None, NOON + timedelta(days=9999))
    assert ((), ()) == (repairs.leftovers, repairs.recent)
    log = CommitLog(container, "_batches/q")
    vacuum(container, plan_vacuum(log, datetime.max.replace(tzinfo=NOON.tzinfo)), lambda: "v")
    write(account, 1, [9], "container", epoch=2)
    assert numbers_in(account) == numbers_by_log(account) == [0, 1, 2, 3]


@pytest.mark.parametrize("path", STREAMS)
def test_batches_that_a_stream_lacks_are_not_taken_for_vacuumed(path: str) -> None:
    account = new_account()
    for batch, numbers in enumerate(([0, 1], [], [2], [4], [], [6, 7])):
        write(account, batch, numbers, path)
    for stream in ("a", "b") if path == "container" else ("a",):
        log = CommitLog(account.container("container"), stream)
        vacuum(account.container("container"), plan_vacuum(log, datetime.max.replace(tzinfo=NOON.tzinfo)), lambda: "v")
    with pytest.raises(ConflictError, match="had batch 3 of q. Restore a newer checkpoint, or revert to batch 3 or"):
        revert(account, 2)
    assert revert(account, 4).batches == [5]
    assert numbers_in(account) == numbers_by_log(account) == []
    assert revert(account, 3).batches == ([4] if path == "container" else [])
    write(account, 4, [6, 7], path)
    assert numbers_in(account) == numbers_by_log(account) == [6, 7]


def test_a_revert_that_was_killed_before_it_deleted_is_finished_by_another_run() -> None:
    def dies(request: Request) -> Fault | None:
        return Crash() if request.operation == "delete" and request.name.startswith("a/20") else None

    account = written()
    with pytest.raises(ProcessDied):
        revert(account, 1, FaultInjector(dies))
    assert numbers_in(account) == list(range(50))
    assert plan_revert(account.container("container"), "a", Transaction("q", 1)).is_needed
    assert revert(account, 1).batches == []
    assert numbers_in(account) == list(range(20))
    assert not plan_revert(account.container("container"), "a", Transaction("q", 1)).is_needed


class DeletesNothing(Intercept):
    """The service refuses deletes."""

    def attempt(self, request: Request, send: Callable[[], T]) -> T:
        if request.operation == "delete":
            raise ConfigurationError("the role may not delete")
        return send()


def test_a_revert_that_may_not_delete_changes_nothing() -> None:
    account = written()
    container = account.restarted(DeletesNothing()).container("container")
    plan = plan_revert(container, "a", Transaction("q", 1))
    with pytest.raises(ConfigurationError, match="the role may not delete"):
        carry_out(container, plan, draft, Publisher(container))
    assert numbers_in(account) == numbers_by_log(account) == list(range(50))


MUTANTS: dict[str, Mutant] = {
    "blobs are not deleted": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish", '"compact", "revert"', '"compact"'
    ),
    "readers do not know it": edited("azureblob_source.log.relocating.revert:_entry", "reverts=versions,", ""),
    "it takes other queries' batches back": edited(
        "azureblob_source.log.relocating.revert:is_after", "own.id == last.id and ", ""
    ),
    "the log remembers the old batches": edited(
        "azureblob_source.log.relocating.revert:_entry", "transaction=kept", "transaction=None"
    ),
    "the batch log is forgotten": edited(
        "azureblob_source.maintenance.reverting:plan_revert",
        "entries[of_batches.stream] = batches_among(of_batches, found, last)",
        "pass",
    ),
    "the batch log is first": both(
        edited(
            "azureblob_source.maintenance.reverting:carry_out",
            "in plan.entries.items()",
            "in reversed(plan.entries.items())",
        ),
        lambda patch: patch.setattr("azureblob_source.log.relocating.revert._AT_ONCE", 1),
    ),
    "a follower does not look at later reverts": replaced(
        "azureblob_source.read.deletions:DeletionFinder._deleting", lambda *_: []
    ),
}
_CHECKS = {
    "blobs are not deleted": lambda: test_a_query_that_was_set_back_writes_each_row_once(STREAMS[0]),
    "readers do not know it": test_the_entries_that_are_taken_back_have_no_effect,
    "it takes other queries' batches back": lambda: test_a_query_that_was_set_back_writes_each_row_once(STREAMS[0]),
    "the log remembers the old batches": lambda: test_a_query_that_was_set_back_writes_each_row_once(STREAMS[0]),
    "the batch log is forgotten": lambda: test_a_query_that_was_set_back_writes_each_row_once(STREAMS[1]),
    "the batch log is first": lambda: test_a_revert_that_is_disturbed_at_any_request_and_run_again_changes_nothing(
        STREAMS[1], FAULTS[1]
    ),
    "a follower does not look at later reverts": test_a_follower_that_is_behind_reads_each_row_once,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_revert_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, AzureBlobError, Failed)):
        _CHECKS[name]()
