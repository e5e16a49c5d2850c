"""A standalone Spark cluster on this machine: a master and workers, which are processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

from tests.crash.killing import ROOT
from tools.sessions import kill_session
from tools.spark_session import LOGGING, spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 120.0
_MASTER, _WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Cluster:
    """master: its URL for Spark. home: of Spark, for the environment of drivers."""

    master: str
    home: Path


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster whose workers have a core and 1 GiB each. All its processes are killed at the end of the block."""
    folder.mkdir()
    home = spark_home(folder / "spark")
    port, web = _free_port(), _free_port()
    url = f"spark://{_HOST}:{port}"
    with ExitStack() as stack:
        master = ["--host", _HOST, "--port", str(port), "--webui-port", str(web)]
        stack.enter_context(_started(home, folder / "master.txt", _MASTER, *master))
        _wait_for(web, 0, folder)
        for number in range(workers):
            own = folder / f"worker-{number}"
            resources = ["--host", _HOST, "--cores", "1", "--memory", "1g", "--work-dir", str(own), "--webui-port", "0"]
            stack.enter_context(_started(home, folder / f"worker-{number}.txt", _WORKER, *resources, url))
        _wait_for(web, workers, folder)
        yield Cluster(url, home)


def spark_home(folder: Path) -> Path:
    """A copy of the installed Spark in a writable folder: executors write below Spark's home."""
    folder.mkdir()
    for entry in Path(find_spec("pyspark").submodule_search_locations[0]).iterdir():  # type: ignore[union-attr, index]
        (folder / entry.name).symlink_to(entry)
    return folder


@contextmanager
def _started(home: Path, output: Path, *arguments: str) -> Iterator[None]:
    environment = {
        **os.environ,
        **spark_environment(),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={LOGGING.as_uri()} -XX:+UseSerialGC",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    }
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            yield
        finally:
            kill_session(process)


def _wait_for(web: int, workers: int, folder: Path) -> None:
    """Wait until the master runs, and has so many workers."""
    end = time.monotonic() + SECONDS
    while _workers(web) < workers:
        said = "\n".join(path.read_text(errors="replace")[-2000:] for path in sorted(folder.glob("*.txt")))
        assert time.monotonic() < end, f"the cluster does not start:\n{said}"
        time.sleep(0.2)


def _workers(web: int) -> int:
    """How many workers the master has; -1 if it does not answer yet."""
    try:
        with urlopen(f"http://{_HOST}:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (URLError, ConnectionError, TimeoutError, ValueError):
        return -1


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((_HOST, 0))
        return int(free.getsockname()[1])
