"""The calls of a listener: one at a time, each in a thread of its own, since it may take long, or hang."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordination.metrics import ProcessorMetrics
    from coordination.waits import Waits
    from foundation.clock import Clock

logger = logging.getLogger("coordination")

_LOOK_SECONDS = 0.05


class ListenerError(Exception):
    """The listener did not begin or stop tasks. The cause is what it has raised."""


class TaskListener(Protocol):
    """Begins and stops tasks, each in an epoch that its writes present. A method returns when it is done."""

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        """Begin these tasks, each with the epoch that its writes present. The others run on."""

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        """Stop these tasks: other processors get them. They must write nothing when this returns.

        Called again if it has failed, also for tasks that have stopped, or have not begun.
        """


class ListenerCalls:
    """Calls the listener, and notes what it has raised. Thread-safe.

    spawn: calls a function in a thread of its own. It may wait a moment for it, so that a call which returns at once
    is over when `spawn` returns.
    """

    def __init__(
        self,
        listener: TaskListener,
        clock: Clock,
        waits: Waits,
        spawn: Callable[[Callable[[], None]], None],
        metrics: ProcessorMetrics,
    ) -> None:
        self._listener, self._clock, self._waits, self._spawn = listener, clock, waits, spawn
        self._metrics = metrics
        self._guard = threading.Lock()
        self._since: float | None = None
        self._failure: ListenerError | None = None

    @property
    def seconds(self) -> float:
        """For how long a call has been going on; 0 if none is."""
        since = self._since
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def busy(self) -> bool:
        """Whether a call is going on."""
        return self._since is not None

    def claim(self) -> bool:
        """Take the turn of the next call, unless one is going on."""
        with self._guard:
            free = self._since is None
            if free:
                self._since = self._clock.monotonic()
            return free

    def make(self, name: Literal["begin", "stop"], tasks: Mapping[str, int], done: Callable[[], None]) -> None:
        """Have tasks begun or stopped, in the turn that was claimed. `done` is called when they have.

        Whatever the listener raises, also to end the process, is not taken for an error of storage.
        """
        call = self._listener.on_new_job_model if name == "begin" else self._listener.on_job_model_expired
        names = ", ".join(sorted(tasks))[:200]

        def act() -> None:
            begin = self._clock.monotonic()
            try:
                with self._waits.on(f"its listener to {name} {names}"):
                    call(tasks)
            except BaseException as error:  # noqa: BLE001 - raised by `check`
                failure = ListenerError(f"The tasks {names} did not {name}: {error!r}")
                failure.__cause__ = error
                self._failure = failure
            else:
                done()
                self._metrics.record("listenerSeconds", self._clock.monotonic() - begin, call=name)
                self._metrics.count("tasksBegun" if name == "begin" else "tasksStopped", len(tasks))
                seconds = self._clock.monotonic() - begin
                verb = "begun" if name == "begin" else "stopped"
                logger.info("%d tasks %s in %.2f s: %s", len(tasks), verb, seconds, names)
            finally:
                self.release()

        self._spawn(act)

    def check(self) -> None:
        """Raise what the last call has raised, once."""
        with self._guard:
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def wait(self, end: float) -> bool:
        """Wait for the end of the call that is going on, until a time. Whether none is going on."""
        while self.busy and self._clock.monotonic() < end:
            self._clock.sleep(_LOOK_SECONDS)
        return not self.busy

    def release(self) -> None:
        """Give the turn back."""
        with self._guard:
            self._since = None
