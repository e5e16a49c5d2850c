"""What the jobs of this folder share: a stream to read, a stream to write, and the options as SQL has them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.versions import append_version
from tests.spark.write_job import WriteJob, row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tools.azurite import Azurite

SETTINGS = {"spark.sql.shuffle.partitions": "1"}


def minute(number: int) -> datetime:
    return datetime(2013, 1, 1, 12, number, tzinfo=UTC)


def event(number: int) -> dict[str, object]:
    """An event of the stream that is read: ids 0 to 5, the even ones of kind `a`."""
    return {"id": number, "kind": "ab"[number % 2], "at": minute(number)}


@pytest.fixture(scope="session")
def events(azurite: Azurite) -> str:
    """The path of a stream of six events in two versions."""
    path = f"usual-{uuid.uuid4().hex}/events"
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    for numbers in (range(4), range(4, 6)):
        rows = pa.RecordBatch.from_pylist([event(number) for number in numbers], schema)
        append_version({"connectionString": azurite.connection_string}, path, rows)
    return path


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Iterator[WriteJob]:
    """A job over two files, of which each is a micro-batch: ids 0 and 1, then 2. State is in one partition."""
    before = {name: str(spark.conf.get(name)) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    made = WriteJob(spark, options, tmp_path)
    made.feed("0", row(0, "a"), row(1, "b"))
    made.feed("1", row(2, "a"))
    yield made
    for query in spark.streams.active:
        query.stop()
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def sql_options(options: dict[str, str]) -> str:
    """The options of the account within `OPTIONS (…)`."""
    return ", ".join(f"{name} '{value}'" for name, value in options.items())
