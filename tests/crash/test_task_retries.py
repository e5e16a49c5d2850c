"""Failed tasks and dead executors leave no trace in the published blobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.flights import flights, write_files
from tests.crash.killing import FlightsJob
from tests.crash.visible_blobs import VisibleBlobs, assert_exactly_once
from tools.standalone_cluster import spark_home

if TYPE_CHECKING:
    from pathlib import Path

    from tools.azurite import Azurite

BATCHES = 2
SMALL_BLOCKS = ("--option", "maxFlushThresholdSize=262144")
"""Small, so that blocks are staged long before a task's last row."""


@pytest.mark.slow
@pytest.mark.spark
def test_rows_of_failed_attempts_are_published_once_by_the_attempt_that_succeeds(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    table = flights()
    traces = tmp_path / "traces"
    traces.mkdir()
    write_files(table, tmp_path / "input", 4)
    arguments = ("--master", "local[2,4]", "--failures", str(traces), *SMALL_BLOCKS)
    job = FlightsJob(azurite, f"{container_name}/flights", tmp_path / "input", tmp_path, arguments=arguments)

    job.run()

    visible = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    assert_exactly_once(visible, table, BATCHES)
    assert [] != list(traces.iterdir())
    assert frozenset() != visible.state().staged, "no failed attempt had staged anything: the test shows too little"


@pytest.mark.slow
@pytest.mark.spark
def test_rows_of_an_executor_that_dies_are_published_once_by_another(
    azurite: Azurite, container_name: str, tmp_path: Path
) -> None:
    table = flights()
    traces = tmp_path / "traces"
    traces.mkdir()
    write_files(table, tmp_path / "input", 4)
    arguments = ("--master", "local-cluster[2,1,1024]", "--lost-executors", str(traces), *SMALL_BLOCKS)
    home = {"SPARK_HOME": str(spark_home(tmp_path / "spark"))}
    job = FlightsJob(
        azurite, f"{container_name}/flights", tmp_path / "input", tmp_path, arguments=arguments, environment=home
    )

    job.run()

    visible = VisibleBlobs.of(azurite.connection_string, container_name, "flights", table.schema)
    assert_exactly_once(visible, table, BATCHES)
    assert ["0-0-0", "1-0-0"] == sorted(trace.name for trace in traces.iterdir())
    assert frozenset() != visible.state().staged, "no lost executor had staged anything: the test shows too little"
