"""Loses processes and disks while the pipeline runs: one fault after the other, of all kinds, in random order."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from tools.rough_proxy import Fate

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from demo.pipeline.processes import System
    from tools.reporting import Reporting

SHORT, LONG = (2.0, 8.0), (25.0, 40.0)
"""How long something is suspended (s): shorter than any limit of time, or longer than that after which it is dead."""
_RECOVERY_SECONDS = 120.0
_POLL_SECONDS = 0.2
_MENDED = 0.7
"""How often all tasks run again before the next fault."""
_ROUGH = {Fate.BUSY: 0.01, Fate.LOST: 0.005, Fate.UNANSWERED: 0.005, Fate.LATE: 0.003}
"""Of requests."""


@dataclass
class Fault:
    """kind: what happened, to what. Times are seconds since 1970. tasks: those that the driver had, if it was one."""

    kind: str
    target: str
    at: float
    tasks: tuple[str, ...] = ()
    until: float | None = None
    again: bool = False
    """Whether it struck while tasks were still moving because of an earlier one."""


def rough_requests(rng: random.Random) -> Callable[[str, str], Fate]:
    """The fate of requests: some are throttled, cut, or answered late."""
    fates, weights = [Fate.PASS, *_ROUGH], [1 - sum(_ROUGH.values()), *_ROUGH.values()]
    return lambda *_: rng.choices(fates, weights)[0]


class Faults(threading.Thread):
    """Faults until `stop`. Before most of them all tasks run again; some strike earlier.

    failure: why it could not go on.
    """

    def __init__(self, system: System, rng: random.Random, pause: tuple[float, float]) -> None:
        super().__init__(name="faults", daemon=True)
        self.faults: list[Fault] = []
        self.failure: Exception | None = None
        self._system, self._rng, self._pause = system, rng, pause
        self._stopped = threading.Event()
        self._kinds: dict[str, Callable[[Fault], None]] = {
            "driver killed": self._kill_driver,
            "driver and its disk lost": self._lose_driver,
            "driver paused": self._pause_driver,
            "driver suspended": self._suspend_driver,
            "executor killed": self._kill_executor,
            "executor paused": self._pause_executor,
            "worker killed": self._kill_worker,
            "emulator restarted": self._restart_emulator,
            "emulator paused": self._pause_emulator,
        }

    @property
    def counts(self) -> Counter[str]:
        """How many of each kind have struck."""
        return Counter(dict.fromkeys(self._kinds, 0) | Counter(each.kind for each in self.faults))

    @property
    def all_kinds_have_struck(self) -> bool:
        """Whether there was one of each kind."""
        return all(self.counts.values())

    def run(self) -> None:
        """Strike."""
        try:
            for kind in self._deck():
                if self._rng.random() < _MENDED:
                    self._await_recovery()
                if self._stopped.wait(self._rng.uniform(*self._pause)):
                    return
                self._strike(kind)
        except Exception as error:  # noqa: BLE001 - the run must not go on as if nothing could be lost
            self.failure = error

    def stop(self) -> None:
        """No more faults. Returns when all that was stopped or suspended runs again."""
        self._stopped.set()
        if self.ident is not None:
            self.join()

    def _strike(self, kind: str) -> None:
        fault = Fault(kind, "", time.time(), again=not self._system.drivers.all_run)
        with suppress(psutil.NoSuchProcess, ProcessLookupError):  # it has ended by itself in this moment
            self._kinds[kind](fault)
        fault.until = time.time()
        if fault.target:
            self.faults.append(fault)

    def _deck(self) -> Iterator[str]:
        """All kinds in random order, again and again."""
        while True:
            deck = list(self._kinds)
            self._rng.shuffle(deck)
            yield from deck

    def _await_recovery(self) -> None:
        end = time.monotonic() + _RECOVERY_SECONDS
        while not self._system.drivers.all_run and time.monotonic() < end and not self._stopped.wait(_POLL_SECONDS):
            pass

    def _driver(self, fault: Fault) -> Reporting | None:
        """A driver; more often than not one that has tasks."""
        drivers = self._system.drivers.alive
        if not drivers:
            return None
        chosen = self._rng.choice([*drivers, *(each for each in drivers if each.running)])
        fault.target, fault.tasks = chosen.name, tuple(chosen.running)
        return chosen

    def _kill_driver(self, fault: Fault) -> None:
        if (driver := self._driver(fault)) is not None:
            driver.kill()
            self._system.drivers.start(driver.name)

    def _lose_driver(self, fault: Fault) -> None:
        if (driver := self._driver(fault)) is not None:
            driver.kill()
            self._system.drivers.lose_disk(driver.name)
            self._system.drivers.start(driver.name)

    def _pause_driver(self, fault: Fault) -> None:
        self._hold_driver(fault, SHORT)

    def _suspend_driver(self, fault: Fault) -> None:
        self._hold_driver(fault, LONG)

    def _hold_driver(self, fault: Fault, seconds: tuple[float, float]) -> None:
        if (driver := self._driver(fault)) is not None:
            driver.suspend()
            self._hold(seconds)
            driver.resume()

    def _kill_executor(self, fault: Fault) -> None:
        if executors := self._system.executors:
            chosen = self._rng.choice(executors)
            fault.target = f"executor {chosen.pid}"
            chosen.kill()

    def _pause_executor(self, fault: Fault) -> None:
        if executors := self._system.executors:
            chosen = self._rng.choice(executors)
            fault.target = f"executor {chosen.pid}"
            chosen.suspend()
            self._hold(SHORT)
            chosen.resume()

    def _kill_worker(self, fault: Fault) -> None:
        worker = self._rng.choice(self._system.cluster.workers)
        fault.target = worker.name
        worker.kill()
        self._hold(SHORT)
        worker.start()

    def _restart_emulator(self, fault: Fault) -> None:
        fault.target = "emulator"
        self._system.emulator.stop()
        self._system.emulator.start()

    def _pause_emulator(self, fault: Fault) -> None:
        fault.target = "emulator"
        self._system.emulator.suspend()
        self._hold(SHORT)
        self._system.emulator.resume()

    def _hold(self, seconds: tuple[float, float]) -> None:
        self._stopped.wait(self._rng.uniform(*seconds))
