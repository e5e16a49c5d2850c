"""Random nested Arrow arrays as Spark or a decoder may pass them: nulls at every level, slices, values under nulls.

Drawn by a `random.Random`, so that many small arrays cost little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from random import Random

_LEAVES = (pa.int32(), pa.string(), pa.null(), pa.time64("us"), pa.bool_(), pa.timestamp("us"))
_DAY = 24 * 60 * 60 * 10**6


def kind_of(random: Random, depth: int = 3) -> pa.DataType:
    """A type: a leaf, a list, a map, or a struct with up to three fields."""
    form = random.choice(["leaf", "list", "map", "struct", "struct"]) if depth else "leaf"
    if form == "leaf":
        return random.choice(_LEAVES)
    if form == "list":
        return pa.list_(_field(random, "element", depth))
    if form == "map":
        return pa.map_(random.choice([pa.string(), pa.time64("us")]), _field(random, "value", depth))
    return pa.struct([_field(random, name, depth) for name in "abc"[: random.randint(0, 3)]])


def array_of(random: Random, kind: pa.DataType, count: int, *, nullable: bool = True) -> pa.Array:
    """An array, perhaps a slice of a longer one."""
    before, after = random.choice([(0, 0), (0, 2), (3, 1)])
    return _array(random, kind, before + count + after, nullable=nullable).slice(before, count)


def in_nanoseconds(kind: pa.DataType) -> pa.DataType:
    """The type with Spark's unit of TIME, at every level."""
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(in_nanoseconds(each.type)) for each in kind])
    if pa.types.is_map(kind):
        item = kind.item_field
        return pa.map_(in_nanoseconds(kind.key_type), item.with_type(in_nanoseconds(item.type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_nanoseconds(kind.value_type)))
    return pa.time64("ns") if pa.types.is_time(kind) else kind


def _field(random: Random, name: str, depth: int) -> pa.Field:
    kind = kind_of(random, depth - 1)
    return pa.field(name, kind, nullable=random.random() < 0.6 or pa.types.is_null(kind))


def _array(random: Random, kind: pa.DataType, count: int, *, nullable: bool) -> pa.Array:
    valid = np.array([not nullable or random.random() < 0.7 for _ in range(count)], np.bool_)
    if pa.types.is_null(kind):
        return pa.nulls(count)
    if not pa.types.is_nested(kind):
        values = [_value(random, kind) if there else None for there in valid.tolist()]
        return pa.array(values, kind)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if pa.types.is_struct(kind):
        children = [_child(random, each, count, valid) for each in kind]
        return pa.Array.from_buffers(kind, count, [bitmap], children=children)
    counts = [random.choice([0, 0, 1, 2]) for _ in range(count)]
    first = random.choice([0, 1])
    offsets = np.cumsum([first, *counts], dtype=np.int32)
    total = int(offsets[-1]) + random.choice([0, 1])
    if pa.types.is_map(kind):
        keys = _array(random, kind.key_type, total, nullable=False)
        items = _array(random, kind.item_type, total, nullable=kind.item_field.nullable)
        entries = pa.struct([kind.key_field, kind.item_field])
        child = pa.Array.from_buffers(entries, total, [None], children=[keys, items])
    else:
        child = _array(random, kind.value_type, total, nullable=kind.value_field.nullable)
    return pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(offsets)], children=[child])


def _child(random: Random, field: pa.Field, count: int, valid: Any) -> pa.Array:
    """The values of a field. Under a null struct it may be null though it must not be, or have some value."""
    child = _array(random, field.type, count, nullable=field.nullable)
    if not field.nullable and random.random() < 0.7:
        child = child.take(pa.array(np.arange(count), mask=~valid))
    return child


def _value(random: Random, kind: pa.DataType) -> Any:
    if pa.types.is_string(kind):
        return random.choice(["", "a", "grüß"])
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    return (
        pa.scalar(random.randrange(_DAY), pa.int64()).cast(kind)
        if not pa.types.is_int32(kind)
        else random.randrange(99)
    )
