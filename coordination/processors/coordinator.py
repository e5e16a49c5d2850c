"""A processor of a job in threads: election, polls, heartbeats, and a watch over deadlines.

The listener and the function of tasks are called in threads that do nothing else, so they may take long, or hang.

coordinator = JobCoordinator(Location("box/flights", options), tasks=[...], listener=listener)
coordinator.start()
...
coordinator.stop()
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from azure_account.location import Location
from coordination.connect import brief_account
from coordination.leadership.election import Deposed, Elected, Election
from coordination.leadership.lease import Lease
from coordination.metrics import ProcessorMetrics
from coordination.names import check_processor, names_of
from coordination.processors.listener_calls import ListenerError, TaskListener
from coordination.processors.participant import Participant
from coordination.processors.processor_table import ProcessorTable
from coordination.timing import JOB_LEASE, STOP_SECONDS, CoordinatorTiming, LeaseTiming
from foundation.arguments import Wait, checked
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import AzureBlobError, TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordination.leadership.election import Change

logger = logging.getLogger("coordination")

_QUICK_SECONDS = 0.1
"""A call of the listener that returns within this time is over when the poll goes on."""


class JobCoordinatorListener(TaskListener, Protocol):
    """What a processor does. The methods are called one at a time, each in a thread of its own.

    If a call takes longer than half of `barrier`, the others take the processor for dead: they run its other tasks
    too, in higher epochs, until it is done. A call that does not return is named in the log, and in `status`; only
    `on_coordinator_failure` is called beside it.
    """

    def on_coordinator_stop(self) -> None:
        """The coordinator has stopped as it was asked to."""

    def on_coordinator_failure(self, error: Exception) -> None:
        """The coordinator has stopped: the listener or the function of tasks failed, or storage refuses a request.

        error: what the listener has raised, or an `AzureBlobError` with its cause and what to do.
        """


class JobCoordinator:
    """One processor of a job, which runs a share of the job's tasks.

    where: `container/job`: the container of the job's blob, which is created if it is absent, and the name of the job,
    which all its processors give.
    tasks: the names of all tasks of the job, or a function that returns them. The leader calls it every `heartbeat`,
    in a thread of its own; while it does not return the tasks stay as they are.
    listener: what begins and stops tasks here.
    processor: a name for people, to which a unique ending is added.
    timing, lease: durations, in seconds.

    `ConfigurationError` for names that Azure refuses.
    """

    @checked
    def __init__(
        self,
        where: Location,
        *,
        tasks: Sequence[str] | Callable[[], Sequence[str]],
        listener: JobCoordinatorListener,
        processor: str = "processor",
        timing: CoordinatorTiming | None = None,
        lease: LeaseTiming | None = None,
    ) -> None:
        check_processor(processor)
        self._timing = timing or CoordinatorTiming()
        account, job = brief_account(where, self._timing.request), where.path
        names = names_of(where.container, job)
        self._where, self._container = where, account.container(where.container)
        held = Lease(
            self._container,
            names.blob,
            processor,
            lease or JOB_LEASE,
            clock=SYSTEM_CLOCK,
            new_id=lambda: str(uuid.uuid4()),
        )
        self._clock, self._election = held.clock, Election(held, keeps_refused=True)
        self._table = ProcessorTable(account.table(names.processors))
        self.metrics: ProcessorMetrics = ProcessorMetrics(job, processor)
        self._participant = Participant(
            self._election,
            self._table,
            listener,
            tasks,
            self._timing,
            new_id=lambda: f"{processor}-{uuid.uuid4().hex[:8]}",
            name=processor,
            metrics=self.metrics,
            spawn=self._call,
        )
        self._listener, self._ending = listener, threading.Lock()
        self._calls: set[int] = set()
        """The threads in which the listener is called."""
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._threads = self._new_threads(job)

    def _new_threads(self, job: str) -> list[threading.Thread]:
        one = self._participant
        loops: dict[str, tuple[Callable[[], object], Callable[[], float]]] = {
            "election": (self._elect, lambda: one.seconds_to("elect")),
            "poll": (one.poll, lambda: one.seconds_to("poll")),
            "beat": (one.beat, lambda: one.seconds_to("beat")),
            "watch": (one.expire, lambda: 0.0),
            "tasks": (one.list_tasks, lambda: one.seconds_to("list_tasks")),
        }
        return [
            threading.Thread(target=self._repeat, args=loop, name=f"{job}-{name}", daemon=True)
            for name, loop in loops.items()
        ]

    def start(self) -> None:
        """Join the job. Creates container and table if absent; `ConfigurationError` if that is not permitted."""
        self._where.prepare(self._container)
        self._table.create()
        self.metrics.observe(self._participant.gauges)
        for thread in self._threads:
            thread.start()

    @checked
    def stop(self, within: Wait = STOP_SECONDS) -> None:
        """Stop all tasks, and leave the job, so that the others need not wait. Returns when the listener was called.

        If the listener cannot stop its tasks, or does not return within these seconds, `on_coordinator_failure` is
        called, and the others wait for `death`. From within the listener it does nothing: raise an error instead.
        """
        if threading.get_ident() in self._calls:
            return
        if self._begin_to_end():
            self._end(self._leave(within), within)
        self._ended.wait()

    @property
    def processor(self) -> str:
        """The processor's id. It changes if the processor could not confirm its heartbeats in time."""
        return self._participant.state.processor

    @property
    def tasks(self) -> Mapping[str, int]:
        """The tasks that it runs, each with its epoch."""
        return dict(self._participant.state.running)

    def leads(self) -> bool:
        """Whether it leads the job at this moment."""
        return self._election.leads()

    def _elect(self) -> None:
        self._count(self._participant.elect())

    def _count(self, change: Change | None) -> None:
        if isinstance(change, Elected):
            self.metrics.count("termsBegun")
            logger.info("%s: %s leads, in epoch %d", self._election.lease.target, self.processor, change.term.epoch)
        elif isinstance(change, Deposed):
            self.metrics.count("termsEnded", reason=change.ending.value)
            level, text = change.ending.log_level, "%s: %s does not lead any more, epoch %d ends: %s"
            logger.log(level, text, self._election.lease.target, self.processor, change.term.epoch, change.reason)

    def _repeat(self, act: Callable[[], object], left: Callable[[], float]) -> None:
        """Act whenever no seconds are `left`, until the coordinator stops.

        What storage refuses may be a blip: it ends the coordinator when it has lasted until heartbeats are overdue.
        """
        done_at, tick = self._clock.monotonic(), min(self._timing.quick / 2, self._timing.margin / 4)
        while not self._stopping.is_set():
            try:
                act()
                done_at = self._clock.monotonic()
            except TransientError as error:
                logger.warning("%s", error)
            except AzureBlobError as error:
                if self._clock.monotonic() - done_at >= self._timing.overdue_after:
                    self._fail(error)
                    return
                logger.warning("it ends if this lasts for %.0f s: %s", self._timing.overdue_after, error)
            except Exception as error:  # noqa: BLE001 - a thread that ends without notice stops the job in silence
                self._fail(error)
                return
            self._stopping.wait(tick)
            while not self._stopping.is_set() and (seconds := left()) > 0:
                self._stopping.wait(min(tick, seconds))  # in steps: it may be due earlier than it was

    def _fail(self, error: Exception) -> None:
        if self._begin_to_end():
            logger.error("the coordinator stops: %s", error)
            self._leave(STOP_SECONDS)
            self._end(_cause(error), STOP_SECONDS)

    def _end(self, error: Exception | None, within: float) -> None:
        """Call the listener's last method, for at most `within` seconds. What it raises is logged."""

        def notify() -> None:
            try:
                if error is None:
                    self._listener.on_coordinator_stop()
                else:
                    self._listener.on_coordinator_failure(error)
            except Exception:
                logger.exception("the listener raised at the end")

        self._call(notify, within)
        self._ended.set()

    def _call(self, act: Callable[[], None], within: float = _QUICK_SECONDS) -> None:
        """Call the listener in a thread of its own, and wait for that so long."""

        def run() -> None:
            self._calls.add(threading.get_ident())
            try:
                act()
            finally:
                self._calls.discard(threading.get_ident())

        thread = threading.Thread(target=run, name=f"{self._threads[0].name}-listener", daemon=True)
        thread.start()
        thread.join(within)

    def _begin_to_end(self) -> bool:
        """End the threads. True for the first call."""
        with self._ending:
            if self._stopping.is_set():
                return False
            self._stopping.set()
        for thread in self._threads[:-1]:  # the last one may be in the function of tasks
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()
        return True

    def _leave(self, within: float) -> Exception | None:
        """Stop the tasks and leave job and election. Returns the listener's error if it cannot stop its tasks."""
        failed: Exception | None = None
        try:
            self._participant.leave(within)
        except ListenerError as error:
            logger.error("%s", error)  # noqa: TRY400 - the listener gets the error itself
            failed = _cause(error)
        except AzureBlobError as error:  # the others find out by themselves
            logger.warning("%s", error)
        self._count(self._election.resign())
        self.metrics.close()
        return failed


def _cause(error: Exception) -> Exception:
    """What the listener has raised, if it is an error; else the error, which has its text."""
    return error.__cause__ if isinstance(error, ListenerError) and isinstance(error.__cause__, Exception) else error
