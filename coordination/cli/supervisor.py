"""Runs a command while this process leads: starts it when elected, ends it when deposed, and stands by again.

    stands by ── elected ─► starts the command ── it ends by itself ─► resigns, and returns its exit code
        ▲                         └── deposed ─► ends the command ─┐
        └──────────────────────────────────────────────────────────┘

One thread does it, from a queue of events that the elector, the command and signals put.
"""

from __future__ import annotations

import errno
import queue
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, assert_never

from coordination.cli.child import Child, Ended, Failed, Stopped
from coordination.cli.reading import read_blob
from coordination.leadership.leader import LeaderElector
from foundation.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from azure_account.location import Location
    from coordination.cli.child import Result
    from coordination.timing import LeaseTiming
    from foundation.clock import Clock

NOT_FOUND, NOT_STARTED, SIGNALLED = 127, 126, 128
"""Exit codes, as those of a shell; the last one plus a signal."""
_TICK_SECONDS = 0.5
"""The longest time from a renewal to the command's guard, and from the start to the first look at who leads."""
_OF_MARGIN = 0.8
"""The part of the margin before the lease can expire that the command has for its end; the rest is for SIGKILL."""


@dataclass(frozen=True)
class SupervisedCommand:
    """What to run, and how.

    name, holder: for the command's environment. where: the leased blob. grace: seconds from SIGTERM to SIGKILL; it is
    shorter if leadership is over: then SIGKILL comes before the lease can expire.
    """

    name: str
    where: Location
    holder: str
    command: Sequence[str]
    environment: Mapping[str, str]
    timing: LeaseTiming
    grace: float


@dataclass(frozen=True)
class LeadershipGained:
    """The process leads."""

    epoch: int


@dataclass(frozen=True)
class LeadershipLost:
    """The process no longer leads."""

    reason: str


@dataclass(frozen=True)
class ElectionFailed:
    """The election has ended with an error."""

    error: Exception


@dataclass(frozen=True)
class Signalled:
    """A signal asks this process to end."""

    number: int


Event: TypeAlias = "LeadershipGained | LeadershipLost | ElectionFailed | Signalled | Result"


