"""Control messages without Spark (`control`), the time that `emit` adds to a write, the time of a `reconcile` batch.

The writes are the same rows, flights as JSON, from the same files into the same emulator. *Sink alone* puts the type
byte by SQL and has no watermarks.
A micro-batch of `reconcile` reads one file with a watermark of every task for every partition. For comparison: the same
file into `noop`, and into a `transformWithState` that only counts, which shows what state in Python takes in Spark.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks import control
from benchmarks.emulator import empty
from benchmarks.flights import write_parquet
from benchmarks.process_tree import processor_seconds
from benchmarks.report import Report
from benchmarks.rounds import alternate, seconds
from control_messages.messages import MessageType
from control_messages.spark import EmitColumns, ProducerSpec, emit, partition_of, reconcile
from control_messages.spark.reconciliation import OBSERVED
from tools.azurite import running_azurite
from tools.spark_session import ROCKSDB_STATE, local_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

    from tools.azurite import Azurite

    Made: TypeAlias = tuple[DataFrame, dict[str, str]]
    """What is written, and the options of the sink."""
    Line: TypeAlias = dict[str, str | float]
    Transform: TypeAlias = Callable[[DataFrame], DataFrame]

MOST_COPIES = 2
"""Of the flights: as JSON a copy is about 100 MB, and the emulator holds every write in memory."""

TASKS = ("EWR", "JFK", "LGA")
"""The airports that the flights left, `origin`."""

PARTITIONS = 8
AIM = 0.10
"""The share that the sink's own watermarks may add to a write."""

SIZES = ((10, 10), (100, 100), (1_000, 100))
"""Tasks and partitions of the reconciliation."""

STORES = 2
"""Partitions of the state: as many as cores, each with a Python worker."""

BATCH_TIMEOUT = 120.0
"""Seconds that a micro-batch may take."""

STREAM = "benchmark"
COUNTED, RECONCILED = "transformWithState, counting", "reconcile"
ALONE, BY_SINK = "sink alone", "emit(by_sink=True)"


def run(rounds: int, copies: int) -> list[Report]:
    """Tables of envelopes and trackers, of writes, and of micro-batches."""
    tables = control.tables(rounds)
    spark = local_spark("benchmark of control messages", **ROCKSDB_STATE)
    try:
        with tempfile.TemporaryDirectory() as folder:
            writes = _writes(spark, Path(folder) / "flights", min(copies, MOST_COPIES), rounds)
            spark.conf.set("spark.sql.shuffle.partitions", str(STORES))
            return [*tables, writes, _micro_batches(spark, Path(folder), rounds)]
    finally:
        spark.stop()


# writes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """The time of one write: seconds, and processor seconds of Spark."""

    seconds: float
    processor: float


@dataclass(frozen=True)
class Writes:
    """Batch writes of the same rows into one emulator, each to a stream of its own that is emptied afterwards."""

    rows: DataFrame
    azurite: Azurite
    producer: ProducerSpec
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def alone(self) -> Made:
        """User messages."""
        envelope = F.concat(F.lit(bytes([MessageType.USER])), F.col("value").cast("binary"))
        return self.rows.select("partition", envelope.alias("value")), {}

    def emitted(self, options: dict[str, str], *, atomic: bool = False, by_sink: bool = False) -> Made:
        """User messages with the watermarks of their tasks, or with the columns from which the sink adds these."""
        envelopes = emit(
            self.rows, self.producer, EmitColumns("time_hour", task="origin"), atomic=atomic, by_sink=by_sink
        )
        return envelopes, options

    def timed(self, made: Made) -> Sample:
        """One write."""
        path, before = self._new_path(), processor_seconds()
        taken = seconds(lambda: self._write(made, path))
        sample = Sample(taken, processor_seconds() - before)
        self._empty(path)
        return sample

    def verify(self, made: Made, expected: int, *, watermarks: bool) -> None:
        """`AssertionError` unless all rows come back, and watermarks of all tasks in all partitions if asked for."""
        path = self._new_path()
        self._write(made, path)
        reader = self.rows.sparkSession.read.format("azureblob")
        stored = reader.option("connectionString", self.azurite.connection_string).load(path)
        kind = F.ascii(F.substring("value", 1, 1).cast("string"))
        name = F.get_json_object(F.decode(F.substring("value", 2, 1000), "utf-8"), "$.taskName")
        task = F.when(kind == MessageType.WATERMARK, name)
        found = stored.groupBy(kind.alias("kind"), "partition", task.alias("task")).count().collect()
        self._empty(path)
        users = sum(row["count"] for row in found if row.kind == MessageType.USER)
        pairs = {(row.partition, row.task) for row in found if row.kind != MessageType.USER}
        expected_pairs = set(itertools.product(range(PARTITIONS), TASKS)) if watermarks else set()
        if (users, pairs) != (expected, expected_pairs):
            raise AssertionError(f"{users} rows of {expected} and watermarks {sorted(pairs)} came back.")

    def _write(self, made: Made, path: str) -> None:
        frame, options = made
        writer = (
            frame.write.format("azureblob").mode("append").options(**options).option("partitionColumn", "partition")
        )
        writer.option("connectionString", self.azurite.connection_string).save(path)

    def _new_path(self) -> str:
        return f"control/stream-{next(self.numbers)}"

    def _empty(self, path: str) -> None:
        empty(self.azurite, *path.split("/", 1))


