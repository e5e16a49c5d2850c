"""Rows to envelopes: the upstream side.

    rows ─ emit ─► envelopes ─► any sink
    control messages alone, such as the end of a bounded stream ─ control_envelopes ─► envelopes ─► any sink
    flow ─ forward ─► envelopes of the next stream

User messages stay in the JVM, except in `emit` for a sink that does not add the watermarks itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.messages import EARLIEST, VERSION, ControlMessage, MessageType
from control_messages.producer import FOR_THE_SINK, PRODUCER_METADATA, ProducerSpec, with_watermarks
from control_messages.spark.columns import ColumnOrName, EmitColumns, column, required
from foundation.arguments import checked
from foundation.clock import SYSTEM_CLOCK, Clock

USER = bytes([MessageType.USER])
ENVELOPES = "partition int, value binary"
"""An intermediate stream as a frame."""
EMITTED = "control_messages.emitted"
"""The key in the metadata of column `value` under which `emit` without `by_sink` leaves its producer."""


@checked
def task_of(producer: ProducerSpec, *columns: ColumnOrName) -> Column:
    """The number of a row's task by the hash of `columns`, for tasks whose names are not known beforehand.

    Rows of several values then share a task: `lateness_ms` must cover how far they are apart.
    """
    return F.pmod(F.xxhash64(*columns), F.lit(len(producer.names))).cast("int")


@checked
def partition_of(producer: ProducerSpec, *columns: ColumnOrName) -> Column:
    """The downstream partition of a row by the hash of `columns`: equal values, equal partition."""
    return F.pmod(F.hash(*columns), F.lit(producer.partitions)).cast("int")


@checked
def emit(
    frame: DataFrame,
    producer: ProducerSpec,
    columns: EmitColumns,
    *,
    atomic: bool = False,
    by_sink: bool = False,
) -> DataFrame:
    """Rows to envelopes `(partition int, value binary)`, followed by the watermarks of the tasks.

    Unite rows first, then emit them once: the watermarks are those of the rows of one call.

    frame: the rows.
    producer: the stream, its tasks and partitions.
    columns: which of the row's columns are payload, partition, task and event time.
    atomic: the transport makes a batch visible as a whole, as `azureblob` does. Otherwise the rows are shuffled, so
    that one Spark task writes all rows of a task and no watermark overtakes them.
    by_sink: the azureblob sink adds the watermarks, in a tenth of the time (`docs/internals/BENCHMARKS.md`). Write the
    result as it is: its columns have the producer in their metadata, and `value` is a struct that only this sink reads.
    """
    envelope = F.concat(F.lit(USER), column(columns.value).cast("binary"))
    selected = {
        "partition": _checked_partition(producer, columns.partition),
        "value": F.struct(envelope.alias(FOR_THE_SINK)) if by_sink else envelope,
        "task": _task(frame, producer, columns.task),
        "eventTime": column(columns.event_time),
    }
    mark = {PRODUCER_METADATA: producer.to_json()} if by_sink else {}
    rows = frame.select(*(each.alias(name, metadata=mark) for name, each in selected.items()))
    if by_sink:
        return rows
    if not atomic:
        rows = rows.repartition("task")
    rows = rows.withColumn("sequence", F.unix_millis(F.current_timestamp()))  # the same when Spark repeats a batch
    rows = rows.withColumn("writer", F.spark_partition_id())
    envelopes = rows.mapInArrow(partial(with_watermarks, producer), ENVELOPES)
    return envelopes.withMetadata("value", {EMITTED: producer.to_json()})


@checked
def control_envelopes(
    spark: SparkSession, producer: ProducerSpec, messages: Iterable[ControlMessage], *, clock: Clock = SYSTEM_CLOCK
) -> DataFrame:
    """Control messages alone, as envelopes for every partition; to be written after all rows that they refer to.

    Call it when what the messages say has become true: they get the time of the call as their sequence, which orders
    them among the watermarks of the same tasks. Writing the result again has no effect. The end of a bounded stream is
    sent by `run_bounded`.
    """
    now = clock.now_ns() // 1_000_000
    return spark.createDataFrame(pa.Table.from_batches([producer.envelopes(messages, now)])).coalesce(1)


@checked
def forward(
    flow: DataFrame,
    producer: ProducerSpec,
    *,
    value: ColumnOrName = "message",
    partition: ColumnOrName,
    task: ColumnOrName = "partition",
) -> DataFrame:
    """A flow to envelopes `(partition int, value binary)` of the next stream.

    flow: what `reconcile` or `process` returns. Each of its partitions is a task of the next stream.
    producer: of the next stream; `producer.tasks` is the number of the flow's partitions.
    value: the bytes of a row's envelope.
    partition: of the next stream, to which a row goes.
    task: the partition of the flow that a row is of.

    The watermarks, idleness and end of a task go to all partitions. Their generation is the producer's plus that of the
    input, so that the next stream is reopened too when the input is. Drain messages and rejected envelopes are dropped.

    After `process`, one Spark task writes the rows of a partition and then its announcements. In a flow straight from
    `reconcile` their order is not defined, so that is only for transports that make a batch visible as a whole.
    """
    common = [
        F.lit(VERSION).alias("version"),
        _task_name(producer, column(task)).alias("taskName"),
        _task_count(producer, F.col("partitionCount")).alias("taskCount"),
        (F.lit(producer.generation) + F.col("generation")).alias("generation"),
        F.lit(producer.stream).alias("streamId"),
        F.lit(producer.partitions).alias("partitionCount"),
        # A partition that is idle has sent its watermark before; the next batch of the flow is later than both.
        (F.unix_millis(F.current_timestamp()) + (F.col("type") == "idle").cast("bigint")).alias("sequence"),
    ]
    # Without a new watermark: the earliest says only that the generation has begun, or that the task is idle or not.
    timestamp = F.coalesce("watermark", F.lit(EARLIEST)).alias("timestamp")
    watermark = F.to_json(F.struct(*common, timestamp, F.when(F.col("type") == "idle", F.lit(True)).alias("idle")))
    end = F.to_json(F.struct(*common))
    all_partitions = F.sequence(F.lit(0), F.lit(producer.partitions - 1))
    own_partition = F.array(_checked_partition(producer, partition))
    kind, marks = F.col("type"), ("reopened", "active", "watermark", "idle")
    return (
        flow.where(kind.isin("message", *marks, "endOfStream"))
        .select(
            F.when(kind == "message", own_partition).otherwise(all_partitions).alias("targets"),
            F.when(kind == "message", F.concat(F.lit(USER), column(value).cast("binary")))
            .when(kind.isin(*marks), _enveloped(MessageType.WATERMARK, watermark))
            .otherwise(_enveloped(MessageType.END_OF_STREAM, end))
            .alias("value"),
        )
        .select(F.explode("targets").alias("partition"), "value")
    )


def _enveloped(kind: MessageType, data: Column) -> Column:
    return F.concat(F.lit(bytes([kind])), F.encode(data, "utf-8"))


def _checked_partition(producer: ProducerSpec, partition: ColumnOrName) -> Column:
    """The partition. A row of a partition that gets no control messages is an error."""
    number, most = column(partition).cast("bigint"), producer.partitions - 1
    rule = f"the partition of each row for stream {producer.stream} is 0 to {most}. Compute it with partition_of."
    return required(number, number.between(0, most), rule, number).cast("int")


def _task(frame: DataFrame, producer: ProducerSpec, task: ColumnOrName | None) -> Column:
    if task is not None:
        return column(task)
    if len(producer.names) == 1:
        return F.lit(0)
    return task_of(producer, *map(_quoted, frame.columns))


def _quoted(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")


def _task_name(producer: ProducerSpec, task: Column) -> Column:
    """The name of a task given by its number."""
    names, number = F.array(*map(F.lit, producer.names)), task.cast("int")
    known = number.between(0, len(producer.names) - 1)
    return required(F.element_at(names, number + 1), known, _task_rule(producer), task)


def _task_count(producer: ProducerSpec, partitions: Column) -> Column:
    """How many tasks there are: as many as the flow has partitions. More would be waited for, for ever."""
    tasks = len(producer.names)
    return required(F.lit(tasks), F.coalesce(partitions == tasks, F.lit(True)), _task_rule(producer), partitions)


def _task_rule(producer: ProducerSpec) -> str:
    return (
        f"each partition of the flow, from 0 on, is a task of stream {producer.stream}, which has "
        f"{len(producer.names)}. Set its `tasks` to the number of partitions of the flow."
    )
