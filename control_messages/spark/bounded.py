"""A bounded job: one call that writes a stream and announces its end, also after a crash in between.

    rows ─ emit ─► envelopes ─► query with the trigger availableNow ─► end of the stream

The stream itself shows how far the job has come: its control messages have the generation, and the end is one of them.
So nothing is saved beside it. A run that died before the end is continued in its generation; the run after an end is a
new generation, which reopens the stream for those downstream.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.messages import EndOfStream, MessageType
from control_messages.producer import PRODUCER_METADATA
from control_messages.spark.upstream import control_envelopes, emit

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

    The generation is that of the producer, or one above that of the last run, if that has ended or had other tasks. If
    the stream is there, but has no control message (any more, as retention may have removed them), it is the time in
    milliseconds, so it rises also then; and an end is written, also without new input.

    `ValueError` if the stream has another number of partitions.
    """
    spark = frame.sparkSession
    control = transport.control(spark)
    last = _last_run(control)
    if last is not None and last.partitions not in (0, producer.partitions):
        text = (
            f"stream {producer.stream} has {last.partitions} partitions, not {producer.partitions}. A stream keeps "
            "their number, since its consumers keep their state by partition: write into a new stream."
        )
        raise ValueError(text)
    if last is not None and last.ended and not last.ended_everywhere:  # it died while it wrote its end
        transport.append(_end_of_all_tasks(spark, replace(producer, generation=last.generation)))
    unknown = 0 if control is None else time.time_ns() // 1_000_000
    least = unknown if last is None else last.next_for(producer)
    run = replace(producer, generation=max(producer.generation, least))
    envelopes = emit(
        frame,
        run,
        event_time=event_time,
        value=value,
        partition=partition,
        task=task,
        by_sink=transport.adds_watermarks,
    )
    writer = transport.write_stream(envelopes).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    last = _last_run(transport.control(spark))
    if last is None or not last.ended:
        transport.append(control_envelopes(spark, run, run.end_of_stream()))
    return run


def _end_of_all_tasks(spark: SparkSession, producer: ProducerSpec) -> DataFrame:
    """The end of a run whose tasks may have had other names."""
    end = EndOfStream(None, 1, producer.stream, producer.generation)
    return control_envelopes(spark, producer, [end])


@dataclass(frozen=True)
class _Run:
    """The highest generation of a stream, by its control messages.

    partitions: 0 if they do not say. tasks: those that have sent a message. ended: some task has sent its end, so no
    further row may belong to this generation. ended_everywhere: all partitions have the ends of all tasks; they have
    not, if the job died while it wrote its end and the transport makes a batch visible bit by bit, as Kafka does.
    """

    generation: int
    partitions: int
    task_count: int
    tasks: frozenset[str]
    ended: bool
    ended_everywhere: bool

    def next_for(self, producer: ProducerSpec) -> int:
        """The generation of the producer's next rows: this one, if it has not ended and the producer has its tasks."""
        same = self.task_count == len(producer.names) and self.tasks <= set(producer.names)
        return self.generation + (self.ended or not same)


def _last_run(control: DataFrame | None) -> _Run | None:
    """The last run of the jobs that write a stream, by its control messages (of `Transport`); None if it has none."""
    if control is None:
        return None
    is_end, name = F.col("type") == "endOfStream", F.col("taskName")
    by_partition = control.groupBy(F.coalesce("generation", F.lit(0)).alias("generation"), "partition").agg(
        F.max(F.coalesce("taskCount", F.lit(1))).alias("task_count"),
        F.max(F.coalesce("partitionCount", F.lit(0))).alias("partitions"),
        F.collect_set("taskName").alias("tasks"),
        F.collect_set(F.when(is_end, name)).alias("ended"),
        F.coalesce(F.bool_or(is_end & name.isNull()), F.lit(False)).alias("all_ended"),
    )
    columns = F.struct("task_count", "partitions", "tasks", "ended", "all_ended")
    runs = by_partition.groupBy("generation").agg(F.collect_list(columns).alias("parts"))
    newest = runs.orderBy(F.desc("generation")).limit(1).collect()
    if not newest:
        return None
    parts = newest[0].parts
    partitions, task_count = max(part.partitions for part in parts), max(part.task_count for part in parts)
    complete = sum(part.all_ended or len(part.ended) >= task_count for part in parts)
    return _Run(
        newest[0].generation,
        partitions,
        task_count,
        frozenset(task for part in parts for task in part.tasks),
        ended=any(part.ended or part.all_ended for part in parts),
        ended_everywhere=complete >= max(partitions, len(parts)),
    )


class Transport(Protocol):
    """Where an intermediate stream is kept. Its envelopes have the columns `upstream.ENVELOPES`."""

    @property
    def adds_watermarks(self) -> bool:
        """Whether it takes what `emit` returns with `by_sink`, and adds the watermarks itself."""

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """What writes a streaming frame of envelopes; without a checkpoint and not started."""

    def append(self, envelopes: DataFrame) -> None:
        """Write a batch of envelopes."""

    def control(self, spark: SparkSession) -> DataFrame | None:
        """The control messages: columns type, generation, taskName, taskCount, partitionCount and partition.

        None if there is no such stream.
        """


_ENVELOPE_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "partition", "type": ["null", "int"]}, {"name": "value", "type": ["null", "bytes"]}],
    }
)
"""`upstream.ENVELOPES` in Avro: with a schema, a reader waits for a stream that does not exist yet."""


@dataclass(frozen=True)
class AzureBlobTransport:
    """A stream of format `azureblob`. path: `container/stream`.

    options: those that name the account. read_options, write_options: those for one direction only.
    """

    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # with secrets, as the others may be
    read_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    write_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    adds_watermarks: ClassVar[bool] = True

    def read(self, spark: SparkSession) -> DataFrame:
        """The envelopes as a streaming frame, from the first on. The stream need not exist yet."""
        reader = spark.readStream.format("azureblob").option("avroSchema", _ENVELOPE_AVRO)
        return reader.options(**self.options, **self.read_options).load(self.path)

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """As of `Transport`."""
        writer = envelopes.writeStream.format("azureblob").options(**self._writing(envelopes))
        return writer.option("path", self.path)

    def append(self, envelopes: DataFrame) -> None:
        """As of `Transport`."""
        envelopes.write.format("azureblob").mode("append").options(**self._writing(envelopes)).save(self.path)

    def control(self, spark: SparkSession) -> DataFrame | None:
        """As of `Transport`."""
        reader = spark.read.format("azureblob").options(**self.options)
        if not _succeeds(lambda: reader.load(self.path).schema, but_for="azure_account.errors.NotFoundError"):
            return None
        view = reader.option("view", "control").load(self.path)
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
    adds_watermarks: ClassVar[bool] = False

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

    def control(self, spark: SparkSession) -> DataFrame | None:
        """As of `Transport`."""
        if not _succeeds(lambda: self._all(spark).limit(1).collect(), but_for="UnknownTopicOrPartitionException"):
            return None
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
