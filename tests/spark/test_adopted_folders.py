"""Streaming reads of folders that other programs write: each row once over restarts, from the configured start."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from azure_account import connect
from azureblob_source.write.options import sink_options
from tests.azureblob_source.adoption.folder_writer import FOLDER, NOON, avro, capture_name, fill
from tests.spark.test_stream_reads import ReadJob, needs_limits, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from azure_account.container import BlobContainer

pytestmark = pytest.mark.every_spark
ADOPTED = {"adoptFolder": "true", "minBlobAgeMs": "0"}


@pytest.fixture
def container(options: dict[str, str], container_name: str) -> BlobContainer:
    made = connect(sink_options({**options, "path": container_name + "/x"}, {}).account).container(container_name)
    made.create()
    return made


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], container: BlobContainer, tmp_path: Path) -> ReadJob:
    return ReadJob(spark, options, f"{container.name}/{FOLDER}", tmp_path)


def test_each_row_of_a_folder_is_read_once_over_restarts(job: ReadJob, container: BlobContainer) -> None:
    written = fill(container, 4, 3)
    assert list(range(written)) == sorted(rows_of(job.run(**ADOPTED)))
    assert [] == job.run(**ADOPTED)
    container.put(capture_name(2, NOON + timedelta(seconds=30)), avro([100]))  # late
    container.put(capture_name(7, NOON + timedelta(minutes=3)), avro([101, 102]))  # of a new partition
    assert [100, 101, 102] == sorted(rows_of(job.run(**ADOPTED)))
    frame = job.spark.read.format("azureblob").options(**job.options).load(job.target)
    assert written + 3 == frame.count()
    assert {"n": 101} in [row.asDict() for row in frame.where("n > 100").collect()]


@needs_limits
def test_limits_divide_what_a_discovery_has_found(job: ReadJob, container: BlobContainer) -> None:
    fill(container, 2, 5)
    assert [4, 4, 2] == [len(batch) for batch in job.run(**ADOPTED, maxBlobsPerTrigger="4")]


def test_a_query_may_begin_with_what_comes_next(job: ReadJob, container: BlobContainer) -> None:
    fill(container, 2, 2)
    later = {**ADOPTED, "startingTimestamp": "2100-01-01T00:00:00Z"}
    assert ["n"] == job.read(**later).columns
    assert [] == job.run(**later)
