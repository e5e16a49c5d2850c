"""Hypothesis strategies of Arrow types, values and batches: those of Spark, and others that the encoder takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

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
        names = draw(st.lists(NAMES, min_size=0, max_size=3, unique_by=str.lower))
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
    names = draw(st.lists(NAMES, min_size=0, max_size=4, unique_by=str.lower))
    kinds = TYPES.filter(lambda kind: not has_nested_dictionary(kind[0]))
    fields = [draw(members(kinds, name)) for name in names]
    count = draw(st.integers(0, 12))
    arrays = [built(draw(st.lists(v, min_size=count, max_size=count)), field.type) for field, v in fields]
    if not arrays:
        return pa.RecordBatch.from_pylist([{}] * count, pa.schema([]))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field for field, _ in fields]))
    low = draw(st.integers(0, count))
    return batch.slice(low, draw(st.integers(0, count - low)))
