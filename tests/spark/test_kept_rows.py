"""Rows that an overwrite has replaced and keeps: read by `versionAsOf`, and restored by the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from azureblob_source.cli.app import app
from tests.spark.test_overwritten_partitions import DYNAMIC, job, save, stored_rows
from tests.spark.write_job import WriteJob

if TYPE_CHECKING:
    from tests.spark.stored import Stored

__all__ = ["job"]


@pytest.mark.oldest_spark
def test_versions_before_an_overwrite_are_read_and_restored(job: WriteJob, target: str, stored: Stored) -> None:
    keeps = {"keepReplaced": "7 days"}
    save(job, target, [(1, "mon"), (2, "tue")], "append")
    save(job, target, [(3, "mon")], **keeps)
    whole = {"partitionOverwriteMode": "static", **keeps}
    save(job, target, [(4, "wed")], **whole)
    versions = [[(1, "mon"), (2, "tue")], [(2, "tue"), (3, "mon")], [(4, "wed")]]
    assert versions == [stored_rows(job.read(target, versionAsOf=str(version))) for version in range(3)]
    assert [(4, "wed")] == sorted((each["id"], each["day"]) for each in stored.rows())
    assert "static" != DYNAMIC["partitionOverwriteMode"]

    given = [part for name, value in job.options.items() for part in ("-o", f"{name}={value}")]
    done = CliRunner().invoke(app, ["restore", target, "--to-version", "0", "--keep-replaced", "1d", "--yes", *given])
    assert 0 == done.exit_code, done.output
    expected = [(0, 1, "mon"), (0, 2, "tue")]
    read = job.read(target, metadataColumns="version").collect()
    assert expected == sorted((each["_version"], each.id, each.day) for each in read)
    assert versions[0] == sorted((each["id"], each["day"]) for each in stored.rows())
    assert versions == [stored_rows(job.read(target, versionAsOf=str(version))) for version in range(3)]
