"""What a sink adds to a micro-batch of one row: Spark's own figure `addBatch`, on warm queries that take turns.

The source gives one row per batch and is always ready, so batches follow each other without a pause.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import hadoop_azure, idle_sinks, micro_batches
from benchmarks.report import Report
from benchmarks.rounds import alternate
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite

ROUNDS = 3
"""At least: of 12 batches each, so 36."""

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
    micro_batches.prepare(spark)


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
        writer = micro_batches.source(self.spark, rows=1).writeStream.format(sink).options(**options)
        writer = writer.option("checkpointLocation", str(self.folder / str(number)))
        match sink:
            case "avro":
                writer = writer.option("path", hadoop_azure.url(self.azurite, "latency-peer", f"rows-{number}"))
            case "azureblob":
                writer = writer.option("path", f"latency/rows-{number}")
        return micro_batches.measured(writer, rows=1)


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
