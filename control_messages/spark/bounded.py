"""A bounded job: one call that writes a stream and announces its end, also after a crash in between.

    rows ─ emit ─► envelopes ─► query with the trigger availableNow ─► end of the stream

The stream itself shows how far the job has come: its control messages have the generation, and the end is one of them.
So nothing is saved beside it. A run that died before the end is continued in its generation; the run after an end is a
new generation, which reopens the stream for those downstream. `control_messages.runs` has the rules.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account.location import Location
from control_messages.errors import listed
from control_messages.messages import EndOfStream, MessageType
from control_messages.producer import PRODUCER_METADATA, ProducerSpec
from control_messages.runs import (
    ALL,
    Job,
    NewestGeneration,
    SentMessages,
    begin,
    finish,
    newest_of,
)
from control_messages.spark.columns import EmitColumns
from control_messages.spark.upstream import EMITTED, control_envelopes, emit
from foundation.arguments import Options, checked
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import NotFoundError
from foundation.worker_errors import own_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@checked
def run_bounded(
    frame: DataFrame, producer: ProducerSpec, columns: EmitColumns, transport: Transport, checkpoint: str
) -> ProducerSpec:
    """Write all rows that a streaming frame has now, then the end of the stream. Returns the producer of this run.

    frame: a streaming frame.
    producer: the stream, its tasks and partitions.
    columns: which of the row's columns are payload, partition, task and event time.
    transport: where the envelopes go.
    checkpoint: the `checkpointLocation` of the job.

    Run it again after a crash: the rows that are missing are written, then the end. Run it again when there is more
    input: that is the next generation, and its end is announced again. Without new input nothing is written after the
    first end. Raises what the query fails with; then no end is announced.

    The generation is that of the producer, or one above that of the last run, if that has ended or had other tasks. If
    the stream is there, but has no control message (any more, as retention may have removed them), it is the time in
    milliseconds, so it rises also then; and an end is written, also without new input.

    A stream has one job at a time. `ControlMessageError` if another query has written the newest generation, or has
    begun another one or ended this one while the job ran; it says what to do. `ValueError` if the stream has another
    number of partitions.
    """
    run = start_bounded(frame, producer, columns, transport, checkpoint)
    run.query.awaitTermination()
    run.finish(frame.sparkSession)
    return run.producer


@checked
def start_bounded(
    frame: DataFrame, producer: ProducerSpec, columns: EmitColumns, transport: Transport, checkpoint: str
) -> BoundedRun:
    """Begin what `run_bounded` does, and return it while it runs: for who has to watch it, such as a coordinated task.

    The arguments are those of `run_bounded`. When the query has ended by itself, call `finish` of what is returned.
    """
    spark = frame.sparkSession
    job = Job(producer, _query_id(spark, checkpoint))
    run = replace(producer, generation=_start(spark, job, transport))
    envelopes = emit(frame, run, columns, by_sink=transport.adds_watermarks)
    writer = transport.write_stream(envelopes).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    return BoundedRun(query, run, job, transport)


class BoundedRun:
    """A run of a bounded job, which looks like its query. `start_bounded` makes it."""

    def __init__(self, query: StreamingQuery, producer: ProducerSpec, job: Job, transport: Transport) -> None:
        self.query = query
        """Writes the rows. Stop it by `stop` of this object alone."""
        self.producer = producer
        """Of this run, with its generation."""
        self._job, self._transport = replace(job, query=str(query.id)), transport
        self._may_finish = True

    @property
    def id(self) -> str:
        """The id of the query."""
        return str(self.query.id)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether rows are being written."""
        return self.query.isActive

    def exception(self) -> Exception | None:
        """What the query has failed with; None otherwise."""
        return self.query.exception()

    def stop(self) -> None:
        """Stop the query, which has not written all rows then: no end is announced."""
        self._may_finish = self._may_finish and not self.query.isActive
        self.query.stop()

    def finish(self, spark: SparkSession) -> None:
        """Announce the end of the stream, after the query has ended by itself. If that fails, start the job again.

        Raises what the query failed with; errors else as of `run_bounded`. `ValueError` if the query runs or was
        stopped, or for a second call.
        """
        if self.query.isActive or not self._may_finish:
            cause = "runs" if self.query.isActive else "was stopped, or finished already"
            text = f"the job of stream {self.producer.stream} {cause}. Start it again, and finish it when it has ended."
            raise ValueError(text)
        self.query.awaitTermination()  # raises what it has failed with
        self._may_finish = False
        job = self._job
        done = finish(job, self.producer.generation, _newest(self._transport.control(spark)))
        if done.ends is not None:
            ending = replace(job.producer, generation=done.ends)
            for_all = [EndOfStream(None, 1, ending.stream, ending.generation)]
            ends = for_all if done.nameless else ending.end_of_stream()
            self._transport.append(control_envelopes(spark, ending, ends))
        if done.error is not None:
            raise done.error


