"""One processor of a job: reads what the others have written, does what `coordinator_state.step` says, and counts up.

It makes requests, one after the other; the listener and the function of tasks are called in threads of their own, and
no request waits for them. `coordinator` runs it in threads.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, assert_never

from azure_account.values import Done
from coordination.leadership.election import Elected
from coordination.metrics import ProcessorMetrics
from coordination.processors.coordinator_state import (
    BeginTasks,
    Confirm,
    Forget,
    Observation,
    ProcessorDeclaration,
    ProcessorRow,
    ProcessorState,
    Publish,
    Rejoin,
    StopTasks,
    after,
    deaths,
    step,
)
from coordination.processors.heartbeat import Heartbeat
from coordination.processors.job_model import BarrierState
from coordination.processors.listener_calls import ListenerCalls, ListenerError
from coordination.processors.listing import TaskLister
from coordination.processors.model_blob import ModelBlob
from coordination.waits import Waits
from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from coordination.leadership.election import Change, Deposed, Election
    from coordination.processors.coordinator_state import Action
    from coordination.processors.listener_calls import TaskListener
    from coordination.processors.listing import TaskSource
    from coordination.processors.processor_table import ProcessorTable
    from coordination.timing import CoordinatorTiming


logger = logging.getLogger("coordination")

_OUTSIDE = 60
"""Heartbeats without a place in the job that are no news: one that crashed lately has to wait for 50."""
Act: TypeAlias = Literal["elect", "poll", "beat", "list_tasks"]


class Participant:
    """One processor. A thread calls `poll` again and again, others `beat`, `expire`, `elect` and `list_tasks`.

    name: under which it restarts, if `timing.restart` is set.
    spawn: calls a function in a thread of its own, as `ListenerCalls` says; by default it is called at once.

    While it leads, the renewals of its lease are its heartbeats. It has its row say so first
    (`ProcessorDeclaration.leads`): the next leader then takes it for dead as soon as the lease has expired.

    Two locks: `_writing` is held while its row is written. `_guard` is for its values, is taken last, and is never held
    during a request or a call of the listener.
    """

    def __init__(  # noqa: PLR0913 - what it works with, and settings
        self,
        election: Election,
        table: ProcessorTable,
        listener: TaskListener,
        tasks: TaskSource,
        timing: CoordinatorTiming,
        *,
        new_id: Callable[[], str],
        name: str = "",
        metrics: ProcessorMetrics | None = None,
        spawn: Callable[[Callable[[], None]], None] = lambda act: act(),
    ) -> None:
        lease, now = election.lease, election.lease.clock.monotonic()
        self._election, self._table = election, table
        self._timing, self._new_id, self._clock = timing, new_id, lease.clock
        self._metrics = metrics or ProcessorMetrics("", "")
        self.state: ProcessorState = ProcessorState(new_id())
        self._waits = Waits(f"processor {self.state.processor} of {lease.target}", self._clock, timing.request)
        self._model = ModelBlob(lease, self._waits)
        self._lister = TaskLister(tasks, self._waits, lease.target)
        self._calls = ListenerCalls(listener, self._clock, self._waits, spawn, self._metrics)
        stated = ProcessorDeclaration(timing.death, self._lister.digest, name if timing.restart else "")
        self._heartbeat = Heartbeat(stated, now)
        self._due: dict[Act, float] = dict.fromkeys(("elect", "poll", "beat", "list_tasks"), now)
        self._polled_at = now
        """When the last poll that succeeded has ended."""
        self._outside_since = now
        """When it had a place in the job, or the log has last said that it has none."""
        self._stands_from = now
        """A leader that could not act lets others lead for a while."""
        self._guard = threading.Lock()
        self._writing = threading.RLock()  # in virtual time the threads of a processor are greenlets of one thread

    def seconds_to(self, act: Act) -> float:
        """Until the next call of this method. It may become shorter: ask again in between."""
        return max(0.0, self._due[act] - self._clock.monotonic())

    def elect(self) -> Change | None:
        """Take a step in the election, if one is due: renew the lease, or acquire it when a poll has found it free.

        A processor whose heartbeats are overdue, or whose polls do not end, or whose listener hangs, does not lead.
        """
        late = self._clock.monotonic() - self._polled_at >= self._timing.overdue_after
        try:
            return self._elect(unfit=self.overdue or late or self._hangs)
        finally:
            asks = self._election.term is not None or self._election.lease.free
            wait = max(self._election.wait if asks else 0.0, self._timing.quick / 2)
            self._due["elect"] = self._clock.monotonic() + wait

    def _elect(self, *, unfit: bool) -> Change | None:
        if self._election.term is not None:
            return self._resign() if unfit else self._election.step()
        if unfit or not self._election.lease.free or self._clock.monotonic() < self._stands_from:
            return None
        change = self._election.step()
        self._election.lease.free = False  # until the next poll; if the step has raised it is repeated
        if isinstance(change, Elected):
            self._due["poll"] = self._due["list_tasks"] = self._clock.monotonic()
        return change

    def list_tasks(self) -> None:
        """Ask the function of tasks, if this processor leads. It may take as long as it likes."""
        self._due["list_tasks"] = self._clock.monotonic() + self._timing.heartbeat
        epoch = self._leads
        if epoch is not None:
            self._lister.ask(epoch)

    def poll(self) -> None:
        """Read and act. Errors of storage are raised; the next poll goes on from there.

        `ListenerError` if the listener fails. `ConfigurationError` if the leader gets no tasks from the function.
        """
        self._calls.check()
        begun, overdue = self._clock.monotonic(), self.overdue
        self._due["poll"] = begun + self._timing.quick
        term = self._election.term if self._election.leads() else None
        read = self._model.read(term)
        tasks = None if term is None or not read.etag else self._lister.tasks(term.epoch, read.published)
        leads = tasks is not None  # who does not know the tasks of the job cannot distribute them
        seen = Observation(
            epoch=read.epoch,
            published=read.published,
            rows=self._rows() if leads else (),
            begun=begun,
            overdue=overdue or self.overdue,
            leads=leads,
            tasks=tasks or (),
            expired=None if term is None else term.expired,
        )
        with self._guard:
            self.state, actions = step(self.state, seen, self._clock.monotonic(), self._timing)
        self._act(actions, read.etag)
        self._polled_at = self._clock.monotonic()
        self._report_no_place()
        self._due["poll"] = self._polled_at + self._pause(seen)

    def _report_no_place(self) -> None:
        """Log that for long this processor has not been in the job model."""
        published, seconds = self._model.last.published, self._polled_at - self._outside_since
        outside = published is None or self.state.processor not in published.current.processors
        if outside and seconds < _OUTSIDE * self._timing.heartbeat:
            return
        if outside:
            logger.warning(
                "processor %s has had no place in %s for %.0f s. If the leader that `status` names does not run, "
                "somebody else has acquired the lease: break it (az storage blob lease break).",
                self.state.processor, self._election.lease.target, seconds,
            )  # fmt: skip
        self._outside_since = self._polled_at

    @property
    def overdue(self) -> bool:
        """Whether the others may take this processor for dead soon, so that it must not act."""
        return self._heartbeat.overdue(self._clock.monotonic(), self._leads, self._timing.overdue_after)

    @property
    def _leads(self) -> int | None:
        """The epoch in which it leads at this moment."""
        term = self._election.term
        return term.epoch if term is not None and self._election.lease.holds(term) else None

    def expire(self) -> None:
        """Begin to stop all tasks if the processor is overdue, and log what it waits for. Makes no request."""
        self._waits.report()
        if self.overdue:
            self._update(lambda last: replace(last, expired=True))
            self._run(StopTasks(self.state.running))
            self._calls.check()

    def beat(self) -> None:
        """Count up, unless a poll or the listener does not end: then the others get the tasks.

        If the processor may have been dead to the others until now, its tasks stop.
        """
        begin = self._clock.monotonic()
        self._due["beat"] = begin + self._timing.heartbeat
        if self.overdue:
            self.expire()
        elif begin - self._polled_at < self._timing.silent_after and not self._hangs:
            self._count_up()

    def leave(self, within: float) -> None:
        """Stop all tasks and delete the row, so that the others need not wait. The election is resigned apart.

        If the tasks cannot be stopped, or not within these seconds, the row stays: the others wait until the processor
        is dead. With `restart` the row stays too, and says for how long.
        """
        end = self._clock.monotonic() + within
        self._await_listener(end)
        try:
            self._calls.check()
        except ListenerError as error:  # all tasks stop now, whatever went wrong before
            logger.warning("%s", error)
        self._run(StopTasks(self.state.running))
        self._await_listener(end)
        self._calls.check()
        with self._writing:
            if self._timing.restart and not self.overdue:
                self._update(lambda last: last.left(self._timing.restart))
                self._put(self._row)
            else:
                self._table.delete(self._row)

    def _await_listener(self, end: float) -> None:
        """Wait until the listener has returned; `ListenerError` when this time has come."""
        if not self._calls.wait(end):
            text = f"The listener of {self.state.processor} has not returned for {self._calls.seconds:.0f} s"
            raise ListenerError(text) from TimeoutError(f"{text}: end this process, if its tasks may write still.")

    @property
    def _hangs(self) -> bool:
        """Whether a call of the listener takes so long that the others get the tasks."""
        return self._calls.seconds >= self._timing.silent_after

    def gauges(self) -> dict[str, int]:
        """The values of `coordination.metrics.GAUGES` that are known."""
        leads, state, last = self._election.leads(), self.state, self._model.last
        values = {"leads": int(leads), "tasksRunning": len(state.running)}
        if last.etag:
            values["epoch"] = last.epoch
        if last.published is not None:
            values["jobModelVersion"] = last.published.current.version
            values["tasks"] = len(last.published.current.tasks)
        if leads:
            values["processorsAlive"] = len(state.alive | {state.processor})
        return values

    def _rows(self) -> tuple[ProcessorRow, ...]:
        with self._waits.on("the table of the job's processors"):
            rows = self._table.rows()
        self._lister.compare(rows, self.state.processor)
        return rows

    def _pause(self, seen: Observation) -> float:
        """Seconds until the next poll: short while a barrier is open, and not beyond the next death."""
        published = self._model.last.published
        if published is None or published.barrier is BarrierState.START:
            return self._timing.quick
        if not seen.leads:
            return self._timing.heartbeat
        now = self._clock.monotonic()
        due = self.state.liveness.next_death(now, deaths(seen.newest, self._timing))
        return self._timing.heartbeat if due is None else min(self._timing.heartbeat, max(due, self._timing.quick / 2))

    def _act(self, actions: Iterable[Action], etag: str) -> None:
        """Do what the step says, in its order, as a worker and as the leader.

        What a worker cannot do, or is at, leaves out what it does after that; a leader does not wait for its listener.
        """
        works = leads = True
        for action in actions:
            match action:
                case StopTasks() | BeginTasks():
                    works = works and self._run(action)
                case Confirm(version):
                    works = works and self._confirm(version)
                case Rejoin():
                    works = works and self._rejoin()
                case Publish():
                    leads = leads and self._publish(action, etag)
                case Forget():
                    leads = leads and self._forget(action)
                case _:
                    assert_never(action)

    def _run(self, action: StopTasks | BeginTasks) -> bool:
        """Have the listener stop or begin tasks, if it still is what is to be done. Whether that is done already.

        It is not while an earlier call goes on: what is left to do is found again when that has returned.
        """
        if not self._calls.claim():
            return False
        with self._guard:
            if isinstance(action, StopTasks):
                running = self.state.running
                action = StopTasks({task: of for task, of in action.tasks.items() if running.get(task) == of})
            elif self.overdue:
                self._calls.release()
                return False
            else:
                self.state = after(self.state, action)
        if not action.tasks:
            self._calls.release()
            return True
        self._calls.make(
            "begin" if isinstance(action, BeginTasks) else "stop", action.tasks, partial(self._ran, action)
        )
        self._calls.check()
        return not self._calls.busy

    def _ran(self, action: StopTasks | BeginTasks) -> None:
        """The listener has returned."""
        self._note(action)
        self._due["poll"] = self._clock.monotonic()

    def _note(self, action: Action) -> None:
        with self._guard:
            self.state = after(self.state, action)

    def _publish(self, action: Publish, etag: str) -> bool:
        term, published, watched = self._election.term, action.published, self.state.watched
        if term is None or not self._election.leads() or not self._model.publish(term, published, etag):
            return False
        self._due["poll"] = self._clock.monotonic()  # what is published is for this processor too
        if published.barrier is BarrierState.END and watched is not None and watched.barrier is BarrierState.START:
            seconds = self._clock.monotonic() - watched.since
            self._metrics.record("barrierSeconds", seconds)
            text = "%s: the barrier of version %d ends after %.1f s"
            logger.info(text, self._election.lease.target, published.current.version, seconds)
            return True
        self._metrics.count("jobModelsPublished")
        logger.info(
            "%s: version %d gives %d tasks to %d processors; its barrier waits for %s",
            self._election.lease.target, published.current.version, len(published.current.tasks),
            len(published.current.processors), ", ".join(sorted(published.losing)) or "nobody",
        )  # fmt: skip
        self._metrics.count("barriersTimedOut", int(published.timed_out == published.current.version - 1))
        self._metrics.count("tasksReassigned", action.orphans)
        return True

    def _forget(self, action: Forget) -> bool:
        for row in action.rows:
            self._table.delete(row)
        self._metrics.count("processorsForgotten", action.dead)
        return True

    def _confirm(self, version: int | None) -> bool:
        with self._writing:
            before = self._row
            if not self._put(self._update(Heartbeat.moved).row(self.state.processor, version)):
                return False
            self._note(Confirm(version))
        self._table.delete(before)
        return True

    def _rejoin(self) -> bool:
        if self._calls.busy:
            return False
        logger.warning(
            "processor %s has not confirmed its heartbeat for %.0f s: it joins %s again",
            self.state.processor, self._clock.monotonic() - self._heartbeat.confirmed_at, self._election.lease.target,
        )  # fmt: skip
        with self._writing:
            self._update(lambda last: replace(last, expired=True))
            self._table.delete(self._row)
            with self._guard:
                self.state = ProcessorState(self._new_id())
            begin = self._clock.monotonic()
            self._update(Heartbeat.rejoining)
            if not self._put(self._row):
                return False
            self._update(lambda last: last.rejoined(begin))
        self._metrics.count("rejoins")
        return True

    def _update(self, change: Callable[[Heartbeat], Heartbeat]) -> Heartbeat:
        with self._guard:
            self._heartbeat = change(self._heartbeat)
            return self._heartbeat

    def _count_up(self, *, steps_down: bool = False) -> None:
        """Count up in the row, unless the renewals of a lease stand for that, and the row says so.

        If renewals are late the row counts again, so that a leader that loses its lease keeps its tasks.
        """
        with self._writing:
            begin, waits = self._clock.monotonic(), self._waits.text()
            renewed = None if steps_down else self._renewed
            if not self._heartbeat.due(renewed, waits):
                return
            self._update(lambda last: last.counted_up(renewed, waits))
            if not self._put(self._row):
                return
            too_late = self.overdue
            self._update(lambda last: replace(last, expired=True) if too_late else last.confirmed(renewed, begin))
        self.expire()

    @property
    def _renewed(self) -> int | None:
        """The epoch in which the processor leads, if the lease was renewed of late."""
        term, timing = self._election.term, self._election.lease.timing
        if term is None or not self._election.lease.holds(term):
            return None
        since = timing.duration - timing.margin - (term.deadline - self._clock.monotonic())
        return term.epoch if since < 2 * timing.renew_every else None

    def _resign(self) -> Deposed | None:
        """End the term, so that another process leads at once; this one goes on as a worker if it is not overdue.

        Its row has to say before that its lease does not keep it alive any more. If that fails the lease expires.
        """
        ended = self._election.expire()
        if ended is not None:
            return ended
        if self._heartbeat.led is not None and not self.overdue:
            self._count_up(steps_down=True)
            if self._heartbeat.confirmed_epoch is not None:
                return None
        self._stands_from = self._clock.monotonic() + 2 * self._timing.death
        return self._election.resign()

    def _put(self, row: ProcessorRow) -> bool:
        """Whether storage has confirmed the row."""
        try:
            with self._waits.on("the table of the job's processors"):
                done = isinstance(self._table.put(row, leads=self._election.leads()), Done)
        except AzureBlobError:
            self._metrics.count("heartbeatsFailed")
            raise
        self._metrics.count("heartbeatsSent" if done else "heartbeatsFailed")
        return done

    @property
    def _row(self) -> ProcessorRow:
        return self._heartbeat.row(self.state.processor, self.state.confirmed)