class Supervisor:
    """Runs one program under leadership. `say` gets one line for each change."""

    def __init__(self, program: SupervisedCommand, say: Callable[[str], None], clock: Clock) -> None:
        self._program, self._say, self._clock = program, say, clock
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._elector = LeaderElector(program.where, program.holder, self, program.timing)
        self._epoch: int | None = None
        self._child: Child | None = None
        self._idle = threading.Event()  # no command runs
        self._idle.set()
        self._child_deadline = 0.0
        self._result: int | Exception | None = None  # what `run` ends with
        self._shown, self._look_at = "", 0.0
        self._namesake = 0, 0.0  # the last epoch of a leader with this process's name, and when it was seen first
        self._tick_seconds = min(_TICK_SECONDS, program.timing.renew_every / 2)

    def on_elected(self, epoch: int) -> None:
        """A thread of the elector calls it."""
        self._events.put(LeadershipGained(epoch))

    def on_deposed(self, reason: str) -> None:
        """A thread of the elector calls it. Returns when no command runs: the lease may be released then."""
        self._events.put(LeadershipLost(reason))
        self._idle.wait()

    def on_failure(self, error: Exception) -> None:
        """A thread of the elector calls it."""
        self._events.put(ElectionFailed(error))

    def signalled(self, number: int) -> None:
        """A signal asks this process to end; the second one ends the command at once. For a signal handler."""
        self._events.put(Signalled(number))

    def run(self) -> int:
        """Return the command's exit code, or 128 + the signal. Raises the error by which the election has ended."""
        self._look_at = self._clock.monotonic() + _TICK_SECONDS
        self._elector.start()
        while self._result is None or self._child is not None:
            event = self._next()
            if event is None:
                self._tick()
            else:
                self._handle(event)
        self._elector.stop()
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def _next(self) -> Event | None:
        try:
            return self._events.get(timeout=self._tick_seconds)
        except queue.Empty:
            return None

    def _handle(self, event: Event) -> None:
        match event:
            case LeadershipGained(epoch):
                self._epoch, self._shown = epoch, ""
                self._say(f"leads {self._target}, epoch {epoch}")
                self._start()
            case LeadershipLost(reason):
                self._epoch, self._look_at = None, self._clock.monotonic() + _TICK_SECONDS
                self._say(f"no longer leads: {reason}")
                self._stop()
            case ElectionFailed(error):
                self._end(error)
            case Signalled(number):
                self._signalled(number)
            case Ended() | Stopped() | Failed():
                self._child = None
                self._idle.set()
                self._ended(event)
            case _:
                assert_never(event)

    def _ended(self, result: Result) -> None:
        if isinstance(result, Stopped):
            self._say(f"the command was stopped{_code_text(result.code)}")
            self._start()
        elif isinstance(result, Ended):
            self._say(f"the command has ended{_code_text(result.code)}")
            self._end(result.code)
        else:
            self._say(f"the command does not run: {result.reason}")
            self._end(NOT_FOUND if result.errno == errno.ENOENT else NOT_STARTED)

    def _start(self) -> None:
        """Start the command, if this process leads and no command runs."""
        if self._result is not None or self._child is not None or self._epoch is None:
            return
        self._idle.clear()  # before it looks whether it leads: `on_deposed` waits from now on
        deadline = self._elector.deadline
        if deadline is None:
            self._idle.set()
            return
        program = self._program
        more = {"COORDINATION_EPOCH": str(self._epoch), "COORDINATION_NAME": program.name}
        environment = {**program.environment, **more, "COORDINATION_HOLDER": program.holder}
        self._child_deadline = deadline
        self._child = Child(
            program.command, environment, deadline, _OF_MARGIN * program.timing.margin, self._events.put
        )

    def _stop(self, grace: float | None = None) -> None:
        if self._child is not None:
            self._child.stop(grace)

    def _signalled(self, number: int) -> None:
        again = isinstance(self._result, int) and self._child is not None
        self._say(f"received {signal.Signals(number).name}")
        self._end(SIGNALLED + number)
        self._stop(0.0 if again else self._program.grace)

    def _end(self, result: int | Exception) -> None:
        """End when the command has; the first cause counts."""
        if self._result is None:
            self._result = result
        if isinstance(result, Exception):
            self._stop()

    def _tick(self) -> None:
        deadline = self._elector.deadline
        if self._child is not None and deadline is not None and deadline > self._child_deadline:
            self._child_deadline = deadline
            self._child.extend(deadline)
        if self._epoch is None and self._clock.monotonic() >= self._look_at:
            self._look_at = self._clock.monotonic() + self._program.timing.poll_every
            self._show(self._waits_for())

    def _waits_for(self) -> str:
        try:
            found = read_blob(self._program.where.open(), self._program.where.path)
        except TransientError as error:
            return f"waits for {self._target}: {error}"
        except ConfigurationError:
            return ""  # the election reports it
        if found is None or not found[0].leased:
            return ""
        document = found[0].document
        if not document.holder:
            return ""  # the first term is about to begin, perhaps that of this process
        if document.holder == self._program.holder and not self._is_another(document.epoch):
            return ""
        return f"stands by: {document.holder} leads {self._target}, epoch {document.epoch}"

    def _is_another(self, epoch: int) -> bool:
        """Whether a leader with the name of this process is another one.

        It may be this process, which has just been elected and has not heard of it, or an earlier process of this name,
        whose lease has not expired yet. After the duration of a lease it is neither.
        """
        now = self._clock.monotonic()
        if self._namesake[0] != epoch:
            self._namesake = epoch, now
        return now - self._namesake[1] > self._program.timing.duration

    def _show(self, line: str) -> None:
        if line and line != self._shown:
            self._say(line)
            self._shown = line

    @property
    def _target(self) -> str:
        return str(self._program.where)


def _code_text(code: int) -> str:
    if code <= SIGNALLED or code - SIGNALLED not in set(signal.Signals):
        return f" with exit code {code}"
    return f" by {signal.Signals(code - SIGNALLED).name}"
