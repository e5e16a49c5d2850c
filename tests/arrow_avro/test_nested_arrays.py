"""Nested arrays that are built again keep their rows, their values and their nulls."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from arrow_avro import nested_arrays
from arrow_avro.nested_arrays import batch_of, retyped, well_formed
from foundation.errors import RowCountError
from tests.arrow_avro.spark_arrays import array_of, in_nanoseconds, kind_of
from tests.histories.mutants import Mutant, edited, replaced

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = 400
ROWS = 5
KINDS = {"struct without fields", "struct", "list", "map", "time", "void", "null in a struct that is null"}


def check(cases: int = CASES) -> Counter[str]:
    """Fails at the first array that is changed; else how often each kind of type was drawn."""
    seen: Counter[str] = Counter()
    for seed in range(cases):
        random = Random(seed)
        kind = kind_of(random)
        array = array_of(random, kind, random.choice([0, 1, ROWS]))
        seen.update(_kinds(array))
        _same(array, retyped(array, in_nanoseconds(kind)), in_nanoseconds(kind))
        batch = pa.RecordBatch.from_arrays([array, array], ["a", "b"])
        mended = well_formed(batch)
        assert (len(array), batch.schema) == (mended.num_rows, mended.schema)
        for column in mended.columns:
            _same(array, column, kind)
    return seen


def _same(before: pa.Array, after: pa.Array, kind: pa.DataType) -> None:
    after.validate(full=True)
    assert (kind, len(before), before.null_count) == (after.type, len(after), after.null_count)
    assert before.to_pylist() == after.to_pylist()


def _kinds(array: pa.Array) -> Iterator[str]:
    kind = array.type
    if pa.types.is_struct(kind):
        yield "struct" if kind.num_fields else "struct without fields"
        for place, field in enumerate(kind):
            yield from _kinds(array.field(place))
            if array.null_count and not field.nullable and array.field(place).null_count:
                yield "null in a struct that is null"
    elif pa.types.is_map(kind):
        yield "map"
        yield from (*_kinds(array.keys), *_kinds(array.items))
    elif pa.types.is_list(kind):
        yield "list"
        yield from _kinds(array.values)
    elif pa.types.is_time(kind):
        yield "time"
    elif pa.types.is_null(kind):
        yield "void"


def test_any_nested_array_keeps_its_rows_values_and_nulls() -> None:
    assert set() == KINDS - set(check())


def test_a_null_that_the_other_type_does_not_allow_is_refused_and_one_within_a_null_struct_is_not() -> None:
    given, to = (
        pa.struct([pa.field("a", pa.int32()), pa.field("t", pa.list_(pa.int32()))]),
        pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("t", pa.list_(pa.int64()))]),
    )
    assert [None, {"a": 1, "t": [2]}] == retyped(pa.array([None, {"a": 1, "t": [2]}], given), to).to_pylist()
    with pytest.raises(pa.ArrowInvalid, match="null in 'a', which must not be null"):
        retyped(pa.array([{"a": None, "t": []}, {"a": 1, "t": []}], given), to)
    with pytest.raises(pa.ArrowInvalid, match="null in 'element'"):
        retyped(pa.array([[None]], pa.list_(pa.int32())), pa.list_(pa.field("element", pa.int64(), nullable=False)))


def test_what_lies_under_a_null_or_outside_a_slice_is_not_converted() -> None:
    large = pa.array([1 << 40, 7, 1 << 40, 1 << 40])
    struct = pa.StructArray.from_arrays([large], ["x"], mask=pa.array([True, False, True, True]))
    narrow = pa.struct([("x", pa.int32())])
    assert [None, {"x": 7}, None, None] == retyped(struct, narrow).to_pylist()
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 4], pa.int32()), large, mask=pa.array([False, False, True]))
    assert [[7], None] == retyped(lists.slice(1), pa.list_(pa.int32())).to_pylist()


def test_rows_without_columns_are_kept() -> None:
    assert 3 == batch_of([], pa.schema([]), 3).num_rows


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(RowCountError, match=r"column 'a' failed: 2 rows were made of 3\. Report this"):
        batch_of([pa.array([1, 2])], pa.schema([("a", pa.int64())]), 3)
    with pytest.raises(RowCountError, match="a value of type"):
        nested_arrays._struct(pa.struct([("a", pa.int64())]), [pa.array([1, 2])], 3)


MUTANTS: dict[str, Mutant] = {
    "types are cast by pyarrow": replaced(
        "tests.arrow_avro.test_nested_arrays:retyped", lambda array, to: array.cast(to)
    ),
    "structs take their length from their fields": edited(
        "arrow_avro.nested_arrays:_struct",
        "from_buffers(to, count,",
        "from_buffers(to, len(children[0]) if children else 0,",
    ),
    "structs lose their nulls": edited("arrow_avro.nested_arrays:_struct", "[bitmap]", "[None]"),
    "batches take their length from their columns": edited(
        "arrow_avro.nested_arrays:batch_of",
        "from_buffers(pa.struct(list(schema)), rows,",
        "from_buffers(pa.struct(list(schema)), 0,",
    ),
    "lists lose their nulls": edited("arrow_avro.nested_arrays:_lists", "[_bitmap(array), offsets]", "[None, offsets]"),
    "items under nulls count": edited(
        "arrow_avro.nested_arrays:_lists", "counts if valid is None else np.where(valid, counts, 0)", "counts"
    ),
    "lists of a slice have the offsets of the whole": edited(
        "arrow_avro.nested_arrays:_built", "if array.offset else", "if False else"
    ),
    "nulls of a slice are those of the whole": edited(
        "arrow_avro.nested_arrays:_bitmap", "if not array.offset:", "if True:"
    ),
    "values under nulls are converted": edited(
        "arrow_avro.nested_arrays:retyped",
        "zip(array.flatten(), to, strict=True)",
        "zip((array.field(n) for n in range(given.num_fields)), to, strict=True)",
    ),
    "lengths are not compared": replaced("arrow_avro.nested_arrays:same_rows", lambda *_: None),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, RowCountError, ValueError)):
        _check_all()


def _check_all() -> None:
    check()
    test_rows_without_columns_are_kept()
    test_a_column_of_another_length_is_refused()
    test_what_lies_under_a_null_or_outside_a_slice_is_not_converted()
