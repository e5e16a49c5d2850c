"""Streaming jobs as the guides of Spark, Delta and Databricks write them, with this format in place of theirs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as the guides name it
from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.spark.errors import error_of
from tests.spark.usual.test_batch_jobs import IN_PLACE_OF_TABLES
from tests.spark.write_job import row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from tests.spark.stored import Stored
    from tests.spark.write_job import WriteJob

pytestmark = [pytest.mark.every_spark, pytest.mark.oldest_spark]


def sink(job: WriteJob, frame: DataFrame, checkpoint: str = "checkpoint", **more: Any) -> DataStreamWriter:
    """`frame.writeStream` to this format, with a checkpoint."""
    writer = frame.writeStream.format("azureblob").options(**job.options, **more)
    return writer.option("checkpointLocation", str(job.folder / checkpoint))


def followed(job: WriteJob, path: str, **more: Any) -> DataFrame:
    """`spark.readStream` of a stream."""
    return job.spark.readStream.format("azureblob").options(**job.options, **more).load(path)


def ids(stored: Stored, stream: str = "events") -> list[int]:
    return sorted(each["id"] for each in stored.rows(stream))


def wait(query: StreamingQuery) -> None:
    assert query.awaitTermination(600)


def run_all(query: StreamingQuery) -> None:
    query.processAllAvailable()
    query.stop()


WRITES: dict[str, Callable[[WriteJob, str], object]] = {
    "available now": lambda job, path: wait(sink(job, job.input()).trigger(availableNow=True).start(path)),
    "once": lambda job, path: wait(sink(job, job.input()).trigger(once=True).start(path)),
    "a processing time": lambda job, path: run_all(
        sink(job, job.input()).trigger(processingTime="1 second").outputMode("append").start(path)
    ),
    "no trigger": lambda job, path: run_all(sink(job, job.input()).start(path)),
    "a name": lambda job, path: wait(sink(job, job.input()).queryName("copy").trigger(availableNow=True).start(path)),
    "a path as option": lambda job, path: wait(
        sink(job, job.input()).option("path", path).trigger(availableNow=True).start()
    ),
    "all arguments of start": lambda job, path: run_all(
        job.input().writeStream.start(
            path,
            format="azureblob",
            outputMode="append",
            queryName="copy",
            checkpointLocation=str(job.folder / "checkpoint"),
            **job.options,
        )
    ),
    "partitionBy, which Spark keeps to itself": lambda job, path: wait(
        sink(job, job.input()).partitionBy("kind").trigger(availableNow=True).start(path)
    ),
    "a column for each partition": lambda job, path: wait(
        sink(job, job.input(), partitionColumn="kind").trigger(availableNow=True).start(path)
    ),
    "drop duplicates": lambda job, path: wait(
        sink(job, job.input().dropDuplicates(["id"])).queryName("copy").trigger(availableNow=True).start(path)
    ),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_of_a_stream(name: str, job: WriteJob, target: str, stored: Stored) -> None:
    WRITES[name](job, target)
    assert [0, 1, 2] == ids(stored)


@pytest.fixture
def checkpoints(spark: SparkSession, job: WriteJob) -> Iterator[None]:
    """The session's setting for the checkpoints of all queries."""
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(job.folder / "checkpoints"))
    yield
    spark.conf.unset("spark.sql.streaming.checkpointLocation")


@pytest.mark.usefixtures("checkpoints")
def test_the_session_says_where_checkpoints_are(job: WriteJob, target: str, stored: Stored) -> None:
    for _ in range(2):  # by the query's name the second run finds the checkpoint of the first
        writer = job.input().writeStream.format("azureblob").options(**job.options).queryName("copy")
        wait(writer.trigger(availableNow=True).start(target))
    assert [0, 1, 2] == ids(stored)
    assert (job.folder / "checkpoints" / "copy" / "commits").is_dir()


def test_a_named_query_is_found_stopped_and_restarted_with_new_rows(job: WriteJob, target: str, stored: Stored) -> None:
    query = sink(job, job.input()).queryName("copy").start(target)
    assert [query.id] == [each.id for each in job.spark.streams.active if each.name == "copy"]
    query.processAllAvailable()
    assert ("copy", True, None) == (query.name, query.isActive, query.exception())
    assert 3 == sum(progress["numInputRows"] for progress in query.recentProgress)
    assert "isDataAvailable" in query.status
    assert query.lastProgress is not None
    query.stop()
    job.feed("2", row(3))
    again = sink(job, job.input()).queryName("copy").trigger(availableNow=True).start(target)
    wait(again)
    assert (query.id, [0, 1, 2, 3]) == (again.id, ids(stored))


