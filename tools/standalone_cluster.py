"""A standalone Spark cluster on this machine: a master and workers, which are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import psutil

from tools.ports import free_ports
from tools.sessions import kill_session, session_of
from tools.spark_session import LOGGING, spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120.0
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class WorkerSize:
    """What a worker offers to executors."""

    cores: int = 1
    memory: str = "1g"


@dataclass(frozen=True)
class Cluster:
    """master: its URL for Spark. home: of Spark, for the environment of drivers."""

    master: str
    home: Path
    workers: Sequence[Daemon]


@dataclass
class Daemon:
    """A master or a worker: a process that can be killed and started again."""

    name: str
    home: Path
    output: Path
    arguments: Sequence[str]
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; `kill` it before it is started again."""
        environment = {
            **os.environ,
            **spark_environment(),
            "SPARK_HOME": str(self.home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -XX:+UseSerialGC",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        }
        del environment["SPARK_LOCAL_IP"]  # executors would say that they are there, whatever their worker's host
        with self.output.open("ab") as file:
            self.process = subprocess.Popen(
                [str(self.home / "bin" / "spark-class"), *self.arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def executors(self) -> list[psutil.Process]:
        """The executors that a worker has started, and that run."""
        return [] if self.process is None else [each for each in session_of(self.process) if _is_executor(each)]

    def kill(self) -> None:
        """SIGKILL to it, and to the executors that it has started."""
        if self.process is not None:
            kill_session(self.process)


@contextmanager
def standalone_cluster(
    folder: Path, workers: int, *, size: WorkerSize = WorkerSize(), hosts: Sequence[str] = (_HOST,)
) -> Iterator[Cluster]:
    """A cluster of a master and workers. All its processes are killed at the end of the block.

    hosts: addresses of this machine, of which the workers take one after the other. Spark runs a second copy of a slow
    task (speculation) on another host only.
    """
    folder.mkdir()
    home = spark_home(folder / "spark")
    port, web = free_ports(2)
    url = f"spark://{_HOST}:{port}"
    arguments = ["--host", _HOST, "--port", str(port), "--webui-port", str(web)]
    daemons = [Daemon("master", home, folder / "master.txt", [_MASTER, *arguments])]
    for number in range(workers):
        name = f"worker-{number}"
        place = ["--host", hosts[number % len(hosts)], "--work-dir", str(folder / name), "--webui-port", "0"]
        resources = ["--cores", str(size.cores), "--memory", size.memory]
        daemons.append(Daemon(name, home, folder / f"{name}.txt", [_WORKER, *place, *resources, url]))
    try:
        daemons[0].start()
        _wait_for(web, 0, folder)
        for worker in daemons[1:]:
            worker.start()
        _wait_for(web, workers, folder)
        yield Cluster(url, home, daemons[1:])
    finally:
        for daemon in daemons:
            daemon.kill()


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in each for each in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def spark_home(folder: Path) -> Path:
    """A copy of the installed Spark in a writable folder: executors write below Spark's home."""
    folder.mkdir()
    for entry in Path(find_spec("pyspark").submodule_search_locations[0]).iterdir():  # type: ignore[union-attr, index]
        (folder / entry.name).symlink_to(entry)
    return folder


def _wait_for(web: int, workers: int, folder: Path) -> None:
    """Wait until the master runs, and has so many workers."""
    end = time.monotonic() + SECONDS
    while _workers(web) < workers:
        if time.monotonic() >= end:
            said = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.txt")))
            raise TimeoutError(f"The cluster does not start:\n{said}")
        time.sleep(0.2)


def _workers(web: int) -> int:
    """How many workers the master has; -1 if it does not answer yet."""
    try:
        with urlopen(f"http://{_HOST}:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (URLError, ConnectionError, TimeoutError, ValueError):
        return -1