def _start(spark: SparkSession, job: Job, transport: Transport, clock: Clock = SYSTEM_CLOCK) -> int:
    """The generation of a run."""
    control = transport.control(spark)
    newest = _newest(control)
    if control is not None and newest is None:  # retention may have removed any generation
        return max(job.producer.generation, clock.now_ns() // 1_000_000)
    return begin(job, newest)


def _query_id(spark: SparkSession, checkpoint: str) -> str | None:
    """The id of the query to which a checkpoint belongs; None if there is no query yet."""
    metadata = f"{checkpoint.rstrip('/')}/metadata"
    found: list[str | None] = []

    def read() -> None:
        found.extend(row.id for row in spark.read.schema("id string").json(metadata).collect())

    _succeeds(read, but_for="PATH_NOT_FOUND")
    return found[0] if found else None


def _newest(control: DataFrame | None) -> NewestGeneration | None:
    """The newest generation by the control messages (of `Transport`); None if there are none."""
    if control is None:
        return None
    known = set(control.columns)
    is_end = F.col("type") == "endOfStream"
    position = F.col("position") if "position" in known else F.lit(0)
    query = F.col("transactionId") if "transactionId" in known else F.lit(None).cast("string")
    generation = F.coalesce("generation", F.lit(0)).cast("bigint").alias("generation")
    name = F.coalesce("taskName", F.lit(ALL)).alias("task")
    sent = control.groupBy(generation, F.col("partition").cast("string"), name, query.alias("query")).agg(
        F.max(F.coalesce("taskCount", F.lit(1))).alias("task_count"),
        F.max(F.coalesce("partitionCount", F.lit(0))).alias("partitions"),
        F.max(F.when(is_end, F.lit(-1)).otherwise(position)).alias("last"),
        F.max(F.when(is_end, position).otherwise(F.lit(-1))).alias("end"),
    )
    columns = F.struct(*(each.name for each in fields(SentMessages)))
    rows = sent.groupBy("generation").agg(F.collect_list(columns).alias("sent")).orderBy(F.desc("generation"))
    if "position" not in known:  # by which alone the messages of older generations count
        rows = rows.limit(1)
    found = [SentMessages(*each) for row in rows.collect() for each in row.sent]
    return newest_of(found) if found else None


class Transport(Protocol):
    """Where an intermediate stream is kept. Its envelopes have the columns `upstream.ENVELOPES`."""

    adds_watermarks: ClassVar[bool]
    """Whether it takes what `emit` returns with `by_sink`, and adds the watermarks itself."""

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """What writes a streaming frame of envelopes; without a checkpoint and not started."""

    def append(self, envelopes: DataFrame) -> None:
        """Write a batch of envelopes."""

    def control(self, spark: SparkSession) -> DataFrame | None:
        """The control messages, at least those of the newest generation and those after.

        Columns type, generation, taskName, taskCount, partitionCount and partition.
        If it is known, column transactionId has the id of the streaming query that wrote a message, and position
        rises in the order of writing. None if there is no such stream.
        """


_OF_QUERIES = frozenset(("checkpointbackup",))
"""Options of the sink that are for queries with a checkpoint only."""
_ENVELOPE_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "partition", "type": ["null", "int"]}, {"name": "value", "type": ["null", "bytes"]}],
    }
)
"""`upstream.ENVELOPES` in Avro: with a schema, a reader waits for a stream that does not exist yet."""