def test_counts_in_complete_mode(job: WriteJob, target: str, stored: Stored) -> None:
    counts = job.input().groupBy("kind").count()
    wait(sink(job, counts).outputMode("complete").queryName("counts").trigger(availableNow=True).start(target))
    assert [{"kind": "a", "count": 2}, {"kind": "b", "count": 1}] == sorted(
        stored.rows(), key=lambda each: each["kind"]
    )


def test_windows_with_a_watermark_in_append_mode(job: WriteJob, events: str, target: str, stored: Stored) -> None:
    counts = (
        followed(job, events)
        .withWatermark("at", "1 minute")
        .groupBy(F.window("at", "2 minutes"), "kind")
        .count()
        .selectExpr("window.start", "kind", "count")
    )
    run_all(sink(job, counts).queryName("windows").start(target))
    # The latest time is 12:05, the watermark 12:04: the windows from 12:00 and 12:02 are over.
    found = sorted((each["start"].minute, each["kind"], each["count"]) for each in stored.rows())
    assert [(0, "a", 1), (0, "b", 1), (2, "a", 1), (2, "b", 1)] == found


def test_a_stream_is_joined_with_a_static_frame(job: WriteJob, events: str, target: str, stored: Stored) -> None:
    static = job.spark.read.format("azureblob").options(**job.options).load(events).select("id", "at")
    joined = followed(job, events).select("id", "kind").join(static, "id", "left_outer").where("kind = 'b'")
    wait(sink(job, joined).queryName("enrich").trigger(availableNow=True).start(target))
    assert [(1, 1), (3, 3), (5, 5)] == sorted((each["id"], each["at"].minute) for each in stored.rows())


def test_two_streams_are_joined_within_a_time_range(job: WriteJob, events: str, target: str, stored: Stored) -> None:
    left = followed(job, events).withWatermark("at", "1 minute").alias("l")
    right = followed(job, events).withWatermark("at", "1 minute").alias("r")
    soon = F.expr("l.kind = r.kind AND r.at > l.at AND r.at <= l.at + INTERVAL 2 MINUTES")
    wait(sink(job, left.join(right, soon).select("l.id")).trigger(availableNow=True).start(target))
    assert [0, 1, 2, 3] == ids(stored)


def test_duplicates_within_a_watermark_are_dropped(job: WriteJob, events: str, target: str, stored: Stored) -> None:
    first = followed(job, events).withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["kind"])
    wait(sink(job, first.select("kind")).trigger(availableNow=True).start(target))
    assert ["a", "b"] == sorted(each["kind"] for each in stored.rows())


def test_for_each_batch_writes_to_two_sinks(job: WriteJob, container_name: str, stored: Stored) -> None:
    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        for name in ("left", "right"):
            writer = batch.write.format("azureblob").options(**job.options, txnAppId=name, txnVersion=number)
            writer.mode("append").save(f"{container_name}/{name}")
        batch.unpersist()

    writer = job.input().writeStream.foreachBatch(write).queryName("fan-out").outputMode("update")
    wait(writer.option("checkpointLocation", str(job.folder / "a")).trigger(availableNow=True).start())
    assert [[0, 1, 2]] * 2 == [ids(stored, name) for name in ("left", "right")]


