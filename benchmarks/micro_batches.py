"""What Spark reports of the micro-batches of a query whose source always has the next one, once the query is warm."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WARM_UP = 5
BATCHES = 12
"""A query's first batches are not measured; of the rest, this many are."""

TIME_LIMIT = 180.0
"""Seconds that a query may take for its batches."""


def prepare(spark: SparkSession) -> None:
    """Let a query end its last batch when it is stopped."""
    spark.conf.set("spark.sql.streaming.stopTimeout", f"{TIME_LIMIT:.0f}s")


def source(spark: SparkSession, rows: int) -> DataFrame:
    """So many rows per micro-batch, in one task: a rising `value`, and a `timestamp`."""
    return spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=1).load()


def measured(writer: DataStreamWriter, rows: int) -> list[int]:
    """`addBatch` (ms) of the measured batches of a new query, which have this number of rows each."""
    query = writer.start()
    try:
        _wait(query)
        progress = {each.batchId: each for each in query.recentProgress}
    finally:
        query.stop()
    batches = [progress[number] for number in range(WARM_UP, WARM_UP + BATCHES)]
    if any(each.numInputRows != rows for each in batches):
        raise AssertionError(f"rows of the batches: {[each.numInputRows for each in batches]}, not {rows} each.")
    return [each.durationMs["addBatch"] for each in batches]


def _wait(query: StreamingQuery) -> None:
    deadline = time.monotonic() + TIME_LIMIT
    while True:
        failure, last = query.exception(), query.lastProgress
        if failure is not None:
            raise failure
        if last is not None and last.batchId >= WARM_UP + BATCHES:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{WARM_UP + BATCHES} batches took more than {TIME_LIMIT:.0f} s")
        time.sleep(0.2)
