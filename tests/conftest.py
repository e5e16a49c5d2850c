"""Fixtures for the tests of several packages: an emulator, a new container name, a Spark session."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from tools.azurite import running_azurite
from tools.spark_session import local_spark, spark_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite

pytest.register_assert_rewrite(
    "tests.azure_account.contract",
    "tests.azureblob_source.log.protocol",
    "tests.control_messages.intermediate",
    "tests.histories.history",
)

# No deadline: tests share their cores with Spark and Azurite, so it would measure the machine.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), max_examples=200, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


LATE_WORKER, STARTS = "Python worker failed to connect back", 3
"""What Spark says of a Python process for a stream source that needs ten seconds for its start, which no setting
lengthens; and how often a test is run that has met this limit."""

_STARTS_SPARK = {Path(__file__).with_name("crash"), Path(__file__).with_name("spark")}
"""Folders with tests that start Spark, some of them in a process of their own."""


def pytest_configure(config: pytest.Config) -> None:
    """Set the environment with which tests that start Spark, also in another process, find Java and this Python.

    Spark's daemons find `preload`.
    Spark's temporary files, which a killed Spark does not remove, are in a folder that is removed after the run.
    """
    os.environ.update(spark_environment())
    paths = [str(Path(__file__).with_name("spark") / "preload"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # where `tmp_path` stays
    folder = tempfile.mkdtemp(prefix="tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with the services that it starts, so that `-m "not azurite and not spark"` selects.

    Files with Spark come first: they are the long ones, and a worker would be alone with the last.
    """
    for item in items:
        for service in {"azurite", "spark"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(service)
        if item.path.parent in _STARTS_SPARK:
            item.add_marker("spark")
        if item.get_closest_marker("long"):
            item.add_marker("slow")
    long = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: item.path not in long)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with Spark again if it has failed since the machine was too busy to start a Python process in time."""
    if not isinstance(item, pytest.Function) or "spark" not in item.fixturenames:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports: list[pytest.TestReport] = []
    for _ in range(STARTS):
        item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if not any(report.failed and LATE_WORKER in report.longreprtext for report in reports):
            break
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """One emulator for all tests of this process. It is not empty: a test uses a `container_name` of its own."""
    with running_azurite() as running:
        yield running


@pytest.fixture
def container_name() -> str:
    """A container name that no other test has. The container is not created."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local Spark for all tests of this process. A test that changes settings restores them."""
    session = local_spark("tests", quick_start=True)
    yield session
    session.stop()
