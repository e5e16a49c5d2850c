"""The streaming queries of a driver: one for each task that is assigned to it, in the states of `task_states`.

A query that fails does not touch the others. It is started again after 1 s, 2 s, 4 s … up to a minute, which begins
again when it has run for ten minutes. A query that fails since its sink refuses the epoch (`FencedError`) belongs to
another driver: the coordinator of this one, which was suspended or cut off, is about to find out.

Each task is prepared in a thread of its own: one may wait for another. Queries are started and finished by the thread
that calls `run`, one after the other: heartbeats do not wait for Spark, and Spark finds a Python source only in a
thread with an active session. They are stopped by the coordinator's threads.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from coordination.metrics import ProcessorMetrics
from coordination.spark import task_states
from coordination.spark.task_states import (
    Due,
    Expiring,
    Fenced,
    Finished,
    Prepared,
    Preparing,
    Running,
    State,
    TaskQuery,
)
from coordination.waits import Waits
from foundation.arguments import Natural, Wait, checked
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import FencedError
from foundation.worker_errors import own_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from coordination.leadership.leader import LeaderElector
    from coordination.processors.coordinator import JobCoordinator

P = ParamSpec("P")
T = TypeVar("T")
logger = logging.getLogger("coordination")

_POLL_SECONDS = 1.0
_MENDED_SECONDS = 600.0
_REPORT_SECONDS = 60.0
_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
"""In the text of the error that Spark raises when it has waited so long for the end of a query."""
_ERROR_OF_PYTHON = re.compile(r"[\w.]+(Error|Exception): ")


@dataclass(eq=False)
class _Task:
    """failures: since it has last run long enough, when also the last one is forgotten."""

    name: str
    epoch: int
    state: State = field(default_factory=Due)
    failures: int = 0
    last_failure: Exception | None = None


@checked
@dataclass(frozen=True)
class QueryLimits:
    """When a driver gives up: it leaves the job, and `run` raises the failure.

    restarts: how often a query that fails is started again before that; None for always.
    fenced_seconds: how long a query that was fenced may stay assigned to this driver.
    stop_seconds: how long a query that does not stop within `spark.sql.streaming.stopTimeout` is stopped again.
    start_seconds: how long the start of a query, or `finish`, may go on when its task is taken away.
    """

    restarts: Natural | None = None
    fenced_seconds: Wait = 120.0
    stop_seconds: Wait = 120.0
    start_seconds: Wait = 60.0


class _QueryRunner(ABC, Generic[P]):
    """Runs the queries of tasks that begin and stop: what `TaskQueries` and `LeaderQuery` have in common."""

    @checked
    def __init__(
        self,
        start: Callable[P, TaskQuery],
        *,
        prepare: Callable[P, object] | None = None,
        finish: Callable[P, object] | None = None,
        end_when_done: bool = False,
        limits: QueryLimits = QueryLimits(),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._start, self._prepare, self._finish = start, prepare, finish
        self._end_when_done, self._limits, self._clock = end_when_done, limits, clock
        self._changed = threading.Condition()  # guards all that follows
        self._tasks: dict[str, _Task] = {}
        self._preparations: dict[str, threading.Thread] = {}
        """The last one of each task."""
        self._at_work: _Task | None = None
        """The task whose query is being started, or finished."""
        self._leave: Callable[[], None] = lambda: None
        self._leaving = False
        """Whether the job is left without waiting for the task that is at work."""
        self._ended = False
        self._failure: Exception | None = None
        self._waits = Waits("this driver", clock, _REPORT_SECONDS)
        self._metrics = ProcessorMetrics("", "")

    def run(self, membership: JobCoordinator | LeaderElector) -> None:
        """Take part in the job until `end`, or until this driver gives up: then leave the job, and raise the failure.

        It gives up when a query has failed once more than `restarts`, when one stays fenced, and when the coordinator
        or the elector fails. membership: the one whose listener this is.
        """
        self._leave, self._metrics, over = membership.stop, membership.metrics, threading.Event()
        membership.start()
        self._waits.watch(over)
        try:
            while not self._ended:
                self._start_next()
                self._look_after_queries()
                self._finish_next()
        finally:
            membership.stop()
            self._await_preparations()
            over.set()
        if self._failure is not None:
            raise self._failure

    def end(self, within: float | None = None) -> None:
        """Have `run` stop the queries, leave the job, and return. May be called by any thread or signal handler.

        within: seconds, after which the job is left, so that other drivers get the tasks, though `start` or `finish`
        still runs. By default the job is left when it has returned. Either way `run` returns when it has, and
        `prepare` too; a query that it starts is stopped at once.
        """
        self._ended = True
        if within is not None:
            timer = threading.Timer(within, self._leave_now)
            timer.daemon = True
            timer.start()

    def _leave_now(self) -> None:
        with self._changed:
            self._leaving = True
            self._changed.notify_all()
        self._leave()

    @property
    def failing(self) -> dict[str, Exception]:
        """The tasks whose queries have failed lately, each with the last failure."""
        with self._changed:
            return {task.name: task.last_failure for task in self._tasks.values() if task.last_failure is not None}

    def _begin_tasks(self, tasks: Mapping[str, int]) -> None:
        """Have `run` start the queries of these tasks."""
        with self._changed:
            self._tasks |= {name: _Task(name, epoch) for name, epoch in tasks.items()}
            self._changed.notify_all()

    def _stop_tasks(self, tasks: Mapping[str, int]) -> None:
        """Stop the queries of these tasks, as `TaskQueries.on_job_model_expired` says."""
        with self._changed:
            expired = [task for name, epoch in tasks.items() if (task := self._tasks.get(name)) and task.epoch == epoch]
            for task in expired:
                task.state = task_states.expired(task.state)
            in_time = self._changed.wait_for(
                lambda: self._leaving or self._at_work not in expired, self._limits.start_seconds
            )
            stopped = [task for task in expired if task is not self._at_work and self._has(task)]
            for task in expired:
                if task is self._at_work and isinstance(task.state, Expiring):
                    task.state = replace(task.state, abandoned=True)
        self._stop(stopped)
        if not in_time:
            text = f"A query of {', '.join(tasks)} is being started, or finished, for {self._limits.start_seconds:g} s."
            raise TimeoutError(text)

    def _has(self, task: _Task) -> bool:
        return self._tasks.get(task.name) is task

    def _stop(self, tasks: Sequence[_Task]) -> None:
        """Stop the queries of tasks, each in a thread, and forget the tasks. What one has raised is raised at the end.

        A thread that hangs is left behind after `stop_seconds`.
        """
        failed, limit = dict[_Task, BaseException](), self._limits.stop_seconds
        threads = {
            task: threading.Thread(target=self._stop_query, args=(task, failed), name="stop-query", daemon=True)
            for task in tasks
        }
        end = self._clock.monotonic() + limit
        for thread in threads.values():
            thread.start()
        for task, thread in threads.items():
            thread.join(max(0.0, end - self._clock.monotonic()))
            if thread.is_alive():
                failed[task] = TimeoutError(f"stop() of the query has not returned for {limit:.0f} s.")
                logger.error("the query of task %s has not stopped for %.0f s: end this process", task.name, limit)
        with self._changed:
            for task in tasks:
                if task not in failed and self._has(task):
                    del self._tasks[task.name]
        for error in failed.values():
            raise error

    def _stop_query(self, task: _Task, failed: dict[_Task, BaseException]) -> None:
        """Stop a query, again if Spark has given up to wait for its end: what it waits for may end meanwhile."""
        begin, limit = self._clock.monotonic(), self._limits.stop_seconds
        while isinstance(task.state, Expiring) and task.state.query is not None:
            try:
                with self._waits.on(f"the query of task {task.name} to stop"):
                    task.state.query.stop()
            except BaseException as error:  # noqa: BLE001 - raised by `_stop`
                waited = self._clock.monotonic() - begin
                if _STOP_TIMEOUT not in str(error) or waited >= limit:
                    failed[task] = error
                    text = "the query of task %s has not stopped: end this process (%r)"
                    logger.error(text, task.name, error)  # noqa: TRY400 - `_stop` raises it
                    return
                logger.warning(
                    "the query of task %s has not stopped for %.0f s: it is stopped again", task.name, waited
                )
                self._clock.sleep(_POLL_SECONDS)
            else:
                return

    def _start_next(self) -> None:
        """Have all tasks prepared that are due, and start the query of one that is; without one wait for a second."""
        with self._changed:
            now = self._clock.monotonic()
            for each in self._tasks.values():
                if isinstance(each.state, Due) and each.state.at <= now:
                    self._begin_preparation(each)
            task = next((each for each in self._tasks.values() if isinstance(each.state, Prepared)), None)
            if task is None or self._leaving:
                self._changed.wait(_POLL_SECONDS)
                return
            self._at_work = task
        with self._work(task), self._waits.on(f"the start of the query of task {task.name}"):
            query = self._call(self._start, task)
            with self._changed:
                task.state = task_states.started(task.state, query, self._clock.monotonic())

    @contextmanager
    def _work(self, task: _Task) -> Iterator[None]:
        """Start or finish a query; note what it raises. Then those go on who wait for that.

        If nobody waits any more, what was started is stopped.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - what the program's function raises
            self._note_failure(task, error)
        finally:
            with self._changed:
                abandoned = isinstance(task.state, Expiring) and task.state.abandoned
                if not abandoned:
                    self._rest()
            if abandoned:
                logger.warning(
                    "task %s was taken away while its query was started or finished: it is stopped", task.name
                )
                try:
                    self._stop([task])
                finally:
                    self._rest()

    def _rest(self) -> None:
        """No query is being started or finished any more."""
        with self._changed:
            self._at_work = None
            self._changed.notify_all()

    def _begin_preparation(self, task: _Task) -> None:
        if self._prepare is None:
            task.state = Prepared()
            return
        task.state = Preparing()
        args = task, self._preparations.get(task.name), self._prepare
        thread = threading.Thread(target=self._prepare_task, args=args, name=f"prepare-{task.name}", daemon=True)
        thread.start()
        self._preparations[task.name] = thread

    def _prepare_task(self, task: _Task, earlier: threading.Thread | None, prepare: Callable[P, object]) -> None:
        """Prepare a task, when its preparation for an epoch that this driver has lost is over."""
        if earlier is not None:
            with self._waits.on(f"the preparation of task {task.name} for an epoch that it has lost"):
                earlier.join()
        try:
            if isinstance(task.state, Preparing):
                with self._waits.on(f"the preparation of task {task.name}"):
                    self._call(prepare, task)
        except Exception as error:  # noqa: BLE001 - what the program's function raises
            self._note_failure(task, error)
        except BaseException as error:  # noqa: BLE001 - such as SystemExit, which would end this thread in silence
            self._note_failure(task, RuntimeError(f"the preparation of task {task.name} has ended with {error!r}"))
        else:
            with self._changed:
                if isinstance(task.state, Preparing):
                    task.state = Prepared()
                self._changed.notify_all()

    def _await_preparations(self) -> None:
        """Wait for the end of all preparations. One that hangs is left behind: its query is not started."""
        seconds = self._limits.start_seconds
        end = self._clock.monotonic() + seconds
        for name, preparation in self._preparations.items():
            preparation.join(max(0.0, end - self._clock.monotonic()))
            if preparation.is_alive():
                logger.error("the preparation of task %s has not ended for %.0f s: end this process", name, seconds)

    def _look_after_queries(self) -> None:
        """Note which queries have failed, and which have run long enough to forget that.

        Give up if a task that was fenced stays assigned: something else than this job has raised the epoch.
        """
        with self._changed:
            now = self._clock.monotonic()
            for task in self._tasks.values():
                match task.state:
                    case Running(query, since):
                        if (failure := query.exception()) is not None:
                            self._note_failure(task, failure)
                        elif now - since >= _MENDED_SECONDS:
                            task.failures, task.last_failure = 0, None
                    case Fenced(since) if now - since >= self._limits.fenced_seconds:
                        logger.error("task %s is fenced, but assigned to this driver still: it gives up", task.name)
                        self._fail(task.last_failure or RuntimeError(task.name))

    def _finish_next(self) -> None:
        """Finish one task whose query has ended by itself."""
        if self._finish is None:
            return
        with self._changed:
            task = next((each for each in self._tasks.values() if _has_ended(each.state)), None)
            if task is None:
                return
            self._at_work = task
        with self._work(task), self._waits.on(f"finish of task {task.name}"):
            self._call(self._finish, task)
            with self._changed:
                task.state, task.last_failure = task_states.finished(task.state), None
                if self._end_when_done and all(
                    each is task or isinstance(each.state, Finished) for each in self._tasks.values()
                ):
                    self._ended = True

    def _note_failure(self, task: _Task, failure: Exception) -> None:
        """Have the query started again, wait for the coordinator if it is fenced, or give up."""
        with self._changed:
            if isinstance(task.state, Expiring):
                return
            fenced, now = isinstance(own_error(failure), FencedError), self._clock.monotonic()
            task.failures, task.last_failure = task.failures + (not fenced), failure
            task.state = task_states.failed(task.state, task.failures, now, fenced=fenced)
        if fenced:
            logger.warning("task %s of epoch %d is fenced: %s", task.name, task.epoch, _cause(failure))
            return
        self._metrics.count("queriesFailed", task=task.name)
        if self._limits.restarts is not None and task.failures > self._limits.restarts:
            logger.error("task %s has failed %d times: this driver gives up", task.name, task.failures)
            self._fail(failure)
        else:
            wait = task_states.seconds_to_wait(task.failures)
            logger.error("task %s has failed, and is started again in %.0f s: %s", task.name, wait, _cause(failure))

    def _fail(self, error: Exception) -> None:
        self._failure = self._failure or error
        self._ended = True

    @abstractmethod
    def _call(self, function: Callable[P, T], task: _Task) -> T:
        """Call a function of the program for a task."""


