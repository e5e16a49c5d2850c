"""Starts the job, kills it with all its processes, and starts it again.

A kill is drawn over the storage requests of a batch, which a proxy counts: so each step of a commit gets its share,
whatever the sink. In the first life, which is killed after two batches, the requests of a batch are learned.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.kills.sinks import Sink
from tools.sessions import kill_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from benchmarks.counting_proxy import CountingProxy
    from tools.azurite import Azurite

_T = TypeVar("_T")

ROOT = Path(__file__).resolve().parents[2]
PEER_PYTHON = ROOT / ".venv-pyspark40" / "bin" / "python"
STUCK_SECONDS = 300.0
FAILURES, FAILURE_SECONDS = 5, 15.0
"""Failures of a life that are borne, and the pause after one."""
END_SECONDS = 1800.0
"""Limit of a life that goes to its end (s)."""
OUTPUT, FOUND = "output.txt", "found.json"
BATCHES = (0, 1, 2)
"""How many batches a life commits before the one in which it is killed; small ones are likelier."""
_POLL_SECONDS = 0.001


@dataclass
class Job:
    """The job of one sink. azurite: as the job reaches it, through the proxy."""

    sink: Sink
    folder: Path
    azurite: Azurite
    proxy: CountingProxy
    jars: str
    requests: list[list[int]] = field(default_factory=lambda: [[], []])
    """Of the batches that were seen whole: of the first one of each life, with its start, and of later ones."""
    repeated: int = 0
    """Kills that left a batch which Spark has to run again."""
    failed: int = 0
    """Lives that ended by themselves with an error, such as a lease that a killed one has left; others followed."""

    @contextmanager
    def life(self, action: str = "write") -> Iterator[subprocess.Popen[bytes]]:
        """One process of the job; all its processes are killed at the end of the block."""
        arguments = (action, self.sink.name, str(self.folder), self.jars)
        with _process(self.folder, *arguments, connection_string=self.azurite.connection_string) as process:
            yield process

    def ended(self, of: str) -> int:
        """Batches that have begun (`offsets`) or ended (`commits`) in the checkpoint."""
        folder = self.folder / "checkpoint" / of
        return sum(file.name.isdigit() for file in folder.iterdir()) if folder.is_dir() else 0

    def live(self, rng: Random) -> bool:
        """One life that is killed. False if the input was through before."""
        return self._patiently(partial(self._live, rng))

    def _live(self, rng: Random) -> bool:
        first = not self.requests[1]
        batches = 2 if first else rng.choices(BATCHES, (3, 2, 1))[0]
        with self.life() as process:
            for place in range(batches):
                if not self._batch(process, place, limit=None):
                    return False
            known = self.requests[min(batches, 1)]
            limit = 0 if first else rng.randint(1, max(known, default=1))
            if not self._batch(process, batches, limit):
                return False
            kill_session(process)
        self.repeated += self.ended("offsets") > self.ended("commits")
        return True

    def run(self, action: str = "write") -> dict[str, Any]:
        """One life to its end, and what it has found."""
        return self._patiently(partial(self._run, action))

    def _run(self, action: str) -> dict[str, Any]:
        with self.life(action) as process:
            self._check(process.wait(END_SECONDS))
        file = self.folder / FOUND
        return dict(json.loads(file.read_bytes())) if file.exists() else {}

    def _batch(self, process: subprocess.Popen[bytes], place: int, limit: int | None) -> bool:
        """Wait for the end of a batch, or for a number of its requests. False if the job has ended."""
        self.proxy.take_requests()
        before, begun = self.ended("commits"), time.monotonic()
        while self.ended("commits") == before:
            if limit is not None and self.proxy.requests.total() >= limit:
                return True
            if (code := process.poll()) is not None:
                self._check(code)
                return False
            if time.monotonic() > begun + STUCK_SECONDS:
                raise TimeoutError(f"{self.sink.value}: no progress; see {self.folder / OUTPUT}")
            time.sleep(_POLL_SECONDS)
        self.requests[min(place, 1)].append(self.proxy.take_requests())
        return True

    def _patiently(self, life: Callable[[], _T]) -> _T:
        for _ in range(FAILURES):
            try:
                return life()
            except RuntimeError as error:
                self.failed += 1
                print(error, file=sys.stderr)
                time.sleep(FAILURE_SECONDS)
        return life()

    def _check(self, code: int) -> None:
        if code:
            words = (self.folder / OUTPUT).read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{self.sink.value} ended by itself with {code}:\n{words}")


def jars(folder: Path) -> str:
    """The jars of the peers, separated by commas, for `spark.jars`."""
    if not PEER_PYTHON.exists():
        raise FileNotFoundError(f"{PEER_PYTHON} is missing: run `make setup-pyspark40`.")
    with _process(folder, "jars", Sink.AVRO.name, str(folder)) as process:
        if process.wait(STUCK_SECONDS):
            raise RuntimeError((folder / OUTPUT).read_text(errors="replace")[-4000:])
    return str(json.loads((folder / FOUND).read_bytes())["jars"])


@contextmanager
def _process(folder: Path, *arguments: str, connection_string: str = "") -> Iterator[subprocess.Popen[bytes]]:
    with (folder / OUTPUT).open("wb") as output:
        process = subprocess.Popen(
            [PEER_PYTHON, "-m", "benchmarks.kills.job", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "AZURE_STORAGE_CONNECTION_STRING": connection_string},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            kill_session(process)