def _writes(spark: SparkSession, folder: Path, copies: int, rounds: int) -> Report:
    folder.mkdir()
    write_parquet(folder, copies)
    rows = spark.read.parquet(str(folder))
    producer = ProducerSpec("flights", PARTITIONS, TASKS)
    value, partition = F.to_json(F.struct("*")).alias("value"), partition_of(producer, "dest").alias("partition")
    rows = rows.select("origin", "time_hour", partition, value)
    expected = rows.count()
    with running_azurite() as azurite:
        writes = Writes(rows, azurite, producer)
        envelopes = {"envelopeColumn": "value"}
        contenders = {
            ALONE: writes.alone(),
            BY_SINK: writes.emitted({}, by_sink=True),
            "emit(atomic=True)": writes.emitted(envelopes, atomic=True),
            "emit()": writes.emitted(envelopes),
        }
        for name, made in contenders.items():
            writes.verify(made, expected, watermarks=name != ALONE)
        acts = {name: partial(writes.timed, made) for name, made in contenders.items()}
        taken = alternate("emit", acts, rounds)
    note = (
        f"All were read back. Aim: {BY_SINK} takes at most {1 + AIM:.2f} times as long as the sink alone.\n"
        "Processor: of Spark and its Python workers."
    )
    return Report(f"Batch write of {expected:,} flights as JSON envelopes", _write_lines(expected, taken), note)


def _write_lines(rows: int, taken: Mapping[str, Sequence[Sample]]) -> list[Line]:
    time_of = {name: statistics.median(each.seconds for each in samples) for name, samples in taken.items()}
    processor = {name: statistics.median(each.processor for each in samples) for name, samples in taken.items()}
    ratios = {name: median / time_of[ALONE] for name, median in time_of.items()}
    return [
        {
            "path": name,
            "K rows/s": rows / time_of[name] / 1e3,
            "seconds": time_of[name],
            "x sink alone": ratio,
            "aim": "" if name != BY_SINK else "met" if ratio <= 1 + AIM else "MISSED",
            "processor s": processor[name],
            "x alone": processor[name] / processor[ALONE],
        }
        for name, ratio in ratios.items()
    ]


# micro-batches --------------------------------------------------------------------------------------------------------


class Counting(StatefulProcessor):
    """Counts the rows of a partition, and returns none."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called before each batch of a task."""
        self._count = handle.getValueState("count", "rows bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """Count a batch."""
        (before,) = self._count.get() or (0,)
        self._count.update((before + sum(map(len, rows)),))
        yield pd.DataFrame({"partition": []}, dtype="int32")

    def close(self) -> None:
        """Called at the end of a task."""


@dataclass
class MicroBatches:
    """A running query whose input files come one at a time. Mutable."""

    query: StreamingQuery
    files: Path
    tasks: int
    partitions: int
    turn: int = 0

    @classmethod
    def of(cls, spark: SparkSession, folder: Path, size: tuple[int, int], transform: Transform) -> MicroBatches:
        """A query that has completed its first batch."""
        files = folder / "stream"
        files.mkdir(parents=True)
        rows = spark.readStream.schema("partition int, value binary").parquet(str(files))
        writer = transform(rows).writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        batches = cls(writer.trigger(processingTime="200 milliseconds").start(), files, *size)
        batches.next()
        return batches

    def next(self) -> tuple[int, int]:
        """`addBatch` and `triggerExecution` (ms) of the next batch."""
        self.turn += 1
        unseen = self.files.with_name("next.parquet")
        pq.write_table(pa.Table.from_batches([control.watermarks(self.tasks, self.partitions, self.turn)]), unseen)
        unseen.rename(self.files / f"{self.turn}.parquet")
        progress = self._progress()
        counted = progress["observedMetrics"].get(OBSERVED + STREAM)
        if counted is not None and counted["watermark"] != self.partitions:
            raise AssertionError(f"{counted} of {self.tasks} tasks and {self.partitions} partitions.")
        return progress["durationMs"]["addBatch"], progress["durationMs"]["triggerExecution"]

    def _progress(self) -> Any:
        deadline = time.monotonic() + BATCH_TIMEOUT
        while True:
            failure = self.query.exception()
            if failure is not None:
                raise failure
            with_rows = [each for each in self.query.recentProgress if each["numInputRows"]]
            if len(with_rows) == self.turn:
                return with_rows[-1]
            if time.monotonic() > deadline:
                raise TimeoutError(f"batch {self.turn} took more than {BATCH_TIMEOUT:.0f} s")
            time.sleep(0.02)


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("partition").transformWithStateInPandas(Counting(), "partition int", "Append", "None")


TRANSFORMS: dict[str, Transform] = {
    "noop": lambda rows: rows,
    COUNTED: _counted,
    RECONCILED: lambda rows: reconcile(rows, STREAM),
}


def _micro_batches(spark: SparkSession, folder: Path, rounds: int) -> Report:
    lines: list[Line] = []
    for size in SIZES:
        name = f"{size[0]} x {size[1]}"
        with ExitStack() as stack:
            contenders = {}
            for path, transform in TRANSFORMS.items():
                batches = MicroBatches.of(spark, folder / f"{name}, {path}", size, transform)
                stack.callback(batches.query.stop)
                contenders[path] = batches.next
            taken = alternate(f"batches, {name}", contenders, rounds)
        lines += [_batch_line(size, path, each) for path, each in taken.items()]
    note = f"Medians of {rounds} batches after the second. {STORES} partitions of state in RocksDB."
    return Report("Micro-batches of control messages in Spark", lines, note)


def _batch_line(size: tuple[int, int], path: str, taken: Sequence[tuple[int, int]]) -> Line:
    adding, whole = (statistics.median(part) for part in zip(*taken, strict=True))
    return {
        "tasks": size[0],
        "partitions": size[1],
        "messages": size[0] * size[1],
        "path": path,
        "addBatch, ms": adding,
        "whole batch, ms": whole,
        "slowest": max(each for _, each in taken),
    }
