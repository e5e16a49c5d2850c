"""The examples of docs/STATE_BACKUP.md, run in their order."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from azure_account.location import Location
from state_backup.restoring.restore import checkpoints
from tools.guides import python_blocks, with_account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.azurite import Azurite


GUIDE = Path(__file__).parents[3] / "docs" / "STATE_BACKUP.md"


@pytest.fixture
def account(container_name: str) -> dict[str, str]:
    """An account in memory, which has no container, as that of a new user."""
    return {"endpoint": f"memory://{container_name}"}


def examples(folder: Path, account: dict[str, str]) -> list[str]:
    """With directories and the account of the test."""
    return [with_account(code, account).replace("/mnt/", f"{folder}/") for code in python_blocks(GUIDE)]


def run(code: str, names: dict[str, Any]) -> None:
    exec(compile(code, str(GUIDE), "exec"), names)  # noqa: S102 - a file of this repository


def test_the_examples_of_the_guide_work_at_the_first_start_and_after_a_crash_on_another_disk(
    account: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start, _, rocksdb, *_ = examples(tmp_path / "first", account)
    task = Location("mycontainer/states/flights/task-3", account)
    names: dict[str, Any] = {}
    run(start, names)
    assert "were there" not in capsys.readouterr().out, "nothing is restored at the first start"
    (tmp_path / "first/state/aggregates/JFK").write_bytes(b"111279")
    names["writer"].back_up(names["stores"], {"kafka.flights.3": "1500"})

    restarted: dict[str, Any] = {}
    run(examples(tmp_path / "other", account)[0], restarted)
    assert "1 files were downloaded, 0 were there" in capsys.readouterr().out
    assert b"111279" == (tmp_path / "other/state/aggregates/JFK").read_bytes()
    assert {"kafka.flights.3": "1500"} == restarted["restored"].checkpoint.offsets
    assert {"kafka.flights.3": "1042"} == checkpoints(task)[0].offsets

    (tmp_path / "other/state/aggregates/JFK").unlink()
    run(examples(tmp_path / "other", account)[1], restarted)
    assert f"{[str(each.id) for each in checkpoints(task)]}\n" == capsys.readouterr().out
    assert ["2077", "1042"] == [each.offsets["kafka.flights.3"] for each in checkpoints(task)]

    run(rocksdb, names)
    assert ["2077"] == [
        each.offsets["kafka.flights.3"] for each in checkpoints(Location("mycontainer/states/flights/counts", account))
    ]
    names["db"].close()


@pytest.mark.slow
def test_the_example_of_a_spark_checkpoint_works_and_goes_on_when_its_disk_was_lost(
    spark: SparkSession, account: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = examples(tmp_path, account)[3]
    for batch in (0, 1):
        flights = spark.createDataFrame([("JFK", 100)], "origin string, distance long")
        flights.coalesce(1).write.mode("append").parquet(str(tmp_path / "flights"))
        run(code, {"account": account})
        assert f"{batch} is backed up" in capsys.readouterr().out
        shutil.rmtree(tmp_path / "checkpoints")
    assert [("JFK", 200)] == [tuple(row) for row in spark.read.parquet(str(tmp_path / "totals/batch=1")).collect()]


def test_the_example_of_a_query_that_writes_to_the_connector_goes_on_when_its_disk_was_lost(
    spark: SparkSession, azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    account = {"connectionString": azurite.connection_string}
    code = examples(tmp_path, account)[4].replace("mycontainer", container_name)
    for batch in (0, 1):
        flights = spark.createDataFrame([("JFK", 100 + batch)], "origin string, distance long")
        flights.coalesce(1).write.mode("append").parquet(str(tmp_path / "flights"))
        run(code, {"account": account})
        shutil.rmtree(tmp_path / "checkpoints")
    found = spark.read.format("azureblob").options(**account).load(f"{container_name}/flights").collect()
    assert [("JFK", 100), ("JFK", 101)] == sorted(tuple(row) for row in found)
