"""Queries whose backup lags behind the log, and who follow the advice of the error when they have lost their disk."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from azure_account.location import Location
from azureblob_source.cli.app import app
from azureblob_source.reverts import revert_batches
from state_backup.local.place import remove
from state_backup.spark import back_up_checkpoint, restore_checkpoint
from tests.spark.errors import error_of
from tests.spark.write_job import WriteJob, row
from tools.guides import python_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.spark.stored import Stored


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> WriteJob:
    return WriteJob(spark, options, tmp_path)


def written_with_a_backup_that_lags(job: WriteJob, target: str, where: Location, behind: int = 2) -> None:
    """Two batches and their backup, then more; the disk is lost."""
    where.open().create()
    job.feed("0", row(0))
    job.feed("1", row(1))
    query = job.start(job.input(), target)
    with back_up_checkpoint(query, where, job.folder / "checkpoint-a"):
        query.awaitTermination()
    for number in range(2, 2 + behind):
        job.feed(str(number), row(number))
    job.run(job.input(), target)
    remove(job.folder / "checkpoint-a")


def test_a_query_is_set_back_by_the_command_that_the_error_names(
    job: WriteJob, target: str, container_name: str, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Location(f"{container_name}/backups/events", job.options)
    written_with_a_backup_that_lags(job, target, where)
    restore_checkpoint(where, job.folder / "checkpoint-a")
    job.feed("4", row(4))
    error = error_of(lambda: job.run(job.input(files_at_once=2), target))
    command = re.search(r"`python -m azureblob_source (revert .*?)`", error)
    assert command is not None
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", job.options["connectionString"])
    asked = CliRunner().invoke(app, [*shlex.split(command[1]), "--yes"])
    assert (0, "Took back 2 batches.") == (asked.exit_code, asked.stdout.splitlines()[-1])

    job.run(job.input(files_at_once=2), target)
    assert list(range(5)) == sorted(each["id"] for each in stored.rows())
    assert list(range(5)) == sorted(each.id for each in job.read(target).collect())


@pytest.mark.parametrize("behind", [1, 2])
def test_a_query_is_set_back_by_what_the_restore_returns(
    job: WriteJob, target: str, container_name: str, stored: Stored, behind: int
) -> None:
    where = Location(f"{container_name}/backups/events", job.options)
    written_with_a_backup_that_lags(job, target, where, behind)
    (code,) = python_blocks("docs/MAINTENANCE.md")
    code = code.replace("mycontainer/backups/flights", where.where).replace("mycontainer/flights", target)
    names: dict[str, Any] = {"account": job.options}
    exec(code.replace("/mnt/checkpoints/flights", f"{job.folder}/checkpoint-a"), names)  # noqa: S102 - the guide's
    restored = names["restored"]
    assert restored.batch == 1
    assert revert_batches(Location(target, job.options), restored.query, restored.batch) == []
    job.feed("new", row(2 + behind))
    job.run(job.input(files_at_once=2), target)  # its first batch has other rows than the one that was taken back
    assert Counter(range(3 + behind)) == Counter(each["id"] for each in stored.rows())


def test_a_new_checkpoint_begins_after_all_batches_of_the_old_one_are_taken_back(
    job: WriteJob, target: str, container_name: str, stored: Stored
) -> None:
    where = Location(f"{container_name}/backups/events", job.options)
    written_with_a_backup_that_lags(job, target, where)
    query = restore_checkpoint(where, job.folder / "checkpoint-a").query
    assert query is not None
    remove(job.folder / "checkpoint-a")
    assert revert_batches(Location(target, job.options), query, -1) == [0, 1, 2, 3]
    job.run(job.input(), target)
    assert Counter(range(4)) == Counter(each["id"] for each in stored.rows())
