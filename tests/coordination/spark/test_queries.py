"""The queries of a driver's tasks, without Spark: which are started, started again, and stopped, and what is raised."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from coordination import LeaderElector, LeaseTiming, waits
from coordination.metrics import ProcessorMetrics
from coordination.spark import LeaderQuery, QueryLimits, TaskQueries, queries
from coordination.spark.task_states import Finished, Preparing
from foundation.clock import Clock, ManualClock
from foundation.errors import ConfigurationError, FencedError, TransientError
from tools.reporting import wait_for

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FENCED = RuntimeError("""Traceback (most recent call last):
  File "sink.py", line 1, in commit
foundation.errors.FencedError: commit to m07 failed: the stream is at epoch 9
	at org.apache.spark.sql""")

STOP_TIMED_OUT = RuntimeError("""An error occurred while calling o38.stop.
: java.util.concurrent.TimeoutException: Stream Execution thread for stream [id = 1, runId = 2] failed to stop within
2000 milliseconds (specified by spark.sql.streaming.stopTimeout).""")


@dataclass
class Query:
    """A streaming query that runs until it is stopped or has a failure."""

    task: str
    epoch: int
    failure: Exception | None = None
    stopped: bool = False
    stop_failure: Exception | None = None
    late_stops: int = 0
    """How often Spark waits for its end in vain."""
    isActive: bool = True

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        if self.stop_failure is not None:
            raise self.stop_failure
        if self.late_stops:
            self.late_stops -= 1
            raise STOP_TIMED_OUT
        self.stopped = True


@dataclass
class Driver:
    """A `TaskQueries` in a thread, its membership in a job, and the queries that it has started."""

    failures: list[Exception] = field(default_factory=list)
    """What the next starts raise."""
    prepare_failures: list[Exception] = field(default_factory=list)
    restarts: int | None = None
    fenced_seconds: float = 1e9
    started: list[Query] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    may_start: threading.Event = field(default_factory=threading.Event)
    starting: threading.Event = field(default_factory=threading.Event)
    may_prepare: threading.Event = field(default_factory=threading.Event)
    metrics: ProcessorMetrics = field(default_factory=lambda: ProcessorMetrics("flights", "one"))
    prepared: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.may_start.set()
        self.may_prepare.set()
        self.queries = TaskQueries(
            self._begin, prepare=self._prepare, limits=QueryLimits(self.restarts, self.fenced_seconds), clock=TIME
        )
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def last(self, task: str) -> Query:
        """The query of a task that was started last."""
        return [query for query in self.started if query.task == task][-1]

    def start(self) -> None:
        self.joined.append("started")

    def stop(self) -> None:
        self.joined.append("stopped")

    def run(self) -> Driver:
        self._thread.start()
        return self

    def ended(self) -> bool:
        self._thread.join(60)
        return not self._thread.is_alive()

    def _prepare(self, task: str, epoch: int) -> None:
        self.prepared.append((task, epoch))
        self.may_prepare.wait(60)
        if self.prepare_failures:
            raise self.prepare_failures.pop(0)

    def _begin(self, task: str, epoch: int) -> StreamingQuery:
        self.starting.set()
        self.may_start.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        self.started.append(Query(task, epoch))
        return cast("StreamingQuery", self.started[-1])

    def _run(self) -> None:
        try:
            self.queries.run(cast("Any", self))
        except Exception as error:  # noqa: BLE001 - it is what the test asserts
            self.error = error


TIME = ManualClock()
"""The clock of all drivers, which goes on while a test waits for something."""


def until(condition: Any, seconds: float = 1.0) -> None:
    """Look again and again, and let so many seconds pass in between."""

    def look() -> object:
        TIME.advance(seconds)
        return condition()

    wait_for(look, 60, poll=0.01)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The threads of a driver look at the clock so often."""
    monkeypatch.setattr(queries, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(waits, "_LOOK_SECONDS", 0.01)


def test_each_task_has_a_query_until_it_is_taken_away() -> None:
    driver = Driver().run()
    driver.queries.on_new_job_model({"a": 1, "b": 2})
    until(lambda: len(driver.started) == 2)
    driver.queries.on_job_model_expired({"a": 1})
    driver.queries.on_new_job_model({"c": 3})
    until(lambda: len(driver.started) == 3)
    driver.queries.end()

    assert driver.ended()
    assert driver.error is None
    assert {("a", 1): True, ("b", 2): False, ("c", 3): False} == {
        (query.task, query.epoch): query.stopped for query in driver.started
    }
    assert ["started", "stopped"] == driver.joined


def test_a_task_that_is_taken_away_while_its_query_starts_is_stopped_before_that_returns() -> None:
    driver = Driver().run()
    driver.may_start.clear()
    driver.queries.on_new_job_model({"a": 1})
    driver.starting.wait(60)
    expired = threading.Thread(target=driver.queries.on_job_model_expired, args=({"a": 1},))
    expired.start()
    expired.join(0.2)
    assert expired.is_alive()
    driver.may_start.set()
    expired.join(60)

    assert [True] == [query.stopped for query in driver.started]
    driver.queries.end()
    assert driver.ended()


def test_a_task_that_is_taken_away_while_it_is_prepared_is_given_up_at_once_and_not_started() -> None:
    driver = Driver().run()
    driver.may_prepare.clear()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    until(lambda: len(driver.prepared) == 2)
    driver.queries.on_job_model_expired({"a": 1})
    driver.queries.on_new_job_model({"a": 3})
    until(lambda: isinstance(driver.queries._tasks["a"].state, Preparing))
    assert {("a", 1), ("b", 1)} == set(driver.prepared), "two preparations of one task are never at work together"
    driver.may_prepare.set()
    until(lambda: len(driver.started) == 2)

    assert {("b", 1), ("a", 3)} == {(query.task, query.epoch) for query in driver.started}
    assert {("a", 1), ("b", 1), ("a", 3)} == set(driver.prepared)
    driver.queries.end()
    assert driver.ended()
    assert driver.error is None


def test_a_task_whose_preparation_waits_for_another_task_does_not_keep_it_from_starting() -> None:
    waited: list[bool] = []

    def prepare(task: str, _: int) -> None:
        if task == "a":
            until(lambda: [query.task for query in driver.started] == ["b"])
            waited.append(True)

    driver = Driver()
    driver.queries = TaskQueries(driver._begin, prepare=prepare, clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    until(lambda: len(driver.started) == 2)
    driver.queries.end()
    assert driver.ended()
    assert [True] == waited
    assert ["b", "a"] == [query.task for query in driver.started]


def test_a_preparation_that_ends_its_thread_is_a_failure_and_one_that_hangs_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hanging, calls = threading.Event(), list[int]()

    def prepare(_: str, epoch: int) -> None:
        calls.append(epoch)
        if len(calls) == 1:
            raise SystemExit(3)
        if epoch == 1:
            hanging.wait(60)

    driver = Driver()
    driver.queries = TaskQueries(driver._begin, prepare=prepare, clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: len(calls) == 2)
    assert "SystemExit(3)" in str(driver.queries.failing["a"])
    driver.queries.on_job_model_expired({"a": 1})
    driver.queries.on_new_job_model({"a": 2})
    until(lambda: "waits for the preparation of task a for an epoch that it has lost, since" in caplog.text)
    hanging.set()
    until(lambda: driver.started)
    assert [("a", 2)] == [(query.task, query.epoch) for query in driver.started]
    driver.queries.end()
    assert driver.ended()


def test_a_preparation_that_never_ends_keeps_run_from_returning_for_a_while_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver()
    driver.queries = TaskQueries(
        driver._begin, prepare=driver._prepare, limits=QueryLimits(start_seconds=0.1), clock=TIME
    )
    driver.may_prepare.clear()
    driver.run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.prepared)
    driver.queries.end()
    assert driver.ended()
    assert "the preparation of task a has not ended" in caplog.text
    driver.may_prepare.set()
    assert [] == driver.started


def test_a_start_that_hangs_is_named(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver()
    driver.may_start.clear()
    driver.run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: "this driver waits for the start of the query of task a, since" in caplog.text)
    driver.may_start.set()
    driver.queries.end()
    assert driver.ended()


def test_a_query_whose_stop_takes_long_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    may_stop = threading.Event()
    driver = Driver().run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.started)
    monkeypatch.setattr(driver.last("a"), "stop", lambda: may_stop.wait(60))
    expired = threading.Thread(target=driver.queries.on_job_model_expired, args=({"a": 1},))
    expired.start()
    until(lambda: "this driver waits for the query of task a to stop, since" in caplog.text)
    may_stop.set()
    expired.join(60)
    driver.queries.end()
    assert driver.ended()
    assert driver.error is None


