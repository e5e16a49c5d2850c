from __future__ import annotations

import json
from typing import Any

import pytest

from arrow_avro import header_schema
from azureblob_source.log.checkpoint.table_columns import TableColumns
from azureblob_source.log.entry import BlobEntry

DATE = {"type": "int", "logicalType": "date"}
SCHEMA = header_schema(
    json.dumps(
        {
            "type": "record",
            "name": "row",
            "fields": [
                {"name": "id", "type": "long"},
                {"name": "origin", "type": ["null", "string"]},
                {"name": "day", "type": DATE},
                {"name": "ratio", "type": "double"},
            ],
        }
    ),
    blob="a",
)


def described(column: str | None, partition: str | None, **bounds: Any) -> tuple[str | None, dict[int, bytes]]:
    """The partition field of a blob, and its lower bounds, which are also the upper ones."""
    columns = TableColumns({}, lambda _: SCHEMA)
    blob = BlobEntry("s/a.avro", "s", partition, "a", 1, 1, 1, 1, "f", "end", bounds=bounds, partition_column=column)
    field, lower, upper = columns.described(blob)
    assert lower == upper
    return field, dict(lower)


@pytest.mark.parametrize(
    ("column", "partition", "field", "bound"),
    [
        ("origin", "a text of more than 16 characters", "2 string", b"a text of more than 16 characters"),
        ("origin", "a%2Fb", "2 string", b"a/b"),
        ("origin", "%00", "2 string", b""),
        ("day", "1970-01-03", "3 date", b"\2\0\0\0"),
        ("id", "-1", "1 long", b"\xff" * 8),
    ],
)
def test_a_partition_says_the_bounds_of_its_column(column: str, partition: str, field: str, bound: bytes) -> None:
    id_ = int(field[0])
    assert (field, {id_: bound}) == described(column, partition)
    assert (field, {id_: bound}) == described(column, partition, **{column: ("a", "b")})


def test_a_blob_of_nulls_has_a_partition_field_and_no_bounds_of_its_column() -> None:
    assert ("2 string", {}) == described("origin", None)


@pytest.mark.parametrize(
    ("column", "partition"),
    [(None, "EWR"), ("dropped", "EWR"), ("ratio", "0.5"), ("ratio", None), ("day", "in May"), ("id", "x")],
)
def test_where_the_value_is_not_known_bounds_stay(column: str | None, partition: str | None) -> None:
    assert (None, {1: b"\7" + bytes(7)}) == described(column, partition, id=(7, 7))


def test_without_a_schema_nothing_is_known() -> None:
    columns = TableColumns({}, lambda _: None)
    blob = BlobEntry("s/a.avro", "s", "EWR", "a", 1, 1, 1, 1, "f", "end", partition_column="origin")
    assert (None, [], []) == columns.described(blob)


def test_blobs_have_a_schema_if_all_their_writer_schemas_are_there_and_iceberg_can_say_them() -> None:
    local = {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}}
    other = header_schema(json.dumps({"type": "record", "name": "row", "fields": [local]}), blob="a")
    columns = TableColumns({}, {"rows": SCHEMA, "local": other, "lost": None}.get)
    found = columns.schema(["rows"])
    assert found is not None
    assert ["id", "origin", "day", "ratio"] == [each["name"] for each in found["fields"]]
    assert [None] * 3 == [columns.schema(each) for each in (["rows", "lost"], ["rows", "local"], [])]
