"""One streaming job into each sink, killed again and again: what readers find during it and after its end."""

from __future__ import annotations

import os
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from azure.storage.blob import BlobServiceClient
from rich.console import Console
from rich.progress import track

from benchmarks.counting_proxy import counting_proxy
from benchmarks.kills.listing import Lister, Seen
from benchmarks.kills.lives import Job, jars
from benchmarks.kills.sinks import FOLDER, Sink
from benchmarks.report import Report
from tools.azurite import local_azurite, running_azurite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.azurite import Azurite

SEED = 1
ROWS = 250
"""Rows of a file; a batch has four files."""
FILES = 4


@dataclass(frozen=True)
class Outcome:
    """What was found of one sink. log: what Spark reads by the sink's log; listed: what a listing has."""

    sink: Sink
    expected: int
    kills: int
    repeated: int
    failed: int
    log: Seen
    listed: Seen
    lister: Lister
    leftover: int
    staged: int
    seconds: float

    def line(self) -> dict[str, str | float]:
        """The line of the table."""
        return {
            "sink": self.sink.value,
            "kills": self.kills,
            "in a batch": self.repeated,
            "failed": self.failed,
            "log: lost": self.log.lost(self.expected),
            "log: doubled": self.log.doubled,
            "listed: lost": self.listed.lost(self.expected),
            "listed: doubled": self.listed.doubled,
            "listed: half": self.listed.half,
            "left over": self.leftover,
            "worst: doubled": self.lister.most_doubled,
            "worst: half": self.lister.most_half,
            "staged": self.staged,
            "s": self.seconds,
        }


def run(rounds: int, copies: int, kills: int = 20) -> list[Report]:  # noqa: ARG001 - numbered rows, once
    """One table: a line for each sink."""
    return [killed(kills, tuple(Sink))]


def killed(kills: int, sinks: Sequence[Sink]) -> Report:
    """The table of some sinks."""
    batches = 2 * kills + 5
    with tempfile.TemporaryDirectory() as folder:
        packages = jars(Path(folder))
    with running_azurite() as azurite, counting_proxy(azurite.blob_port) as proxy:
        reached = local_azurite(proxy.port, proxy.port)
        outcomes = []
        for sink in sinks:
            with tempfile.TemporaryDirectory() as folder:
                write_input(Path(folder) / "input", batches)
                job = Job(sink, Path(folder), reached, proxy, packages)
                outcomes.append(_outcome(job, azurite, kills, batches * FILES * ROWS))
    note = f"{outcomes[0].expected:,} rows in {batches} batches; left over: blobs that the log does not name"
    return Report(f"A job that is killed {kills} times", [each.line() for each in outcomes], note)


def write_input(folder: Path, batches: int) -> None:
    """Numbered rows, in files that Spark reads in their order."""
    folder.mkdir()
    rng = random.Random(SEED)
    for number in range(batches * FILES):
        numbers = range(number * ROWS, (number + 1) * ROWS)
        texts = [rng.randbytes(50).hex() for _ in numbers]
        file = folder / f"{number:05d}.parquet"
        pq.write_table(pa.table({"number": pa.array(numbers, pa.int64()), "text": texts}), file)
        os.utime(file, (1_400_000_000 + number, 1_400_000_000 + number))


def _outcome(job: Job, azurite: Azurite, kills: int, expected: int) -> Outcome:
    rng, begun, died = random.Random(SEED), time.monotonic(), 0
    service = BlobServiceClient.from_connection_string(azurite.connection_string)
    container = service.get_container_client(job.sink.container)
    if job.sink in (Sink.BY_UUID, Sink.BY_BATCH):
        container.create_container()
    lister = Lister(container, FOLDER, job.sink.suffix)
    with lister.watching():
        for _ in track(range(kills), job.sink.value, console=Console(stderr=True), transient=True):
            died += job.live(rng)
            lister.look()
        job.run()
    found = job.run("read")
    log, leftover = Seen(found["rows"], found["different"], 0), len(set(lister.names()) - set(found["files"]))
    return Outcome(
        sink=job.sink,
        expected=expected,
        kills=died,
        repeated=job.repeated,
        failed=job.failed,
        log=log,
        listed=lister.look(),
        lister=lister,
        leftover=leftover,
        staged=lister.staged(),
        seconds=time.monotonic() - begun,
    )
