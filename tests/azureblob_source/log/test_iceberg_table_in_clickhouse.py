"""Streams as Iceberg tables, read from Azurite by ClickHouse: none of this package's code, and none of Iceberg's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from azureblob_source.write.planning import prepare_write
from azureblob_source.write.sink import BatchWriter

if TYPE_CHECKING:
    from tools.azurite import Azurite

CLICKHOUSE = "chdb-core==26.9.0"
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of Python packages that has ClickHouse. It is too large for the environment of all tests."""
    folder = str(tmp_path_factory.mktemp("clickhouse"))
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", folder, CLICKHOUSE]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{CLICKHOUSE} cannot be had: {done.stderr[-500:]}")
    return folder


class Streams:
    """Streams of a container, written with a table at each version and read by ClickHouse."""

    def __init__(self, azurite: Azurite, container: str, packages: str) -> None:
        self._connection, self._container, self._packages = azurite.connection_string, container, packages

    def write(self, stream: str, rows: pa.RecordBatch, **options: str) -> None:
        """Write the rows as a version."""
        given = {
            "path": f"{self._container}/{stream}",
            "connectionString": self._connection,
            "icebergTable": "true",
            "checkpointInterval": "1",
            **options,
        }
        writer = BatchWriter(prepare_write(given, from_arrow_schema(rows.schema), {}, overwrite=False), overwrite=False)
        writer.commit([writer.write(iter([rows]))])

    def table(self, stream: str) -> str:
        """The table of a stream in a query."""
        return f"icebergAzure('{self._connection}', '{self._container}', '{stream}/_iceberg/')"

    def ask(self, *queries: str) -> list[Any]:
        """The rows that each query finds; a text for an error."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), self._packages])}
        job = [sys.executable, "-m", "tests.azureblob_source.clickhouse_job"]
        asked = json.dumps(queries)
        done = subprocess.run(job, input=asked, capture_output=True, text=True, check=True, env=environment)
        found: list[Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def streams(azurite: Azurite, container_name: str, clickhouse: str) -> Streams:
    """No streams yet, in a container of their own."""
    return Streams(azurite, container_name, clickhouse)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_all_rows_those_of_a_filter_and_those_of_an_earlier_version(streams: Streams) -> None:
    for number in (1, 2, 3):
        streams.write("a/b c", batch(id=[number, number * 100], origin=["EWR", "a/b c=%"]), partitionColumn="origin")
    table = streams.table("a/b c")
    found = streams.ask(
        f"SELECT id, origin FROM {table} ORDER BY id",
        f"SELECT id FROM {table} WHERE origin = 'EWR' ORDER BY id",
        f"SELECT id FROM {table} WHERE id > 2 AND id < 200 ORDER BY id",
        f"SELECT count() AS n, uniqExact(_path) AS files FROM {table}",
        f"SELECT id FROM {table} ORDER BY id SETTINGS iceberg_snapshot_id = 1",
        "SELECT value AS files FROM system.events WHERE event = 'IcebergPartitionPrunedFiles'",
    )
    every = [(1, "EWR"), (2, "EWR"), (3, "EWR"), (100, "a/b c=%"), (200, "a/b c=%"), (300, "a/b c=%")]
    rows = [{"id": id_, "origin": origin} for id_, origin in every]
    ids = [[{"id": each} for each in of] for of in ((1, 2, 3), (3, 100), (1, 100))]
    assert [rows, ids[0], ids[1], [{"n": 6, "files": 6}], ids[2], [{"files": 3}]] == found


def test_columns_that_were_added_and_widened(streams: Streams) -> None:
    first = {
        "id": pa.array([1], pa.int32()),
        "s": [{"a": 1}],
        "f": pa.array([0.5], pa.float32()),
        "d": [Decimal("1.25")],
    }
    streams.write("evolved", batch(**first))
    second = {"origin": ["EWR"], "id": [2**40], "s": [{"b": "x", "a": 2}], "f": [0.1], "d": [Decimal("12345.25")]}
    streams.write("evolved", batch(**second))
    (found,) = streams.ask(f"SELECT * FROM {streams.table('evolved')} ORDER BY id")
    assert [
        {"id": 1, "s": {"a": 1, "b": None}, "f": 0.5, "d": 1.25, "origin": None},
        {"id": 2**40, "s": {"a": 2, "b": "x"}, "f": 0.1, "d": 12345.25, "origin": "EWR"},
    ] == found


def test_added_columns_of_a_manifest_of_several_versions(streams: Streams) -> None:
    """Such a manifest has one schema for all its blobs."""
    streams.write("sparse", batch(id=[1]), checkpointInterval="2")
    streams.write("sparse", batch(id=[2], origin=["EWR"]), checkpointInterval="2")
    query = f"SELECT * FROM {streams.table('sparse')} ORDER BY id"
    strict, lenient = streams.ask(query, f"{query} SETTINGS input_format_avro_allow_missing_fields = 1")
    assert "Field origin not found in Avro schema" in strict
    assert [{"id": 1, "origin": None}, {"id": 2, "origin": "EWR"}] == lenient


TYPES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "boolean": (pa.bool_(), True, True),
    "long": (pa.int64(), -(2**63), -(2**63)),
    "double": (pa.float64(), -0.1, -0.1),
    "decimal": (pa.decimal128(4, 2), Decimal("-12.34"), -12.34),
    "string": (pa.string(), "grüß 👋", "grüß 👋"),
    "binary": (pa.binary(), b"ab", "ab"),
    "date": (pa.date32(), date(1969, 12, 31), "1969-12-31"),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "1969-12-31 23:59:59.999999",
    ),
    "array": (pa.list_(pa.int32()), [1, None, 3], [1, None, 3]),
    "map": (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], {"a": 1, "b": None}),
    "struct": (
        pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]),
        {"x": 1, "y": ["q"]},
        {"x": 1, "y": ["q"]},
    ),
}


def test_values_of_the_types_that_it_reads(streams: Streams) -> None:
    written = {name: pa.array([value, None], kind) for name, (kind, value, _) in TYPES.items()}
    streams.write("types", batch(id=[0, 1], **written))
    (found,) = streams.ask(f"SELECT * FROM {streams.table('types')} ORDER BY id")
    nulls = {"array": [], "map": {}, "struct": {"x": None, "y": []}}
    assert [
        {"id": 0, **{name: value for name, (_, _, value) in TYPES.items()}},
        {"id": 1, **{name: nulls.get(name) for name in TYPES}},
    ] == found


def test_names_that_are_none_in_avro_are_not_found(streams: Streams) -> None:
    streams.write("names", batch(**{"a name": [1]}))
    (found,) = streams.ask(f"SELECT * FROM {streams.table('names')}")
    assert "Field a name not found in Avro schema" in found


def test_milliseconds_of_a_given_schema_are_taken_for_microseconds(streams: Streams) -> None:
    millis = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    schema = json.dumps({"type": "record", "name": "row", "fields": [millis]})
    streams.write("millis", batch(at=pa.array([1000], pa.timestamp("us", "UTC"))), avroSchema=schema)
    (found,) = streams.ask(f"SELECT * FROM {streams.table('millis')}")
    assert [{"at": "1970-01-01 00:00:00.000001"}] == found


@pytest.mark.parametrize("codec", ["xz", "bzip2"])
def test_codecs_that_it_does_not_have(streams: Streams, codec: str) -> None:
    streams.write("codecs", batch(id=[1]), codec=codec)
    (found,) = streams.ask(f"SELECT * FROM {streams.table('codecs')}")
    assert f"Unknown codec in data file: {codec}" in found
