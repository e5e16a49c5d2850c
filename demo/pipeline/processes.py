"""The processes of a run: the emulator behind a rough proxy, the cluster, and the drivers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demo.pipeline.places import TASKS
from tools.reporting import Reporting
from tools.rough_proxy import rough_proxy
from tools.standalone_cluster import WorkerSize, standalone_cluster
from tools.stored_azurite import stored_azurite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psutil

    from tools.rough_proxy import Fate, RoughProxy
    from tools.standalone_cluster import Cluster
    from tools.stored_azurite import StoredAzurite

DRIVERS = ("driver-1", "driver-2", "driver-3")
WORKERS = 2
STOP_SECONDS = 120.0
"""After SIGTERM: the grace of a driver, and the stop of its queries and of Spark."""
_SIZE = WorkerSize(cores=4, memory="4g")
_HOSTS = ("127.0.0.1", "127.0.0.2")
"""Of the workers: Spark runs a slow task again (speculation) on another host only."""


@dataclass
class Drivers:
    """The drivers, each with a disk of its own. lives: all that have run, by the time of their start."""

    folder: Path
    connection_string: str
    settings: dict[str, str]
    lives: list[Reporting] = field(default_factory=list)

    def start(self, name: str) -> None:
        """Start a driver, for the first time or again, on the disk that it has."""
        settings = {**self.settings, "disk": str(self.disk(name))}
        errors = self.folder / f"{name}.{sum(each.name == name for each in self.lives)}.txt"
        arguments = (name, json.dumps(settings))
        self.lives.append(Reporting(self.connection_string, name, "demo.pipeline.driver", *arguments, errors=errors))

    def disk(self, name: str) -> Path:
        """Its checkpoints, and its copy of the adjunct store."""
        return self.folder / name

    def lose_disk(self, name: str) -> None:
        """Delete the disk of a driver that does not run."""
        shutil.rmtree(self.disk(name), ignore_errors=True)

    @property
    def alive(self) -> list[Reporting]:
        """The present lives."""
        return [each for each in self.lives if each.process.poll() is None]

    @property
    def running(self) -> dict[str, Reporting]:
        """Which driver has each task, and has started it."""
        found: dict[str, tuple[int, Reporting]] = {}
        for driver in self.alive:
            started = {(event["task"], event["epoch"]) for event in driver.named("started")}
            for task, epoch in driver.running.items():
                if (task, epoch) in started and epoch > found.get(task, (0, driver))[0]:
                    found[task] = (epoch, driver)
        return {task: driver for task, (_, driver) in found.items()}

    @property
    def done(self) -> set[str]:
        """The tasks that have ended."""
        return {event["task"] for each in list(self.lives) for event in each.named("done")}

    @property
    def all_run(self) -> bool:
        """Whether each task runs, or is done."""
        return {*self.running, *self.done} >= set(TASKS)

    def stop(self) -> list[float]:
        """SIGTERM to all at once. Returns how long each took to end (s); who takes too long is killed."""
        begin, alive = time.monotonic(), self.alive
        for driver in alive:
            driver.process.terminate()
        took = []
        for driver in alive:
            with suppress(subprocess.TimeoutExpired):
                driver.process.wait(max(0.0, begin + STOP_SECONDS - time.monotonic()))
            took.append(time.monotonic() - begin)
            driver.kill()
        return took

    @property
    def ended_by_themselves(self) -> list[Reporting]:
        """Lives that ended with an error, without a SIGKILL."""
        return [each for each in self.lives if each.process.poll() not in (None, 0, -signal.SIGKILL)]

    def kill(self) -> None:
        """End all of them."""
        for each in self.lives:
            each.kill()


@dataclass(frozen=True)
class System:
    """All that runs."""

    emulator: StoredAzurite
    proxy: RoughProxy
    cluster: Cluster
    drivers: Drivers

    @property
    def executors(self) -> list[psutil.Process]:
        """The executors of all drivers."""
        return [executor for worker in self.cluster.workers for executor in worker.executors]

    def state(self) -> dict[str, Any]:
        """For a message: which driver has which task, and what is done."""
        return {"running": {task: each.name for task, each in self.drivers.running.items()}, "done": self.drivers.done}


@contextmanager
def running_system(folder: Path, container: str, arrivals: Path, fate: Callable[[str, str], Fate]) -> Iterator[System]:
    """Run emulator, proxy and cluster during the block, and the drivers that are started in it."""
    (folder / "azurite").mkdir()
    with (
        stored_azurite(folder / "azurite") as emulator,
        rough_proxy(emulator.azurite, fate) as proxy,
        standalone_cluster(folder / "cluster", WORKERS, size=_SIZE, hosts=_HOSTS) as cluster,
    ):
        settings = {
            "container": container,
            "arrivals": str(arrivals),
            "master": cluster.master,
            "home": str(cluster.home),
        }
        drivers = Drivers(folder, proxy.connection_string, settings)
        try:
            yield System(emulator, proxy, cluster, drivers)
        finally:
            drivers.kill()
