"""A bounded job: one call that writes a stream and announces its end, also after a crash in between.

    rows ─ emit ─► envelopes ─► query with the trigger availableNow ─► end of the stream

The stream itself tells how far the job has come: its control messages have the generation, and the end is one of them.
So nothing is saved beside it. A run that died before the end is continued in its generation; the run after an end is a
new generation, which reopens the stream for those downstream.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.messages import MessageType
from control_messages.spark.upstream import control_envelopes, emit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from control_messages.producer import ProducerSpec
    from control_messages.spark.upstream import ColumnOrName


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
    """
    spark = frame.sparkSession
    newest, ended = _newest_generation(spark, transport)
    run = replace(producer, generation=max(producer.generation, newest + ended))
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
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    if not ended or any(progress["numInputRows"] for progress in query.recentProgress):
        transport.append(control_envelopes(spark, run, run.end_of_stream()))
    return run


def _newest_generation(spark: SparkSession, transport: Transport) -> tuple[int, bool]:
    """The highest generation of a stream's control messages, -1 if there is none, and whether it has ended."""
    task = F.coalesce("taskName", F.lit(""))
    ended = F.count_distinct(F.when(F.col("type") == "endOfStream", task)).alias("ended")
    try:
        generations = transport.control(spark).groupBy("generation").agg(F.max("taskCount").alias("tasks"), ended)
        rows = generations.orderBy(F.desc("generation")).limit(1).collect()
    except PySparkException as error:
        if transport.absent not in str(error):
            raise
        return -1, False
    return (int(rows[0].generation), rows[0].ended >= rows[0].tasks) if rows else (-1, False)


ENVELOPES = "partition int, value binary"


class Transport(Protocol):
    """Where an intermediate stream is kept. Its envelopes have the columns `ENVELOPES`."""

    absent: ClassVar[str]
    """The error of a read says so if there is no such stream yet."""

    def read(self, spark: SparkSession) -> DataFrame:
        """The envelopes as a streaming frame, from the first on."""

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """What writes a streaming frame of envelopes; without a checkpoint and not started."""

    def append(self, envelopes: DataFrame) -> None:
        """Write a batch of envelopes."""

    def control(self, spark: SparkSession) -> DataFrame:
        """The control messages of the stream: columns type, generation, taskName and taskCount."""


@dataclass(frozen=True)
class AzureBlobTransport:
    """A stream of format `azureblob`. path: `container/stream`. options: those that name the account, and others."""

    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # with secrets
    absent: ClassVar[str] = "NotFoundError"

    def read(self, spark: SparkSession) -> DataFrame:
        """As of `Transport`."""
        reader = spark.readStream.format("azureblob").options(**self.options)
        return reader.schema(ENVELOPES).load(self.path)  # with a schema, the stream need not exist yet

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """As of `Transport`."""
        writer = envelopes.writeStream.format("azureblob").options(**self._writing(envelopes))
        return writer.option("path", self.path)

    def append(self, envelopes: DataFrame) -> None:
        """As of `Transport`."""
        envelopes.write.format("azureblob").mode("append").options(**self._writing(envelopes)).save(self.path)

    def control(self, spark: SparkSession) -> DataFrame:
        """As of `Transport`."""
        reader = spark.read.format("azureblob").options(**self.options)
        _ = reader.load(self.path).schema  # raises here if there is no such stream; the view would, in a Spark task
        return reader.option("view", "control").load(self.path).select("type", "generation", "taskName", "taskCount")

    def _writing(self, envelopes: DataFrame) -> dict[str, str]:
        by_sink = "eventTime" in envelopes.columns
        return {**self.options, "partitionColumn": "partition", **({} if by_sink else {"envelopeColumn": "value"})}


@dataclass(frozen=True)
class KafkaTransport:
    """A topic of Kafka with as many partitions as the stream. options: `kafka.bootstrap.servers`, and others."""

    topic: str
    options: Mapping[str, str] = field(repr=False)  # with secrets
    absent: ClassVar[str] = "UnknownTopicOrPartition"

    def read(self, spark: SparkSession) -> DataFrame:
        """As of `Transport`."""
        reader = spark.readStream.format("kafka").options(**self.options).option("subscribe", self.topic)
        return reader.option("startingOffsets", "earliest").load()

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """As of `Transport`."""
        return envelopes.writeStream.format("kafka").options(**self.options).option("topic", self.topic)

    def append(self, envelopes: DataFrame) -> None:
        """As of `Transport`."""
        envelopes.write.format("kafka").options(**self.options).option("topic", self.topic).save()

    def control(self, spark: SparkSession) -> DataFrame:
        """As of `Transport`."""
        topic = spark.read.format("kafka").options(**self.options).option("subscribe", self.topic).load()
        kind, data = F.substring("value", 1, 1), F.expr("CAST(substring(value, 2) AS STRING)")
        fields = "generation BIGINT, taskName STRING, taskCount BIGINT"
        types = F.when(kind == F.lit(bytes([MessageType.END_OF_STREAM])), "endOfStream").otherwise("other")
        control = topic.where(kind != F.lit(bytes([MessageType.USER])))
        return control.select(types.alias("type"), F.from_json(data, fields).alias("of")).select("type", "of.*")
