"""Fixtures of the tests with a real Spark: a path to write to, the account's options, the container's content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import ContainerClient

from tests.spark.parquet_stream import IntermediateStream
from tests.spark.stored import Stored
from tools.spark_session import ROCKSDB_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

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


@pytest.fixture
def rocksdb_state(spark: SparkSession) -> Iterator[None]:
    """Spark keeps state in RocksDB, in one partition: each has a state store and a Python worker."""
    given = {**ROCKSDB_STATE, "spark.sql.shuffle.partitions": "1"}
    before = {name: str(spark.conf.get(name)) for name in given}
    for name, value in given.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path, rocksdb_state: None) -> IntermediateStream:
    """An intermediate stream without a batch."""
    return IntermediateStream(spark, tmp_path)
