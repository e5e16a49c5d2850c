"""Nested arrays built again from other children, with the length and the nulls that they had. Pure.

pyarrow's ways to do this take the length from the children, which a struct may lack, and `cast` refuses a null where
only the struct around it is null (apache/arrow#37072). So here both are given, and `same_rows` compares what comes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro.arrow_values import list_offsets, validity
from foundation.errors import RowCountError

if TYPE_CHECKING:
    from collections.abc import Sequence


def well_formed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with offsets in all its arrays.

    Spark 4.0's Arrow library omits the offsets of an empty array, in a column as in a list or map. Whatever reads the
    offsets, pyarrow included, then reads beyond the buffer and crashes the worker.
    """
    if not any(arrow_is.is_nested(kind) for kind in batch.schema.types):
        return batch
    return batch_of([_with_offsets(column) for column in batch.columns], batch.schema, batch.num_rows)


def retyped(array: pa.Array, to: pa.DataType) -> pa.Array:
    """The values as another type with the same structure: other units and widths, names of elements, nullability.

    What lies under a null or outside a slice does not count. `pa.ArrowInvalid` for a value that the type does not hold,
    and for a null that it does not allow; `pa.ArrowNotImplementedError` for a type that values cannot become.
    """
    given = array.type
    if given == to:
        return array
    if not len(array):
        return pa.array([], to)
    if arrow_is.is_struct(given) and arrow_is.is_struct(to) and _names(given) == _names(to):
        children = [_member(child, field, array.null_count) for child, field in zip(array.flatten(), to, strict=True)]
        return _struct(to, children, len(array), _bitmap(array))
    if arrow_is.is_map(given) and arrow_is.is_map(to):
        return _lists(array, to, retyped(_as_list(array).flatten(), _entries(to)))
    if arrow_is.is_list(given) and arrow_is.is_list(to):
        return _lists(array, to, _member(array.flatten(), to.value_field, 0))
    return array.cast(to)


def batch_of(columns: Sequence[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows, perhaps without columns. Raises RowCountError for columns of another length."""
    for column, field in zip(columns, schema, strict=True):
        same_rows(rows, len(column), f"column {field.name!r}")
    struct = pa.Array.from_buffers(pa.struct(list(schema)), rows, [None], children=list(columns))
    return pa.RecordBatch.from_struct_array(struct).replace_schema_metadata(schema.metadata)


def same_rows(expected: int, found: int, what: str) -> None:
    """Raise RowCountError unless a step that was given `expected` rows has made as many of them."""
    if found != expected:
        cause = f"{found} rows were made of {expected}"
        raise RowCountError("convert", what, cause, "Report this: it is a fault of this package.")


def _with_offsets(array: pa.Array) -> pa.Array:
    if not len(array):
        return pa.array([], array.type)
    children = _children(array)
    return array if children is None else _built(array, [_with_offsets(child) for child in children])


def _children(array: pa.Array) -> list[pa.Array] | None:
    """What `_built` takes; None for other types, in which nothing of Spark's is nested."""
    if arrow_is.is_struct(array.type):
        return [array.field(place) for place in range(array.type.num_fields)]
    if arrow_is.is_map(array.type):
        return [array.keys, array.items]
    return [array.values] if arrow_is.is_list(array.type) else None


def _built(array: pa.Array, children: Sequence[pa.Array]) -> pa.Array:
    """A struct, list or map as this one, with these children: the fields of its rows, or all keys, items or values."""
    kind, bitmap = array.type, _bitmap(array)
    if arrow_is.is_struct(kind):
        return _struct(kind, children, len(array), bitmap)
    if arrow_is.is_map(kind):
        children = [_struct(_entries(kind), children, len(children[0]))]
    offsets = pa.py_buffer(list_offsets(array).astype(np.int32)) if array.offset else array.buffers()[1]
    return pa.Array.from_buffers(kind, len(array), [bitmap, offsets], children=list(children))


def _as_list(array: pa.Array) -> pa.Array:
    """A map as a list of its entries, which alone can be flattened."""
    entries = _struct(_entries(array.type), [array.keys, array.items], len(array.keys))
    offsets = array.buffers()[1]
    kind = pa.list_(pa.field("entries", entries.type, nullable=False))
    return pa.Array.from_buffers(kind, len(array), [array.buffers()[0], offsets], -1, array.offset, [entries])


def _entries(kind: pa.DataType) -> pa.DataType:
    return pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])


def _lists(array: pa.Array, to: pa.DataType, flat: pa.Array) -> pa.Array:
    """Lists or maps of as many items as those of `array` have; `flat` has them all, without what is under nulls."""
    counts, valid = np.diff(list_offsets(array)), validity(array)
    ends = np.cumsum(counts if valid is None else np.where(valid, counts, 0), dtype=np.int32)
    same_rows(int(ends[-1]), len(flat), f"the items of a value of type {to}")
    offsets = pa.py_buffer(np.concatenate([np.zeros(1, np.int32), ends]))
    return pa.Array.from_buffers(to, len(array), [_bitmap(array), offsets], children=[flat])


def _struct(to: pa.DataType, children: Sequence[pa.Array], count: int, bitmap: pa.Buffer | None = None) -> pa.Array:
    for child in children:
        same_rows(count, len(child), f"a value of type {to}")
    return pa.Array.from_buffers(to, count, [bitmap], children=list(children))


def _bitmap(array: pa.Array) -> pa.Buffer | None:
    if not array.offset:
        return array.buffers()[0] if array.null_count else None
    valid = validity(array)
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _member(child: pa.Array, field: pa.Field, nulls: int) -> pa.Array:
    """The values of a field; as many as `nulls` are null since what is around them is."""
    if not field.nullable and child.null_count > nulls:
        raise pa.ArrowInvalid(f"there is a null in {field.name!r}, which must not be null")
    return retyped(child, field.type)


def _names(kind: pa.DataType) -> list[str]:
    return [field.name for field in kind]
