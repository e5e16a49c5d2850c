"""Overwrites of partitions: by `df.write`, SQL, `foreachBatch` and complete mode, and as streaming reads find them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pytest
from pyspark.errors import PySparkException

from tests.spark.errors import error_of
from tests.spark.test_stream_reads import ReadJob, needs_limits, rows_of
from tests.spark.write_job import WriteJob, row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored

SCHEMA = "id long, day string"
DYNAMIC = {"partitionColumn": "day", "partitionOverwriteMode": "dynamic"}
Rows: TypeAlias = "Sequence[tuple[int, str | None]]"


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> WriteJob:
    return WriteJob(spark, options, tmp_path)


def save(job: WriteJob, target: str, rows: Rows, mode: str = "overwrite", **more: str) -> None:
    frame = job.spark.createDataFrame(list(rows), SCHEMA)
    writer = frame.coalesce(1).write.format("azureblob").options(**job.options, **{**DYNAMIC, **more})
    writer.mode(mode).save(target)


def stored_rows(frame: DataFrame) -> list[tuple[int, str | None]]:
    return sorted((each.id, each.day) for each in frame.collect())


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_the_partitions_that_the_rows_have_are_replaced_in_one_version(
    job: WriteJob, target: str, stored: Stored
) -> None:
    save(job, target, [(1, "mon"), (2, "tue"), (3, None)], "append")
    save(job, target, [(4, "mon")], "append")
    save(job, target, [(5, "mon"), (6, "wed")])
    expected: list[tuple[int, str | None]] = [(2, "tue"), (3, None), (5, "mon"), (6, "wed")]
    assert expected == stored_rows(job.read(target))
    assert expected == sorted((each["id"], each["day"]) for each in stored.rows())
    save(job, target, [(7, None)])
    assert [(2, "tue"), (5, "mon"), (6, "wed"), (7, None)] == stored_rows(job.read(target))
    save(job, target, [])
    history = job.read(target, view="commits").orderBy("version").collect()
    expected_history = [
        ("append", 3, 0),
        ("append", 1, 0),
        ("overwrite-partitions", 2, 2),
        ("overwrite-partitions", 1, 1),
    ]
    assert expected_history == [(each.operation, each.rows, each.removed) for each in history]


def test_of_an_earlier_version_the_partitions_that_stay_can_be_read(job: WriteJob, target: str) -> None:
    save(job, target, [(1, "mon"), (2, "tue")], "append")
    save(job, target, [(3, "mon")])
    assert [(2, "tue")] == stored_rows(job.read(target, versionAsOf="0", partitions="tue"))
    with pytest.raises(PySparkException, match="the blob is gone; an overwrite .* without `versionAsOf`"):
        job.read(target, versionAsOf="0").collect()


def test_sql_overwrites_the_partitions_of_a_view_that_says_so(job: WriteJob, target: str, container_name: str) -> None:
    save(job, target, [(1, "mon"), (2, "tue")], "append")
    given = {"path": target, **job.options, **DYNAMIC}
    listed = ", ".join(f"`{name}` '{value}'" for name, value in given.items())
    view = f"days_{container_name.replace('-', '_')}"
    job.spark.sql(f"CREATE TEMPORARY VIEW {view} USING azureblob OPTIONS ({listed})")
    try:
        job.spark.sql(f"INSERT OVERWRITE {view} VALUES (3L, 'mon')")
        assert [(2, "tue"), (3, "mon")] == stored_rows(job.read(target))
    finally:
        job.spark.catalog.dropTempView(view)


def test_a_batch_of_foreach_batch_that_is_repeated_replaces_once(job: WriteJob, target: str) -> None:
    save(job, target, [(1, "mon"), (2, "tue")], "append")
    job.feed("0", row(3, "mon"), row(4, "wed"))
    job.feed("1", row(5, "mon"))
    fails = [1]

    def write(batch: DataFrame, number: int) -> None:
        given = {**job.options, **DYNAMIC, "txnAppId": "days", "txnVersion": str(number)}
        days = batch.withColumnRenamed("kind", "day")
        days.write.format("azureblob").options(**given).mode("overwrite").save(target)
        if number in fails:
            fails.remove(number)
            save(job, target, [(9, "mon")], "append")
            raise ValueError("after the commit")

    def run() -> None:
        writer = job.input().writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(job.folder / "checkpoint")).start().awaitTermination()

    with pytest.raises(PySparkException, match="after the commit"):
        run()
    run()
    assert [(2, "tue"), (4, "wed"), (5, "mon"), (9, "mon")] == stored_rows(job.read(target))


def test_beside_writers_that_append_each_version_replaces_what_was_there_before_it(job: WriteJob, target: str) -> None:
    save(job, target, [(0, "mon"), (0, "tue")], "append")

    def write(number: int) -> None:
        if number % 2:
            save(job, target, [(number, "mon")])
        else:
            save(job, target, [(number, "mon"), (number, "tue")], "append")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(1, 13)))
    blobs = job.read(target, view="blobs").collect()
    commits = job.read(target, view="commits").orderBy("version").collect()
    last = max(each.version for each in commits if each.operation == "overwrite-partitions")
    live = {(each.version, each.partition) for each in blobs}
    assert {each.version for each in commits if each.operation == "append"} == {v for v, day in live if day == "tue"}
    assert {each.version for each in commits if each.version >= last} == {v for v, day in live if day == "mon"}
    assert [0, *range(2, 13, 2)] == [number for number, day in stored_rows(job.read(target)) if day == "tue"]


@pytest.mark.oldest_spark
def test_in_complete_mode_partitions_of_others_stay(job: WriteJob, target: str) -> None:
    save(job, target, [(9, "sun"), (8, "mon")], "append")
    for number, days in enumerate((["mon", "tue", "mon"], ["mon"])):
        job.feed(str(number), *(row(each, day) for each, day in enumerate(days)))
        counts = job.input().groupBy("kind").count().selectExpr("count AS id", "kind AS day")
        job.run(counts, target, "complete", **DYNAMIC)
    assert [(1, "tue"), (3, "mon"), (9, "sun")] == stored_rows(job.read(target))


def test_what_cannot_be_meant_is_refused_before_a_task_runs(job: WriteJob, target: str, stored: Stored) -> None:
    refused = {
        "name their column as option `partitionColumn`": {"partitionOverwriteMode": "dynamic"},
        "option `streamColumn` names many": {**DYNAMIC, "streamColumn": "day"},
        "with `partitionColumn` and `partitionOverwriteMode` = `dynamic` replaces": {"replaceWhere": "day = 'mon'"},
    }
    frame = job.spark.createDataFrame([(1, "mon")], SCHEMA)
    for sentence, given in refused.items():
        writer = frame.write.format("azureblob").options(**job.options, **given).mode("overwrite")
        assert sentence in error_of(partial(writer.save, target))
    assert [] == stored.names()


# --- streaming reads --------------------------------------------------------------------------------------------------


@pytest.fixture
def reader(spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path) -> ReadJob:
    return ReadJob(spark, options, target, tmp_path)


def test_its_rows_are_read_as_new_rows(job: WriteJob, reader: ReadJob, target: str) -> None:
    save(job, target, [(1, "mon"), (2, "tue")], "append")
    assert [[(1, "mon"), (2, "tue")]] == reader.run()
    save(job, target, [(3, "mon")])
    save(job, target, [(4, "tue")], "append")
    assert [(3, "mon"), (4, "tue")] == sorted(rows_of(reader.run()))


def test_a_query_that_lags_goes_on_without_what_was_replaced(job: WriteJob, reader: ReadJob, target: str) -> None:
    save(job, target, [(1, "mon"), (2, "tue")], "append")
    assert [[(1, "mon"), (2, "tue")]] == reader.run()
    save(job, target, [(3, "mon"), (4, "tue")], "append")

    def replace(batch: DataFrame, number: int) -> None:
        save(job, target, [(5, "mon")])

    sentence = error_of(lambda: reader.start(reader.read(), each=replace).awaitTermination())
    assert "the blob is gone" in sentence
    assert [(4, "tue"), (5, "mon")] == sorted(rows_of(reader.run()))


@needs_limits
def test_a_new_query_reads_blob_by_blob_what_is_live(job: WriteJob, reader: ReadJob, target: str) -> None:
    for number in range(3):
        save(job, target, [(number, "mon"), (number, "tue")], "append")
    save(job, target, [(5, "mon")])
    save(job, target, [(6, "mon")])
    save(job, target, [(7, "mon")], "append")
    expected = [(0, "tue"), (1, "tue"), (2, "tue"), (6, "mon"), (7, "mon")]
    assert expected == sorted(rows_of(reader.run(maxBlobsPerTrigger="1")))
