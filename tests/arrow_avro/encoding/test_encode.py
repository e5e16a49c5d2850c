"""Every batch is encoded to the bytes that fastavro writes for its rows."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro import schema as avro_schema
from arrow_avro import varint
from arrow_avro.encoding.assembly import CHUNK
from arrow_avro.encoding.encode import RowEncoder, raw_rows
from arrow_avro.encoding.validate import validate_datums
from foundation.errors import ConfigurationError
from tests.arrow_avro.arrow_tables import LEAVES, batches, built
from tests.arrow_avro.encoding.datums import ENUM, datums, record

if TYPE_CHECKING:
    from arrow_avro.schema import AvroSchema

# --- what fastavro writes ---------------------------------------------------------------------------------------------


def by_fastavro(values: list[dict[str, Any]], arrow: pa.Schema, avro: AvroSchema) -> list[bytes]:
    parsed = fastavro.parse_schema(avro.root)
    written = []
    for value in values:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, plain_record(value, list(arrow), avro.root))
        written.append(out.getvalue())
    return written


def plain_record(value: dict[str, Any], fields: list[pa.Field], record: Any) -> dict[str, Any]:
    given_names = {one.get("sparkName", one["name"]): one for one in record["fields"]}
    return {
        given_names[one.name]["name"]: plain_value(value[one.name], one.type, given_names[one.name]["type"])
        for one in fields
    }


def plain_value(value: Any, arrow: pa.DataType, avro: Any) -> Any:
    """A value of `to_pylist` in the form that fastavro expects."""
    if isinstance(avro, list):
        avro = next(branch for branch in avro if branch != "null")
    if value is None:
        return None
    if pa.types.is_duration(arrow):
        return value // timedelta(microseconds=1)
    if pa.types.is_struct(arrow):
        return plain_record(value, list(arrow), avro)
    if pa.types.is_map(arrow) and avro["type"] == "map":
        return {key: plain_value(item, arrow.item_type, avro["values"]) for key, item in value}
    if pa.types.is_map(arrow):
        key_type, value_type = (one["type"] for one in avro["items"]["fields"])
        return [
            {"key": plain_value(key, arrow.key_type, key_type), "value": plain_value(item, arrow.item_type, value_type)}
            for key, item in value
        ]
    if isinstance(value, list):
        return [plain_value(item, arrow.value_type, avro["items"]) for item in value]
    return value


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return bool(left == right)


def check_against_fastavro(batch: pa.RecordBatch, avro: AvroSchema) -> None:
    encoder = RowEncoder(batch.schema, avro)
    assert encoder.vectorised
    rows = encoder.encode(batch)
    values = batch.to_pylist()
    assert by_fastavro(values, batch.schema, avro) == datums(rows)
    validate_datums(rows, avro)
    for datum, value in zip(datums(rows), values, strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(datum), avro.root)
        assert same(naive(read), naive(plain_record(value, list(batch.schema), avro.root)))


def naive(value: Any) -> Any:
    """Without time zones, because readers return UTC as different objects."""
    if isinstance(value, dict):
        return {key: naive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [naive(item) for item in value]
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


# --- all types --------------------------------------------------------------------------------------------------------


@settings(max_examples=400, deadline=None)
@given(batches())
def test_every_batch_is_encoded_as_fastavro_encodes_its_rows(batch: pa.RecordBatch) -> None:
    check_against_fastavro(batch, avro_schema.infer(batch.schema, name="row", namespace="a.b"))


@settings(max_examples=60, deadline=None)
@given(st.lists(LEAVES, min_size=1, max_size=8), st.integers(0, 2**32 - 1), st.integers(0, 300), st.booleans())
def test_wide_batches_of_many_rows_are_encoded_as_fastavro_encodes_them(
    kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]], seed: int, count: int, nullable: bool
) -> None:
    generator = np.random.default_rng(seed)
    fields, arrays = [], []
    for index, (arrow, _) in enumerate(kinds):
        fields.append(pa.field(f"c{index}", arrow, nullable=nullable or pa.types.is_null(arrow)))
        arrays.append(random_array(arrow, generator, count, nullable))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    check_against_fastavro(batch, avro_schema.infer(batch.schema, name="row", namespace=None))


def random_array(arrow: pa.DataType, generator: np.random.Generator, count: int, nullable: bool) -> pa.Array:
    absent = generator.random(count) < (generator.choice([0.02, 0.5]) if nullable else -1)
    spread = int(generator.integers(1, 60))
    numbers = generator.integers(-(2**spread), 2**spread, count)
    values: list[Any] = [
        None if gone else sample(arrow, int(n), generator) for gone, n in zip(absent, numbers, strict=True)
    ]
    return built(values, arrow)


def sample(arrow: pa.DataType, number: int, generator: np.random.Generator) -> Any:  # noqa: C901
    kind = pa.types
    if kind.is_null(arrow):
        return None
    if kind.is_boolean(arrow):
        return bool(number & 1)
    if kind.is_integer(arrow):
        edge = 2 ** (arrow.bit_width - 1)
        return (number + edge) % (2 * edge) - edge
    if kind.is_floating(arrow):
        return float(np.float32(number / 3))
    if kind.is_decimal(arrow):
        top = 10**arrow.precision
        unscaled = number % top
        digits = tuple(map(int, str(unscaled)))
        return Decimal((number < 0, digits, -arrow.scale))
    if kind.is_date(arrow):
        return date.fromordinal(number % 700_000 + 1)
    if kind.is_timestamp(arrow):
        moment = datetime(1970, 1, 1, tzinfo=UTC if arrow.tz else None) + timedelta(seconds=number % 10**9)
        return moment if arrow.unit == "s" else moment + timedelta(microseconds=number % 10**6)
    if kind.is_time(arrow):
        return time(number % 24, number % 60, number % 59, number % 10**6)
    if kind.is_duration(arrow):
        return timedelta(microseconds=number % 2**50 - 2**49)
    if kind.is_fixed_size_binary(arrow):
        return number.to_bytes(8, "big", signed=True)[:5]
    if kind.is_dictionary(arrow):
        return f"word {number % 7}" * (number % 7)
    length = abs(number) % int(generator.choice([3, 9, 15, 33, 130, 400]))
    text = "".join(chr(97 + (number + i) % 26) for i in range(length))
    return text if "string" in str(arrow) else text.encode()


# --- schemas of the user ----------------------------------------------------------------------------------------------


def one_column(values: list[Any], arrow: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, arrow)], ["a"])


def encoded(batch: pa.RecordBatch, avro: AvroSchema) -> list[bytes]:
    encoder = RowEncoder(batch.schema, avro)
    assert encoder.vectorised
    rows = encoder.encode(batch)
    validate_datums(rows, avro)
    return datums(rows)


def read_back(batch: pa.RecordBatch, avro: AvroSchema) -> list[Any]:
    return [fastavro.schemaless_reader(io.BytesIO(one), avro.root)["a"] for one in encoded(batch, avro)]


CENTS = {"logicalType": "decimal", "precision": 6, "scale": 2}
DURATION = {"type": "fixed", "name": "span", "size": 12, "logicalType": "duration"}
NOON = datetime(2024, 2, 29, 12, 0, 0, 123999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("avro", "arrow", "values"),
    [
        (["string", "null"], pa.string(), ["x", None, "a longer text"]),
        (["null", ENUM], pa.string(), ["HEARTS", None, "SPADES"]),
        (ENUM, pa.dictionary(pa.int32(), pa.string()), ["HEARTS", "SPADES"]),
        ("long", pa.int32(), [1, -1]),
        ("long", pa.uint64(), [2**63 - 1, 7]),
        ("int", pa.uint8(), [255, 0]),
        ("int", pa.int64(), [-(2**31), 2**31 - 1]),
        ("double", pa.float32(), [1.5, -0.25]),
        ("double", pa.int32(), [1, 2**31 - 1]),
        ({"type": "bytes", **CENTS}, pa.decimal128(6, 2), [Decimal("-1234.56"), Decimal("0.00"), Decimal("-1.28")]),
        (["null", {"type": "bytes", **CENTS}], pa.decimal128(4, 1), [Decimal("-12.5"), None, Decimal("999.9")]),
        (
            {"type": "fixed", "name": "d", "size": 20, **CENTS},
            pa.decimal128(6, 2),
            [Decimal("-1234.56"), Decimal("0.01")],
        ),
        ({"type": "fixed", "name": "f", "size": 3}, pa.binary(), [b"abc", b"\0\1\2"]),
        (["null", {"type": "fixed", "name": "f", "size": 20}], pa.binary(20), [b"a" * 20, None]),
        ({"type": "string", "logicalType": "unknown"}, pa.string(), ["x"]),
        (["null", "int", "string"], pa.string(), ["x", None, ""]),
        (["int", "long", "null"], pa.int64(), [1, None]),
        ({"type": "array", "items": ["null", "double"]}, pa.list_(pa.float32()), [[1.0, None], []]),
    ],
)
def test_values_are_written_as_the_types_of_the_users_schema(avro: Any, arrow: pa.DataType, values: list[Any]) -> None:
    array = built(values, arrow)
    assert values == read_back(pa.RecordBatch.from_arrays([array], ["a"]), record(("a", avro)))


@pytest.mark.parametrize(
    ("logical", "arrow", "value", "number"),
    [
        ("timestamp-millis", pa.timestamp("us", "UTC"), NOON, 1709208000123),
        ("timestamp-micros", pa.timestamp("ns", "UTC"), NOON, 1709208000123999),
        ("timestamp-nanos", pa.timestamp("us", "UTC"), NOON, 1709208000123999000),
        ("timestamp-millis", pa.timestamp("us", "UTC"), datetime(1969, 12, 31, 23, 59, 59, 999500, UTC), -1),
        ("local-timestamp-millis", pa.timestamp("us"), NOON.replace(tzinfo=None), 1709208000123),
        ("time-micros", pa.time32("s"), time(0, 1), 60_000_000),
    ],
)
def test_times_are_rounded_down_to_the_unit_of_the_schema(
    logical: str, arrow: pa.DataType, value: Any, number: int
) -> None:
    avro = record(("a", {"type": "long", "logicalType": logical}))
    assert [varint.encode(number)] == encoded(one_column([value], arrow), avro)


def test_time_millis_is_an_int() -> None:
    avro = record(("a", {"type": "int", "logicalType": "time-millis"}))
    assert [varint.encode(1)] == encoded(one_column([time(0, 0, 0, 1999)], pa.time64("us")), avro)


def test_dates_of_64_bits_are_written_as_days() -> None:
    avro = record(("a", {"type": "int", "logicalType": "date"}))
    assert [varint.encode(-1)] == encoded(one_column([date(1969, 12, 31)], pa.date64()), avro)


def test_a_fixed_duration_is_written_from_its_twelve_bytes() -> None:
    assert [bytes(range(12))] == encoded(one_column([bytes(range(12))], pa.binary()), record(("a", DURATION)))


def test_fields_without_a_column_get_their_defaults() -> None:
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int", "default": 7}]}
    defaults: list[tuple[Any, Any, Any]] = [
        ("null", None, None),
        (["null", "int"], None, None),
        (["int", "null"], 300, 300),
        ("boolean", True, True),
        ("float", 1.5, 1.5),
        ("double", -2, -2.0),
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ("string", "a default of more than eight bytes", "a default of more than eight bytes"),
        (ENUM, "HEARTS", "HEARTS"),
        ({"type": "fixed", "name": "two", "size": 2}, "ab", b"ab"),
        ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
        ({"type": "map", "values": "int"}, {"k": 1}, {"k": 1}),
        ({"type": "map", "values": "int"}, {}, {}),
        (inner, {}, {"x": 7}),
    ]
    fields = [{"name": f"d{n}", "type": avro, "default": raw} for n, (avro, raw, _) in enumerate(defaults)]
    avro = record(*fields[:5], ("a", "int"), *fields[5:])
    expected = {f"d{n}": value for n, (_, _, value) in enumerate(defaults)}
    for number, datum in zip([1, 2], encoded(one_column([1, 2], pa.int64()), avro), strict=True):
        assert expected | {"a": number} == fastavro.schemaless_reader(io.BytesIO(datum), avro.root)


def test_members_of_a_struct_are_written_as_the_branches_of_a_union() -> None:
    union = ["int", "null", "string", {"type": "array", "items": "int"}]
    members = pa.struct([("member0", pa.int32()), ("member1", pa.string()), ("member2", pa.list_(pa.int32()))])
    empty = {"member0": None, "member1": None, "member2": None}
    rows = [empty | {"member0": 5}, empty | {"member1": "text"}, None, empty, empty | {"member2": [1]}]
    assert [5, "text", None, None, [1]] == read_back(one_column(rows, members), record(("a", union)))


def test_two_members_of_a_union_in_one_row_are_refused() -> None:
    members = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    batch = one_column([{"member0": 1}, {"member0": 1, "member1": "x"}], members)
    with pytest.raises(ConfigurationError, match=r"column 'a', row 1 of its batch: 2 members of a union are set"):
        encoded(batch, record(("a", ["null", "int", "string"])))


def test_fastavro_writes_the_rows_if_the_branch_depends_on_each_value() -> None:
    one = {"type": "record", "name": "one", "fields": [{"name": "x", "type": "int"}]}
    two = {"type": "record", "name": "two", "fields": [{"name": "x", "type": "long"}]}
    avro = record(("a", ["null", one, two]), ("b", {"type": "map", "values": "long"}))
    arrow = pa.schema([("a", pa.struct([("x", pa.int64())])), ("b", pa.map_(pa.string(), pa.duration("us")))])
    rows = [{"a": {"x": 1}, "b": [("k", timedelta(seconds=1))]}, {"a": {"x": 2**40}, "b": []}, {"a": None, "b": []}]
    encoder = RowEncoder(arrow, avro)
    assert not encoder.vectorised
    read = [
        fastavro.schemaless_reader(io.BytesIO(datum), avro.root, return_record_name=True)
        for datum in datums(encoder.encode(pa.RecordBatch.from_pylist(rows, arrow)))
    ]
    assert [("one", {"x": 1}), ("two", {"x": 2**40}), None] == [row["a"] for row in read]
    assert [{"k": 1_000_000}, {}, {}] == [row["b"] for row in read]
    with pytest.raises(ConfigurationError, match="row 1 of its batch does not fit option avroSchema"):
        encoder.encode(pa.RecordBatch.from_pylist([rows[0], {"a": None, "b": None}], arrow))


# --- values that cannot be written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("avro", "arrow", "values", "message"),
    [
        ("string", pa.string(), ["x", None], "column 'a', row 1 of its batch: null does not fit"),
        (
            "int",
            pa.int64(),
            [1, 2, 2**31],
            "column 'a', row 2 of its batch: 2147483648 is outside the range of Avro int",
        ),
        (["null", "int"], pa.int64(), [None, -(2**31) - 1], "row 1 of its batch: -2147483649 is outside"),
        ("long", pa.uint64(), [2**63], "row 0 of its batch: 9223372036854775808 is outside the range of Avro long"),
        (ENUM, pa.string(), ["HEARTS", "CLUBS"], "row 1 of its batch: 'CLUBS' is not a symbol of the Avro enum"),
        ({"type": "fixed", "name": "f", "size": 3}, pa.binary(), [b"abc", b"ab"], "row 1 .* 2 bytes does not fit"),
        ({"type": "bytes", **CENTS}, pa.decimal128(9, 2), [Decimal("10000.00")], "row 0 .* 10000.00 has more digits"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 10},
            pa.decimal128(29, 0),
            [Decimal(1), Decimal(10**29 - 1)],
            r"row 1 .* has more digits than Avro decimal\(50,10\) written with 38 digits",
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            pa.timestamp("s", "UTC"),
            [0, 2**62],
            "row 1 .* is outside the range",
        ),
        (
            {"type": "array", "items": "int"},
            pa.list_(pa.int32()),
            [[1], [], [2, None]],
            "column 'a.element', row 2 of its batch: null",
        ),
        ({"type": "map", "values": "int"}, pa.map_(pa.string(), pa.int32()), [[], [("k", None)]], "'a.value', row 1"),
        (
            ["null", {"type": "record", "name": "r", "fields": [{"name": "x", "type": "int"}]}],
            pa.struct([("x", pa.int32())]),
            [None, {"x": 1}, {"x": None}],
            "column 'a.x', row 2 of its batch: null",
        ),
    ],
)
def test_a_value_that_cannot_be_written_is_reported_with_its_column_and_row(
    avro: Any, arrow: pa.DataType, values: list[Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        encoded(one_column(values, arrow), record(("a", avro)))


def test_the_stored_values_of_nulls_are_not_checked() -> None:
    values = pa.array([1, 2, 3], pa.int64()).buffers()[1]
    garbage = pa.py_buffer(np.array([2**40, 5, -(2**60)], np.int64))
    array = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x02"), garbage])
    assert values is not None
    batch = pa.RecordBatch.from_arrays([array], ["a"])
    assert [None, 5, None] == read_back(batch, record(("a", ["null", "int"])))


def test_the_stored_bytes_and_items_of_nulls_are_not_written() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 5, 6], np.int32))
    texts = pa.Array.from_buffers(pa.string(), 3, [pa.py_buffer(b"\x05"), offsets, pa.py_buffer(b"abcdef")])
    lists = pa.ListArray.from_buffers(
        pa.list_(pa.int64()), 3, [pa.py_buffer(b"\x05"), offsets], children=[pa.array(range(6), pa.int64())]
    )
    avro = record(("a", ["null", "string"]), ("b", ["null", {"type": "array", "items": ["null", "long"]}]))
    batch = pa.RecordBatch.from_arrays([texts, lists], ["a", "b"])
    read = [fastavro.schemaless_reader(io.BytesIO(datum), avro.root) for datum in encoded(batch, avro)]
    assert [{"a": "ab", "b": [0, 1]}, {"a": None, "b": None}, {"a": "f", "b": [5]}] == read


def test_batches_longer_than_a_chunk_are_encoded_completely() -> None:
    count = 3 * CHUNK + 5
    numbers = np.arange(count, dtype=np.int64)
    texts = [None if n % 11 == 0 else "t" * (n % 40) for n in range(count)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(numbers), pa.array(texts), pa.array(numbers * 10**12), pa.array([f"{n:05d}" for n in range(count)])],
        ["a", "b", "c", "d"],
    )
    avro = avro_schema.infer(batch.schema, name="row", namespace=None)
    assert by_fastavro(batch.to_pylist(), batch.schema, avro) == encoded(batch, avro)


# --- rows that are encoded already ------------------------------------------------------------------------------------


def test_raw_rows_are_the_bytes_of_the_column_without_a_copy() -> None:
    column = pa.array([b"\x02", b"", b"\x04\x06"]).slice(1)
    rows = raw_rows(column)
    assert [b"", b"\x04\x06"] == datums(rows)
    assert column.buffers()[2].address == rows.data.ctypes.data


@pytest.mark.parametrize("arrow", [pa.large_binary(), pa.binary_view(), pa.binary(1)])
def test_raw_rows_may_have_any_binary_layout(arrow: pa.DataType) -> None:
    assert [b"a", b"b"] == datums(raw_rows(pa.array([b"a", b"b"], arrow)))
    assert [] == datums(raw_rows(pa.array([], arrow)))


def test_raw_rows_may_not_be_null_or_of_another_type() -> None:
    with pytest.raises(ConfigurationError, match="valueColumn is null in row 1"):
        raw_rows(pa.array([b"a", None]))
    with pytest.raises(ConfigurationError, match="valueColumn is of Arrow type string"):
        raw_rows(pa.array(["a"]))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
@pytest.mark.parametrize("wrong", [0, 7, 99])
def test_a_string_that_is_no_utf8_is_refused_by_its_row_and_other_bytes_are_not(kind: pa.DataType, wrong: int) -> None:
    """Spark has any bytes in a string, and passes them as they are."""
    texts = [b"a", b"", None, "ö€".encode(), b"\x00"] * 20
    texts[wrong] = b"caf\xe9 " + b"x" * 100
    given = pa.array(texts, pa.large_binary() if kind == pa.large_string() else pa.binary())
    array = pa.Array.from_buffers(kind, len(given), given.buffers(), given.null_count)
    batch = pa.RecordBatch.from_arrays([array], names=["v"])
    encoder = RowEncoder(batch.schema, avro_schema.infer(batch.schema, name="s", namespace=None))
    with pytest.raises(
        ConfigurationError, match=rf"column 'v', row {wrong} of .*b'caf\\xe9 x+' is not UTF-8: make_valid"
    ):
        encoder.encode(batch)
    assert 100 - wrong - 1 == len(encoder.encode(batch.slice(wrong + 1)))
