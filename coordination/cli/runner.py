"""Runs a program while this process leads: starts it when elected, ends it when deposed, and stands by again.

On Linux the kernel kills the program when the thread ends that has started it (`launch.py`). That is the elector's,
which ends after the program, or with this process.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordination.cli.reading import read_blob
from coordination.leadership.leader import LeaderElector
from foundation.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from azure_account.location import Location
    from coordination.timing import LeaseTiming

_LAUNCH = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py"))]
_LOOK_SECONDS = 0.5
_OF_MARGIN = 0.8
"""The part of the margin before the lease can expire that the program has for its end; the rest is for SIGKILL."""


@dataclass
class ProgramRunner:
    """Runs `command` while this process leads, by the lease of the blob `where`; it is the elector's listener.

    name, holder: for the command's environment, and people. grace: seconds from a signal to SIGKILL, while it leads.
    say: gets one line for each change.
    """

    name: str
    where: Location
    holder: str
    command: Sequence[str]
    environment: Mapping[str, str]
    timing: LeaseTiming
    grace: float
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        """Begin as one that stands by."""
        self._elector = LeaderElector(self.where, self.holder, self, self.timing)
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._ended.set()
        self._stopping = self._resigning = self._asked = False
        self._ends: queue.SimpleQueue[int | signal.Signals | Exception] = queue.SimpleQueue()  # why it ends

    def run(self) -> int:
        """Return the program's exit code, or 128 + a signal. Raises the error by which the election has ended."""
        self._elector.start()
        end = self._stand_by()
        self._resigning = True
        if isinstance(end, signal.Signals):
            self.say(f"received {end.name}")
            self._stop(end, self.grace)
        self._elector.stop()
        if isinstance(end, Exception):
            raise end
        return 128 + end if isinstance(end, signal.Signals) else end

    def receive(self, number: int) -> None:
        """A signal asks this process, and the program, to end; the second one kills it. For a signal handler."""
        if self._asked:
            self._stopping = True
            self._signal(signal.SIGKILL)
        self._asked = True
        self._ends.put(signal.Signals(number))

    def on_elected(self, epoch: int) -> None:
        """Start the program, unless a signal has asked to end."""
        if self._asked:
            return
        self.say(f"leads {self.where}, epoch {epoch}")
        names = {"COORDINATION_NAME": self.name, "COORDINATION_HOLDER": self.holder}
        process = subprocess.Popen(  # noqa: S603 - the command is what the user wants to run
            [*_LAUNCH, str(os.getpid()), *self.command],
            env={**self.environment, **names, "COORDINATION_EPOCH": str(epoch)},
            start_new_session=True,
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,  # a session without it
        )
        self._process, self._stopping = process, False
        self._ended.clear()
        threading.Thread(target=self._wait, args=(process,), name="command", daemon=True).start()

    def on_deposed(self, reason: str) -> None:
        """End the program. Only then the lease is released, unless it has been lost."""
        if not self._resigning:
            self.say(f"no longer leads: {reason}")
        self._stop(signal.SIGTERM, _OF_MARGIN * self.timing.margin)

    def on_failure(self, error: Exception) -> None:
        """The election has ended."""
        self._ends.put(error)

    def _stand_by(self) -> int | signal.Signals | Exception:
        """Wait for the end, and say who else leads."""
        said, wait = "", _LOOK_SECONDS
        while True:
            with suppress(queue.Empty):
                return self._ends.get(timeout=wait)
            wait = self.timing.poll_every
            line = self._leader() if self._ended.is_set() else ""
            if line not in {"", said}:
                self.say(line)
                said = line

    def _leader(self) -> str:
        try:
            found = read_blob(self.where.open(), self.where.path)
        except TransientError as error:
            return f"waits for {self.where}: {error}"
        except ConfigurationError:
            return ""  # the election reports it
        if found is None or not found[0].leased or found[0].document.holder in {"", self.holder}:
            return ""  # a term is about to begin, perhaps that of this process
        return f"stands by: {found[0].document.holder} leads {self.where}, epoch {found[0].document.epoch}"

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        self._signal(signal.SIGKILL)  # what it has left behind in its group
        code = 128 - code if code < 0 else code
        number = code - 128
        how = f"by {signal.Signals(number).name}" if number in set(signal.Signals) else f"with exit code {code}"
        self.say(f"the command {'was stopped' if self._stopping else 'has ended'} {how}")
        if not self._stopping:
            self._ends.put(code)
        self._ended.set()

    def _stop(self, number: int, grace: float) -> None:
        """Ask the program to end, wait for that, and kill it after `grace` seconds."""
        if not self._ended.is_set():
            self._stopping = True
            self._signal(number)
            self._signal(signal.SIGCONT)  # if it is suspended, it would not notice
            if not self._ended.wait(grace):
                self._signal(signal.SIGKILL)
                self._ended.wait()

    def _signal(self, number: int) -> None:
        """Send a signal to the program's group, if it runs."""
        if self._process is not None and not self._ended.is_set():
            with suppress(ProcessLookupError, PermissionError):  # it has ended, or runs as another user, as by sudo
                os.killpg(self._process.pid, number)
