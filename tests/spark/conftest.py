"""Fixtures of the tests with a real Spark: a path to write to, the account's options, the container's content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import ContainerClient

from tests.spark.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.azurite import Azurite


@pytest.fixture
def options(azurite: Azurite) -> dict[str, str]:
    """The options that name the account."""
    return {"connectionString": azurite.connection_string}


@pytest.fixture
def target(container_name: str) -> str:
    """The path of a stream that does not exist, nor does its container."""
    return f"{container_name}/events"


@pytest.fixture
def stored(azurite: Azurite, container_name: str) -> Iterator[Stored]:
    """The content of the container, read with the Azure SDK and fastavro."""
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        yield Stored(client)