class TaskQueries(_QueryRunner[[str, int]]):
    """Runs the queries of this driver's tasks; the listener of a `JobCoordinator`.

    ```python
    queries = TaskQueries(start)
    queries.run(JobCoordinator(Location("coordination/flights"), tasks=TASKS, listener=queries))
    ```

    start: starts the query of a task, and returns it. Its arguments are the task and the epoch, which the sink must
    present. It opens the epoch in the stream before that (`azureblob_source.epochs.open_epoch`), so that nothing
    is written any more by the driver that had the task before, when Spark reads the first offset.
    prepare: is called before each start, with the same arguments, for what may take long, such as a restore of the
    checkpoint; for each task in a thread of its own. What needs Spark belongs into `start`. If the task is taken
    away meanwhile, nobody waits for it, and the query is not started. Its error counts as one of `start`.
    finish: is called when a query has ended by itself without an error, with the same arguments, for what comes after
    its last row, such as the end of a bounded job. Then the task is done, and is not started again as long as it
    stays with this driver. Its error counts as one of the query. Without it such a task is left as it is.
    end_when_done: whether the driver leaves the job, and `run` returns, when all tasks that it has are done.
    limits: when the driver gives up.
    """

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        """Have `run` start the queries of these tasks."""
        self._begin_tasks(tasks)

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        """Stop the queries of these tasks. Returns when none of them runs.

        Raises what Spark raises when a query cannot be stopped, after the others have been; after `stop_seconds` if
        Spark has waited in vain for its end. `TimeoutError` if the start of a query takes longer than a minute; it is
        stopped when it has started.
        """
        self._stop_tasks(tasks)

    def on_coordinator_stop(self) -> None:
        """The queries have been stopped."""

    def on_coordinator_failure(self, error: Exception) -> None:
        """Have `run` raise the error."""
        self._fail(error)

    def _call(self, function: Callable[[str, int], T], task: _Task) -> T:
        return function(task.name, task.epoch)


