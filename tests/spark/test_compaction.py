"""Reads of a stream whose small blobs become large ones, by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from azure_account.location import Location
from azureblob_source.cli.app import app
from azureblob_source.compactions import compact_stream
from tests.spark.versions import append_version

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

VERSIONS = 12


def compact(monkeypatch: pytest.MonkeyPatch, options: dict[str, str], target: str) -> str:
    """What the command says that it has done."""
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", options["connectionString"])
    done = CliRunner().invoke(app, ["compact", target, "--yes"])
    assert 0 == done.exit_code, done.stderr
    return done.stdout.splitlines()[-1]


def append(options: dict[str, str], target: str, version: int) -> None:
    ids = range(10 * version, 10 * version + 10)
    rows = pa.record_batch({"gate": ["ab"[id_ % 2] for id_ in ids], "id": pa.array(ids, pa.int64())})
    append_version(options, target, rows, partitionColumn="gate")


@pytest.fixture
def target_of_versions(options: dict[str, str], target: str) -> str:
    for version in range(VERSIONS):
        append(options, target, version)
    return target


def followed(spark: SparkSession, options: dict[str, str], target: str, folder: Path) -> list[int]:
    """The ids that a query reads which is restarted from its checkpoint."""
    found: list[int] = []

    def note(batch: DataFrame, _: int) -> None:
        found.extend(row.id for row in batch.select("id").collect())

    stream = spark.readStream.format("azureblob").options(**options).load(target)
    query = stream.writeStream.foreachBatch(note).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    query.start().awaitTermination()
    return sorted(found)


@pytest.mark.oldest_spark
def test_rows_keep_their_versions(
    spark: SparkSession, options: dict[str, str], target_of_versions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of_versions

    def read(**more: Any) -> list[Any]:
        frame = spark.read.format("azureblob").options(**options, metadataColumns="version,partition", **more)
        return sorted(tuple(row) for row in frame.load(target).select("_version", "_partition", "id").collect())

    reads: list[dict[str, Any]] = [{}, {"versionAsOf": 5}, {"partitions": "a"}, {"versionAsOf": 0}]
    before = [read(**more) for more in reads]
    assert compact(monkeypatch, options, target).startswith(f"Replaced {2 * VERSIONS} blobs by 2 blobs, ")
    assert before == [read(**more) for more in reads]
    assert 2 == spark.read.format("azureblob").options(**options, view="blobs").load(target).count()
    filtered = spark.read.format("azureblob").options(**options, metadataColumns="version").load(target)
    assert list(range(30, 40)) == sorted(row.id for row in filtered.where("_version = 3").collect())


@pytest.mark.oldest_spark
def test_tasks_of_spark_move_the_rows(spark: SparkSession, options: dict[str, str], target_of_versions: str) -> None:
    target = target_of_versions
    done = compact_stream(Location(target, options), spark=spark)
    assert (2 * VERSIONS, 2, 0) == (done.replaced, done.made, done.outdated)
    read = spark.read.format("azureblob").options(**options).load(target)
    assert list(range(10 * VERSIONS)) == sorted(row.id for row in read.collect())
    assert 0 == compact_stream(Location(target, options)).made


@pytest.mark.oldest_spark
def test_a_query_that_slept_reads_each_row_once(
    spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(options, target, 0)
    assert list(range(10)) == followed(spark, options, target, tmp_path)
    for version in range(1, 6):
        append(options, target, version)
    compact(monkeypatch, options, target)
    append(options, target, 6)
    assert list(range(10, 70)) == followed(spark, options, target, tmp_path)
    compact(monkeypatch, options, target)
    assert [] == followed(spark, options, target, tmp_path)
