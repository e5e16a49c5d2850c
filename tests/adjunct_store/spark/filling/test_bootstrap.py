"""Waiting for a store, on the account in memory; time is moved by the test."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.spark import wait_until_ready
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.opening import FillRequirements
from adjunct_store.versions.transitions import Publication
from azure_account.location import Location
from azure_account.memory.faults import FaultInjector, Unreachable, on
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, NotFoundError, TransientError
from tests.adjunct_store.stores import STORE, new_account, published
from tests.adjunct_store.stores import opened as opened_fill
from tests.adjunct_store.tasks import location_of

if TYPE_CHECKING:
    from adjunct_store.spark import StoreProgress
    from adjunct_store.versions.manifest_store import Fill

SCHEMA = StoreSchema(pa.schema([("id", pa.string())]), pa.schema([("seats", pa.int32())]), partitions=1)


@pytest.fixture
def store(container_name: str) -> Location:
    location = Location(f"{container_name}/stores/planes", {"endpoint": f"memory://{container_name}"})
    location.open().create()
    return location


def opened(store: Location, *, bootstrap: bool) -> Fill:
    return open_fill(store, SCHEMA.to_json(), FillRequirements(partitions=1, source="planes", bootstrap=bootstrap))


def test_a_wait_ends_with_what_it_saw(store: Location) -> None:
    clock = ManualClock()
    with pytest.raises(
        TransientError, match=r"wait for store .*/stores/planes failed after 30\.0 s: no fill has begun"
    ):
        wait_until_ready(store, timeout=30, clock=clock)
    fill = opened(store, bootstrap=True)
    seen: list[StoreProgress] = []
    with pytest.raises(TransientError, match="generation 1, no batch, 0 entries, 0 bytes, not bootstrapped"):
        wait_until_ready(store, timeout=30, progress=seen.append, clock=clock)
    fill.publish(Publication(0, {}, 5, 70))
    with pytest.raises(TransientError, match="generation 1, batches up to 0, 5 entries, 70 bytes, not bootstrapped"):
        wait_until_ready(store, timeout=0, bootstrapped=False, progress=seen.append, clock=clock)
    assert [(-1, 0), (0, 5)] == [(each.batch, each.entries) for each in seen]
    version = fill.publish(Publication(1, {}, 6, 80, bootstrapped=True))
    assert version == wait_until_ready(store, timeout=0, clock=clock)


def test_a_container_that_does_not_exist_is_not_waited_for() -> None:
    clock = ManualClock()
    store = Location("nowhere/stores/planes", {"endpoint": "memory://no-containers"})
    with pytest.raises(NotFoundError, match="nowhere"):
        wait_until_ready(store, timeout=30, clock=clock)
    assert ManualClock().monotonic() == clock.monotonic()


def test_a_version_that_is_published_meanwhile_ends_the_wait(store: Location) -> None:
    fill = opened(store, bootstrap=True)

    class Publishing(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.monotonic() - begun >= 7:
                fill.publish(Publication(0, {}, 1, 1, bootstrapped=True))

    clock = Publishing()
    begun = clock.monotonic()
    assert 1 == wait_until_ready(store, timeout=60, clock=clock).entries
    assert 7 == clock.monotonic() - begun


def test_a_storage_service_that_does_not_answer_is_waited_for_until_the_time_limit() -> None:
    account = new_account()
    container = account.container("box")
    published(opened_fill(container), 0, bootstrapped=True)
    outage = FaultInjector(on("get", Unreachable(), times=12))
    away = location_of(account.restarted(outage).container("box"), STORE)
    assert 1 == wait_until_ready(away, timeout=600, clock=account.clock).number
    outage = FaultInjector(on("get", Unreachable(), times=1000))
    away = location_of(account.restarted(outage).container("box"), STORE)
    with pytest.raises(TransientError, match="no connection"):
        wait_until_ready(away, timeout=200, clock=account.clock)


def test_a_service_that_never_answers_is_waited_for_no_longer_than_twice_the_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    text = f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://127.0.0.1:{port}/a"
    begun = time.monotonic()
    with pytest.raises(TransientError):
        wait_until_ready(Location("box/stores/planes", {"connectionString": text}), timeout=2)
    assert time.monotonic() - begun < 10


def test_any_version_is_enough_if_no_bootstrap_is_asked_for(store: Location) -> None:
    opened(store, bootstrap=False).publish(Publication(0, {}, 1, 1))
    with pytest.raises(TransientError, match="not bootstrapped"):
        wait_until_ready(store, timeout=0)
    assert 0 == wait_until_ready(store, timeout=0, bootstrapped=False).batch


def test_times_are_positive(store: Location) -> None:
    with pytest.raises(ConfigurationError, match="timeout of wait_until_ready is -1: give a number of seconds"):
        wait_until_ready(store, timeout=-1)
