"""Streaming reads of `azureblob`: each version once, in batches of the configured size, from the configured start."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException

from azureblob_source.log.boundary import Boundary, to_json
from azureblob_source.log.naming import log_name
from tests.spark.errors import error_of
from tests.spark.versions import append_anyway, append_version
from tools.reporting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tests.spark.stored import Stored

pytestmark = pytest.mark.every_spark

HAS_LIMITS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
"""Earlier versions do not pass the offset to a Python source, so it cannot limit a batch."""


def rows_of(batches: list[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(batches))


needs_limits = pytest.mark.skipif(not HAS_LIMITS, reason="Spark 4.2 brings admission control to Python sources")


def reported(query: StreamingQuery) -> list[Any]:
    """What the source has reported as its latest offset, for each batch of a query with rows."""
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    return [json.loads(each["sources"][0]["latestOffset"] or "null") for each in batches]


@dataclass
class ReadJob:
    """A stream to which tests append versions, and queries that read it."""

    spark: SparkSession
    options: dict[str, str]
    target: str
    folder: Path
    batches: list[list[Any]] = field(default_factory=list)

    def write(self, *ids: int, **more: str) -> None:
        """One version."""
        rows = pa.RecordBatch.from_arrays([pa.array(ids, pa.int64())], ["id"])
        append_version(self.options, self.target, rows, **more)

    def read(self, **more: str) -> DataFrame:
        """The stream."""
        return self.spark.readStream.format("azureblob").options(**self.options, **more).load(self.target)

    def start(
        self, frame: DataFrame, *, each: Callable[[DataFrame, int], None] | None = None, live: bool = False
    ) -> StreamingQuery:
        """Start or restart a query; its batches are appended to `batches`."""

        def note(batch: DataFrame, number: int) -> None:
            if each is not None:
                each(batch, number)
            self.batches.append(sorted(tuple(row) if len(row) > 1 else row[0] for row in batch.collect()))

        writer = frame.writeStream.foreachBatch(note).option("checkpointLocation", str(self.folder / "checkpoint"))
        trigger = {"processingTime": "0 seconds"} if live else {"availableNow": True}
        return writer.trigger(**trigger).start()

    def run(self, **more: str) -> list[list[Any]]:
        """Run a query over all that is available. Returns its batches that have rows."""
        before = len(self.batches)
        self.start(self.read(**more)).awaitTermination()
        return [batch for batch in self.batches[before:] if batch]


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path) -> ReadJob:
    return ReadJob(spark, options, target, tmp_path)


@pytest.mark.oldest_spark
def test_every_version_is_read_once_and_a_restart_continues(job: ReadJob) -> None:
    job.write(1, 2)
    job.write(3)
    assert [1, 2, 3] == sorted(rows_of(job.run()))
    assert [] == job.run()
    job.write(4)
    job.write(5)
    assert [4, 5] == sorted(rows_of(job.run()))


@needs_limits
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"maxBlobsPerTrigger": "3"}, [[1, 2, 3], [4]]),
        ({"maxBytesPerTrigger": "1"}, [[1], [2], [3], [4]]),
    ],
)
def test_batches_have_the_configured_size(job: ReadJob, limit: dict[str, str], expected: list[list[int]]) -> None:
    for number in range(1, 5):
        job.write(number)
    assert expected == job.run(**limit)
    job.write(5)
    assert [[5]] == job.run(**limit)


@needs_limits
def test_the_progress_has_the_backlog_which_falls_to_nothing(job: ReadJob, stored: Stored) -> None:
    for ids in ((1,), (2, 3), (4, 5, 6)):
        job.write(*ids)
    sizes = [json.loads(stored.bytes(log_name("events", version)))["blobs"][0]["size"] for version in range(3)]
    query = job.start(job.read(maxBlobsPerTrigger="1"))
    query.awaitTermination()
    left = [(2, 2, 5, sum(sizes[1:])), (1, 1, 3, sizes[2]), (0, 0, 0, 0)]
    expected = [dict(zip(("versions", "blobs", "rows", "bytes"), each, strict=True)) for each in left]
    assert [{"version": 2, "backlog": each} for each in expected] == reported(query)


@needs_limits
def test_a_repeated_batch_has_no_backlog_in_the_progress_and_the_next_one_has_it(job: ReadJob) -> None:
    for number in range(3):
        job.write(number)

    def fail(batch: DataFrame, number: int) -> None:
        raise ValueError("the sink fails")

    with pytest.raises(PySparkException, match="the sink fails"):
        job.start(job.read(maxBlobsPerTrigger="1"), each=fail).awaitTermination()
    query = job.start(job.read(maxBlobsPerTrigger="1"))
    query.awaitTermination()
    repeated, *others = reported(query)
    assert (None, [1, 0]) == (repeated, [each["backlog"]["rows"] for each in others])


@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2, 3]), ("latest", []), ("1", [2, 3]), ("3", [])])
def test_a_new_query_starts_at_the_configured_version_and_a_restarted_one_at_its_offset(
    job: ReadJob, start: str, expected: list[int]
) -> None:
    for number in range(1, 4):
        job.write(number)
    assert expected == sorted(rows_of(job.run(startingVersion=start)))
    job.write(4)
    assert [4] == sorted(rows_of(job.run(startingVersion="earliest")))


def test_a_new_query_starts_at_a_time(job: ReadJob) -> None:
    job.write(1)
    history = job.spark.read.format("azureblob").options(**job.options, view="commits").load(job.target)
    time.sleep(0.01)  # into another millisecond
    job.write(2)
    second = history.orderBy("version").select("timestamp").collect()[1][0]
    assert [2] == rows_of(job.run(startingTimestamp=second.strftime("%Y-%m-%dT%H:%M:%S.%fZ")))


def test_versions_written_while_the_query_runs_are_read(job: ReadJob) -> None:
    job.write(1)
    query = job.start(job.read(), live=True)
    try:
        for number in range(2, 6):
            job.write(number)
        wait_for(lambda: sum(map(len, job.batches)) >= 5 or query.exception() is not None, 120)
        assert query.exception() is None
    finally:
        query.stop()
    assert [1, 2, 3, 4, 5] == sorted(rows_of(job.batches))


def test_a_failed_batch_is_repeated_with_the_same_rows(job: ReadJob) -> None:
    job.write(1)
    job.write(2)
    seen: list[list[int]] = []

    def fail(batch: DataFrame, number: int) -> None:
        seen.append(sorted(row.id for row in batch.collect()))
        raise ValueError("the sink fails")

    with pytest.raises(PySparkException, match="the sink fails"):
        job.start(job.read(), each=fail).awaitTermination()
    job.write(3)
    # Before 4.2, Trigger.AvailableNow ends with the batch that it repeats.
    assert [1, 2, 3] == sorted(rows_of(job.run()) + rows_of(job.run()))
    assert seen[0] == job.batches[0]


@pytest.mark.parametrize("start", [{"startingVersion": "latest"}, {"startingTimestamp": "2113-01-31"}])
def test_a_repeated_first_batch_begins_at_its_first_offset_and_not_at_the_current_head(
    job: ReadJob, start: dict[str, str]
) -> None:
    job.write(1)

    def fail(batch: DataFrame, number: int) -> None:
        raise ValueError("the sink fails")

    with pytest.raises(PySparkException, match="the sink fails"):
        job.start(job.read(**start), each=fail, live=True).awaitTermination()
    job.write(2)
    job.write(3)
    assert [2, 3] == sorted(rows_of(job.run(**start)) + rows_of(job.run(**start)))


@pytest.mark.parametrize(
    ("view", "columns", "expected"),
    [
        ("commits", ("version", "rows"), [(0, 1), (1, 2)]),
        ("blobs", ("version", "rows"), [(0, 1), (1, 2)]),
        ("control", ("version", "type"), []),
    ],
)
def test_views_can_be_followed(job: ReadJob, view: str, columns: tuple[str, ...], expected: list[Any]) -> None:
    job.write(1)
    job.write(2, 3)
    job.start(job.read(view=view).select(*columns)).awaitTermination()
    assert expected == sorted(rows_of(job.batches))
    job.write(4)
    job.batches.clear()
    job.start(job.read(view=view).select(*columns)).awaitTermination()
    assert ([(2, 1)] if expected else []) == rows_of(job.batches)


def test_metadata_columns_name_the_source_of_each_row(job: ReadJob) -> None:
    job.write(1)
    job.write(2, partitionColumn="id")
    job.start(job.read(metadataColumns="version,partition").drop("_blob")).awaitTermination()
    assert [(1, 0, None), (2, 1, "2")] == rows_of(job.batches)


@pytest.mark.oldest_spark
def test_columns_that_writers_add_are_read_after_a_restart(job: ReadJob) -> None:
    job.write(1)
    assert [[1]] == job.run()
    append_version(job.options, job.target, pa.RecordBatch.from_pydict({"id": [2], "kind": ["x"]}))
    assert [[(2, "x")]] == job.run()


def test_a_running_query_stops_before_a_new_column_and_a_restart_reads_it(job: ReadJob) -> None:
    job.write(1)

    def append(*_: object) -> None:
        if not job.batches:
            job.write(2)
            append_version(job.options, job.target, pa.RecordBatch.from_pydict({"id": [3], "c": ["x"]}))
            job.write(4)

    sentence = error_of(lambda: job.start(job.read(), each=append, live=True).awaitTermination(120))
    assert sentence.startswith("ConflictError: read on with version 2 of ")
    assert "it adds column 'c', which the query was started without. Start the query again" in sentence
    assert ([1, 2] if HAS_LIMITS else [1]) == rows_of(job.batches), "rows of versions before that are read first"
    again = rows_of(job.run()) + rows_of(job.run())
    assert [(3, "x"), (4, None)] == sorted(again)[-2:]
    assert [1, 2, 3, 4] == sorted([*rows_of(job.batches[:-1]), *(row[0] for row in again)])


def test_with_schema_evolution_ignore_a_query_continues_without_new_columns(job: ReadJob) -> None:
    job.write(1)
    frame = job.read(schemaEvolution="ignore")
    append_version(job.options, job.target, pa.RecordBatch.from_pydict({"id": [2], "c": ["x"]}))
    job.start(frame).awaitTermination()
    assert [1, 2] == sorted(rows_of(job.batches))


@pytest.mark.parametrize("fixed", ["avroSchema", "columns", "schema", "view"])
def test_a_query_with_explicit_columns_is_not_stopped_by_a_new_column(job: ReadJob, fixed: str) -> None:
    job.write(1)
    schema = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}'
    match fixed:
        case "avroSchema":
            frame = job.read(avroSchema=schema)
        case "columns":
            frame = job.read(columns="id")
        case "schema":
            reader = job.spark.readStream.format("azureblob").options(**job.options)
            frame = reader.schema("id long").load(job.target)
        case _:
            frame = job.read(view="blobs").select("rows")
    append_version(job.options, job.target, pa.RecordBatch.from_pydict({"id": [1], "c": ["x"]}))
    job.start(frame).awaitTermination()
    assert [1, 1] == rows_of(job.batches)


def test_a_type_that_becomes_wider_stops_a_query_and_a_restart_continues(job: ReadJob) -> None:
    append_version(job.options, job.target, pa.RecordBatch.from_arrays([pa.array([1], pa.int32())], ["id"]))
    frame = job.read()
    job.write(2**40)
    sentence = error_of(lambda: job.start(frame).awaitTermination())
    assert "it changes column 'id' from int32 to int64. Start the query again from its checkpoint" in sentence
    assert "avroSchema" not in sentence
    assert ([1] if HAS_LIMITS else []) == rows_of(job.batches)
    job.start(job.read()).awaitTermination()
    assert [1, 2**40] == sorted(rows_of(job.batches))


def test_a_column_of_incompatible_types_is_left_out_by_a_schema_as_the_error_advises(job: ReadJob) -> None:
    append_version(job.options, job.target, pa.RecordBatch.from_pydict({"id": [1], "c": [True]}))
    frame = job.read()
    append_anyway(job.options, job.target, pa.RecordBatch.from_pydict({"id": [2], "c": ["x"]}))
    sentence = error_of(lambda: job.start(frame).awaitTermination())
    assert "column 'c' is boolean in one and string in the other. Leave that column out" in sentence
    assert sentence.endswith("Then start the query again from its checkpoint.")
    schema = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": ["null", "long"]}]}'
    job.start(job.read(avroSchema=schema)).awaitTermination()
    assert ([2] if HAS_LIMITS else [1, 2]) == sorted(row for row in rows_of(job.batches) if isinstance(row, int))


def test_an_overwrite_is_read_as_new_rows(job: ReadJob) -> None:
    job.write(1)
    assert [[1]] == job.run()
    job.write(7, 8, mode="overwrite")
    assert [[7, 8]] == job.run()


def test_a_new_query_on_an_overwritten_stream_starts_with_the_overwrite(job: ReadJob) -> None:
    job.write(1)
    job.write(7, mode="overwrite")
    job.write(9)
    assert [7, 9] == sorted(rows_of(job.run()))


def test_a_query_whose_blobs_an_overwrite_has_deleted_fails_with_the_reason(job: ReadJob) -> None:
    job.write(1)
    assert [[1]] == job.run()
    job.write(2)
    sentence = error_of(
        lambda: job.start(job.read(), each=lambda *_: job.write(3, mode="overwrite")).awaitTermination()
    )
    assert "the blob is gone" in sentence
    assert "overwrite" in sentence


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"versionAsOf": "0"}, "Option `versionAsOf` belongs to spark.read. Leave it out here."),
        ({"startingVersion": "newest"}, "Option `startingVersion`: the value 'newest' is not valid"),
        ({"startingVersion": "1", "startingTimestamp": "2013-01-31"}, "exclude each other. Set one."),
        ({"view": "schemas"}, "Option `view` schemas is a summary"),
        ({"view": "history"}, "Option `view`: the value 'history' is not valid; expected one of `data`, `blobs`"),
        ({"maxBlobsPerTrigger": "0"}, "Option `maxBlobsPerTrigger`: the value '0' is not valid"),
    ],
)
def test_a_wrong_option_of_a_streaming_read_is_reported(job: ReadJob, more: dict[str, str], sentence: str) -> None:
    job.write(1)
    assert sentence in error_of(lambda: job.run(**more))


def test_an_absent_stream_is_reported(job: ReadJob) -> None:
    sentence = error_of(job.run)
    assert sentence.startswith("NotFoundError: ")
    assert "/events" in sentence


def test_with_a_schema_a_query_waits_for_an_absent_stream(job: ReadJob, stored: Stored) -> None:
    stored.client.create_container()
    schema = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}'
    assert [] == job.run(avroSchema=schema)
    job.write(1)
    assert [[1]] == job.run(avroSchema=schema)


def test_a_folder_without_a_log_is_not_followed(job: ReadJob, stored: Stored) -> None:
    job.write(1)
    for name in stored.names("events/_"):
        stored.client.delete_blob(name)
    assert "there is no commit log" in error_of(job.run)


def test_removed_versions_are_an_error(job: ReadJob, stored: Stored) -> None:
    for number in range(1, 6):
        job.write(number)
    assert [1, 2, 3, 4, 5] == sorted(rows_of(job.run(startingVersion="0")))
    for number in range(6, 9):
        job.write(number)
    stored.client.upload_blob("events/_log/_first.json", to_json(Boundary(7)))
    for version in range(7):
        stored.client.delete_blob(log_name("events", version))
    sentence = error_of(job.run)
    assert sentence.startswith("NotFoundError: ")
    assert "read on from version 4" in sentence
    assert "7" in sentence


def test_a_query_fails_if_its_stream_was_deleted_and_written_anew(job: ReadJob, stored: Stored) -> None:
    for number in range(1, 4):
        job.write(number)
    job.run()
    for name in stored.names():
        stored.client.delete_blob(name)
    job.write(9)
    assert "new checkpoint" in error_of(job.run)


def test_an_unpublished_batch_is_reported_after_the_timeout(job: ReadJob, stored: Stored) -> None:
    job.write(1)
    job.write(2)
    head = json.loads(stored.bytes(log_name("events", 1)))
    stored.client.delete_blob(head["blobs"][0]["name"])
    assert [[1]] == job.run(publishTimeoutMs="60s")
    query = job.start(job.read(publishTimeoutMs="500ms"), live=True)
    try:
        sentence = error_of(lambda: query.awaitTermination(60))
    finally:
        query.stop()
    assert sentence.startswith("TransientError: ")
    assert "version 1 of " in sentence
    assert "python -m azureblob_source repair" in sentence
