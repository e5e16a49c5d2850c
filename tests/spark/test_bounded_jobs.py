"""A bounded job writes its rows and its end, whenever it dies; and again when there is more."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account import Location, connect
from azureblob_source.epochs import open_epoch
from azureblob_source.write.destination import ensure_container
from azureblob_source.write.options import sink_options
from control_messages.errors import ControlMessageError
from control_messages.producer import ProducerSpec
from control_messages.spark import (
    AzureBlobTransport,
    BoundedRun,
    EmitColumns,
    KafkaTransport,
    control_envelopes,
    emit,
    partition_of,
    reconcile,
    run_bounded,
    run_until_end,
    start_bounded,
    task_of,
)
from tests.spark.dying_transports import Died, DiesBeforeTheEnd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from azure_account.container import BlobContainer

pytestmark = pytest.mark.usefixtures("rocksdb_state")


@dataclass
class Job:
    """A bounded job whose input is a folder of Parquet files. `producer` is that of the next run."""

    spark: SparkSession
    folder: Path
    transport: AzureBlobTransport
    producer: ProducerSpec
    arrived: int = 0

    def arrive(self, *rows: tuple[str, int | None]) -> None:
        """A file with rows of an airport and a second."""
        self.arrived += 1
        times = F.timestamp_seconds("second").alias("time")
        frame = self.spark.createDataFrame(rows, "airport string, second bigint").select("airport", times)
        frame.coalesce(1).write.parquet(str(self.folder / "input" / f"{self.arrived:02}"))

    def run(self, transport: AzureBlobTransport | None = None) -> ProducerSpec:
        """One run."""
        return run_bounded(*self._arguments(transport))

    def start(self) -> BoundedRun:
        """A run that is to be watched."""
        return start_bounded(*self._arguments(None))

    def _arguments(self, transport: AzureBlobTransport | None) -> Any:
        schema = "airport string, time timestamp"
        files = self.spark.readStream.schema(schema).option("recursiveFileLookup", True)
        files = files.option("maxFilesPerTrigger", 1)
        return (
            files.parquet(str(self.folder / "input")).withColumn("value", F.to_json(F.struct("*"))),
            self.producer,
            EmitColumns(
                "time", partition=partition_of(self.producer, "airport"), task=task_of(self.producer, "airport")
            ),
            transport or self.transport,
            str(self.folder / "upstream"),
        )

    def ends(self) -> list[tuple[int, int]]:
        """How many ends partition 0 has, by generation."""
        control = self.transport.control(self.spark)
        assert control is not None
        ends = control.where("type = 'endOfStream'").groupBy("generation").count().collect()
        return sorted((row.generation, row["count"] // self.producer.partitions) for row in ends)


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, options: dict[str, str], target: str) -> Job:
    (tmp_path / "input").mkdir()
    return Job(spark, tmp_path, AzureBlobTransport(Location(target, options)), ProducerSpec("events", 2, 3))


def downstream(job: Job, found: list[tuple[Any, ...]]) -> list[tuple[str, int]]:
    """Read the stream until it ends; type and partition of the announcements, and the messages' count in `found`."""
    announced: list[tuple[str, int]] = []

    def take(rows: DataFrame, _: int) -> None:
        for row in rows.collect():
            if row.type == "message":
                found.append(tuple(row))
            elif row.type != "watermark":
                announced.append((row.type, row.partition))

    flow = reconcile(job.transport.read(job.spark), "events")
    writer = flow.writeStream.foreachBatch(take).option("checkpointLocation", str(job.folder / "downstream"))
    assert run_until_end(writer.trigger(processingTime="0 seconds").start())
    return sorted(announced)


@dataclass(frozen=True)
class DiesAfterTheEnd(AzureBlobTransport):
    """Writes everything, but the job does not hear of it."""

    def append(self, envelopes: DataFrame) -> None:
        super().append(envelopes)
        raise Died


def container_of(job: Job) -> BlobContainer:
    """The container of a job's stream."""
    given = sink_options({**job.transport.stream.options, "path": job.transport.stream.where}, {})
    return connect(given.account).container(given.address.container)


def as_(kind: type[AzureBlobTransport], job: Job) -> AzureBlobTransport:
    return kind(job.transport.stream)


def test_a_run_that_was_stopped_has_no_end_and_one_that_is_finished_has_one(job: Job) -> None:
    job.arrive(("EWR", 1))
    job.arrive(("JFK", 2))
    run = job.start()
    with pytest.raises(ValueError, match="the job of stream events runs. Start it again"):
        run.finish(job.spark)
    run.stop()
    with pytest.raises(ValueError, match="was stopped, or finished already"):
        run.finish(job.spark)

    run = job.start()
    run.query.awaitTermination()
    assert not run.isActive
    run.finish(job.spark)
    with pytest.raises(ValueError, match="was stopped, or finished already"):
        run.finish(job.spark)
    assert [(0, 3)] == job.ends()


