from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjunct_store.encoding.keys import decode_keys, encode_keys, encode_prefix, key_columns, readable_key
from adjunct_store.encoding.schema import StoreSchema
from foundation.errors import ConfigurationError

TEXT = st.text(st.characters(codec="utf-8"), max_size=6) | st.text("a\x00\x01\xff", max_size=4)
SMALL = st.binary(max_size=4) | st.text("\x00\xff", max_size=4).map(str.encode)
NAIVE = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))  # noqa: DTZ001 - a type of keys
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.string(): TEXT,
    pa.binary(): SMALL,
    pa.date32(): st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    pa.timestamp("us"): NAIVE,
    pa.timestamp("us", "UTC"): NAIVE.map(lambda each: each.replace(tzinfo=dt.UTC)),
}


def in_bytes(value: Any) -> Any:
    """Strings are ordered by their UTF-8."""
    return value.encode() if isinstance(value, str) else value


@st.composite
def keys(draw: st.DrawFn) -> tuple[pa.Schema, list[tuple[Any, ...]]]:
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
    schema = pa.schema([(f"k{number}", each) for number, each in enumerate(types)])
    return schema, draw(st.lists(st.tuples(*(TYPES[each] for each in types)), min_size=1, max_size=8))


@given(keys())
def test_bytes_have_the_order_of_the_keys_and_give_them_back(
    given_keys: tuple[pa.Schema, list[tuple[Any, ...]]],
) -> None:
    schema, rows = given_keys
    encoded = encode_keys(key_columns(rows, schema))
    by_bytes = sorted(range(len(rows)), key=lambda row: encoded[row].as_py())
    by_value = sorted(range(len(rows)), key=lambda row: tuple(map(in_bytes, rows[row])))
    assert by_value == by_bytes
    decoded = decode_keys(encoded, schema)
    assert rows == list(zip(*(column.to_pylist() for column in decoded.columns), strict=True))


@given(keys(), st.data())
def test_the_keys_that_begin_with_a_prefix_are_those_with_these_columns(
    given_keys: tuple[pa.Schema, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    schema, rows = given_keys
    first = rows[0][: data.draw(st.integers(1, len(schema)))]
    last = in_bytes(first[-1])
    is_beginning = isinstance(last, bytes)
    if is_beginning:
        size = data.draw(st.integers(0, len(last)))
        cut = last[:size].decode(errors="ignore") if isinstance(first[-1], str) else last[:size]
        first, last = (*first[:-1], cut), in_bytes(cut)
    prefix = encode_prefix(first, schema)
    for row, encoded in zip(rows, encode_keys(key_columns(rows, schema)).to_pylist(), strict=True):
        at = len(first) - 1
        fits = in_bytes(row[at]).startswith(last) if is_beginning else row[at] == first[at]
        assert (row[:at] == first[:at] and fits) == encoded.startswith(prefix)


def test_a_key_with_a_null_is_null() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int32()), ("c", pa.bool_())])
    rows = [("x", 1, True), (None, 1, True), ("x", None, True), ("x", 1, None)]
    assert [False, True, True, True] == encode_keys(key_columns(rows, schema)).is_null().to_pylist()


def test_a_slice_of_a_batch_has_its_own_keys() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int32())])
    rows = [("x", 1), ("yy", 2), ("z\x00", -3), ("w", 4)]
    batch = key_columns(rows, schema)
    whole = encode_keys(batch).to_pylist()
    assert whole[1:3] == encode_keys(batch.slice(1, 2)).to_pylist()


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("x",)], r"Key \('x',\) has 1 values; the store has the columns a, b"),
        (["xy"], r"Key 'xy' is not a tuple of the key columns. Give \('xy',\)"),
        ([("x", "y")], r"Key column 'b' of the store has type int; the type that is looked up is str: .*Convert it"),
        ([("x", 2**40)], r"Key column 'b' .* int; the type that is looked up is int: .*too large"),
        ([(5, 1)], r"Key column 'a' of the store has type string; the type that is looked up is int: "),
        ([(b"x", 1)], r"Key column 'a' .* string; b'x' is looked up, which would be taken for 'x'. Convert"),
        ([("\ud800", 1)], r"Key column 'a' .* string; the type that is looked up is str: .*surrogates"),
        ([("x", 1), ("x", 1.5)], r"Key column 'b' .* int; 1.5 is looked up, which would be taken for 1\."),
    ],
)
def test_keys_of_other_types_are_refused(rows: list[tuple[Any, ...]], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        key_columns(rows, pa.schema([("a", pa.string()), ("b", pa.int32())]))


NOON = dt.datetime(2026, 1, 1, 12)  # noqa: DTZ001 - a type of keys


@pytest.mark.parametrize(
    ("key", "arrow"),
    [
        (NOON, pa.timestamp("us", "UTC")),
        (NOON.replace(tzinfo=dt.UTC), pa.timestamp("us")),
        (NOON, pa.date32()),
        (20_454, pa.date32()),
        (1_767_268_800_000_000, pa.timestamp("us")),
        (1, pa.bool_()),
        ("a", pa.binary()),
    ],
)
def test_keys_that_would_be_taken_for_others_are_refused(key: Any, arrow: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match="Key column 'k' of the store has type .* looked up"):
        key_columns([(key,)], pa.schema([("k", arrow)]))


def test_keys_of_equal_value_are_taken() -> None:
    moment = NOON.replace(tzinfo=dt.timezone(dt.timedelta(hours=2)))
    keys = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("d", pa.date32())])
    found = key_columns([(1.0, moment, None), (np.int8(2), None, NOON.date())], keys).to_pylist()
    assert [{"n": 1, "t": moment, "d": None}, {"n": 2, "t": None, "d": NOON.date()}] == found


