"""An intermediate stream as a folder of Parquet files, and what a query over it announces."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from control_messages.envelopes import wrap
from control_messages.producer import ENVELOPES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from control_messages.messages import ControlMessage


class IntermediateStream:
    """An intermediate stream in a folder. Each batch is one file, and the files are read one after the other."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.checkpoint = spark, folder / "stream", str(folder / "checkpoint")
        self.folder.mkdir()
        self.count = 0

    def put(self, *envelopes: tuple[int, ControlMessage | bytes]) -> None:
        """One batch. Bytes are whole envelopes."""
        rows = [(partition, each if isinstance(each, bytes) else wrap(each)) for partition, each in envelopes]
        partitions, values = zip(*rows, strict=True)
        hidden = self.folder / f".{self.count}.parquet"  # Spark reads no half a file
        pq.write_table(pa.table([pa.array(partitions, pa.int32()), pa.array(values, pa.binary())], ENVELOPES), hidden)
        os.utime(hidden, (1.4e9 + self.count, 1.4e9 + self.count))  # the order in which Spark reads them
        hidden.rename(self.folder / f"{self.count}.parquet")
        self.count += 1

    def frame(self) -> DataFrame:
        """The stream as a streaming DataFrame."""
        reader = self.spark.readStream.schema("partition int, value binary").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder))

    def run(self, flow: DataFrame) -> list[tuple[Any, ...]]:
        """What a query over all the files returns: batch and row."""
        found: list[tuple[Any, ...]] = []
        self._writer(flow, found).trigger(availableNow=True).start().awaitTermination()
        return found

    def start(self, flow: DataFrame, found: list[tuple[Any, ...]]) -> StreamingQuery:
        """A query that runs until it is stopped; `found` gets batch and row."""
        return self._writer(flow, found).trigger(processingTime="0 seconds").start()

    def _writer(self, flow: DataFrame, found: list[tuple[Any, ...]]) -> DataStreamWriter:
        writer = flow.writeStream.foreachBatch(
            lambda rows, batch: found.extend((batch, *row) for row in rows.collect())
        )
        return writer.option("checkpointLocation", self.checkpoint)


def announced(rows: Sequence[tuple[Any, ...]]) -> list[tuple[int, int, str, int | None]]:
    """Batch, partition, type and watermark of the announcements of a flow, sorted."""
    return sorted((row[0], row[2], row[3], row[5]) for row in rows if row[3] != "message")


def wait_for(condition: Any, query: Any) -> None:
    """Wait at most a minute until the condition holds, while the query runs."""
    deadline = datetime.now(UTC) + timedelta(minutes=1)
    while not condition():
        assert query.isActive, query.exception()
        assert datetime.now(UTC) < deadline, query.lastProgress
        query.awaitTermination(0.1)


def streaming(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]], schema: str) -> DataFrame:
    """The rows as a streaming frame of one file."""
    frame = spark.createDataFrame(rows, schema)
    frame.coalesce(1).write.parquet(str(folder))
    return spark.readStream.schema(frame.schema).parquet(str(folder))
