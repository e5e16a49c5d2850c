"""What the run takes: memory, handles and threads of each driver, blobs in the container, and requests.

A driver's figures are those of its whole session: Python, Java, and the workers that they have started.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
from azure.core.exceptions import AzureError

from tools.sessions import session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from demo.pipeline.observed import Observed
    from demo.pipeline.processes import System
    from tools.reporting import Reporting

SECONDS = 15.0
_ROUNDS_PER_LISTING = 4
_MEBIBYTE = 2**20
_WARM_SECONDS = 240.0
"""A driver that has run for so long has loaded what it needs."""
_NONE = (0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Sample:
    """A driver at a time (seconds since 1970).

    life: a number for each start. memory: resident, MiB, and `java` the part of the virtual machine; `processes` are
    this one, the driver itself, and the workers that they have started.
    """

    at: float
    driver: str
    life: int
    memory: float
    java: float
    processes: int
    handles: int
    threads: int


@dataclass(frozen=True)
class Load:
    """The storage at a time (seconds since 1970). requests: since the start."""

    at: float
    blobs: int
    requests: int


class Sampler(threading.Thread):
    """Takes samples until `stop`."""

    def __init__(self, system: System, observed: Observed) -> None:
        super().__init__(name="sampler", daemon=True)
        self.samples: list[Sample] = []
        self.loads: list[Load] = []
        self._system, self._observed = system, observed
        self._stopped = threading.Event()

    def run(self) -> None:
        """Take them."""
        rounds = 0
        while not self._stopped.wait(SECONDS):
            rounds += 1
            for life, driver in enumerate(list(self._system.drivers.lives)):
                if driver.process.poll() is None:
                    self.samples.append(_sample(driver, life))
            if rounds % _ROUNDS_PER_LISTING:
                continue
            try:
                blobs = sum(1 for _ in self._observed.container.list_blob_names())
            except AzureError:  # the emulator is stopped
                continue
            self.loads.append(Load(time.time(), blobs, sum(self._system.proxy.requests.values())))

    def stop(self) -> None:
        """No more samples."""
        self._stopped.set()
        if self.ident is not None:
            self.join()


def _sample(driver: Reporting, life: int) -> Sample:
    figures = list(map(_figures, session_of(driver.process)))
    memory, java, processes, handles, threads = (sum(each) for each in zip(_NONE, *figures, strict=True))
    return Sample(time.time(), driver.name, life, memory / _MEBIBYTE, java / _MEBIBYTE, processes, handles, threads)


def _figures(process: psutil.Process) -> tuple[int, int, int, int, int]:
    """Resident bytes, those of Java, 1, handles and threads; none of a worker that has ended in this moment."""
    try:
        with process.oneshot():
            resident = process.memory_info().rss
            java = resident if process.name() == "java" else 0
            return resident, java, 1, process.num_fds(), process.num_threads()
    except psutil.NoSuchProcess:
        return _NONE


def resource_lines(samples: Sequence[Sample], loads: Sequence[Load]) -> list[tuple[str, str]]:
    """Names and figures: by how much each driver grew once it was warm, and the storage at the begin and the end."""
    figures: list[tuple[str, str, Callable[[Sample], float]]] = [
        ("memory of a driver", "MiB", lambda each: each.memory),
        ("of it Java", "MiB", lambda each: each.java),
        ("processes of a driver", "", lambda each: each.processes),
        ("handles of a driver", "", lambda each: each.handles),
        ("threads of a driver", "", lambda each: each.threads),
    ]
    lines = [(name, _growth_text(samples, value, unit)) for name, unit, value in figures]
    return [*lines, ("blobs and requests", _load_text(loads))]


def _growth_text(samples: Sequence[Sample], value: Callable[[Sample], float], unit: str) -> str:
    """Of the life that was longest: the medians of the first and the last third after the warm-up."""
    if not samples:
        return "no sample"
    lives = {each.life: [other for other in samples if other.life == each.life] for each in samples}
    longest = max(lives.values(), key=lambda each: each[-1].at - each[0].at)
    peak = max(map(value, samples))
    warm = [each for each in longest if each.at >= longest[0].at + _WARM_SECONDS]
    third = len(warm) // 3
    if not third:
        return f"at most {peak:,.0f} {unit}; no driver has lived long enough to see whether it grows".replace(" ;", ";")
    first, last = (statistics.median(map(value, part)) for part in (warm[:third], warm[-third:]))
    minutes = (warm[-1].at - warm[0].at) / 60
    return f"at most {peak:,.0f} {unit}; {first:,.0f}, and {minutes:.0f} minutes later {last:,.0f}".replace(" ;", ";")


def _load_text(loads: Sequence[Load]) -> str:
    third = len(loads) // 3
    if not third:
        return "too few samples"
    rates = []
    for part in (loads[: third + 1], loads[-third - 1 :]):
        minutes = (part[-1].at - part[0].at) / 60
        blobs, requests = part[-1].blobs - part[0].blobs, part[-1].requests - part[0].requests
        rates.append(f"{blobs / minutes:,.0f} blobs and {requests / minutes:,.0f} requests per minute")
    return f"{rates[0]} in the first third, {rates[1]} in the last; {loads[-1].blobs:,} blobs in all"
