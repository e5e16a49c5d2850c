from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro import AvroType, header_schema, infer
from azureblob_source.iceberg.partition import PartitionField, partition_spec, value_in
from azureblob_source.log.naming import partition_value
from azureblob_source.write.routing import Router

VALUES: list[tuple[str, pa.DataType, st.SearchStrategy[Any]]] = [
    ("string", pa.string(), st.text(st.characters(codec="utf-8"))),
    ("int", pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    ("int", pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    ("int", pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("date", pa.date32(), st.dates()),
    ("boolean", pa.bool_(), st.booleans()),
]


def avro(kind: Any) -> AvroType:
    """An Avro type, as that of a column."""
    fields = [{"name": "a", "type": kind}]
    (field,) = header_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), blob="x").row.fields
    return field.type


@pytest.mark.parametrize(("type_", "kind", "values"), VALUES)
@given(data=st.data())
def test_the_text_of_a_partition_says_the_value(
    type_: str, kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    value = data.draw(values)
    batch = pa.record_batch([pa.array([value], kind)], names=["a"])
    (route,) = Router("s", partition_column="a").route(batch).routes
    (column,) = infer(batch.schema, name="r", namespace=None).row.fields
    field = PartitionField.of(7, column.type)
    assert field is not None
    assert PartitionField(7, type_) == field
    assert route.partition is not None
    stored = (value - date(1970, 1, 1)).days if isinstance(value, date) else value
    assert stored == value_in(field, column.type, partition_value(route.partition))


@pytest.mark.parametrize(
    "kind",
    [
        "float",
        "double",
        "bytes",
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "long", "logicalType": "timestamp-micros"},
        {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
        {"type": "long", "logicalType": "time-micros"},
        {"type": "enum", "name": "e", "symbols": ["a"]},
        ["int", "string"],
    ],
)
def test_other_types_have_no_partition_field(kind: Any) -> None:
    assert PartitionField.of(7, avro(kind)) is None
    assert PartitionField.of(7, avro(["null", *(kind if isinstance(kind, list) else [kind])])) is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("int", "x"),
        ("int", ""),
        ("int", "2147483648"),
        ("long", "9223372036854775808"),
        ("boolean", "1"),
        ({"type": "int", "logicalType": "date"}, "10000-01-01"),
        ({"type": "int", "logicalType": "date"}, "-001-01-01"),
        ("string", "\ud800"),
    ],
)
def test_a_text_that_says_no_value_of_the_type_has_none(kind: Any, text: str) -> None:
    field = PartitionField.of(7, avro(kind))
    assert field is not None
    assert value_in(field, avro(kind), text) is None


@pytest.mark.parametrize("field", [PartitionField(7, type_) for type_ in ("string", "int", "long", "date", "boolean")])
def test_a_field_is_read_as_it_is_written(field: PartitionField) -> None:
    assert field == PartitionField.parse(str(field))


@pytest.mark.parametrize("text", ["", "7", "x int", "7 x", "7  int", "7 int x"])
def test_another_text_is_no_field(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no type|unpack|int\(\)"):
        PartitionField.parse(text)


def test_a_spec_has_the_column_as_it_is() -> None:
    field = {"source-id": 7, "field-id": 1006, "name": "origin", "transform": "identity"}
    assert {"spec-id": 7, "fields": [field]} == partition_spec(7, "origin")
    assert {"spec-id": 0, "fields": []} == partition_spec(0, "")
    assert 1006 == PartitionField(7, "string").id
