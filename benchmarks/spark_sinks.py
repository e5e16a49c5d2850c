"""Batch writes by Spark: the format `azureblob` beside Spark's own `avro` over hadoop-azure, into one emulator.

Beside them the two limits: `noop` (Spark reads the input and drops it) and a Python writer that only counts.
Everything is measured with Spark's own setting of `spark.sql.execution.arrow.maxBytesPerBatch` and without that limit
(2147483647), by which the JVM stops adding up the size of a batch with every row.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import hadoop_azure, idle_sinks
from benchmarks.emulator import empty
from benchmarks.flights import write_parquet
from benchmarks.report import Report
from benchmarks.rounds import alternate, rates, seconds
from tools.azurite import running_azurite
from tools.spark_session import UNBOUNDED_BYTES_PER_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tools.azurite import Azurite

BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
PEER = "Spark avro"


@dataclass(frozen=True)
class Shape:
    """What is written: the codec by its Avro name, and whether rows are parted by their `origin`."""

    name: str
    codec: str = "null"
    by_origin: bool = False


SHAPES = (
    Shape("uncompressed"),
    Shape("snappy", codec="snappy"),
    Shape("by-origin", by_origin=True),
)


def run(rounds: int, copies: int) -> list[Report]:
    """One table per shape."""
    with hadoop_azure.session("benchmark of sinks") as spark, tempfile.TemporaryDirectory() as folder:
        idle_sinks.register(spark)
        write_parquet(Path(folder), copies)
        rows = spark.read.parquet(folder)
        return [_table(spark, rows, shape, rounds) for shape in SHAPES]


def _table(spark: SparkSession, rows: DataFrame, shape: Shape, rounds: int) -> Report:
    expected = rows.count()
    with running_azurite() as azurite:
        hadoop_azure.connect(spark, azurite)
        ours, peer = Ours(spark, rows, shape, azurite), Peer(spark, rows, shape, azurite)
        for sink in (ours, peer):
            sink.verify(expected)
        contenders: dict[str, Callable[[], float]] = {
            "noop": lambda: seconds(rows.write.format("noop").mode("overwrite").save),
            "Python, counting": lambda: seconds(rows.write.format("counting").mode("append").save),
            PEER: peer.timed,
            "azureblob": ours.timed,
        }
        for name in ("Python, counting", "azureblob"):
            contenders[f"{name}, unbounded"] = _unbounded(spark, contenders[name])
        taken = alternate(shape.name, contenders, rounds)
    note = f"Both sinks were read back: {expected:,} rows. Unbounded: {BYTES_PER_BATCH}={UNBOUNDED_BYTES_PER_BATCH}"
    return Report(f"Batch write, {shape.name}, {expected:,} flights", rates(expected, taken, PEER), note)


def _unbounded(spark: SparkSession, write: Callable[[], float]) -> Callable[[], float]:
    def without_limit() -> float:
        spark.conf.set(BYTES_PER_BATCH, str(UNBOUNDED_BYTES_PER_BATCH))
        try:
            return write()
        finally:
            spark.conf.unset(BYTES_PER_BATCH)

    return without_limit


@dataclass
class Sink:
    """Writes of one kind into one emulator: each goes to a folder of its own, which is emptied afterwards."""

    spark: SparkSession
    rows: DataFrame
    shape: Shape
    azurite: Azurite
    folders: Iterator[int] = field(default_factory=itertools.count)

    def write(self, folder: str) -> None:
        """Write all rows."""
        raise NotImplementedError

    def read(self, folder: str) -> DataFrame:
        """Read what was written."""
        raise NotImplementedError

    @property
    def container(self) -> str:
        """A container that no other emulator of this process has: Hadoop keeps its connections by this name."""
        return f"{type(self).__name__.lower()}-{self.shape.name}"

    def timed(self) -> float:
        """Seconds of one write."""
        folder = f"flights-{next(self.folders)}"
        taken = seconds(lambda: self.write(folder))
        empty(self.azurite, self.container, folder)
        return taken

    def verify(self, expected: int) -> None:
        """`AssertionError` unless all rows come back."""
        folder = f"flights-{next(self.folders)}"
        self.write(folder)
        found = self.read(folder).count()
        empty(self.azurite, self.container, folder)
        if found != expected:
            raise AssertionError(f"{type(self).__name__}, {self.shape.name}: {found} rows of {expected} came back.")


class Ours(Sink):
    """The format `azureblob`."""

    def write(self, folder: str) -> None:
        """Write all rows."""
        writer = self.rows.write.format("azureblob").mode("append").option("codec", self.shape.codec)
        if self.shape.by_origin:
            writer = writer.option("partitionColumn", "origin")
        writer.option("connectionString", self.azurite.connection_string).save(f"{self.container}/{folder}")

    def read(self, folder: str) -> DataFrame:
        """Read what was written."""
        reader = self.spark.read.format("azureblob").option("connectionString", self.azurite.connection_string)
        return reader.load(f"{self.container}/{folder}")


class Peer(Sink):
    """Spark's `avro`, over ABFS."""

    def write(self, folder: str) -> None:
        """Write all rows."""
        codec = "uncompressed" if self.shape.codec == "null" else self.shape.codec
        writer = self.rows.write.format("avro").mode("append").option("compression", codec)
        if self.shape.by_origin:
            writer = writer.partitionBy("origin")
        writer.save(self._url(folder))

    def read(self, folder: str) -> DataFrame:
        """Read what was written."""
        return self.spark.read.format("avro").load(self._url(folder))

    def _url(self, folder: str) -> str:
        return hadoop_azure.url(self.azurite, self.container, folder)
