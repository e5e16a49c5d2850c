"""One rule for containers: whatever writes creates an absent one and warns, unless `createContainer` is false."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.spark.filling.fill import check_schema
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.opening import FillRequirements
from azure_account.location import Location, memory_account
from coordination import JobCoordinator, JobCoordinatorListener, LeaderElector, LeaderListener
from foundation.errors import NotFoundError
from state_backup import TaskIdentity, WriterSettings, checkpoints, open_state
from state_backup.spark.writers import open_for_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCHEMA = {"keys": ["id"]}
STORE = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("name", pa.string())]), partitions=2)


class Leading(LeaderListener):
    """Ends the wait for a term, or raises the error that the elector reports."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.error: Exception | None = None

    def on_elected(self, epoch: int) -> None:
        self.ended.set()

    def on_deposed(self, reason: str) -> None:
        pass

    def on_failure(self, error: Exception) -> None:
        self.error = error
        self.ended.set()


def elect(where: Location) -> None:
    listener = Leading()
    elector = LeaderElector(where, "process", listener)
    elector.start()
    assert listener.ended.wait(60)
    elector.stop()
    if listener.error is not None:
        raise listener.error


class Idle(JobCoordinatorListener):
    """Runs nothing."""

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        pass

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        pass

    def on_coordinator_stop(self) -> None:
        pass

    def on_coordinator_failure(self, error: Exception) -> None:
        pass


def coordinate(where: Location) -> None:
    coordinator = JobCoordinator(where, tasks=["a"], listener=Idle())
    coordinator.start()
    coordinator.stop()


WRITERS: Mapping[str, Callable[[Location], object]] = {
    "open_for_query": lambda where: open_for_query(where, Path(tempfile.mkdtemp()), "query", WriterSettings()),
    "check_schema": lambda where: check_schema(where, STORE, "source", adds=True),
    "open_state": lambda where: open_state(where, TaskIdentity("job")),
    "open_fill": lambda where: open_fill(where, SCHEMA, FillRequirements("source", 2, threads=1)),
    "LeaderElector": elect,
    "JobCoordinator": coordinate,
}
"""Those of the sink: `tests/azureblob_source/write/test_sink.py`, `tests/azureblob_source/test_epochs.py`."""


@pytest.mark.parametrize("name", WRITERS)
def test_what_writes_creates_an_absent_container_and_warns(
    name: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = f"memory://{request.node.name}"
    WRITERS[name](Location("box/a", {"endpoint": endpoint}))
    assert memory_account(endpoint).container("box").exists()
    assert 1 == caplog.text.count("box did not exist and was created")
    WRITERS[name](Location("box/b", {"endpoint": endpoint, "createContainer": "false"}))
    assert 1 == caplog.text.count("box did not exist and was created")


@pytest.mark.parametrize("name", WRITERS)
def test_what_writes_fails_in_an_absent_container_that_it_may_not_create(
    name: str, request: pytest.FixtureRequest
) -> None:
    endpoint = f"memory://{request.node.name}"
    with pytest.raises(NotFoundError, match="option `createContainer` is false. Check its name, create it first"):
        WRITERS[name](Location("box/a", {"endpoint": endpoint, "createContainer": "false"}))
    assert not memory_account(endpoint).container("box").exists()


def test_what_reads_creates_nothing(request: pytest.FixtureRequest) -> None:
    endpoint = f"memory://{request.node.name}"
    assert [] == list(checkpoints(Location("box/a", {"endpoint": endpoint})))
    assert not memory_account(endpoint).container("box").exists()
