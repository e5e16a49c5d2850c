"""What the smallest reads, writes and queries take, which is nearly all start: of Python processes, plans and requests.

One row is written and read by formats that are warm in all but that: each action starts the processes that Spark starts
for it. *Parquet* reads from and writes to the local disk, without any storage account.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks import hadoop_azure, idle_sinks, idle_sources
from benchmarks.report import Report
from benchmarks.rounds import alternate, seconds
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite

OURS, PEER, IDLE, DISK = "azureblob", "Spark avro", "Python, doing nothing", "Spark parquet, local disk"
ROUNDS = 9
"""At least."""


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - one row
    """A table for each action: a line for each format."""
    with (
        hadoop_azure.session("benchmark of starts") as spark,
        running_azurite() as azurite,
        tempfile.TemporaryDirectory() as folder,
    ):
        hadoop_azure.connect(spark, azurite)
        idle_sinks.register(spark)
        idle_sources.register(spark)
        formats = Formats(spark, azurite, Path(folder))
        actions: Mapping[str, Callable[[str], None]] = {
            "Batch write of one row": formats.write,
            "Batch read of one row": formats.read,
            "First micro-batch of a new query, of one row": formats.first_batch,
        }
        formats.fill()
        return [_table(title, act, max(rounds, ROUNDS)) for title, act in actions.items()]


def _table(title: str, act: Callable[[str], None], rounds: int) -> Report:
    taken = alternate(title, {name: partial(seconds, partial(act, name)) for name in (DISK, IDLE, PEER, OURS)}, rounds)
    medians = {name: statistics.median(each) for name, each in taken.items()}
    lines: list[dict[str, str | float]] = [
        {"format": name, "s": median, f"x {DISK}": median / medians[DISK], f"x {PEER}": median / medians[PEER]}
        for name, median in medians.items()
    ]
    return Report(title, lines, "Seconds, medians")


class Formats:
    """The same actions with each format."""

    def __init__(self, spark: SparkSession, azurite: Azurite, folder: Path) -> None:
        self.spark, self.azurite, self.folder = spark, azurite, folder
        self.account = {"connectionString": azurite.connection_string}
        self.rows = spark.range(1).coalesce(1)
        self._numbers = itertools.count()

    def fill(self) -> None:
        """One row to read, in each format."""
        for name in (DISK, PEER, OURS):
            self._save(name, "one")
        with pa.OSFile(str(self.folder / "one.arrow"), "wb") as sink:
            batch = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
            with pa.ipc.new_file(sink, batch.schema) as stream:
                stream.write_batch(batch)

    def write(self, name: str) -> None:
        """One row to a new place."""
        self._save(name, f"batch-{next(self._numbers)}")

    def read(self, name: str) -> None:
        """The row, with its schema looked up."""
        if name == IDLE:
            reader = self.spark.read.format("giving").options(file=str(self.folder / "one.arrow"), times=1)
            rows = reader.load()
        else:
            form, path = self._stored(name, "one")
            rows = self.spark.read.format(form).options(**self._options(name)).load(path)
        rows.write.format("noop").mode("overwrite").save()

    def first_batch(self, name: str) -> None:
        """A new query with a checkpoint of its own, which writes one row and ends."""
        place = f"query-{next(self._numbers)}"
        form, path = self._stored(name, place)
        rows = self.spark.readStream.schema("id long").parquet(str(self.folder / "one"))
        writer = rows.writeStream.trigger(availableNow=True).format(form).options(**self._options(name))
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint-{place}"))
        writer.start(path).awaitTermination()

    def _save(self, name: str, place: str) -> None:
        form, path = self._stored(name, place)
        self.rows.write.mode("append").format(form).options(**self._options(name)).save(path)

    def _options(self, name: str) -> dict[str, str]:
        return self.account if name == OURS else {}

    def _stored(self, name: str, place: str) -> tuple[str, str]:
        """The format's name in Spark, and the path of a place. The idle sink keeps nothing there."""
        places = {
            OURS: ("azureblob", f"start/{place}"),
            PEER: ("avro", hadoop_azure.url(self.azurite, "start-peer", place)),
            DISK: ("parquet", str(self.folder / place)),
            IDLE: ("counting", str(self.folder / place)),
        }
        return places[name]