def test_a_query_whose_stop_never_returns_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    may_stop = threading.Event()
    driver = Driver()
    driver.queries = TaskQueries(driver._begin, limits=QueryLimits(stop_seconds=0.3), clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    until(lambda: len(driver.started) == 2)
    monkeypatch.setattr(driver.last("a"), "stop", lambda: may_stop.wait(60))
    with pytest.raises(TimeoutError, match="has not returned for"):
        driver.queries.on_job_model_expired({"a": 1, "b": 1})
    assert driver.last("b").stopped
    may_stop.set()
    driver.queries.end()
    assert driver.ended()


def test_a_preparation_that_fails_is_tried_again_as_a_start_is() -> None:
    driver = Driver(prepare_failures=[RuntimeError("the disk is full"), RuntimeError("still")]).run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.started)
    assert [("a", 1)] * 3 == driver.prepared
    assert "still" in str(driver.queries.failing["a"])
    driver.queries.end()
    assert driver.ended()


def test_a_leader_prepares_its_query() -> None:
    calls: list[tuple[str, int]] = []

    def start(epoch: int) -> StreamingQuery:
        calls.append(("start", epoch))
        return cast("StreamingQuery", Query("leader", epoch))

    query = LeaderQuery(start, prepare=lambda epoch: calls.append(("prepare", epoch)), clock=TIME)
    query.on_elected(7)

    def started() -> bool:
        query._start_next()
        return len(calls) == 2

    until(started)
    assert [("prepare", 7), ("start", 7)] == calls


