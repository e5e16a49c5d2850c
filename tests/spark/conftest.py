"""What every test under a real Spark starts from: a path to write to, the account's options, a look from outside."""

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
    """A stream that nobody has written to, as a path. Neither it nor its container exists."""
    return f"{container_name}/events"


@pytest.fixture
def stored(azurite: Azurite, container_name: str) -> Iterator[Stored]:
    """What is in the container, as the Azure SDK and fastavro see it."""
    with ContainerClient.from_connection_string(azurite.connection_string, container_name) as client:
        yield Stored(client)
