"""Runs a command, and ends it when leadership ends, whatever happens to the process that leads.

    python guard.py FD UNTIL GRACE COMMAND...

It is a program of its own, with the standard library only, and `child` starts it. `run` may be suspended, hang or be
killed; then the guard is still there to end the command before another process can lead. FD is a socket with lines:

    to the guard    until S      the command may run until S, seconds of this machine's boot clock; at first UNTIL
                    stop S       end it: SIGTERM, and SIGKILL after S seconds
                    (closed)     `run` has died: the same, with GRACE seconds
    from the guard  started PID | failed ERRNO | ended CODE | stopped CODE

At UNTIL the guard ends the command by itself, and SIGKILL comes GRACE seconds after UNTIL at the latest. The command is
in a session and a process group of its own, and all of the group is ended. CODE is its exit code, or 128 + a signal.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_LOOK_SECONDS = 1.0
"""The longest wait: a wait does not count the time for which the machine sleeps."""
_GROUP_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
_UNSTARTED = 125


def clock() -> float:
    """The seconds of `SystemClock.monotonic`, which all processes of a machine share."""
    return time.clock_gettime(_CLOCK)


class Guard:
    """Watches over one command."""

    def __init__(self, control: socket.socket, until: float, grace: float) -> None:
        self._control, self._until, self._grace = control, until, grace
        self._received = b""
        self._stop_at: float | None = None  # when SIGKILL is due, as asked for
        self._open = True

    def run(self, command: list[str]) -> int:
        """Run the command until it has ended, with all of its process group. Its exit code."""
        wakes, waker = socket.socketpair()
        for end in (wakes, waker):
            end.setblocking(False)
        signal.set_wakeup_fd(waker.fileno())
        # Only `run` decides. A handler, since the command would inherit that a signal is ignored.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        try:
            process = _start(command)
        except OSError as error:
            self._send(f"failed {error.errno}")
            return _UNSTARTED
        self._send(f"started {process.pid}")
        try:
            by_itself = self._watch(process, wakes)
        except BaseException:
            _signal(process.pid, signal.SIGKILL)
            raise
        code = process.wait()
        code = 128 - code if code < 0 else code
        self._send(f"{'ended' if by_itself else 'stopped'} {code}")
        return code

    def _watch(self, process: subprocess.Popen[bytes], wakes: socket.socket) -> bool:
        """Return when the group is gone. True if the command had ended before it was to."""
        by_itself = False
        while True:
            ended = process.poll() is not None
            if ended and not _signal(process.pid, 0):
                return by_itself or self._stop_at is None
            if self._stop_at is None and (ended or clock() >= self._until):
                by_itself = ended
                self._stop(process, self._grace)
            if self._kill_at() <= clock():
                _signal(process.pid, signal.SIGKILL)
                if ended:  # what is left are zombies that nobody waits for
                    return by_itself
            due = self._until if self._stop_at is None else self._kill_at()
            wait = _GROUP_SECONDS if self._kill_at() <= clock() or ended else min(_LOOK_SECONDS, due - clock())
            ready, _, _ = select.select([wakes, *([self._control] if self._open else [])], [], [], max(0.0, wait))
            if wakes in ready:
                wakes.recv(4096)
            if self._control in ready:
                self._receive(process)

    def _kill_at(self) -> float:
        """When SIGKILL is due."""
        latest = self._until + self._grace
        return latest if self._stop_at is None else min(self._stop_at, latest)

    def _receive(self, process: subprocess.Popen[bytes]) -> None:
        try:
            data = self._control.recv(4096)
        except ConnectionResetError:  # `run` has died before it read all
            data = b""
        self._open = bool(data)
        *lines, self._received = (self._received + data).split(b"\n")
        for line in lines:
            verb, seconds = line.split()
            if verb == b"until":
                self._until = float(seconds)
            else:
                self._stop(process, float(seconds))
        if not data:
            self._stop(process, self._grace)

    def _stop(self, process: subprocess.Popen[bytes], grace: float) -> None:
        """End the group; a second call can only bring SIGKILL forward."""
        kill_at = clock() + grace
        if self._stop_at is None:
            _signal(process.pid, signal.SIGTERM)
            _signal(process.pid, signal.SIGCONT)  # a process that is suspended would not notice
        self._stop_at = kill_at if self._stop_at is None else min(kill_at, self._stop_at)

    def _send(self, line: str) -> None:
        """Send a line. If `run` has died, the line is for nobody, and `_receive` finds the end of the socket."""
        with suppress(OSError):
            self._control.sendall(f"{line}\n".encode())


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    guard = os.getpid()
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def die_with_the_guard() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(_UNSTARTED)

    # Before a fork in a process with one thread, which the guard is, preexec_fn is safe.
    return subprocess.Popen(command, start_new_session=True, preexec_fn=die_with_the_guard)  # noqa: PLW1509, S603


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group. False if there is no such group any more."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as another user, such as by sudo: only the request can be made
        return True
    return True


if __name__ == "__main__":
    _descriptor, _until, _seconds = sys.argv[1:4]
    with socket.socket(fileno=int(_descriptor)) as _socket:
        _socket.set_inheritable(False)
        sys.exit(Guard(_socket, float(_until), float(_seconds)).run(sys.argv[4:]))