def test_a_task_that_is_taken_away_before_its_query_starts_is_not_started() -> None:
    driver = Driver()
    driver.queries.on_new_job_model({"a": 1})
    driver.queries.on_job_model_expired({"a": 1})
    driver.run()
    driver.queries.on_new_job_model({"b": 1})
    until(lambda: driver.started)

    driver.queries.end()
    assert driver.ended()
    assert ["b"] == [query.task for query in driver.started]


def test_a_query_that_cannot_be_stopped_keeps_no_other_from_being_stopped() -> None:
    driver = Driver().run()
    tasks = {"a": 1, "b": 1, "c": 1}
    driver.queries.on_new_job_model(tasks)
    until(lambda: len(driver.started) == 3)
    driver.last("a").stop_failure = RuntimeError("stop timed out")
    with pytest.raises(RuntimeError, match="stop timed out"):
        driver.queries.on_job_model_expired(tasks)
    assert {"a": False, "b": True, "c": True} == {query.task: query.stopped for query in driver.started}

    driver.last("a").stop_failure = None
    driver.queries.on_job_model_expired({**tasks, "never begun": 1})
    assert [True, True, True] == [query.stopped for query in driver.started]
    driver.queries.end()
    assert driver.ended()


def test_a_query_that_stops_late_is_stopped_again_and_the_driver_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver().run()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    until(lambda: len(driver.started) == 2)
    driver.last("a").late_stops = 3
    driver.queries.on_job_model_expired({"a": 1})
    assert {"a": True, "b": False} == {query.task: query.stopped for query in driver.started}
    assert 3 == caplog.text.count("the query of task a has not stopped")

    driver.queries.on_new_job_model({"a": 2})
    until(lambda: len(driver.started) == 3)
    driver.queries.end()
    assert driver.ended()
    assert driver.error is None


def test_a_query_that_never_stops_is_given_up_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver()
    driver.queries = TaskQueries(driver._begin, limits=QueryLimits(stop_seconds=0.1), clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.started)
    driver.started[0].late_stops = 1_000_000
    with pytest.raises(RuntimeError, match="failed to stop within"):
        driver.queries.on_job_model_expired({"a": 1})
    assert "it is stopped again" in caplog.text
    assert "end this process" in caplog.text

    driver.started[0].late_stops = 0
    driver.queries.end()
    assert driver.ended()


