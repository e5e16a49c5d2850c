"""Processes of a job that print a line of JSON for each thing that happens: tasks that begin or stop, who leads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.sessions import kill_session, session_of, signal_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coordination import JobCoordinator

ROOT = Path(__file__).resolve().parents[1]
POLL_SECONDS = 0.05
END_SECONDS = 60.0


def say(event: str, **more: object) -> None:
    """Print an event with the time, in a process that `Reporting` has started."""
    line = json.dumps({"event": event, "at": time.time(), **more})
    print(line + "\n", end="", flush=True)  # one write: two threads write lines


def say_who_leads(coordinator: JobCoordinator) -> None:
    """Say when this process begins and ends to lead; from now on, in a thread."""

    def watch() -> None:
        led = False
        while True:
            if coordinator.leads() != led:
                led = not led
                say("leads" if led else "no longer leads")
            time.sleep(2 * POLL_SECONDS)

    threading.Thread(target=watch, daemon=True).start()


class Reporting:
    """A process in a session of its own, and the events that it has printed.

    errors: the file that gets its standard error; by default that of this process.
    """

    def __init__(
        self, connection_string: str, name: str, module: str, *arguments: str, errors: Path | None = None
    ) -> None:
        self.name, self.events, self._errors = name, list[dict[str, Any]](), errors
        self._closed = False
        self.ended_at: float | None = None
        """When it had ended (seconds since 1970)."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
            "AZURE_STORAGE_CONNECTION_STRING": connection_string,
        }
        with nullcontext() if errors is None else errors.open("wb") as target:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=target,
                cwd=ROOT,
                env=environment,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """SIGKILL to all its processes, once: later the number of its session may be another one's."""
        if not self._closed:
            kill_session(self.process)
            self._close()

    def end(self) -> None:
        """SIGTERM to the process itself, which ends in order. `subprocess.TimeoutExpired` after 60 s."""
        self.process.terminate()
        self.process.wait(END_SECONDS)
        self._close()

    def suspend(self) -> None:
        """SIGSTOP to all its processes."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT to all its processes."""
        self._signal(signal.SIGCONT)

    def resume_all_but_itself(self) -> None:
        """SIGCONT to all processes that it has started."""
        for process in session_of(self.process):
            if process.pid != self.process.pid:
                process.send_signal(signal.SIGCONT)

    def named(self, *names: str) -> list[dict[str, Any]]:
        """Its events of these names."""
        return [event for event in list(self.events) if event["event"] in names]

    @property
    def errors(self) -> str:
        """What it has written to its file of errors."""
        return "" if self._errors is None else self._errors.read_text("utf-8", "replace")

    @property
    def leads(self) -> bool:
        """Whether it leads, by the last event about that."""
        return [event["event"] for event in self.named("leads", "no longer leads")][-1:] == ["leads"]

    @property
    def running(self) -> dict[str, int]:
        """Its tasks, each with its epoch."""
        found: dict[str, int] = {}
        for event in self.named("begin", "stop"):
            if event["event"] == "begin":
                found |= event["tasks"]
            else:
                found = {task: epoch for task, epoch in found.items() if event["tasks"].get(task) != epoch}
        return found

    def _signal(self, number: signal.Signals) -> None:
        if not signal_session(self.process, number):
            raise ProcessLookupError(f"{self.name} does not run: it got no {number.name}.")

    def _close(self) -> None:
        self._closed = True
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if line.startswith(b"{"):
                self.events.append(json.loads(line))
        self.ended_at = time.time()


def wait_for(condition: Callable[[], object], seconds: float, *, poll: float = POLL_SECONDS) -> float:
    """Wait until the condition holds. Returns how long it took (s); `TimeoutError` after `seconds`."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin >= seconds:
            raise TimeoutError(f"The condition did not hold within {seconds} s.")
        time.sleep(poll)
    return time.monotonic() - begin


def is_shared(tasks: Sequence[str], processes: Sequence[Reporting]) -> bool:
    """Whether these processes run all tasks, each one of them, in shares that differ by one at most."""
    counts = [len(process.running) for process in processes]
    return sorted(task for process in processes for task in process.running) == sorted(tasks) and (
        max(counts) - min(counts) <= 1
    )


def begun_twice(processes: Iterable[Reporting]) -> set[tuple[str, int]]:
    """The tasks that have begun twice in one epoch, each with that epoch."""
    begun = Counter(
        (task, epoch)
        for process in processes
        for event in process.named("begin")
        for task, epoch in event["tasks"].items()
    )
    return {task for task, count in begun.items() if count > 1}


def failures(processes: Iterable[Reporting]) -> list[dict[str, Any]]:
    """The events of processes whose coordinator has failed."""
    return [event for process in processes for event in process.named("failed")]
