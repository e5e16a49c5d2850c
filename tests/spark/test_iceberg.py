"""Streams as Iceberg tables, read by Spark with Iceberg's jar over hadoop-azure: none of this package's code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from arrow_avro import CODECS
from tests.spark.avro_to_parquet import NOT_TO_BE_HAD
from tests.spark.iceberg_job import TYPES

if TYPE_CHECKING:
    from tools.azurite import Azurite

pytestmark = [
    pytest.mark.oldest_spark,
    pytest.mark.skipif(not pyspark.__version__.startswith("4.0."), reason="Iceberg's jar is for Spark 4.0"),
]


@pytest.fixture(scope="module")
def found(azurite: Azurite) -> dict[str, Any]:
    """What the job has found, by scenario."""
    job = [sys.executable, "-m", "tests.spark.iceberg_job", azurite.connection_string, azurite.account_name]
    done = subprocess.run(
        [*job, azurite.account_key, str(azurite.blob_port)], capture_output=True, text=True, check=False
    )
    if done.returncode == NOT_TO_BE_HAD:
        pytest.skip(f"Iceberg's packages cannot be had: {done.stderr[-500:]}")
    assert 0 == done.returncode, done.stderr[-5000:]
    scenarios: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert {} == {name: each["error"] for name, each in scenarios.items() if "error" in each}
    return scenarios


def test_values_of_all_types_are_those_that_were_written(found: dict[str, Any]) -> None:
    types = found["types"]
    assert types["written"] == types["read"]
    kinds = dict(types["kinds"])
    assert list(TYPES) == list(kinds)
    assert {
        "byte": "int",
        "short": "int",
        "map_by_struct": "map<struct<x:int,y:string>,bigint>",
    }.items() <= kinds.items()


def test_values_of_avro_types_that_a_given_schema_has(found: dict[str, Any]) -> None:
    given = found["given_types"]
    assert given["written"] == given["rows"]
    kinds = {"choice": "string", "four": "binary", "at": "timestamp", "price": "decimal(9,2)"}
    assert kinds == dict(given["kinds"])


def test_a_timestamp_is_one_of_a_time_zone_to_readers_that_ask_the_file(found: dict[str, Any]) -> None:
    at, day, price = found["generic"]
    assert ["OffsetDateTime", "1969-12-31T23:59:59.999999Z"] == at
    assert (["LocalDate", "2013-01-31"], "1.25") == (day, price)


def test_local_timestamps_fail_a_read_even_of_other_columns(found: dict[str, Any]) -> None:
    """So a stream with them has no table. Iceberg writes local ones as timestamp-micros, which others take for UTC."""
    for error in found["local_timestamps"]:
        assert "IllegalArgumentException: Unknown logical type: " in error
        assert "LogicalTypes$LocalTimestampMicros" in error


def test_files_of_each_codec(found: dict[str, Any]) -> None:
    assert list(range(len(CODECS))) == found["codecs"]


def test_columns_that_were_added_and_widened(found: dict[str, Any]) -> None:
    evolved = found["evolved"]
    first = {"id": 1, "s": {"a": 1, "b": None}, "f": 0.5, "d": "1.25", "origin": None}
    second = {"id": 2, "s": {"a": 2, "b": "x"}, "f": 0.25, "d": "12345.25", "origin": "EWR"}
    assert [first, second] == evolved["rows"]
    kinds = {"id": "bigint", "s": "struct<a:int,b:string>", "f": "double", "d": "decimal(7,2)", "origin": "string"}
    assert kinds == dict(evolved["kinds"])
    assert [1, 1] == [evolved["planned 1"], evolved["planned 2"]], "bounds of an int, of a table's long"


def test_each_version_is_read_by_its_snapshot_id(found: dict[str, Any]) -> None:
    before, after = found["evolved"]["versions"]
    assert [{"id": 1, "s": {"a": 1}, "f": 0.5, "d": "1.25"}] == before
    assert found["evolved"]["rows"] == after


def test_files_of_other_partitions_are_left_out(found: dict[str, Any]) -> None:
    partitions = found["partitions"]
    rows = [("", 3), ("EWR", 1), ("EWR", 200), ("a/b c=%", 2), ("ü", 5), (None, 4)]
    assert sorted(rows, key=repr) == sorted(((row["origin"], row["n"]) for row in partitions["rows"]), key=repr)
    assert [1, 200] == sorted(row["n"] for row in partitions["EWR"])
    assert {"all": 6, "EWR": 2, "empty": 1, "null": 1, "not null": 5, "200": 1} == partitions["planned"]
    assert [["", 1, 1], ["EWR", 2, 2], ["a/b c=%", 1, 1], ["ü", 1, 1], [None, 1, 1]] == partitions["partitions"]
    assert ([[2, 1, 200]], True) == (partitions["aggregated"], partitions["aggregated from metadata"])


def test_partitions_of_other_types(found: dict[str, Any]) -> None:
    for value, of_type in found["partition_types"].items():
        assert of_type["written"] == of_type["rows"], value
        assert [1, 4] == of_type["with"], value
        has_field = value != "1.5D"  # texts do not say the values of doubles
        assert ([2, 1, 3] if has_field else [4, 4, 4]) == of_type["planned"], value


def test_other_partition_columns_and_one_that_is_widened(found: dict[str, Any]) -> None:
    repartitioned = found["repartitioned"]
    origins = {number: None if number in (4, 14) or number >= 10 else "EWR" for number in (*range(5), *range(10, 15))}
    rows = [{"key": number, "origin": origin, "n": number} for number, origin in origins.items()]
    assert sorted(rows, key=repr) == repartitioned["rows"]
    by_key, by_origin, none = ["1000:key:identity(1)"], ["1001:origin:identity(2)"], [""]
    assert [by_key, by_origin, none, by_key, none] == repartitioned["specs"]
    assert [1, 1, 0] == [repartitioned[name] for name in ("key 0", "key 3", "no key")]
    assert [0, 1, 2, 3] == repartitioned["of EWR"]
    assert ([4, 5], 8) == (repartitioned["snapshots"], repartitioned["at the fourth"]), "from the widening on"
    assert [[number, 1] for number in (*range(5), *range(10, 15))] == repartitioned["counts"]


def test_an_overwrite_leaves_no_snapshot_that_cannot_be_read(found: dict[str, Any]) -> None:
    assert {"rows": [{"other": "a", "id": 2}], "snapshots": [2]} == found["overwritten"]


def test_a_vacuum_leaves_the_table_without_what_it_has_deleted(found: dict[str, Any]) -> None:
    assert {"rows": [{"id": 3}], "snapshots": [3]} == found["vacuumed"]


def test_a_stream_that_was_written_before_becomes_a_table_by_the_command(found: dict[str, Any]) -> None:
    assert {"rows": [{"id": 1}, {"id": 2}]} == found["by_command"]