def test_a_query_whose_start_hangs_does_not_keep_the_coordinator_for_ever() -> None:
    driver = Driver()
    driver.queries = TaskQueries(driver._begin, limits=QueryLimits(start_seconds=0.05), clock=TIME)
    driver.run()
    driver.may_start.clear()
    driver.queries.on_new_job_model({"a": 1})
    driver.starting.wait(60)
    with pytest.raises(TimeoutError, match="A query of a is being started, or finished, for"):
        driver.queries.on_job_model_expired({"a": 1})

    driver.may_start.set()
    until(lambda: driver.started)
    driver.queries.on_job_model_expired({"a": 1})
    assert [True] == [query.stopped for query in driver.started]
    driver.queries.end()
    assert driver.ended()


def test_a_query_that_is_started_after_its_task_was_given_up_is_stopped() -> None:
    driver = Driver()
    driver.queries = TaskQueries(driver._begin, limits=QueryLimits(start_seconds=0.05), clock=TIME)
    driver.run()
    driver.may_start.clear()
    driver.queries.on_new_job_model({"a": 1})
    driver.starting.wait(60)
    with pytest.raises(TimeoutError):
        driver.queries.on_job_model_expired({"a": 1})
    driver.queries.on_coordinator_failure(TransientError("a listener has failed"))
    driver.may_start.set()

    assert driver.ended()
    assert [True] == [query.stopped for query in driver.started]
    assert "a listener has failed" == str(driver.error)


@dataclass
class Member:
    """A membership whose `stop` has the tasks stopped, as a coordinator's has."""

    driver: Driver
    tasks: dict[str, int]
    left: threading.Event = field(default_factory=threading.Event)
    metrics: ProcessorMetrics = field(default_factory=lambda: ProcessorMetrics("flights", "one"))

    def start(self) -> None:
        self.driver.queries.on_new_job_model(self.tasks)

    def stop(self) -> None:
        self.driver.queries.on_job_model_expired(self.tasks)
        self.left.set()


@pytest.mark.parametrize("state", ["preparing", "starting", "running", "finishing"])
def test_the_job_is_left_in_time_whatever_a_query_is_at(state: str) -> None:
    finishing, may_finish = threading.Event(), threading.Event()

    def finish(_: str, __: int) -> None:
        finishing.set()
        may_finish.wait(60)

    driver = Driver()
    driver.queries = TaskQueries(driver._begin, prepare=driver._prepare, finish=finish, clock=TIME)
    member = Member(driver, {"a": 1})
    thread = threading.Thread(target=driver.queries.run, args=(cast("Any", member),), daemon=True)
    if state == "preparing":
        driver.may_prepare.clear()
    if state == "starting":
        driver.may_start.clear()
    thread.start()
    until(lambda: driver.prepared)
    if state != "preparing":
        driver.starting.wait(60)
    if state in ("running", "finishing"):
        until(lambda: driver.started)
    if state == "finishing":
        driver.started[0].isActive = False
        finishing.wait(60)

    driver.queries.end(within=0.05)
    assert member.left.wait(60)
    assert thread.is_alive() or state == "running"
    for each in (driver.may_prepare, driver.may_start, may_finish):
        each.set()
    thread.join(60)
    assert not thread.is_alive()
    assert [] == [query.task for query in driver.started if query.isActive and not query.stopped]
    assert (state == "preparing") == (not driver.started)


def test_a_query_is_not_started_when_the_job_is_being_left() -> None:
    """Its preparation returns while the coordinator is at work at leaving."""
    driver = Driver()

    class SlowMember(Member):
        def stop(self) -> None:
            driver.may_prepare.set()
            driver.starting.wait(0.2)
            super().stop()

    member = SlowMember(driver, {"a": 1})
    driver.may_prepare.clear()
    thread = threading.Thread(target=driver.queries.run, args=(cast("Any", member),), daemon=True)
    thread.start()
    until(lambda: driver.prepared)
    driver.queries.end(within=0.05)
    assert member.left.wait(60)
    thread.join(60)
    assert [] == driver.started


