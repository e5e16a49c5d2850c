"""Spark Connect: reads, writes, streams, registration and errors, and where a secret of an option is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from tests.conftest import LATE_WORKER, STARTS
from tests.spark.connect_job import DECOY
from tools.spark_session import spark_environment

if TYPE_CHECKING:
    from tools.azurite import Azurite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def folder(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a job that was run: server and client are a process of their own, as Spark has one kind in each."""
    for number in range(STARTS):
        folder = _run(azurite, tmp_path_factory.mktemp("connect"), f"test-connect-{number}")
        if LATE_WORKER not in (folder / "said.json").read_text():
            return folder
    pytest.fail("this machine is too busy to start a Python process in time")


def _run(azurite: Azurite, folder: Path, container: str) -> Path:
    options = json.dumps({"connectionString": azurite.connection_string})
    command = [sys.executable, "-m", "tests.spark.connect_job", str(folder), container, options]
    # With this variable the server listens on a free port, not on 15002.
    more = {"AZURE_STORAGE_CONNECTION_STRING": azurite.connection_string, "SPARK_TESTING": "port"}
    environment = {**os.environ, **spark_environment(), **more}
    job = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1500)
    assert 0 == job.returncode, job.stdout + job.stderr
    return folder


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "said.json").read_text())
    assert "pyspark.sql.connect.session" == found["client"]
    return found


def test_batches_are_written_and_read(said: dict[str, Any]) -> None:
    assert [None, [0, 1, 2]] == [said["write"], said["read"]]
    assert [None, [0, 1, 2, 3, 4]] == [said["overwrite"], said["snapshot"]]
    assert ["append", "overwrite"] == said["commits"]


def test_a_stream_is_copied_once_and_a_listener_of_the_client_hears_of_it(said: dict[str, Any]) -> None:
    assert [["started", 5, "terminated"], [0, 1, 2, 3, 4]] == said["copy"]


def test_a_batch_that_foreach_batch_writes_twice_is_there_once(said: dict[str, Any]) -> None:
    assert [0, 1, 2, 3, 4] == said["foreachBatch"]


def test_a_class_of_the_client_is_registered_on_the_server(said: dict[str, Any]) -> None:
    assert [0, 1, 2, 3, 4] == said["registered"]


def test_errors_reach_the_client_with_their_next_step(said: dict[str, Any]) -> None:
    assert "ConfigurationError: Option `cdec` is unknown. Did you mean codec?" in said["unknown option"]
    assert "ConfigurationError: Option `cdec` is unknown. Did you mean codec?" in said["failing copy"]
    assert "foundation.errors.NotFoundError: " in said["no stream"]


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark pushes filters down from 4.1 on")
def test_filters_are_pushed(said: dict[str, Any]) -> None:
    assert [4] == said["filters"]


def test_the_server_writes_secrets_of_options_unless_it_redacts_them(
    said: dict[str, Any], folder: Path, azurite: Azurite
) -> None:
    logged = "".join(file.read_text() for file in (folder / "events").rglob("*") if file.is_file())
    assert DECOY in logged, "Spark masks it by now: COMPATIBILITY.md need not warn"
    assert "*********(redacted)" in logged
    traces = [logged, *map(str, said.values())]
    assert [] == [trace for trace in traces if azurite.account_key in trace]
    assert DECOY in said["page"]