def test_for_each_batch_uses_the_session_of_the_batch_and_sql(job: WriteJob, target: str, stored: Stored) -> None:
    def write(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        found = batch.sparkSession.sql("SELECT max(id) AS id FROM batch")
        found.write.format("azureblob").options(**job.options).mode("append").save(target)

    writer = job.input().writeStream.foreachBatch(write).option("checkpointLocation", str(job.folder / "a"))
    wait(writer.trigger(availableNow=True).start())
    assert [1, 2] == ids(stored)


def test_one_stream_goes_to_two_named_queries(job: WriteJob, container_name: str, stored: Stored) -> None:
    frame = job.input()
    queries = [
        sink(job, frame.where(f"kind = '{kind}'"), kind).queryName(kind).start(f"{container_name}/{kind}")
        for kind in "ab"
    ]
    for query in queries:
        query.processAllAvailable()
    assert {"a", "b"} == {query.name for query in job.spark.streams.active}
    for query in queries:
        query.stop()
    job.spark.streams.resetTerminated()
    assert ([0, 2], [1]) == (ids(stored, "a"), ids(stored, "b"))


READS: dict[str, tuple[Callable[[WriteJob, str], DataFrame], list[Any]]] = {
    "options": (lambda job, path: followed(job, path).select("id"), [(n,) for n in range(6)]),
    "one version at a time, from the second": (
        lambda job, path: followed(job, path, startingVersion=1, maxBlobsPerTrigger=1).select("id"),
        [(4,), (5,)],
    ),
    "from a time": (
        lambda job, path: followed(job, path, startingTimestamp="2013-01-01").select("id"),
        [(n,) for n in range(6)],
    ),
    "path as an option, and a schema": (
        lambda job, path: (
            job.spark.readStream.format("azureblob")
            .options(**job.options)
            .schema("kind string")
            .option("path", path)
            .load()
            .dropDuplicates()
        ),
        [("a",), ("b",)],
    ),
    "all arguments of load": (
        lambda job, path: job.spark.readStream.load(path, "azureblob", "id long, kind string", **job.options).where(
            "id=3"
        ),
        [(3, "b")],
    ),
    "its commits": (lambda job, path: followed(job, path, view="commits").select("version", "rows"), [(0, 4), (1, 2)]),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_of_a_stream_into_a_table_in_memory(name: str, job: WriteJob, events: str) -> None:
    read, expected = READS[name]
    writer = read(job, events).writeStream.format("memory").queryName("found").outputMode("append")
    query = writer.start()
    run_all(query)
    assert expected == sorted(map(tuple, job.spark.sql("SELECT * FROM found").collect()))
    job.spark.catalog.dropTempView("found")


def test_a_stream_is_copied_by_sql_over_a_view_of_it(job: WriteJob, events: str, target: str, stored: Stored) -> None:
    followed(job, events).createOrReplaceTempView("followed")
    frame = job.spark.sql("SELECT id, upper(kind) AS kind FROM followed WHERE id > 3")
    assert frame.isStreaming
    assert job.spark.readStream.table("followed").isStreaming
    wait(sink(job, frame).queryName("copy").trigger(availableNow=True).start(target))
    assert [{"id": 4, "kind": "A"}, {"id": 5, "kind": "B"}] == sorted(stored.rows(), key=lambda each: int(each["id"]))
    job.spark.catalog.dropTempView("followed")


def test_a_listener_hears_of_a_named_query(job: WriteJob, events: str) -> None:
    ended, rows = threading.Event(), []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            rows.append(event.name)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            rows.append(event.progress.numInputRows)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            ended.set()

    listener = Listener()
    job.spark.streams.addListener(listener)
    try:
        writer = followed(job, events).writeStream.format("noop").queryName("heard")
        wait(writer.option("checkpointLocation", str(job.folder / "a")).trigger(availableNow=True).start())
        assert ended.wait(60)
    finally:
        job.spark.streams.removeListener(listener)
    assert ("heard", 6) == (rows[0], sum(rows[1:]))


@pytest.mark.parametrize("table", ["copied", "spark_catalog.default.copied"])
def test_to_table_is_refused_before_anything_is_written_with_what_works(
    table: str, job: WriteJob, spark: SparkSession
) -> None:
    def copy() -> None:
        sink(job, job.input()).queryName("copy").trigger(availableNow=True).toTable(table).awaitTermination()

    try:
        assert error_of(copy).endswith(IN_PLACE_OF_TABLES)
    finally:
        spark.sql("DROP TABLE IF EXISTS copied")


def test_to_table_with_a_path_writes_the_stream_of_that_path(
    job: WriteJob, spark: SparkSession, target: str, stored: Stored
) -> None:
    try:
        writer = sink(job, job.input()).option("path", target).trigger(availableNow=True)
        wait(writer.toTable("copied"))
        assert [0, 1, 2] == ids(stored)
    finally:
        spark.sql("DROP TABLE IF EXISTS copied")
