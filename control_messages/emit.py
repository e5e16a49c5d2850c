"""Rows to envelopes, in Spark: the upstream side.

    rows ─ emit ─► envelopes ─► any sink        announce: control messages alone, such as the end of a bounded stream
    flow ─ forward ─► envelopes of the next stream

User messages never leave the JVM, but in `emit` for a sink that does not add the watermarks itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.emission import TaskClocks
from control_messages.messages import VERSION, MessageType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from control_messages.emission import Emission
    from control_messages.messages import ControlMessage

    ColumnOrName: TypeAlias = Column | str

USER = bytes([MessageType.USER])


def partition_of(emission: Emission, *columns: ColumnOrName) -> Column:
    """The downstream partition of a row by the hash of `columns`: equal values, equal partition."""
    return F.pmod(F.hash(*columns), F.lit(emission.partitions)).cast("int")


def emit(  # noqa: PLR0913 - which column is what
    frame: DataFrame,
    emission: Emission,
    *,
    event_time: ColumnOrName,
    value: ColumnOrName = "value",
    partition: ColumnOrName = "partition",
    task: ColumnOrName | None = None,
    atomic: bool = False,
    by_sink: bool = False,
) -> DataFrame:
    """Rows to envelopes `(partition int, value binary)`, with the tasks' watermarks behind them.

    value: the payload, binary or string. partition: 0 … m-1. task: which of the emission's tasks a row belongs to, its
    name or its number; by default the hash of the whole row decides (Spark has none for maps). event_time: a timestamp.
    No row of a task may come later in event time than `emission.lateness_ms` behind those before it, else it may be
    late downstream.

    The rows of a task must be written by one Spark task, since a watermark may not overtake rows; so they are shuffled
    by task. A transport that shows a batch whole or not at all, as `azureblob` does, needs no such order: `atomic`.

    `by_sink` leaves the watermarks to the azureblob sink, for a tenth of its time (`docs/BENCHMARKS.md`): write
    the result with `.options(**emission.sink_options)`.
    """
    rows = frame.select(
        _checked_partition(emission, partition).alias("partition"),
        F.concat(F.lit(USER), _column(value).cast("binary")).alias("value"),
        _task(frame, emission, task).alias("task"),
        _column(event_time).alias("eventTime"),
    )
    if by_sink:
        return rows
    if not atomic:
        rows = rows.repartition("task")
    return rows.mapInArrow(partial(_watermarks_behind, emission), "partition int, value binary")


def _watermarks_behind(emission: Emission, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    clocks = TaskClocks(emission)
    for batch in batches:
        clocks.see(batch.column("task"), batch.column("eventTime"))
        yield _envelopes(batch)
    yield _envelopes(emission.envelopes(clocks.watermarks()))


def _envelopes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The two columns as Spark wants them: all batches of a task nullable alike."""
    return pa.RecordBatch.from_arrays([batch.column("partition"), batch.column("value")], ["partition", "value"])


def announce(spark: SparkSession, emission: Emission, messages: Iterable[ControlMessage]) -> DataFrame:
    """Control messages alone, as envelopes for every partition: to be written when all rows before them have been.

    The end of a bounded stream is `announce(spark, emission, emission.end_of_stream())`, written after the query that
    wrote the rows has ended. Writing it again changes nothing.
    """
    return spark.createDataFrame(pa.Table.from_batches([emission.envelopes(messages)])).coalesce(1)


def forward(
    flow: DataFrame,
    emission: Emission,
    *,
    value: ColumnOrName = "message",
    partition: ColumnOrName,
    task: ColumnOrName = "partition",
) -> DataFrame:
    """A flow to envelopes `(partition int, value binary)` of the next stream.

    Each partition of the flow is one task of the next stream: `emission.tasks` is their number. Its watermarks and its
    end are passed on to all partitions. Drain messages and rejected envelopes are not passed on. A flow of several
    streams needs a `task` that numbers the partitions of all of them.

    Behind `process` one Spark task writes a partition's rows and then its announcements. A flow straight from
    `reconcile` has them side by side, so it is only for transports that show a batch whole or not at all.
    """
    name = _task_name(emission, _column(task))
    told = [
        F.lit(VERSION).alias("version"),
        name.alias("taskName"),
        F.lit(len(emission.names)).alias("taskCount"),
        F.lit(emission.generation).alias("generation"),
    ]
    watermark = F.to_json(F.struct(*told, F.col("watermark").alias("timestamp")))
    end = F.to_json(F.struct(*told, F.lit(emission.stream).alias("streamId")))
    everywhere = F.sequence(F.lit(0), F.lit(emission.partitions - 1))
    target = F.array(_checked_partition(emission, partition))
    kind = F.col("type")
    return (
        flow.where(kind.isin("message", "watermark", "endOfStream"))
        .select(
            F.when(kind == "message", target).otherwise(everywhere).alias("targets"),
            F.when(kind == "message", F.concat(F.lit(USER), _column(value).cast("binary")))
            .when(kind == "watermark", _enveloped(MessageType.WATERMARK, watermark))
            .otherwise(_enveloped(MessageType.END_OF_STREAM, end))
            .alias("value"),
        )
        .select(F.explode("targets").alias("partition"), "value")
    )


def _enveloped(kind: MessageType, data: Column) -> Column:
    return F.concat(F.lit(bytes([kind])), F.encode(data, "utf-8"))


def _column(name: ColumnOrName) -> Column:
    return F.col(name) if isinstance(name, str) else name


def _checked_partition(emission: Emission, partition: ColumnOrName) -> Column:
    """The partition, or an error for a row that nobody would be told about."""
    number = _column(partition).cast("bigint")
    wrong = F.concat(
        F.lit(f"control_messages: a row for stream {emission.stream} has partition "),
        F.coalesce(number.cast("string"), F.lit("null")),
        F.lit(f"; the stream has 0 to {emission.partitions - 1}. Compute it with partition_of."),
    )
    return F.when(number.between(0, emission.partitions - 1), number.cast("int")).otherwise(
        F.raise_error(wrong).cast("int")
    )


def _task(frame: DataFrame, emission: Emission, task: ColumnOrName | None) -> Column:
    if task is not None:
        return _column(task)
    if len(emission.names) == 1:
        return F.lit(0)
    return F.pmod(F.xxhash64(*map(_quoted, frame.columns)), F.lit(len(emission.names))).cast("int")


def _quoted(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _task_name(emission: Emission, task: Column) -> Column:
    """The name of a task given by its number."""
    names = F.array(*map(F.lit, emission.names))
    wrong = F.concat(
        F.lit("control_messages: the flow has task "),
        F.coalesce(task.cast("string"), F.lit("null")),
        F.lit(f"; stream {emission.stream} has {len(emission.names)}. Set `tasks` to the partitions of the flow."),
    )
    number = task.cast("int")
    fits = number.between(0, len(emission.names) - 1)
    return F.when(fits, F.element_at(names, number + 1)).otherwise(F.raise_error(wrong).cast("string"))
