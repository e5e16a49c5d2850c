"""The command of `run`, in a process that a guard watches over (`guard.py`)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Ended:
    """The command has ended by itself, with this exit code, or 128 + the signal that killed it."""

    code: int


@dataclass(frozen=True)
class Stopped:
    """The guard has ended the command, since it was asked to or leadership was over."""

    code: int


@dataclass(frozen=True)
class Failed:
    """The command could not be started, or its guard was killed (`errno` None); it does not run."""

    errno: int | None

    @property
    def reason(self) -> str:
        """The cause."""
        return "its guard was killed" if self.errno is None else os.strerror(self.errno)


Result: TypeAlias = Ended | Stopped | Failed


class Child:
    """One run of a command.

    deadline: it runs until then (monotonic seconds of `SystemClock`) unless `extend` is called. grace: seconds from
    then to SIGKILL. ended: called once, by a thread of its own.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        deadline: float,
        grace: float,
        ended: Callable[[Result], None],
    ) -> None:
        self._grace, self._ended = grace, ended
        self._control, theirs = socket.socketpair()
        with theirs:
            guard = [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py"))]
            self._guard = subprocess.Popen(  # noqa: S603 - the command is what the user wants to run
                [*guard, str(theirs.fileno()), str(deadline), str(grace), *command],
                env=dict(environment),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                # Another session cannot read from the terminal.
                stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            )
        threading.Thread(target=self._wait, name="command", daemon=True).start()

    def extend(self, deadline: float) -> None:
        """Let it run until then."""
        self._send(f"until {deadline}")

    def stop(self, grace: float | None = None) -> None:
        """End it: SIGTERM, and SIGKILL after `grace` seconds, or before another process can lead."""
        self._send(f"stop {self._grace if grace is None else grace}")

    def _send(self, line: str) -> None:
        try:
            self._control.sendall(f"{line}\n".encode())
        except OSError:
            return  # the guard has ended, which `ended` reports

    def _wait(self) -> None:
        answers = self._answers()
        self._guard.wait()
        self._control.close()
        self._ended(self._result(answers))

    def _answers(self) -> dict[str, str]:
        data = b""
        with suppress(ConnectionResetError):  # the guard was killed before it read all
            while more := self._control.recv(4096):
                data += more
        return dict(line.split() for line in data.decode().splitlines())

    def _result(self, answers: Mapping[str, str]) -> Result:
        match answers:
            case {"ended": code}:
                return Ended(int(code))
            case {"stopped": code}:
                return Stopped(int(code))
            case {"failed": number}:
                return Failed(int(number))
            case {"started": process}:
                _kill(int(process))
        return Failed(None)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has died with its guard