@pytest.mark.every_spark
def test_each_run_with_new_input_is_a_generation_that_ends(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2))
    job.arrive(("LGA", 3))
    assert 0 == job.run().generation
    found: list[tuple[Any, ...]] = []
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, found)

    job.run()
    assert [(0, 3)] == job.ends(), "a run without new input writes nothing"
    assert [] == downstream(job, found)

    job.arrive(("EWR", 4))
    assert 1 == job.run().generation
    assert [(0, 3), (1, 3)] == job.ends()
    assert [("endOfStream", 0), ("endOfStream", 1), ("reopened", 0), ("reopened", 1)] == downstream(job, found)
    assert 4 == len(found)


def test_the_consumer_may_start_before_there_is_a_stream(job: Job) -> None:
    flow = reconcile(job.transport.read(job.spark), "events")
    rows: list[tuple[Any, ...]] = []
    writer = flow.writeStream.foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
    query = writer.option("checkpointLocation", str(job.folder / "downstream")).start()
    job.arrive(("EWR", 1), ("JFK", 2))
    job.run()

    assert run_until_end(query)
    assert 2 == sum(row[2] == "message" for row in rows)


def test_a_job_that_dies_around_its_end_goes_on(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2))
    for _ in range(2):
        with pytest.raises(Died):
            job.run(as_(DiesBeforeTheEnd, job))
    assert [] == job.ends()
    assert 0 == job.run().generation
    assert [(0, 3)] == job.ends()

    job.arrive(("EWR", None))  # which promises nothing, but is a row of the next run
    with pytest.raises(Died):
        job.run(as_(DiesBeforeTheEnd, job))
    with pytest.raises(Died):
        job.run(as_(DiesAfterTheEnd, job))
    assert [(0, 3), (1, 3)] == job.ends()
    job.run()
    assert [(0, 3), (1, 3)] == job.ends()


def test_other_tasks_after_a_death_end_in_their_own_generation(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2))
    with pytest.raises(Died):
        job.run(as_(DiesBeforeTheEnd, job))
    job.producer = ProducerSpec("events", 2, 2)

    assert 1 == job.run().generation, "another number of tasks is another generation"

    assert [(1, 1)] == job.ends(), "one for all tasks"
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, [])


def test_an_empty_input_ends_too(job: Job) -> None:
    job.arrive()
    job.run()
    assert [(0, 1)] == job.ends(), "one for all tasks"
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, [])


def another(job: Job) -> Job:
    """A job of its own, with a checkpoint and rows of its own, that writes the same stream."""
    folder = job.folder / "another"
    (folder / "input").mkdir(parents=True)
    return Job(job.spark, folder, job.transport, job.producer)


@dataclass(frozen=True)
class Meanwhile(AzureBlobTransport):
    """Something else happens after a run has begun, and before its rows."""

    happens: Callable[[], object] = print

    def write_stream(self, envelopes: DataFrame) -> DataStreamWriter:
        self.happens()
        return super().write_stream(envelopes)


def test_a_second_job_is_refused_until_the_first_has_ended_or_is_replaced(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2))
    with pytest.raises(Died):
        job.run(as_(DiesBeforeTheEnd, job))
    second = another(job)
    second.arrive(("EWR", 5))
    with pytest.raises(ControlMessageError, match=r"another query has written .*let it end, then run this one again"):
        second.run()

    assert 0 == job.run().generation
    assert 1 == second.run().generation
    assert [(0, 3), (1, 3)] == job.ends()
    found: list[tuple[Any, ...]] = []
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, found)
    assert 3 == len(found)


def test_a_job_that_is_gone_for_good_is_replaced(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2))
    with pytest.raises(Died):
        job.run(as_(DiesBeforeTheEnd, job))
    second = another(job)
    second.arrive(("EWR", 1), ("JFK", 2))
    with pytest.raises(ControlMessageError, match=r"run this one with `ProducerSpec\(generation=1\)`"):
        second.run()
    second.producer = ProducerSpec("events", 2, 3, generation=1)

    second.run()

    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, [])


def test_a_job_that_another_one_has_overtaken_ends_its_rows_and_says_so(job: Job) -> None:
    second = another(job)
    job.arrive(("EWR", 1), ("JFK", 2))
    second.arrive(("EWR", 5), ("LGA", 6))
    slow = Meanwhile(job.transport.stream, happens=second.run)

    with pytest.raises(ControlMessageError, match="something else has written the end of .* in generation 0"):
        job.run(slow)

    assert [(0, 3), (1, 3)] == job.ends()
    found: list[tuple[Any, ...]] = []
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, found)
    assert 4 == len(found)
    assert 2 == job.run().generation, "it goes on"
    assert [(0, 3), (1, 3)] == job.ends()