class LeaderQuery(_QueryRunner[[int]]):
    """Runs a query while this driver leads; the listener of a `LeaderElector`. The other drivers stand by.

    ```python
    query = LeaderQuery(start)
    query.run(LeaderElector(Location("coordination/leaders/flights"), "driver-1", query))
    ```

    start: starts the query, and returns it. Its argument is the epoch, to be used as that of a task. The other
    arguments are those of `TaskQueries`.
    """

    def on_elected(self, epoch: int) -> None:
        """Have `run` start the query."""
        self._begin_tasks({"leader": epoch})

    def on_deposed(self, reason: str) -> None:  # noqa: ARG002 - the elector logs it
        """Stop the query."""
        self._stop_tasks({task.name: task.epoch for task in self._tasks.values()})

    def on_failure(self, error: Exception) -> None:
        """Have `run` raise the error."""
        self._fail(error)

    def _call(self, function: Callable[[int], T], task: _Task) -> T:
        return function(task.epoch)


def _has_ended(state: State) -> bool:
    """Whether the query of a task has ended without an error."""
    return isinstance(state, Running) and not state.query.isActive and state.query.exception() is None


def _cause(failure: Exception) -> str:
    """One line of an error, which for one of a Python worker is the last line of its traceback."""
    lines = str(failure).splitlines() or [repr(failure)]
    return next((line for line in reversed(lines) if _ERROR_OF_PYTHON.match(line)), lines[0])
