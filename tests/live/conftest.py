"""The account, containers of the suite's own, and the row of each test."""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from azure_account.location import Location
from tests.features.place import Place
from tests.live.account import MEMORY, PREFIX, Tried, account_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from azure_account.account import StorageAccount
    from azure_account.container import BlobContainer
    from azure_account.table import Table


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "live":
            item.add_marker("live")


@pytest.fixture(scope="session")
def tried() -> Iterator[Tried]:
    with account_of(os.environ.get("LIVE_ON", MEMORY)) as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def staged(tried: Tried, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, float]:
    """A container with a block that is staged when the suite begins, and when that was."""
    place = Place(f"{PREFIX}{uuid.uuid4().hex[:20]}", tried.options, tmp_path_factory.mktemp("staged"))
    assert place.container.create()
    place.container.stage_block("slow", "1", b"data")
    return place, time.monotonic()


@pytest.fixture
def account(tried: Tried) -> StorageAccount:
    return Location(f"{PREFIX}none", tried.options).account()


@pytest.fixture
def place(tried: Tried, tmp_path: Path) -> Place:
    """A new container."""
    name = f"{PREFIX}{uuid.uuid4().hex[:20]}"
    undeletes = bool(tried.soft_delete) and not tried.versioning and not tried.hierarchical
    found = Place(name, tried.options, tmp_path, undeletes=undeletes)
    assert found.container.create()
    return found


@pytest.fixture
def container(place: Place) -> BlobContainer:
    return place.container


@pytest.fixture
def table(account: StorageAccount) -> Table:
    created = account.table(f"t{uuid.uuid4().hex}")
    assert created.create()
    return created
