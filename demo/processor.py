"""A processor of a job whose tasks do nothing but run; it prints a line of JSON for each thing that happens.

    AZURE_STORAGE_CONNECTION_STRING=... python -m demo.processor CONTAINER NAME [--job JOB] [--tasks 12]
        [--timing '{"heartbeat": 1, "death": 10, ...}'] [--lease '{"duration": 15, ...}']

Start several of them, and kill some: the others take their tasks over. SIGTERM ends one in order. The container must
exist. The times of the events are seconds of the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from azure_account.location import Location
from coordination import CoordinatorTiming, JobCoordinator, LeaseTiming

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB = "tasks that do nothing"
LOOK_SECONDS = 0.05
"""How often it looks whether it leads."""


def task_names(count: int) -> list[str]:
    """The tasks of a job with so many of them: t00, t01 and so on."""
    return [f"t{number:02}" for number in range(count)]


def arguments(
    container: str,
    name: str,
    *,
    job: str = JOB,
    tasks: int = 12,
    timing: CoordinatorTiming | None = None,
    lease: LeaseTiming | None = None,
) -> tuple[str, ...]:
    """The arguments of the program."""
    durations = ("--timing", timing), ("--lease", lease)
    given = (part for key, value in durations if value is not None for part in (key, json.dumps(asdict(value))))
    return (container, name, "--job", job, "--tasks", str(tasks), *given)


class Printer:
    """Prints what the coordinator wants."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        """Tasks begin."""
        say("begin", tasks=dict(tasks))

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        """Tasks stop."""
        say("stop", tasks=dict(tasks))

    def on_coordinator_stop(self) -> None:
        """The processor has left."""
        say("stopped")

    def on_coordinator_failure(self, error: Exception) -> None:
        """The program ends."""
        say("failed", error=str(error))
        self.ended.set()


def say(event: str, **more: object) -> None:
    """Print an event with the time."""
    line = json.dumps({"event": event, "at": time.monotonic(), **more})
    print(line + "\n", end="", flush=True)  # one write: two threads write lines


def main() -> None:
    """Take part until SIGTERM, or until the coordinator fails."""
    logging.basicConfig(level=logging.WARNING)
    given = _parser().parse_args()
    timing, lease = CoordinatorTiming(**given.timing), LeaseTiming(**given.lease) if given.lease else None
    printer = Printer()
    coordinator = JobCoordinator(
        Location(f"{given.container}/{given.job}"),
        tasks=task_names(given.tasks),
        listener=printer,
        processor=given.name,
        timing=timing,
        lease=lease,
    )
    signal.signal(signal.SIGTERM, lambda *_: printer.ended.set())
    say("started")
    coordinator.start()
    led = False
    while not printer.ended.wait(LOOK_SECONDS):
        if coordinator.leads() != led:
            led = not led
            say("leads" if led else "no longer leads")
    coordinator.stop()
    if led:
        say("no longer leads")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A processor of a job whose tasks do nothing but run.")
    parser.add_argument("container")
    parser.add_argument("name")
    parser.add_argument("--job", default=JOB)
    parser.add_argument("--tasks", type=int, default=12)
    parser.add_argument("--timing", type=json.loads, default={}, help="fields of CoordinatorTiming as JSON")
    parser.add_argument("--lease", type=json.loads, default={}, help="fields of LeaseTiming as JSON")
    return parser


if __name__ == "__main__":
    main()
