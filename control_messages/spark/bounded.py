"""A bounded job: one call that writes a stream and announces its end, also after a crash in between.

    rows ─ emit ─► envelopes ─► query with the trigger availableNow ─► end of the stream

The stream itself tells how far the job has come: its control messages have the generation, and the end is one of them.
So nothing is saved beside it. A run that died before the end is continued in its generation; the run after an end is a
new generation, which reopens the stream for those downstream.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.messages import MessageType
from control_messages.producer import PRODUCER_METADATA
from control_messages.spark.upstream import ENVELOPES, control_envelopes, emit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from control_messages.producer import ProducerSpec
    from control_messages.spark.columns import ColumnOrName


def run_bounded(  # noqa: PLR0913 - the names of columns
    frame: DataFrame,
    producer: ProducerSpec,
    transport: Transport,
    checkpoint: str,
    *,
    event_time: ColumnOrName,
    value: ColumnOrName = "value",
    partition: ColumnOrName = "partition",
    task: ColumnOrName | None = None,
) -> ProducerSpec:
    """Write all rows that a streaming frame has now, then the end of the stream. Returns the producer of this run.

    The columns are as for `emit`. Run it again after a crash: the rows that are missing are written, then the end. Run
    it again when there is more input: that is the next generation, and its end is announced again. Without new input
    nothing is written after the first end. Raises what the query fails with; then no end is announced.

    The generation is one above that of the last run that has ended. If the stream is there, but has no control message
    (any more, as retention may have removed them), it is the time in milliseconds, so it rises also then.
    """
    spark = frame.sparkSession
    last = _last_run(spark, transport)
    if last is not None and 0 < last.ended_partitions < last.partitions:  # it died while it wrote its end
        ending = replace(producer, partitions=last.partitions, tasks=last.ended_tasks, generation=last.generation)
        transport.append(control_envelopes(spark, ending, ending.end_of_stream()))
    least = _unknown(spark, transport) if last is None else last.next_for(producer)
    run = replace(producer, generation=max(producer.generation, least))
    envelopes = emit(
        frame,
        run,
        event_time=event_time,
        value=value,
        partition=partition,
        task=task,
        by_sink=isinstance(transport, AzureBlobTransport),
    )
    writer = transport.write_stream(envelopes).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    last = _last_run(spark, transport)
    if last is None or not last.ended:
        transport.append(control_envelopes(spark, run, run.end_of_stream()))
    return run


@dataclass(frozen=True)
class _Run:
    """The highest generation of a stream, as its control messages tell.

    tasks, ended_tasks: those that have sent a message; those that have ended. ended_partitions: how many partitions
    have the ends of all tasks; not all of them, if the job died while it wrote its end and the transport makes a batch
    visible bit by bit, as Kafka does.
    """

    generation: int
    partitions: int
    task_count: int
    tasks: tuple[str, ...]
    ended_tasks: tuple[str, ...]
    ended_partitions: int

    @property
    def ended(self) -> bool:
        """Whether no further row may belong to this generation, since some partition has its end."""
        return self.ended_partitions > 0

    def next_for(self, producer: ProducerSpec) -> int:
        """The generation of the producer's next rows: this one, if it has not ended and the producer has its tasks."""
        same = self.task_count == len(producer.names) and set(self.tasks) <= set(producer.names)
        same = same and self.partitions in (0, producer.partitions)
        return self.generation + (self.ended or not same)


def _unknown(spark: SparkSession, transport: Transport) -> int:
    """The generation of a run in a stream without control messages."""
    return time.time_ns() // 1_000_000 if transport.exists(spark) else 0


def _last_run(spark: SparkSession, transport: Transport) -> _Run | None:
    """The last run of the jobs that write a stream; None if it has no control messages."""
    if not transport.exists(spark):
        return None
    ended = F.collect_set(F.when(F.col("type") == "endOfStream", F.col("taskName"))).alias("ended")
    seen = F.collect_set("taskName").alias("seen")
    tasks = F.max(F.coalesce("taskCount", F.lit(1))).alias("tasks")
    partitions = F.max(F.coalesce("partitionCount", F.lit(0))).alias("partitions")
    by_partition = transport.control(spark).groupBy(F.coalesce("generation", F.lit(0)).alias("generation"), "partition")
    rows = by_partition.agg(tasks, partitions, seen, ended).collect()
    if not rows:
        return None
    generation = max(row.generation for row in rows)
    newest = [row for row in rows if row.generation == generation]
    task_count = max(row.tasks for row in newest)
    return _Run(
        generation,
        max(row.partitions for row in newest),
        task_count,
        tuple(sorted({name for row in newest for name in row.seen})),
        tuple(sorted({name for row in newest for name in row.ended})),
        sum(len(row.ended) >= task_count for row in newest),
    )