def test_the_end_of_a_task_that_comes_while_a_job_runs_holds_nothing_up_and_is_an_error(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2), ("LGA", 3))
    end = control_envelopes(job.spark, job.producer, job.producer.end_of_stream([1]))
    ended = Meanwhile(job.transport.stream, happens=lambda: job.transport.append(end))

    with pytest.raises(
        ControlMessageError, match=r"has written the end of 'Partition 1' in generation 0.*consumers may"
    ):
        job.run(ended)

    found: list[tuple[Any, ...]] = []
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, found)
    assert 3 == len(found)


def test_a_stream_that_has_lost_its_control_messages_gets_a_generation_above_all(job: Job) -> None:
    rows = job.spark.createDataFrame([(0, b"\0x")], "partition int, value binary")
    rows.write.format("azureblob").options(**job.transport.stream.options).mode("append").save(
        job.transport.stream.where
    )
    job.arrive(("EWR", 1))
    before = time.time_ns() // 1_000_000

    assert before <= job.run().generation <= time.time_ns() // 1_000_000
    job.arrive(("EWR", 2))
    ((first, _),) = job.ends()
    assert first + 1 == job.run().generation


@pytest.mark.parametrize("container_is_there", [False, True])
def test_a_stream_that_is_not_there_has_no_control_messages(job: Job, container_is_there: bool) -> None:
    if container_is_there:
        ensure_container(container_of(job), create=True)
    assert job.transport.control(job.spark) is None


def test_rows_and_end_have_the_epoch_of_the_transport_and_a_lower_one_is_refused(job: Job, target: str) -> None:
    former = replace(job.transport, write_options={"epoch": "1"})
    open_epoch(job.transport.stream, 1)
    job.arrive(("EWR", 1))
    before = time.time_ns() // 1_000_000
    first = job.run(former).generation
    assert before <= first <= time.time_ns() // 1_000_000, "above all, as of every stream without control messages"
    assert [(first, 3)] == job.ends()
    job.arrive(("EWR", 2))
    with pytest.raises(PySparkException, match="this writer carries none"):
        job.run()
    open_epoch(job.transport.stream, 2)
    with pytest.raises(PySparkException, match="this writer has epoch 1"):
        former.append(control_envelopes(job.spark, job.producer, job.producer.end_of_stream()))
    job.run(replace(former, write_options={"epoch": "2"}))
    assert [(first, 3), (first + 1, 3)] == job.ends()


def test_rows_for_the_sink_of_azureblob_are_not_written_to_kafka(job: Job) -> None:
    job.arrive(("EWR", 1))
    files = job.spark.readStream.schema("airport string, time timestamp").parquet(str(job.folder / "input" / "01"))
    rows = files.withColumn("value", F.lit("x")).withColumn("partition", F.lit(0))
    with pytest.raises(ValueError, match="Leave `by_sink` of `emit` out for Kafka"):
        KafkaTransport("t", {}).write_stream(emit(rows, job.producer, EmitColumns("time"), by_sink=True))


def test_a_single_task_ends_before_the_others(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2), ("LGA", 3))
    with pytest.raises(Died):
        job.run(as_(DiesBeforeTheEnd, job))
    for tasks, ends in (([1], [(0, 1)]), (["Partition 0"], [(0, 2)])):
        job.transport.append(control_envelopes(job.spark, job.producer, job.producer.end_of_stream(tasks)))
        assert ends == job.ends()
    job.run()
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, [])


def test_rows_of_a_run_after_a_death_and_the_end_of_one_task_come_before_the_end(job: Job) -> None:
    job.arrive(("EWR", 1), ("JFK", 2), ("LGA", 3))
    with pytest.raises(Died):
        job.run(as_(DiesBeforeTheEnd, job))
    job.transport.append(control_envelopes(job.spark, job.producer, job.producer.end_of_stream([1])))
    job.arrive(("EWR", 4))

    assert 1 == job.run().generation

    assert [(0, 1), (1, 3)] == job.ends(), "one end of a task; then those of the next generation"
    found: list[tuple[Any, ...]] = []
    assert [("endOfStream", 0), ("endOfStream", 1)] == downstream(job, found)
    assert 4 == len(found)


def test_a_stream_keeps_its_number_of_partitions(job: Job) -> None:
    job.arrive(("EWR", 1))
    job.run()
    job.producer = ProducerSpec("events", 4, 3)
    with pytest.raises(ValueError, match="events has 2 partitions, not 4.* write into a new stream"):
        job.run()


@pytest.mark.parametrize(
    "transport",
    [
        AzureBlobTransport(Location("flights/stream", {"accountKey": "hidden"})),
        KafkaTransport("flights", {"kafka.sasl.jaas.config": "hidden"}),
    ],
)
def test_a_transport_does_not_show_its_options(transport: object) -> None:
    assert "hidden" not in repr(transport)
