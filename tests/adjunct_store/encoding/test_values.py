"""Values as Avro datums: every type comes back, and damage is an error."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.values import decode_values, encode_values
from foundation.errors import ConfigurationError, CorruptError

MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)
COLUMNS = {
    "text": pa.array(["a", None, "", "é😀"]),
    "bytes": pa.array([b"", b"\x00", None, b"x" * 300], pa.binary()),
    "small": pa.array([1, -1, None, 0], pa.int32()),
    "large": pa.array([2**63 - 1, -(2**63), 0, None]),
    "real": pa.array([0.5, float("inf"), None, -0.0]),
    "truth": pa.array([True, False, None, True]),
    "day": pa.array([dt.date(1969, 1, 1), None, dt.date(2026, 1, 1), dt.date(1970, 1, 1)]),
    "moment": pa.array([MOMENT, None, MOMENT, MOMENT], pa.timestamp("us", "UTC")),
    "price": pa.array([Decimal("1.23"), None, Decimal("-99.99"), Decimal("0.00")], pa.decimal128(10, 2)),
    "list": pa.array([[1, None], [], None, [3]], pa.list_(pa.int64())),
    "map": pa.array([[("k", 1)], [], None, [("a", None)]], pa.map_(pa.string(), pa.int32())),
    "struct": pa.array([{"x": 1, "y": None}, None, {"x": None, "y": "z"}, {"x": 2, "y": ""}]),
}
VALUES = pa.RecordBatch.from_pydict(COLUMNS)
SCHEMA = StoreSchema(pa.schema([("k", pa.int32())]), VALUES.schema, 1)


def test_values_of_all_types_come_back() -> None:
    datums = encode_values(VALUES, SCHEMA)
    assert VALUES.to_pylist() == decode_values(datums, SCHEMA, "planes").to_pylist()


def test_a_slice_and_any_choice_of_datums_is_decoded() -> None:
    datums = encode_values(VALUES.slice(1), SCHEMA)
    chosen = datums.take(pa.array([2, 0, 2])).slice(1)
    rows = VALUES.to_pylist()
    assert [rows[1], rows[3]] == decode_values(chosen, SCHEMA, "planes").to_pylist()


@pytest.mark.parametrize("datums", [pa.array([], pa.large_binary()), pa.array([b"x"], pa.large_binary()).slice(1)])
def test_no_datums_are_no_values(datums: pa.Array) -> None:
    found = decode_values(datums, SCHEMA, "planes")
    assert (0, SCHEMA.value_type) == (len(found), found.type)
    assert 0 == len(encode_values(VALUES.slice(0, 0), SCHEMA))


def test_damaged_datums_name_the_store() -> None:
    datum = encode_values(VALUES, SCHEMA)[0].as_py()
    for damaged in (datum[:-1], b"\xff" * 20, datum + b"\x00"):
        with pytest.raises(
            CorruptError, match="decode planes failed: some are not of the store's schema.*rebuild=True"
        ):
            decode_values(pa.array([damaged], pa.large_binary()), SCHEMA, "planes")


def test_a_value_that_its_column_cannot_hold_is_refused() -> None:
    given = SCHEMA.values.field("price")
    wide = pa.array([Decimal("123456789.12")] * 4, pa.decimal128(20, 2))
    batch = VALUES.set_column(VALUES.schema.get_field_index("price"), given.with_type(wide.type), wide)
    with pytest.raises(ConfigurationError, match="price"):
        encode_values(batch, SCHEMA)


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.string()), pa.map_(pa.string(), pa.int32())])
def test_strings_that_are_no_utf8_are_refused_by_their_row(kind: pa.DataType) -> None:
    """Spark has any bytes in a string: `cast(X'636166E9' as string)`."""
    offsets = np.array([0, 1, 3, 7], np.int32)
    texts = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(b"aok" + b"caf\xe9")])
    if pa.types.is_list(kind):
        texts = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts)
    elif pa.types.is_map(kind):
        texts = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts, pa.array([1, 2, 3], pa.int32()))
    schema = StoreSchema(pa.schema([("k", pa.int64())]), pa.schema([("v", kind)]), 1)
    batch = pa.RecordBatch.from_arrays([texts], schema=schema.values)
    assert 2 == len(decode_values(encode_values(batch.slice(0, 2), schema), schema, "s"))
    with pytest.raises(ConfigurationError, match=r"column 'v.*', row 2 .*b'caf\\xe9' is not UTF-8: make_valid_utf8"):
        encode_values(batch, schema)


def test_values_that_avro_cannot_hold_are_refused_by_their_column() -> None:
    with pytest.raises(ConfigurationError, match="span"):
        StoreSchema(SCHEMA.keys, pa.schema([("span", pa.month_day_nano_interval())]), 1)
