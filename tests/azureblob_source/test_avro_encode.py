from __future__ import annotations

import io
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from azureblob_source import avro_schema
from azureblob_source.avro_encode import EncodedRows, RowEncoder, check_datums

if TYPE_CHECKING:
    from azureblob_source.avro_schema import AvroSchema

# --- the oracle -------------------------------------------------------------------------------------------------------


def datums(rows: EncodedRows) -> list[bytes]:
    data = bytes(rows.data)
    ends = rows.offsets.tolist()
    assert rows.offsets.dtype == np.int64
    return [data[low:high] for low, high in pairwise(ends)]


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
    """What `to_pylist` gives, as fastavro takes it."""
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
    assert datums(rows) == by_fastavro(values, batch.schema, avro)
    check_datums(rows, avro)
    for datum, value in zip(datums(rows), values, strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(datum), avro.root)
        assert same(naive(read), naive(plain_record(value, list(batch.schema), avro.root)))


def naive(value: Any) -> Any:
    """Instants compared without regard to how a reader names UTC."""
    if isinstance(value, dict):
        return {key: naive(item) for key, item in value.items()}
    if isinstance(value, list):
        return [naive(item) for item in value]
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


# --- strategies -------------------------------------------------------------------------------------------------------

INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
NAMES = st.one_of(st.sampled_from(["a", "b", "c", "ä b", "1", "a_b", "a b"]), st.text(max_size=5))


def integers(bits: int) -> st.SearchStrategy[int]:
    edge = 2 ** (bits - 1)
    near = [1 << 7 * n for n in range(1, 10)]
    edges = [sign * (e // 2) + d for e in near for sign in (1, -1) for d in (-1, 0, 1)] + [-edge, edge - 1]
    return st.one_of(
        st.sampled_from([e for e in edges if -edge <= e < edge]),
        st.integers(-edge, edge - 1),
        st.integers(-100, 100),
    )


@st.composite
def decimals(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    top = 10**precision - 1
    unscaled = st.one_of(
        st.integers(-top, top), st.sampled_from([-top, top, 0]), st.integers(-min(top, 300), min(top, 300))
    )
    return pa.decimal128(precision, scale), unscaled.map(
        lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale))
    )


UTC = timezone.utc
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - wall clocks are meant
TEXTS = st.one_of(
    st.text(max_size=4), st.text(min_size=5, max_size=40), st.sampled_from(["x" * 63, "y" * 64, "z" * 300])
)
BINARIES = st.one_of(st.binary(max_size=10), st.binary(max_size=80))

LEAVES: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]] = st.one_of(
    st.sampled_from(
        [
            (pa.bool_(), st.booleans()),
            (pa.null(), st.none()),
            (pa.float32(), st.floats(width=32)),
            (pa.float64(), st.floats()),
            (pa.date32(), st.dates()),
            (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
            (pa.timestamp("us"), MOMENTS),
            (pa.timestamp("s", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC, microsecond=0))),
            (pa.time64("us"), st.times()),
            (pa.time64("ns"), st.times()),
            (pa.duration("us"), st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8))),
            *((arrow, TEXTS) for arrow in (pa.string(), pa.large_string(), pa.string_view())),
            *((arrow, BINARIES) for arrow in (pa.binary(), pa.large_binary(), pa.binary_view())),
            (pa.binary(5), st.binary(min_size=5, max_size=5)),
            (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "bb", "a longer one than twelve"])),
            *((arrow, integers(bits)) for arrow, bits in INTEGERS.items()),
        ]
    ),
    decimals(),
)


def nested(
    inner: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    @st.composite
    def lists(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        field, items = draw(members(inner, "element"))
        kind = draw(st.sampled_from([pa.list_, pa.large_list]))
        return kind(field), st.lists(items, max_size=4)

    @st.composite
    def fixed_lists(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        field, items = draw(members(inner, "element"))
        return pa.list_(field, 2), st.lists(items, min_size=2, max_size=2)

    @st.composite
    def maps(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        field, items = draw(members(inner, "value"))
        key, keys = draw(st.sampled_from([(pa.string(), st.text(max_size=3)), (pa.int32(), integers(32))]))
        return pa.map_(key, field), st.dictionaries(keys, items, max_size=3).map(lambda pairs: list(pairs.items()))

    @st.composite
    def structs(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        names = draw(st.lists(NAMES, min_size=0, max_size=3, unique=True))
        parts = [draw(members(inner, name)) for name in names]
        return pa.struct([part[0] for part in parts]), st.fixed_dictionaries(
            {field.name: values for field, values in parts}
        )

    return st.one_of(lists(), fixed_lists(), maps(), structs())


@st.composite
def members(
    draw: st.DrawFn, kinds: st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]], name: str
) -> tuple[pa.Field, st.SearchStrategy[Any]]:
    arrow, values = draw(kinds)
    nullable = draw(st.booleans()) or pa.types.is_null(arrow)
    return pa.field(name, arrow, nullable=nullable), st.one_of(st.none(), values) if nullable else values


TYPES = st.recursive(LEAVES, nested, max_leaves=5)


def built(values: list[Any], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(arrow):
        return pa.array(values, arrow.value_type).dictionary_encode().cast(arrow)
    return pa.array(values, arrow)


def has_nested_dictionary(arrow: pa.DataType, depth: int = 0) -> bool:
    inner = [arrow.field(index).type for index in range(arrow.num_fields)]
    return (depth > 0 and pa.types.is_dictionary(arrow)) or any(has_nested_dictionary(one, depth + 1) for one in inner)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    names = draw(st.lists(NAMES, min_size=0, max_size=4, unique=True))
    kinds = TYPES.filter(lambda kind: not has_nested_dictionary(kind[0]))
    fields = [draw(members(kinds, name)) for name in names]
    count = draw(st.integers(0, 12))
    arrays = [built(draw(st.lists(v, min_size=count, max_size=count)), field.type) for field, v in fields]
    if not arrays:
        return pa.RecordBatch.from_pylist([{}] * count, pa.schema([]))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field for field, _ in fields]))
    low = draw(st.integers(0, count))
    return batch.slice(low, draw(st.integers(0, count - low)))


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