@checked
@dataclass(frozen=True)
class AzureBlobTransport:
    """A stream of format `azureblob`.

    stream: `container/stream` and the account.
    read_options, write_options: options for one direction only.
    """

    stream: Location
    read_options: Options = field(default_factory=dict, repr=False)  # may have secrets
    write_options: Options = field(default_factory=dict, repr=False)
    adds_watermarks: ClassVar[bool] = True

    def read(self, spark: SparkSession) -> DataFrame:
        """The envelopes as a streaming frame, from the first on. The stream need not exist yet."""
        reader = spark.readStream.format("azureblob").option("avroSchema", _ENVELOPE_AVRO)
        return reader.options(**self.stream.options, **self.read_options).load(self.stream.where)

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """What writes a streaming frame of envelopes; without a checkpoint and not started."""
        writer = envelopes.writeStream.format("azureblob").options(**self._writing(envelopes))
        return writer.option("path", self.stream.where)

    def append(self, envelopes: DataFrame) -> None:
        """Write a batch of envelopes."""
        options = {key: value for key, value in self._writing(envelopes).items() if key.lower() not in _OF_QUERIES}
        envelopes.write.format("azureblob").mode("append").options(**options).save(self.stream.where)

    def control(self, spark: SparkSession) -> DataFrame | None:
        """The control messages of the stream, with the columns of `Transport.control`; None if there is no stream."""
        reader = spark.read.format("azureblob").options(**self.stream.options)
        # Not the schema of the rows: a stream whose log has only an epoch has none.
        view = reader.option("view", "control").option("generations", "newest").load(self.stream.where)
        if not _succeeds(lambda: view.limit(1).collect(), but_for=NotFoundError):
            return None
        count = F.get_json_object("message", "$.partitionCount").cast("bigint").alias("partitionCount")
        columns = ("type", "generation", "taskName", "taskCount", "partition", "transactionId")
        return view.select(*columns, count, F.col("version").alias("position"))

    def _writing(self, envelopes: DataFrame) -> dict[str, str]:
        by_sink = _for_the_sink(envelopes)
        control = {} if by_sink else {"envelopeColumn": "value"}
        return {**self.stream.options, **self.write_options, "partitionColumn": "partition", **control}


@checked
@dataclass(frozen=True)
class KafkaTransport:
    """A topic of Kafka with as many partitions as the stream.

    options: `kafka.bootstrap.servers` and others of the client. read_options, write_options: those for one direction
    only.
    """

    topic: str
    options: Options = field(repr=False)  # with secrets, as the others may be
    read_options: Options = field(default_factory=dict, repr=False)
    write_options: Options = field(default_factory=dict, repr=False)
    adds_watermarks: ClassVar[bool] = False

    def read(self, spark: SparkSession) -> DataFrame:
        """The envelopes as a streaming frame, from the first on."""
        reader = spark.readStream.format("kafka").option("startingOffsets", "earliest")
        return reader.options(**self.options, **self.read_options).option("subscribe", self.topic).load()

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        """What writes a streaming frame of envelopes; without a checkpoint and not started."""
        return envelopes.writeStream.format("kafka").options(**self._writing(envelopes))

    def append(self, envelopes: DataFrame) -> None:
        """Write a batch of envelopes."""
        envelopes.write.format("kafka").options(**self._writing(envelopes)).save()

    def control(self, spark: SparkSession) -> DataFrame | None:
        """The control messages of the stream, with the columns of `Transport.control`; None if there is no stream."""
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
    """Whether the azureblob sink has to add the watermarks: the result of `emit` with `by_sink`.

    `ValueError` if watermarks would be lost: `value` was computed after that, or the results of two `emit` are united.
    """
    emitted = _emitted(envelopes)
    if len(emitted) > 1:
        raise ValueError(
            f"the envelopes are of {len(emitted)} `emit`, so the watermarks of one would be wrong for the rows of "
            f"another: {listed(sorted(emitted), 3)}. Unite the rows first, then call `emit` once."
        )
    needs_sink = any(key == PRODUCER_METADATA for key, _ in emitted)
    if needs_sink and PRODUCER_METADATA not in envelopes.schema["value"].metadata:
        raise ValueError(
            "column `value` is not as `emit(by_sink=True)` has made it, so the sink would add no watermarks. Compute "
            "the payload before `emit`, and write its result as it is."
        )
    return needs_sink


def _emitted(envelopes: DataFrame) -> set[tuple[str, str]]:
    """The marks of `emit` in the plan of a frame: key and producer. Spark Connect shows only those of the result."""
    metadata = [column.metadata for column in envelopes.schema]
    frame = getattr(envelopes, "_jdf", None)
    nodes = [] if frame is None else [frame.queryExecution().analyzed()]
    while nodes:
        node = nodes.pop()
        output, children = node.output(), node.children()
        metadata += [json.loads(output.apply(number).metadata().json()) for number in range(output.size())]
        nodes += [children.apply(number) for number in range(children.size())]
    return {(key, str(each[key])) for each in metadata for key in (PRODUCER_METADATA, EMITTED) if key in each}


def _succeeds(read: Callable[[], object], *, but_for: str | type[Exception]) -> bool:
    """Whether a read succeeds. False for our error, or the one that Spark's text names; all others are raised."""
    try:
        read()
    except PySparkException as error:
        if not (but_for in str(error) if isinstance(but_for, str) else isinstance(own_error(error), but_for)):
            raise
        return False
    return True