def test_times_that_python_does_not_have_are_decoded() -> None:
    keys = pa.schema([("t", pa.timestamp("us", "UTC")), ("d", pa.date32())])
    times, days = (
        pa.array([253_402_329_599_000_000, -(2**63), 2**63 - 1]),
        pa.array([-(2**31), 2**31 - 1, 0], pa.int32()),
    )
    batch = pa.RecordBatch.from_arrays([times.cast(keys.field("t").type), days.cast(pa.date32())], schema=keys)
    assert batch.equals(decode_keys(encode_keys(batch), keys))


@pytest.mark.parametrize("arrow", [pa.float64(), pa.decimal128(10, 2), pa.list_(pa.int32()), pa.timestamp("ns")])
def test_keys_without_exact_equality_are_refused(arrow: pa.DataType) -> None:
    with pytest.raises(ConfigurationError, match=r"Key column 'k' has type .*cast it to one of boolean, tinyint"):
        StoreSchema(pa.schema([("k", arrow)]), pa.schema([("v", pa.int32())]), 1)


@pytest.mark.parametrize(
    ("keys", "values", "partitions", "says"),
    [
        ([], ["v"], 1, "at least one key column"),
        (["k"], ["k"], 1, "Columns k are keys and values"),
        (["k"], ["v"], 0, "partitions: 0 is not possible"),
        (["k"], ["v"], 10_001, "partitions: 10001 is not possible"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(
    keys: list[str], values: list[str], partitions: int, says: str
) -> None:
    def columns(names: list[str]) -> pa.Schema:
        return pa.schema([(name, pa.int32()) for name in names])

    with pytest.raises(ConfigurationError, match=says):
        StoreSchema(columns(keys), columns(values), partitions)


@given(keys(), st.integers(1, 10_000), st.booleans())
def test_a_schema_survives_the_manifest(
    given_keys: tuple[pa.Schema, list[tuple[Any, ...]]], partitions: int, ordered: bool
) -> None:
    values = pa.schema([("v", pa.string()), ("n", pa.struct([("x", pa.list_(pa.float64()))]))])
    schema = StoreSchema(given_keys[0], values, partitions, ordered)
    again = StoreSchema.from_json(schema.to_json())
    assert (schema.keys, schema.partitions, schema.ordered) == (again.keys, again.partitions, again.ordered)
    assert schema.to_json() == again.to_json()
    assert schema.value_type == again.value_type


def test_a_schema_with_key_types_of_a_later_version_says_so() -> None:
    fields = StoreSchema(pa.schema([("k", pa.int32())]), pa.schema([("v", pa.string())]), 1).to_json()
    later = {**fields, "keys": [{"name": "k", "type": "decimal(10,2)"}]}
    with pytest.raises(ConfigurationError, match=r"keys of type decimal\(10,2\), which this version"):
        StoreSchema.from_json(later)


@given(
    kind=st.sampled_from([pa.date32(), *(pa.timestamp(unit, zone) for unit in ("us",) for zone in (None, "UTC"))]),
    number=st.integers(-(2**31), 2**31 - 1) | st.integers(-(2**63), 2**63 - 1),
)
def test_a_key_of_any_date_or_time_has_a_name_in_messages(kind: pa.DataType, number: int) -> None:
    width = 32 if pa.types.is_date(kind) else 64
    value = (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    column = pa.array([value], pa.int32() if width == 32 else pa.int64()).cast(kind)
    named = readable_key(pa.record_batch({"at": column, "k": ["a"]}))
    assert named.startswith("at=")
    assert named.endswith(", k='a'")
    assert f"{value:,} " in named or "datetime.date" in named