class Transport(Protocol):
    """Where an intermediate stream is kept. Its envelopes have the columns `ENVELOPES`."""

    def exists(self, spark: SparkSession) -> bool:
        """Whether there is such a stream yet."""

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """What writes a streaming frame of envelopes; without a checkpoint and not started."""

    def append(self, envelopes: DataFrame) -> None:
        """Write a batch of envelopes."""

    def control(self, spark: SparkSession) -> DataFrame:
        """The control messages: columns type, generation, taskName, taskCount, partitionCount and partition."""


@dataclass(frozen=True)
class AzureBlobTransport:
    """A stream of format `azureblob`. path: `container/stream`.

    options: those that name the account. read_options, write_options: those for one direction only.
    """

    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # with secrets, as the others may be
    read_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    write_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def exists(self, spark: SparkSession) -> bool:
        """As of `Transport`."""
        return _succeeds(
            lambda: spark.read.format("azureblob").options(**self.options).load(self.path).schema,
            but_for="azure_account.errors.NotFoundError",
        )

    def read(self, spark: SparkSession) -> DataFrame:
        """The envelopes as a streaming frame, from the first on. The stream need not exist yet."""
        reader = spark.readStream.format("azureblob").options(**self.options, **self.read_options)
        return reader.schema(ENVELOPES).load(self.path)

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """As of `Transport`."""
        writer = envelopes.writeStream.format("azureblob").options(**self._writing(envelopes))
        return writer.option("path", self.path)

    def append(self, envelopes: DataFrame) -> None:
        """As of `Transport`."""
        envelopes.write.format("azureblob").mode("append").options(**self._writing(envelopes)).save(self.path)

    def control(self, spark: SparkSession) -> DataFrame:
        """As of `Transport`."""
        view = spark.read.format("azureblob").options(**self.options).option("view", "control").load(self.path)
        count = F.get_json_object("message", "$.partitionCount").cast("bigint").alias("partitionCount")
        return view.select("type", "generation", "taskName", "taskCount", count, "partition")

    def _writing(self, envelopes: DataFrame) -> dict[str, str]:
        by_sink = _for_the_sink(envelopes)
        control = {} if by_sink else {"envelopeColumn": "value"}
        return {**self.options, **self.write_options, "partitionColumn": "partition", **control}


@dataclass(frozen=True)
class KafkaTransport:
    """A topic of Kafka with as many partitions as the stream.

    options: `kafka.bootstrap.servers` and others of the client. read_options, write_options: those for one direction
    only.
    """

    topic: str
    options: Mapping[str, str] = field(repr=False)  # with secrets, as the others may be
    read_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    write_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def exists(self, spark: SparkSession) -> bool:
        """As of `Transport`."""
        return _succeeds(lambda: self._all(spark).limit(1).collect(), but_for="UnknownTopicOrPartitionException")

    def read(self, spark: SparkSession) -> DataFrame:
        """The envelopes as a streaming frame, from the first on."""
        reader = spark.readStream.format("kafka").option("startingOffsets", "earliest")
        return reader.options(**self.options, **self.read_options).option("subscribe", self.topic).load()

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """As of `Transport`."""
        return envelopes.writeStream.format("kafka").options(**self._writing(envelopes))

    def append(self, envelopes: DataFrame) -> None:
        """As of `Transport`."""
        envelopes.write.format("kafka").options(**self._writing(envelopes)).save()

    def control(self, spark: SparkSession) -> DataFrame:
        """As of `Transport`."""
        kind, data = F.substring("value", 1, 1), F.expr("CAST(substring(value, 2) AS STRING)")
        fields = "generation BIGINT, taskName STRING, taskCount BIGINT, partitionCount BIGINT"
        types = F.when(kind == F.lit(bytes([MessageType.END_OF_STREAM])), "endOfStream").otherwise("other")
        control = self._all(spark).where(kind != F.lit(bytes([MessageType.USER])))
        of = F.from_json(data, fields).alias("of")
        return control.select(types.alias("type"), of, "partition").select("type", "of.*", "partition")

    def _all(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format("kafka").options(**self.options).option("subscribe", self.topic)
        return reader.option("startingOffsets", "earliest").option("endingOffsets", "latest").load()

    def _writing(self, envelopes: DataFrame) -> dict[str, str]:
        if _for_the_sink(envelopes):
            text = "only the azureblob sink adds the watermarks itself. Leave `by_sink` of `emit` out for Kafka."
            raise ValueError(text)
        return {**self.options, **self.write_options, "topic": self.topic}


def _for_the_sink(envelopes: DataFrame) -> bool:
    """Whether the azureblob sink has to add the watermarks: the result of `emit` with `by_sink`."""
    return any(PRODUCER_METADATA in field.metadata for field in envelopes.schema)


def _succeeds(read: Callable[[], object], *, but_for: str) -> bool:
    """Whether a read succeeds. False for the error that is named in Spark's; all others are raised."""
    try:
        read()
    except PySparkException as error:
        if but_for not in str(error):
            raise
        return False
    return True
