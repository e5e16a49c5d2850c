"""`df.write.format("azureblob")`: modes, counts, limits, metadata and tags."""

from __future__ import annotations

import gzip
from functools import partial
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from tests.spark.errors import error_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored


def save(frame: DataFrame, options: dict[str, str], target: str, *, mode: str = "append", **more: str) -> None:
    frame.write.format("azureblob").options(**options, **more).mode(mode).save(target)


def load(spark: SparkSession, options: dict[str, str], target: str, **more: str | int) -> DataFrame:
    return spark.read.format("azureblob").options(**options, **more).load(target)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_appends_add_up_an_overwrite_replaces_them_and_the_log_keeps_both(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    save(spark.range(0, 3), options, target)
    save(spark.range(3, 5), options, target)
    assert [0, 1, 2, 3, 4] == ids(load(spark, options, target))
    before = set(stored.data())

    save(spark.range(7, 9), options, target, mode="overwrite")
    assert [7, 8] == ids(load(spark, options, target))
    assert not before & set(stored.data())
    assert [7, 8] == sorted(row["id"] for row in stored.rows())

    history = load(spark, options, target, view="commits").orderBy("version").collect()
    assert [(0, "append", 3, 0), (1, "append", 2, 0), (2, "overwrite", 2, len(before))] == [
        (row.version, row.operation, row.rows, row.removed) for row in history
    ]


@pytest.mark.oldest_spark
def test_rows_that_would_make_the_stream_unreadable_are_refused(
    spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path, stored: Stored
) -> None:
    save(spark.sql("select 1 as id, 'a' as v"), options, target)
    before = set(stored.data())
    wrong = {
        "select '1' as id": "column 'id' is int in the stream and string in this write",
        "select 1 as ID": "columns 'id' and 'ID', which differ by case only",
        "select named_struct('x', 1) as v": "column 'v' is string in the stream and record row_v in this write",
    }
    for text, message in wrong.items():
        assert message in error_of(partial(save, spark.sql(text), options, target))
    numbers = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    stream = numbers.selectExpr("timestamp as id").writeStream.format("azureblob").options(**options)
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start(target)
    with pytest.raises(PySparkException, match="column 'id' is int in the stream and long timestamp-micros in this"):
        query.awaitTermination()
    assert before == set(stored.data())
    save(spark.sql("select 2L as id, 1.5 as price"), options, target)
    assert [1, 2] == ids(load(spark, options, target)), "the advice, followed: columns may be added, types be wider"


def test_an_earlier_version_can_be_read_until_an_overwrite_deletes_its_blobs(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    save(spark.range(0, 3), options, target)
    save(spark.range(3, 5), options, target)
    assert [0, 1, 2] == ids(load(spark, options, target, versionAsOf=0))
    save(spark.range(7, 9), options, target, mode="overwrite")
    with pytest.raises(PySparkException, match="the blob is gone; an overwrite .* without `versionAsOf`"):
        load(spark, options, target, versionAsOf=0).collect()


@pytest.mark.parametrize("mode", ["errorifexists", "ignore"])
def test_spark_refuses_the_other_modes_and_names_those_that_work(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, mode: str
) -> None:
    with pytest.raises(PySparkException, match='Please use either the "Append" or "Overwrite" mode'):
        save(spark.range(1), options, target, mode=mode)
    assert [] == stored.names()


@pytest.mark.every_spark
def test_a_frame_without_rows_appends_nothing_and_overwrites_with_an_empty_stream(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    nothing = spark.range(0)
    save(nothing, options, target)
    assert [] == stored.names()

    save(spark.range(2), options, target)
    save(nothing, options, target, mode="overwrite")
    assert [] == stored.data()
    after = load(spark, options, target)
    assert (["id"], []) == (after.columns, after.collect())


def test_two_hundred_tasks_commit_once(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    save(spark.range(0, 400, 1, 200), options, target)
    assert list(range(400)) == sorted(row["id"] for row in stored.rows())
    assert 200 == len(stored.data())
    assert [(0, 400, 200)] == [
        (row.version, row.rows, row.blobs) for row in load(spark, options, target, view="commits").collect()
    ]


def test_a_failed_task_leaves_nothing_visible(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "assert_true(id != 99, 'row 99 is bad')")
    with pytest.raises(PySparkException, match="row 99 is bad"):
        save(frame, options, target)
    assert [] == stored.names()


@pytest.mark.every_spark
def test_a_repeated_transaction_is_written_once(spark: SparkSession, options: dict[str, str], target: str) -> None:
    for version, rows in [(1, 3), (1, 5), (2, 7), (1, 9)]:
        save(spark.range(rows), options, target, txnAppId="nightly", txnVersion=str(version))
    assert sorted([*range(3), *range(7)]) == ids(load(spark, options, target))


def test_blobs_roll_and_have_the_metadata_tags_and_tier_of_the_options(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    marks = {"metadata.team": "ingest", "tags.kind": "raw", "accessTier": "Cool", "maxMessagesPerBlob": "10"}
    save(spark.range(0, 25, 1, 1), options, target, **marks)
    names = stored.data()
    assert [5, 10, 10] == sorted(_rows_of(stored, name) for name in names)
    properties = stored.properties(names[0])
    assert ("ingest", "Cool") == (properties.metadata["team"], properties.blob_tier)
    assert {"kind": "raw"} == stored.tags(names[0])


@pytest.mark.parametrize("limit", [{"maxBlobSize": "2k"}, {"maxFlushThresholdSize": "1k"}])
def test_size_limits_split_blobs_or_blocks_without_losing_a_row(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored, limit: dict[str, str]
) -> None:
    save(spark.range(0, 2000, 1, 1), options, target, **limit)
    assert list(range(2000)) == sorted(row["id"] for row in stored.rows())
    entry = load(spark, options, target, view="commits").first()
    assert entry is not None
    assert (("maxBlobSize" in limit) == (entry.blobs > 1)) and entry.metrics["blockUploads"] > 1


def test_samzas_gzip_around_every_block_is_read_by_spark_and_by_gunzip(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    save(spark.range(0, 1000, 1, 1), options, target, **{"compression.type": "gzip", "maxFlushThresholdSize": "500"})
    (name,) = stored.data()
    assert name.endswith(".avro.gz")
    assert gzip.decompress(stored.bytes(name)).startswith(b"Obj\x01")
    assert list(range(1000)) == ids(load(spark, options, target))


def test_rows_go_to_streams_and_partitions_and_a_null_partition_has_no_level(
    spark: SparkSession, options: dict[str, str], container_name: str, stored: Stored
) -> None:
    frame = spark.sql(
        "SELECT * FROM VALUES ('a', 'x', 1), ('a', NULL, 2), ('b', 'x', 3), (NULL, 'y', 4) AS t(s, p, id)"
    )
    routing = {"streamColumn": "s", "partitionColumn": "p", "dropRoutingColumns": "true"}
    save(frame, options, f"{container_name}/events", **routing)
    assert [{"id": 1}, {"id": 2}] == sorted(stored.rows("a"), key=lambda row: row["id"])
    assert [{"id": 3}] == stored.rows("b")
    assert [{"id": 4}] == stored.rows("events")
    levels = sorted(name.rsplit("/", 5)[0] for stream in ("a", "b", "events") for name in stored.data(stream))
    assert ["a", "a/x", "b/x", "events/y"] == levels


def _rows_of(stored: Stored, name: str) -> int:
    import io

    import fastavro

    return sum(1 for _ in fastavro.reader(io.BytesIO(stored.bytes(name))))
