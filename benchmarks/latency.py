"""What a sink adds to a micro-batch of one row: Spark's own figure `addBatch`, on warm queries that take turns.

The source gives one row per batch and is always ready, so batches follow each other without a pause.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import hadoop_azure, idle_sinks
from benchmarks.report import Report
from benchmarks.rounds import alternate
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tools.azurite import Azurite

WARM_UP = 5
BATCHES = 12
ROUNDS = 3
"""A query's first batches are not measured; of the rest, this many are, in this many rounds at least: 36."""

PATIENCE = 180.0
"""Seconds that a query may take for its batches."""

OURS = "azureblob"
BACKED_UP = "azureblob, checkpointBackup"
IDLE = "Python, doing nothing"
PEER = "Spark avro"


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - a batch has one row
    """One table: a line per sink."""
    with (
        hadoop_azure.session("benchmark of latency") as spark,
        running_azurite() as azurite,
        tempfile.TemporaryDirectory() as folder,
    ):
        _prepare(spark, azurite)
        bench = Bench(spark, azurite, Path(folder), itertools.count())
        account, backups = {"connectionString": azurite.connection_string}, itertools.count()
        contenders = {
            "noop": lambda: bench.batches("noop", {}),
            IDLE: lambda: bench.batches("counting", {}),
            PEER: lambda: bench.batches("avro", {}),
            OURS: lambda: bench.batches(OURS, account),
            BACKED_UP: lambda: bench.batches(OURS, {**account, "checkpointBackup": f"latency/backup-{next(backups)}"}),
        }
        taken = alternate("latency", contenders, max(rounds, ROUNDS))
    of_sink = {name: list(itertools.chain.from_iterable(each)) for name, each in taken.items()}
    idle, peer = statistics.median(of_sink[IDLE]), statistics.median(of_sink[PEER])
    lines = [_line(name, each, idle, peer) for name, each in of_sink.items()]
    return [
        Report("addBatch of micro-batches of one row", lines, "Milliseconds; `over idle`: above the idle Python sink")
    ]


def _prepare(spark: SparkSession, azurite: Azurite) -> None:
    idle_sinks.register(spark)
    hadoop_azure.connect(spark, azurite)
    spark.conf.set("spark.sql.streaming.stopTimeout", f"{PATIENCE:.0f}s")


@dataclass(frozen=True)
class Bench:
    """Streaming queries of one session, each with a checkpoint and a target of its own."""

    spark: SparkSession
    azurite: Azurite
    folder: Path
    numbers: Iterator[int]

    def batches(self, sink: str, options: dict[str, str]) -> list[int]:
        """`addBatch` (ms) of the measured batches of a new query into `sink`."""
        number = next(self.numbers)
        rows = self.spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1).load()
        writer = rows.writeStream.format(sink).options(**options)
        writer = writer.option("checkpointLocation", str(self.folder / str(number)))
        match sink:
            case "avro":
                writer = writer.option("path", hadoop_azure.url(self.azurite, "latency-peer", f"rows-{number}"))
            case "azureblob":
                writer = writer.option("path", f"latency/rows-{number}")
        query = writer.start()
        try:
            return _measured(query)
        finally:
            query.stop()


def _measured(query: StreamingQuery) -> list[int]:
    deadline = time.monotonic() + PATIENCE
    while True:
        failure, last = query.exception(), query.lastProgress
        if failure is not None:
            raise failure
        if last is not None and last.batchId >= WARM_UP + BATCHES:
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{WARM_UP + BATCHES} batches took more than {PATIENCE:.0f} s")
        time.sleep(0.2)
    progress = {each.batchId: each for each in query.recentProgress}
    measured = [progress[number] for number in range(WARM_UP, WARM_UP + BATCHES)]
    if any(each.numInputRows != 1 for each in measured):
        raise AssertionError(f"rows of the batches: {[each.numInputRows for each in measured]}, not one each.")
    return [each.durationMs["addBatch"] for each in measured]


def _line(name: str, taken: Sequence[int], idle: float, peer: float) -> dict[str, str | float]:
    median = statistics.median(taken)
    return {
        "sink": name,
        "median": median,
        "90 %": statistics.quantiles(taken, n=10)[-1],
        "over idle": median - idle,
        f"x {PEER}": median / peer,
        "batches": len(taken),
    }
