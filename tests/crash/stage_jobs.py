"""Three programs that are killed: flights to daily windows to totals, through two intermediate streams.

    python -m tests.crash.stage_jobs INPUT CHECKPOINT TARGET --stage flights      parquet files → container/flights
    python -m tests.crash.stage_jobs SOURCE CHECKPOINT TARGET --stage windows     container/flights → container/windows
    python -m tests.crash.stage_jobs SOURCE CHECKPOINT TARGET --stage totals      container/windows → container/totals

Each is a job of its own, which knows of the others only the path of a stream, and ends with 0 when its input has ended.
Connection string: AZURE_STORAGE_CONNECTION_STRING.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account import Location
from control_messages.producer import ProducerSpec
from control_messages.spark import (
    AzureBlobTransport,
    EmitColumns,
    EventTimeProcessor,
    forward,
    partition_of,
    process,
    reconcile,
    run_bounded,
    run_until_end,
)
from tests.crash.copy_job import await_stream
from tools.spark_session import ROCKSDB_STATE, local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

TASKS, FLIGHTS_PARTITIONS, WINDOWS_PARTITIONS = 3, 4, 2
FILES_PER_BATCH = 2
DAY = 24 * 3600 * 1000
"""Milliseconds. No flight of 2013 left a whole day late, so the files are out of order by less than this."""


def flights_job(spark: SparkSession, given: argparse.Namespace, account: dict[str, str]) -> None:
    """Flights in the order of their schedule, by event time = departure, to the partition of their destination."""
    producer = ProducerSpec("flights", FLIGHTS_PARTITIONS, given.tasks, given.generation, lateness_ms=DAY)
    schema = spark.read.parquet(given.source).schema
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_BATCH).parquet(given.source)
    departure = F.col("time_hour") + F.make_dt_interval(mins=F.col("minute") + F.col("dep_delay"))
    flown = files.where("dep_time is not null").select("row_number", "dest", "dep_delay", departure.alias("departure"))
    run_bounded(
        flown.withColumn("value", F.to_json(F.struct("*"))),
        producer,
        EmitColumns("departure", partition=partition_of(producer, "dest")),
        AzureBlobTransport(Location(given.target, account)),
        given.checkpoint,
    )


class DailyWindows(EventTimeProcessor):
    """Flights and minutes of delay by destination and day. A day is returned when the watermark has passed its end."""

    schema = "dest string, day bigint, flights bigint, delay double, late boolean, emitted_on string"

    def init(self, handle: Any) -> None:
        """State: the open windows."""
        self._open = handle.getMapState("open", "dest string, day bigint", "flights bigint, delay double")

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> Iterator[pd.DataFrame]:
        """Add flights to their windows. A flight whose window was returned already is late, and returned alone."""
        for (dest, day), flights in messages.groupby(["dest", "day"]):
            window, added = (str(dest), int(day)), (len(flights), float(flights["dep_delay"].sum()))
            if watermark is not None and window[1] + DAY <= watermark:
                yield _window(window, added, late=True, emitted_on="message")
                continue
            if self._open.containsKey(window):
                before = self._open.getValue(window)
                added = (before[0] + added[0], before[1] + added[1])
            self._open.updateValue(window, added)

    def on_watermark(self, partition: Any, watermark: int) -> Iterator[pd.DataFrame]:
        """Return the windows that have ended."""
        for window, content in list(self._open.iterator()):
            if window[1] + DAY <= watermark:
                self._open.removeKey(window)
                yield _window(window, content, late=False, emitted_on="watermark")

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        """Return all other windows."""
        for window, content in list(self._open.iterator()):
            self._open.removeKey(window)
            yield _window(window, content, late=False, emitted_on="end")


def _window(window: tuple[str, int], content: tuple[int, float], *, late: bool, emitted_on: str) -> pd.DataFrame:
    (dest, day), (flights, delay) = window, content
    row = {"dest": dest, "day": day, "flights": flights, "delay": delay, "late": late, "emitted_on": emitted_on}
    return pd.DataFrame([row])


def windows_job(spark: SparkSession, given: argparse.Namespace, account: dict[str, str]) -> None:
    """Daily windows by destination, closed by the reconciled watermark."""
    flow = reconcile(_follow(spark, given, account), "flights")
    flight = F.from_json(F.col("message").cast("string"), "dest string, dep_delay double, departure timestamp")
    day = F.unix_millis(F.date_trunc("day", "flight.departure"))
    flow = flow.withColumn("flight", flight).select("*", "flight.dest", "flight.dep_delay", day.alias("day"))
    emission = ProducerSpec("windows", WINDOWS_PARTITIONS, FLIGHTS_PARTITIONS)
    windows = process(flow.drop("flight"), DailyWindows())
    envelopes = forward(
        windows,
        emission,
        value=F.to_json(F.struct("dest", "day", "flights", "delay", "late", "emitted_on")),
        partition=partition_of(emission, "dest"),
    )
    _run(envelopes, given, account | {"envelopeColumn": "value"})


class Totals(EventTimeProcessor):
    """The sum of all windows of a destination, returned at the end."""

    schema = "dest string, windows bigint, flights bigint, delay double"

    def init(self, handle: Any) -> None:
        """The sums."""
        self._sums = handle.getMapState("sums", "dest string", "windows bigint, flights bigint, delay double")

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> None:
        """Add windows."""
        for dest, windows in messages.groupby("dest"):
            added = (len(windows), int(windows["flights"].sum()), float(windows["delay"].sum()))
            if self._sums.containsKey((str(dest),)):
                before = self._sums.getValue((str(dest),))
                added = (before[0] + added[0], before[1] + added[1], before[2] + added[2])
            self._sums.updateValue((str(dest),), added)

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        """Return the sums."""
        rows = [(*dest, *sums) for dest, sums in self._sums.iterator()]
        yield pd.DataFrame(rows, columns=["dest", "windows", "flights", "delay"])


def totals_job(spark: SparkSession, given: argparse.Namespace, account: dict[str, str]) -> None:
    """The totals by destination, once all windows are there."""
    flow = reconcile(_follow(spark, given, account), "windows")
    window = F.from_json(F.col("message").cast("string"), "dest string, flights bigint, delay double")
    flow = flow.withColumn("window", window).select("*", "window.*").drop("window")
    totals = process(flow, Totals()).where("type = 'message'").select("dest", "windows", "flights", "delay")
    _run(totals, given, account)


def _follow(spark: SparkSession, given: argparse.Namespace, account: dict[str, str]) -> DataFrame:
    await_stream({"path": given.source, **account})
    reader = spark.readStream.format("azureblob").options(**account).option("maxBlobsPerTrigger", given.blobs)
    return reader.option("metadataColumns", "blob").load(given.source)


def _run(frame: DataFrame, given: argparse.Namespace, options: dict[str, str]) -> None:
    writer = frame.writeStream.format("azureblob").options(**options).option("checkpointLocation", given.checkpoint)
    if "partition" in frame.columns:
        writer = writer.option("partitionColumn", "partition")
    run_until_end(writer.trigger(processingTime="0 seconds").start(given.target))


JOBS = {"flights": flights_job, "windows": windows_job, "totals": totals_job}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the jobs."""
    parser = argparse.ArgumentParser(prog="stage_jobs")
    parser.add_argument("source", help="folder of parquet files, or container/stream")
    parser.add_argument("checkpoint")
    parser.add_argument("target", help="container/stream")
    parser.add_argument("--stage", choices=sorted(JOBS), required=True)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--generation", type=int, default=0)
    parser.add_argument("--blobs", type=int, default=20, help="maxBlobsPerTrigger")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    given = parser.parse_args(arguments)
    conf = dict(setting.split("=", 1) for setting in given.conf)
    spark = local_spark(given.stage, **{"spark.sql.shuffle.partitions": "1", **ROCKSDB_STATE, **conf})
    JOBS[given.stage](spark, given, {"connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]})


if __name__ == "__main__":
    main()
