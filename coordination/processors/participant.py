"""One processor of a job: reads what the others have written, does what `coordinator_state.step` says, and counts up.

It makes requests and calls the runner of the tasks, one after the other. `coordinator` runs it in threads.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import assert_never

from azure_account.account import Done
from azure_account.errors import AzureBlobError, ConfigurationError, TransientError, describe
from coordination.metrics import ProcessorMetrics
from coordination.names import check_tasks
from coordination.processors.coordinator_state import (
    BeginTasks,
    Confirm,
    Forget,
    JoinAnew,
    Observation,
    ProcessorState,
    Publish,
    Row,
    StopTasks,
    after,
    step,
)
from coordination.processors.job_model import BarrierState, from_content, to_content

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from coordination.leadership.election import Change, Election
    from coordination.processors.coordinator_state import Action
    from coordination.processors.job_model import PublishedModel
    from coordination.processors.processor_table import ProcessorTable
    from coordination.timing import CoordinatorTiming


logger = logging.getLogger(__name__)


class RunnerError(Exception):
    """The runner did not begin or stop tasks. The cause is what it has raised."""


class TaskRunner(Protocol):
    """Runs tasks, each in an epoch that its writes present. A method returns when it is done."""

    def begin(self, tasks: Mapping[str, int]) -> None:
        """Begin these tasks, which nobody else runs in these epochs."""

    def stop(self, tasks: Mapping[str, int]) -> None:
        """Stop these tasks. After that they write nothing. If it fails it is called again, with all of them."""


class Participant:
    """One processor. One thread calls `poll` again and again, another one `expire`; the election has its own steps."""

    def __init__(  # noqa: PLR0913 - what it works with, and settings
        self,
        election: Election,
        table: ProcessorTable,
        runner: TaskRunner,
        tasks: Callable[[], Sequence[str]],
        timing: CoordinatorTiming,
        *,
        new_id: Callable[[], str],
        metrics: ProcessorMetrics | None = None,
    ) -> None:
        self._election, self._table, self._runner, self._tasks = election, table, runner, tasks
        self._timing, self._new_id, self._clock = timing, new_id, election.lease.clock
        self.state = ProcessorState(new_id())
        self._metrics = metrics or ProcessorMetrics("", "")
        self._counter = 0
        self._epoch: int | None = None
        self._content: Mapping[str, Any] | None = None
        self._published: PublishedModel | None = None
        self.confirmed_at = self._clock.monotonic()
        """When the last heartbeat that succeeded had begun."""
        self._acting = threading.RLock()  # guards the state, and all calls of the runner

    def elect(self) -> Change | None:
        """Take a step in the election; resign while the heartbeats are overdue, since this processor does not act."""
        return self._election.resign() if self.overdue else self._election.step()

    def poll(self) -> None:
        """Read, act, count up. Errors of storage are raised; the next poll goes on from there.

        `RunnerError` if the runner fails. `ConfigurationError` if the leader gets no tasks from the function.
        """
        begun, found = self._clock.monotonic(), self._election.lease.read()
        published = self._model({} if found is None else found[0].content)
        self._epoch = None if found is None else found[0].epoch
        leads = found is not None and self._election.leads()
        tasks = self._wanted() if leads else None
        observation = Observation(
            epoch=0 if found is None else found[0].epoch,
            published=published,
            rows=self._table.rows(),
            begun=begun,
            overdue=self.overdue,
            leads=leads and tasks is not None,
            tasks=tasks or (),
        )
        with self._acting:
            self.state, actions = step(self.state, observation, self._clock.monotonic(), self._timing)
        for action in actions:
            if not self._do(action, "" if found is None else found[1]):
                break
        self._beat()

    @property
    def overdue(self) -> bool:
        """Whether the others may take this processor for dead soon, so that it must not act."""
        return self._clock.monotonic() - self.confirmed_at >= self._timing.overdue_after

    def expire(self) -> None:
        """Stop all tasks if the processor is overdue. Makes no request."""
        with self._acting:
            if self.overdue:
                self._stop_all()

    def leave(self) -> None:
        """Stop all tasks and delete the row, so that the others need not wait. The election is resigned apart.

        If the tasks cannot be stopped the row stays: the others wait until the processor is dead.
        """
        with self._acting:
            self._stop_all()
        self._table.delete(self._row())

    def gauges(self) -> dict[str, int]:
        """The values of `coordination.metrics.GAUGES` that are known."""
        leads, state, published = self._election.leads(), self.state, self._published
        values = {"leads": int(leads), "tasksRunning": len(state.running)}
        if self._epoch is not None:
            values["epoch"] = self._epoch
        if published is not None:
            values["jobModelVersion"] = published.current.version
        if leads:
            alive = state.liveness.alive(self._clock.monotonic(), self._timing.death) | {state.processor}
            values["processorsAlive"] = len(alive)
        return values

    def _model(self, content: Mapping[str, Any]) -> PublishedModel | None:
        """The model of a document, which is parsed only when it is another one: it may have thousands of tasks."""
        if content is not self._content:
            self._published, self._content = from_content(content, self._election.lease.target), content
        return self._published

    def _wanted(self) -> tuple[str, ...] | None:
        """All tasks of the job. None if the function fails: then the model stays as it is for this poll.

        `ConfigurationError` if it fails before there is a model, unless storage gave it no answer.
        """
        try:
            return check_tasks(self._tasks())
        except Exception as error:
            step = "Mend the function that is given as tasks: it returns a list of names."
            text = describe("List the tasks of", self._election.lease.target, str(error) or repr(error), step)
            if self._published is None and not isinstance(error, TransientError):
                raise ConfigurationError(text) from error
            logger.error("%s The job model stays as it is.", text)  # noqa: TRY400 - the text has the cause
            return None

    def _do(self, action: Action, etag: str) -> bool:
        """Whether the action was done."""
        match action:
            case StopTasks() | BeginTasks():
                with self._acting:
                    return self._run(action)
            case Confirm(version):
                return self._confirm(version)
            case Publish():
                return self._publish(action, etag)
            case Forget(rows, dead):
                for row in rows:
                    self._table.delete(row)
                self._metrics.count("processorsForgotten", dead)
                return True
            case JoinAnew():
                logger.warning(
                    "processor %s has not confirmed its heartbeat for %.0f s: it joins %s anew",
                    self.state.processor, self._clock.monotonic() - self.confirmed_at, self._election.lease.target,
                )  # fmt: skip
                self._table.delete(self._row())
                with self._acting:
                    self.state = ProcessorState(self._new_id(), self.state.liveness)
                self._metrics.count("joinsAnew")
                return True
            case _:
                assert_never(action)

    def _run(self, action: StopTasks | BeginTasks) -> bool:
        """Have the runner stop or begin tasks, if it still is what is to be done: time has passed since the step."""
        running = self.state.running
        match action:
            case StopTasks(tasks):
                tasks = {task: epoch for task, epoch in tasks.items() if running.get(task) == epoch}
                if tasks:
                    self._call("stop", self._runner.stop, tasks)
                self.state = after(self.state, StopTasks(tasks))
            case BeginTasks(tasks):
                if self.overdue:
                    return False
                self.state = after(self.state, action)
                self._call("begin", self._runner.begin, tasks)
        return True

    def _stop_all(self) -> None:
        self._run(StopTasks(self.state.running))

    def _call(self, name: str, call: Callable[[Mapping[str, int]], None], tasks: Mapping[str, int]) -> None:
        """Call the runner. Whatever it raises, also to end the process, is not taken for an error of storage."""
        begin = self._clock.monotonic()
        try:
            call(tasks)
        except BaseException as error:
            text = f"The tasks {', '.join(sorted(tasks))[:200]} did not {name}: {error!r}"
            raise RunnerError(text) from error
        self._metrics.record("listenerSeconds", self._clock.monotonic() - begin, call=name)
        self._metrics.count("tasksBegun" if name == "begin" else "tasksStopped", len(tasks))

    def _publish(self, action: Publish, etag: str) -> bool:
        term, published, watched = self._election.term, action.published, self.state.watched
        if term is None or not self._election.leads():
            return False
        if not isinstance(self._election.lease.write(term, to_content(published), etag), Done):
            return False
        if published.barrier is BarrierState.END:
            if watched is not None:
                self._metrics.record("barrierSeconds", self._clock.monotonic() - watched.since)
            return True
        self._metrics.count("jobModelsPublished")
        self._metrics.count("barriersTimedOut", int(published.timed_out == published.current.version - 1))
        self._metrics.count("tasksReassigned", action.orphans)
        return True

    def _confirm(self, version: int | None) -> bool:
        before = self._row()
        self._counter += 1
        row = Row(self.state.processor, version, self._counter)
        if not self._put(row):
            return False
        with self._acting:
            self.state = after(self.state, Confirm(version))
        self._table.delete(before)
        return True

    def _beat(self) -> None:
        """Count up. If the processor may have been dead to the others until now, its tasks stop before."""
        begin = self._clock.monotonic()
        self.expire()
        self._counter += 1
        if self._put(self._row()):
            self.confirmed_at = begin

    def _put(self, row: Row) -> bool:
        """Whether storage has confirmed the row."""
        try:
            done = isinstance(self._table.put(row, leads=self._election.leads()), Done)
        except AzureBlobError:
            self._metrics.count("heartbeatsFailed")
            raise
        self._metrics.count("heartbeatsSent" if done else "heartbeatsFailed")
        return done

    def _row(self) -> Row:
        return Row(self.state.processor, self.state.confirmed, self._counter)
