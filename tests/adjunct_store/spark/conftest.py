"""Fixtures of the tests of stores with a real Spark and Azurite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adjunct_store.spark import release_pins
from azure_account.location import Location
from tests.adjunct_store.spark.planes import Planes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite


@pytest.fixture
def store(azurite: Azurite, container_name: str) -> Location:
    """A store that does not exist, in a container that does."""
    location = Location(f"{container_name}/stores/planes", {"connectionString": azurite.connection_string})
    location.open().create()
    return location


@pytest.fixture
def planes(spark: SparkSession, store: Location, tmp_path: Path) -> Iterator[Planes]:
    """A store of planes with a cache of its own."""
    yield Planes(spark, store, tmp_path)
    release_pins()