def test_a_query_that_has_ended_by_itself_is_finished_once_and_its_task_is_done() -> None:
    finished: list[tuple[str, int]] = []

    def finish(task: str, epoch: int) -> None:
        finished.append((task, epoch))
        if len(finished) == 1:
            raise RuntimeError("no answer")

    driver = Driver()
    driver.queries = TaskQueries(driver._begin, finish=finish, clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    until(lambda: len(driver.started) == 2)
    driver.started[0].isActive = False
    until(lambda: len(driver.started) == 3)
    driver.started[2].isActive = False
    until(lambda: len(finished) == 2)
    driver.queries.on_new_job_model({"c": 1})
    until(lambda: len(driver.started) == 4)
    assert [("a", 1), ("a", 1)] == finished

    driver.queries.on_job_model_expired({"a": 1})
    driver.queries.on_new_job_model({"a": 2})
    until(lambda: len(driver.started) == 5)
    assert ("a", 2) == (driver.started[4].task, driver.started[4].epoch)
    driver.queries.end()
    assert driver.ended()
    assert driver.error is None


def test_a_driver_may_end_when_all_of_its_tasks_are_done() -> None:
    driver = Driver()
    driver.queries = TaskQueries(driver._begin, finish=lambda *_: None, end_when_done=True, clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    until(lambda: len(driver.started) == 2)
    driver.started[0].isActive = False
    until(lambda: any(isinstance(each.state, Finished) for each in driver.queries._tasks.values()))
    assert driver._thread.is_alive()
    driver.started[1].isActive = False
    assert driver.ended()
    assert driver.error is None
    assert ["started", "stopped"] == driver.joined


def test_a_query_that_fails_is_not_finished() -> None:
    finished: list[int] = []
    started: list[Query] = []

    def start(epoch: int) -> StreamingQuery:
        started.append(Query("q", epoch))
        return cast("StreamingQuery", started[0])

    query = LeaderQuery(start, finish=finished.append, clock=TIME)
    query.on_elected(7)
    query._start_next()
    (running,) = started
    query._finish_next()
    running.isActive, running.failure = False, RuntimeError("a bug")
    query._finish_next()
    assert [] == finished
    running.failure = None
    query._finish_next()
    assert [7] == finished


def test_a_query_that_fails_is_started_again_and_then_the_driver_gives_up() -> None:
    driver = Driver(restarts=2).run()
    driver.queries.on_new_job_model({"a": 1, "b": 1})
    for number in range(3):
        until(lambda number=number: sum(query.task == "a" for query in driver.started) == number + 1)
        [query for query in driver.started if query.task == "a"][-1].failure = RuntimeError(f"failure {number}")

    assert driver.ended()
    assert "failure 2" == str(driver.error)
    assert ["started", "stopped"] == driver.joined
    assert 1 == sum(query.task == "b" for query in driver.started)


def test_a_query_that_fails_always_is_started_ever_later_and_the_others_run_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    driver = Driver()

    def begin(task: str, epoch: int) -> StreamingQuery:
        if task == "poison":
            message = "a bug"
            raise ValueError(message)
        return driver._begin(task, epoch)

    driver.queries = TaskQueries(begin, clock=TIME)
    driver.run()
    driver.queries.on_new_job_model({"poison": 1, "b": 1})
    until(lambda: caplog.text.count("task poison has failed") > 8, seconds=10)
    waits = [
        float(found) for found in re.findall(r"task poison has failed, and is started again in (\d+) s", caplog.text)
    ]
    assert [1, 2, 4, 8, 16, 32, 60, 60, 60] == waits[:9]

    assert {"poison"} == set(driver.queries.failing)
    assert ["b"] == [query.task for query in driver.started]
    driver.queries.end()
    assert driver.ended()
    assert driver.error is None


def test_a_query_that_has_run_long_enough_begins_to_count_anew() -> None:
    driver = Driver(restarts=1).run()
    driver.queries.on_new_job_model({"a": 1})
    for number in range(3):
        until(lambda number=number: len(driver.started) == number + 1)
        driver.started[-1].failure = RuntimeError(f"failure {number}")
        until(lambda number=number: len(driver.started) == number + 2)
        until(lambda: not driver.queries.failing, seconds=100)

    driver.queries.end()
    assert driver.ended()
    assert driver.error is None


def test_a_start_that_fails_counts_as_a_failure_of_the_query() -> None:
    driver = Driver([TransientError("no answer")], restarts=1).run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.started)
    driver.started[0].failure = RuntimeError("again")

    assert driver.ended()
    assert "again" == str(driver.error)


@pytest.mark.parametrize("at_start", [True, False])
def test_a_fenced_query_waits_until_its_task_is_taken_away(at_start: bool, caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver([FencedError("the stream is at epoch 9")] if at_start else []).run()
    driver.queries.on_new_job_model({"a": 1})
    if not at_start:
        until(lambda: driver.started)
        driver.started[0].failure = FENCED
    until(lambda: "is fenced" in caplog.text)
    driver.queries.on_job_model_expired({"a": 1})
    driver.queries.on_new_job_model({"a": 10})
    until(lambda: driver.started and driver.started[-1].epoch == 10)

    driver.queries.end()
    assert driver.ended()
    assert driver.error is None
    assert "the stream is at epoch 9" in caplog.text
    assert "sink.py" not in caplog.text
    assert 1 == caplog.text.count("is fenced")


def test_a_fenced_query_that_stays_assigned_ends_the_driver() -> None:
    driver = Driver([FencedError("the stream is at epoch 9")], fenced_seconds=120.0).run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.error, seconds=10)

    assert driver.ended()
    assert isinstance(driver.error, FencedError)


def test_a_query_that_ends_by_itself_is_not_started_again() -> None:
    driver = Driver().run()
    driver.queries.on_new_job_model({"a": 1})
    until(lambda: driver.started)  # its `exception` stays None, whether it runs or has ended
    threading.Event().wait(0.1)

    driver.queries.end()
    assert driver.ended()
    assert 1 == len(driver.started)


def test_a_failure_of_the_coordinator_is_raised() -> None:
    driver = Driver().run()
    driver.queries.on_coordinator_failure(TransientError("tables are not permitted"))

    assert driver.ended()
    assert "tables are not permitted" == str(driver.error)


def test_a_membership_that_does_not_start_leaves_no_thread() -> None:
    """A program that tries again every few seconds would run out of them."""

    class Refused:
        metrics = ProcessorMetrics("flights", "one")
        stop = None

        def start(self) -> None:
            raise ConfigurationError("403")

    before = threading.active_count()
    with pytest.raises(ConfigurationError):
        TaskQueries(lambda *_: Query("a", 1)).run(cast("Any", Refused()))
    assert before >= threading.active_count()


def test_the_leader_runs_the_query_in_its_epoch() -> None:
    driver = Driver()
    query = LeaderQuery(lambda epoch: driver._begin("q", epoch), clock=TIME)
    driver.queries = cast("TaskQueries", query)
    driver.run()
    query.on_elected(5)
    until(lambda: driver.started)
    query.on_deposed("the lease was not renewed in time")
    query.on_elected(7)
    until(lambda: len(driver.started) == 2)
    query.on_failure(TransientError("stop"))

    assert driver.ended()
    assert "stop" == str(driver.error)
    assert [(5, True), (7, False)] == [(query.epoch, query.stopped) for query in driver.started]


def test_a_leader_whose_query_does_not_stop_raises_that_and_keeps_the_lease() -> None:
    account = MemoryAccount(clock=Clock())
    container = account.container("box")
    container.create()
    timing = LeaseTiming(duration=15, renew_every=0.05, poll_every=0.05, request=0.1, margin=14.5)
    started = threading.Event()

    def start(epoch: int) -> StreamingQuery:
        started.set()
        return cast("StreamingQuery", Query("q", epoch, stop_failure=RuntimeError("Spark does not stop the query")))

    def end() -> None:
        started.wait(60)
        query.end()

    query = LeaderQuery(start, clock=TIME)
    threading.Thread(target=end).start()
    with pytest.raises(RuntimeError, match="Spark does not stop the query"):
        query.run(LeaderElector(Location.in_account(account, "box/leaders/flights"), "driver-1", query, timing))
    found = container.properties("leaders/flights")
    assert found is not None
    assert found.leased, "the query may still run"
