"""Queries whose checkpoint is on a local disk, and backed up before each commit: the disk may be lost at any time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from azure_account.location import Location
from state_backup.local.place import remove
from state_backup.spark import restore_checkpoint
from tests.spark.errors import error_of
from tests.spark.write_job import WriteJob, row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.stored import Stored


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> WriteJob:
    return WriteJob(spark, options, tmp_path)


def lose_disk(job: WriteJob) -> None:
    for path in job.folder.glob("checkpoint-a*"):
        remove(path)


@pytest.mark.oldest_spark
@pytest.mark.parametrize("stateful", [False, True])
def test_a_query_that_loses_its_disk_after_each_run_writes_each_row_once(
    job: WriteJob, target: str, container_name: str, stored: Stored, stateful: bool
) -> None:
    where = f"{container_name}/checkpoints/events"
    for number in range(4):
        job.feed(str(2 * number), row(2 * number, "x"), row(100 + number, f"new {number}"))
        job.feed(str(2 * number + 1), row(2 * number + 1, "y"))
        found = restore_checkpoint(Location(where, job.options), job.folder / "checkpoint-a")
        assert (None if not number else 2 * number - 2) == found.batch
        frame = job.input().dropDuplicates(["kind"]) if stateful else job.input()
        job.run(frame, target, checkpointBackup=where)
        lose_disk(job)
    expected = [0, 1, 100, 101, 102, 103] if stateful else [*range(8), *range(100, 104)]
    assert expected == sorted(each["id"] for each in stored.rows())
    assert expected == sorted(each.id for each in job.read(target).collect())


def test_a_query_that_was_not_restored_is_told_so_before_anything_is_committed(
    job: WriteJob, target: str, container_name: str, stored: Stored
) -> None:
    where = f"{container_name}/checkpoints/events"
    job.feed("0", row(0))
    job.run(job.input(), target, checkpointBackup=where)
    lose_disk(job)
    error = error_of(lambda: job.run(job.input(), target, checkpointBackup=where))
    assert "Restore that checkpoint before the query starts, or choose another state." in error
    assert [0] == [each["id"] for each in stored.rows()]

    lose_disk(job)
    restore_checkpoint(Location(where, job.options), job.folder / "checkpoint-a")
    job.feed("1", row(1))
    job.run(job.input(), target, checkpointBackup=where)
    assert [0, 1] == sorted(each["id"] for each in stored.rows())


def test_what_is_no_query_with_a_checkpoint_on_a_disk_is_refused(
    job: WriteJob, target: str, container_name: str
) -> None:
    backup = {"checkpointBackup": f"{container_name}/checkpoints/a"}
    writer = job.spark.range(1).write.format("azureblob").options(**job.options, **backup).mode("append")
    assert "is for streaming queries: set option `checkpointLocation`" in error_of(lambda: writer.save(target))
    writer.option("checkpointLocation", str(job.folder))
    assert "a df.write, also within `foreachBatch`, has no checkpoint" in error_of(lambda: writer.save(target))
