"""One processor of a job: reads what the others have written, does what `coordinator_state.step` says, and counts up.

It makes requests, one after the other; the listener and the function of tasks are called in threads of their own, and
no request waits for them. `coordinator` runs it in threads.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from azure_account.values import Done
from coordination.leadership.election import Elected
from coordination.metrics import ProcessorMetrics
from coordination.processors.coordinator_state import (
    BeginTasks,
    Confirm,
    Forget,
    JoinAnew,
    Observation,
    ProcessorDeclaration,
    ProcessorRow,
    ProcessorState,
    Publish,
    StopTasks,
    after,
    deaths,
    step,
)
from coordination.processors.job_model import BarrierState, from_content, to_content
from coordination.processors.listener_calls import ListenerCalls, ListenerError
from coordination.processors.listing import TaskLister
from coordination.waits import Waits
from foundation.errors import AzureBlobError, ConfigurationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from coordination.leadership.election import Change, Deposed, Election
    from coordination.leadership.lease import Term
    from coordination.processors.coordinator_state import Action
    from coordination.processors.job_model import PublishedModel
    from coordination.processors.listener_calls import TaskListener
    from coordination.processors.listing import TaskSource
    from coordination.processors.processor_table import ProcessorTable
    from coordination.timing import CoordinatorTiming


logger = logging.getLogger("coordination")


class Participant:
    """One processor. A thread calls `poll` again and again, others `beat`, `expire`, `elect` and `list_tasks`.

    spawn: calls a function in a thread of its own, as `ListenerCalls` says; by default it is called at once.

    While it leads, the renewals of its lease are its heartbeats. It has its row say so first
    (`ProcessorDeclaration.leads`): the next leader then takes it for dead as soon as the lease has expired.
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
        stated: ProcessorDeclaration | None = None,
        metrics: ProcessorMetrics | None = None,
        spawn: Callable[[Callable[[], None]], None] = lambda act: act(),
    ) -> None:
        self._election, self._table = election, table
        self._timing, self._new_id, self._clock = timing, new_id, election.lease.clock
        self._stated = replace(stated or ProcessorDeclaration(), death=timing.death)
        self.state = ProcessorState(new_id())
        self._metrics = metrics or ProcessorMetrics("", "")
        self._waits = Waits(f"processor {self.state.processor} of {election.lease.target}", self._clock, timing.request)
        self._lister = TaskLister(tasks, self._waits)
        self._calls = ListenerCalls(listener, self._clock, self._waits, spawn, self._metrics)
        self._counter = 0
        self._epoch: int | None = None
        self._content: Mapping[str, Any] | None = None
        self._published: PublishedModel | None = None
        self._written: tuple[int, PublishedModel | None, str] | None = None
        self._differing: frozenset[str] = frozenset()
        now = self._clock.monotonic()
        self._confirmed_at = now
        """When the last heartbeat that succeeded had begun."""
        self._polled_at = now
        """When the last poll that succeeded has ended."""
        self._election_due = self._poll_due = self._beat_due = self._listing_due = now
        self._expired = False  # once overdue it stays so until it has joined again: others may have its tasks
        self._stands_from = now  # a leader that could not act lets others lead for a while
        self._led: int | None = None  # the epoch in which renewals are its heartbeats
        self._told: int | None = None  # the epoch in which its row says so
        self._older = False  # whether the leader has seen a row of an older release, which does not know that
        self._acting = threading.RLock()  # guards the state
        self._writing = threading.RLock()  # guards the row

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
            self._election_due = self._clock.monotonic() + wait

    def _elect(self, *, unfit: bool) -> Change | None:
        if self._election.term is not None:
            return self._resign() if unfit else self._election.step()
        if unfit or not self._election.lease.free or self._clock.monotonic() < self._stands_from:
            return None
        change = self._election.step()
        self._election.lease.free = False  # until the next poll; if the step has raised it is repeated
        if isinstance(change, Elected):
            self._poll_due = self._listing_due = self._clock.monotonic()
        return change

    def list_tasks(self) -> None:
        """Ask the function of tasks, if this processor leads. It may take as long as it likes."""
        self._listing_due = self._clock.monotonic() + self._timing.heartbeat
        term = self._election.term
        if term is not None and self._election.leads():
            self._lister.ask(term.epoch)

    def poll(self) -> None:
        """Read and act. Errors of storage are raised; the next poll goes on from there.

        `ListenerError` if the listener fails. `ConfigurationError` if the leader gets no tasks from the function.
        """
        self._calls.check()
        begun, overdue = self._clock.monotonic(), self.overdue
        self._poll_due = begun + self._timing.quick
        leads, term = self._election.leads(), self._election.term
        epoch, published, etag = self._read(term if leads else None)
        tasks = self._wanted(term.epoch) if leads and term is not None and etag else None
        leads = tasks is not None  # who does not know the tasks of the job cannot distribute them
        observation = Observation(
            epoch=epoch,
            published=published,
            rows=self._rows() if leads else (),
            begun=begun,
            overdue=overdue or self.overdue,
            leads=leads,
            tasks=tasks or (),
            expired=None if term is None else term.expired,
        )
        with self._acting:
            self.state, actions = step(self.state, observation, self._clock.monotonic(), self._timing)
        self._act(actions, etag)
        self._polled_at = self._clock.monotonic()
        self._poll_due = self._polled_at + self._pause(observation)

    @property
    def seconds_to_election(self) -> float:
        """Until the next call of `elect`."""
        return max(0.0, self._election_due - self._clock.monotonic())

    @property
    def seconds_to_poll(self) -> float:
        """Until the next call of `poll`. It may become shorter: ask again in between."""
        return max(0.0, self._poll_due - self._clock.monotonic())

    @property
    def seconds_to_listing(self) -> float:
        """Until the next call of `list_tasks`. It may become shorter: ask again in between."""
        return max(0.0, self._listing_due - self._clock.monotonic())

    @property
    def seconds_to_beat(self) -> float:
        """Until the next call of `beat`."""
        return max(0.0, self._beat_due - self._clock.monotonic())

    @property
    def overdue(self) -> bool:
        """Whether the others may take this processor for dead soon, so that it must not act."""
        if self._expired:
            return True
        if self._led is not None:
            term = self._election.term
            return term is None or term.epoch != self._led or not self._election.leads()
        return self._clock.monotonic() - self._confirmed_at >= self._timing.overdue_after

    def expire(self) -> None:
        """Begin to stop all tasks if the processor is overdue, and log what it waits for. Makes no request."""
        self._waits.report()
        if self.overdue:
            self._expired = True
            self._run(StopTasks(self.state.running))
            self._calls.check()

    def beat(self) -> None:
        """Count up, unless a poll or the listener does not end: then the others get the tasks.

        If the processor may have been dead to the others until now, its tasks stop.
        """
        begin = self._clock.monotonic()
        self._beat_due = begin + self._timing.heartbeat
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
                self._stated = replace(self._stated, away=self._timing.restart, leads=None)
                self._counter += 1
                self._put(self._row())
            else:
                self._table.delete(self._row())

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
        leads, state, published = self._election.leads(), self.state, self._published
        values = {"leads": int(leads), "tasksRunning": len(state.running)}
        if self._epoch is not None:
            values["epoch"] = self._epoch
        if published is not None:
            values["jobModelVersion"] = published.current.version
        if leads:
            values["processorsAlive"] = len(state.alive | {state.processor})
        return values

    # reading

    def _read(self, term: Term | None) -> tuple[int, PublishedModel | None, str]:
        """Epoch, model and ETag of the leased blob; the ETag is empty if there is no blob.

        A leader does not read what it has written: nobody else can write it during its term.
        """
        if term is not None and self._written is not None and self._written[0] == term.epoch:
            return self._written
        with self._waits.on(f"blob {self._election.lease.target}"):
            found = self._election.lease.read()
        content = {} if found is None else found[0].content
        if content is not self._content:  # it is parsed only when it is another one: it may have thousands of tasks
            self._published, self._content = from_content(content, self._election.lease.target), content
        self._epoch = None if found is None else found[0].epoch
        if found is None:
            return 0, None, ""
        read = found[0].epoch, self._published, found[1]
        self._written = read if term is not None and found[0].lease_id == term.lease_id else None
        return read

    def _rows(self) -> tuple[ProcessorRow, ...]:
        """All rows. What they say about the other processors is noted."""
        with self._waits.on("the table of the job's processors"):
            rows = self._table.rows()
        self._older = any(row.stated.death is None for row in rows if row.processor != self.state.processor)
        digest = self._stated.tasks
        differing = frozenset(row.processor for row in rows if digest and row.stated.tasks not in ("", digest))
        if differing - self._differing:
            logger.warning(
                "the list of tasks of %s is not that of %s, which leads %s: the tasks of the leader's list run. Give "
                "all processors of the job the same list.",
                ", ".join(sorted(differing)), self.state.processor, self._election.lease.target,
            )  # fmt: skip
        self._differing = differing
        return rows

    def _wanted(self, epoch: int) -> tuple[str, ...] | None:
        """All tasks of the job; those of the model if the function fails, or has not answered. None if neither exists.

        `ConfigurationError` if the function fails before there is a model, unless storage gave it no answer.
        """
        answer = self._lister.answer(epoch)
        if isinstance(answer, tuple):
            return answer
        model = None if self._published is None else tuple(self._published.current.tasks)
        if answer is None:
            return model
        step = "Mend the function that is given as tasks: it returns a list of names."
        error = ConfigurationError("List the tasks of", self._election.lease.target, str(answer) or repr(answer), step)
        if model is not None:
            logger.error("%s The tasks stay as they are.", error)
        elif isinstance(answer, TransientError):
            raise answer
        else:
            raise error from answer
        return model

    def _pause(self, seen: Observation) -> float:
        """Seconds until the next poll: short while a barrier is open, and not beyond the next death."""
        published = self._published
        if published is None or published.barrier is BarrierState.START:
            return self._timing.quick
        if not seen.leads:
            return self._timing.heartbeat
        now = self._clock.monotonic()
        due = self.state.liveness.next_death(now, deaths(seen.newest, self._timing))
        return self._timing.heartbeat if due is None else min(self._timing.heartbeat, max(due, self._timing.quick / 2))

    # acting

    def _act(self, actions: Iterable[Action], etag: str) -> None:
        """Do what the step says, in its order, as a worker and as the leader.

        What a worker cannot do, or is at, leaves out what it does after that; a leader does not wait for its listener.
        """
        works = leads = True
        for action in actions:
            if isinstance(action, (Publish, Forget)):
                leads = leads and self._do(action, etag)
            else:
                works = works and self._do(action, etag)

    def _do(self, action: Action, etag: str) -> bool:
        """Whether the action was done."""
        match action:
            case StopTasks() | BeginTasks():
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
                return self._rejoin()
            case _:
                assert_never(action)

    def _run(self, action: StopTasks | BeginTasks) -> bool:
        """Have the listener stop or begin tasks, if it still is what is to be done. Whether that is done already.

        It is not while an earlier call goes on: what is left to do is found again when that has returned.
        """
        if not self._calls.claim():
            return False
        with self._acting:
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
        with self._acting:
            self.state = after(self.state, action)
        self._poll_due = self._clock.monotonic()

    def _publish(self, action: Publish, etag: str) -> bool:
        term, published, watched = self._election.term, action.published, self.state.watched
        self._written = None
        if term is None or not self._election.leads():
            return False
        answer = self._election.lease.write(term, to_content(published), etag)
        if not isinstance(answer, Done):
            return False
        self._published, self._content = published, None
        self._written = term.epoch, published, answer.etag
        self._poll_due = self._clock.monotonic()  # what is published is for this processor too
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

    def _confirm(self, version: int | None) -> bool:
        with self._writing:
            before = self._row()
            self._counter += 1
            if not self._put(ProcessorRow(self.state.processor, version, self._counter, self._says())):
                return False
            with self._acting:
                self.state = after(self.state, Confirm(version))
        self._table.delete(before)
        return True

    def _rejoin(self) -> bool:
        if self._calls.busy:
            return False
        logger.warning(
            "processor %s has not confirmed its heartbeat for %.0f s: it joins %s again",
            self.state.processor, self._clock.monotonic() - self._confirmed_at, self._election.lease.target,
        )  # fmt: skip
        with self._writing:
            self._expired = True
            self._table.delete(self._row())
            with self._acting:
                self.state = ProcessorState(self._new_id())
            self._led = self._told = None
            begin = self._clock.monotonic()
            self._counter += 1
            if not self._put(self._row()):
                return False
            self._confirmed_at, self._expired = begin, False
        self._metrics.count("joinsAnew")
        return True

    # heartbeats

    def _count_up(self, *, steps_down: bool = False) -> None:
        """Count up in the row, unless the renewals of a lease stand for that, and the row says so.

        If renewals are late the row counts again, so that a leader that loses its lease keeps its tasks.
        """
        with self._writing:
            begin, term, waits = self._clock.monotonic(), self._election.term, self._waits.text()
            leads = term.epoch if term is not None and not steps_down and self._renews(term) else None
            if leads is not None:
                if self._told == leads and not self._older and waits == self._stated.waits:
                    return
                self._led = leads  # before the row says so
            self._counter += 1
            self._stated = replace(self._stated, waits=waits)
            stated = replace(self._stated, leads=leads)
            if not self._put(ProcessorRow(self.state.processor, self.state.confirmed, self._counter, stated)):
                return
            if self.overdue:  # the answer has come too late
                self._expired = True
            else:
                self._led, self._told, self._confirmed_at = leads, leads, begin
        self.expire()

    def _renews(self, term: Term) -> bool:
        """Whether the lease was renewed of late."""
        timing = self._election.lease.timing
        since = timing.duration - timing.margin - (term.deadline - self._clock.monotonic())
        return self._election.leads() and since < 2 * timing.renew_every

    def _resign(self) -> Deposed | None:
        """End the term, so that another process leads at once; this one goes on as a worker if it is not overdue.

        Its row has to say before that its lease does not keep it alive any more. If that fails the lease expires.
        """
        ended = self._election.expire()
        if ended is not None:
            return ended
        if self._led is not None and not self.overdue:
            self._count_up(steps_down=True)
            if self._told is not None:
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

    def _says(self) -> ProcessorDeclaration:
        return replace(self._stated, leads=self._led)

    def _row(self) -> ProcessorRow:
        return ProcessorRow(self.state.processor, self.state.confirmed, self._counter, self._says())
