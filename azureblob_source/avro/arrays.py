"""Arrow arrays out of wire values, as a plan of `resolve` says. Pure.

A column decoder that makes arrays out of an Avro body directly would replace this module and the use of fastavro; the
plan is the same for both.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.avro.plan import (
    Branches,
    Constant,
    Decimal,
    Leaf,
    Listed,
    Mapped,
    Member,
    Never,
    Paired,
    Plan,
    Present,
    Record,
    Symbols,
    UnresolvedError,
)
from azureblob_source.avro.types import PRIMITIVE_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

Values: TypeAlias = "list[Any]"

_DECIMAL_SIZE = 16


def columns(plan: Record, rows: Values) -> list[pa.Array]:
    """The columns of a batch of rows, in the order of the plan's fields.

    Raises UnresolvedError for values that the reader's schema has no place for, ArrowException or OverflowError for
    values that their own type cannot have.
    """
    return [build(field, [row[key] for row in rows] if key else rows) for key, field in plan.fields]


def build(plan: Plan, values: Values) -> pa.Array:
    """The array of `values`, of type `plan.arrow`; raises as `columns` does. Of a `Constant`, their number counts."""
    match plan:
        case Leaf():
            return _leaf(plan, values)
        case Decimal():
            return _decimals(plan.arrow, values)
        case Symbols():
            return _symbols(plan, values)
        case Record() | Listed() | Mapped() | Paired():
            return _nested(plan, values)
        case Member():
            return _members(plan, values)
        case Branches():
            return _branches(plan, values)
        case Constant():
            return _constants(plan, len(values))
        case Present():
            return _present(plan, values)
        case Never():
            raise plan.error


def _nested(plan: Record | Listed | Mapped | Paired, values: Values) -> pa.Array:
    match plan:
        case Record():
            return _records(plan, values)
        case Listed():
            items = build(plan.item, list(chain.from_iterable(value for value in values if value)))
            return pa.ListArray.from_arrays(_offsets(values), items, type=plan.arrow)
        case Mapped():
            keys = pa.array([key for value in values if value for key in value], pa.string())
            items = build(plan.value, [item for value in values if value for item in value.values()])
        case Paired():
            keys, items = columns(plan.entry, [entry for value in values if value for entry in value])
    return pa.MapArray.from_arrays(_offsets(values), keys, items, type=plan.arrow)


def _leaf(plan: Leaf, values: Values) -> pa.Array:
    if plan.kind == "null":
        return pa.nulls(len(values), plan.arrow)
    if plan.unit:
        return _microseconds(plan.unit, values).view(plan.arrow)
    given = pa.binary() if pa.types.is_binary(plan.arrow) else PRIMITIVE_TYPES[plan.kind]
    array = pa.array(values, given)
    # A float may round; what is not one must keep its value.
    return array if given == plan.arrow else array.cast(plan.arrow, safe=not pa.types.is_floating(plan.arrow))


def _microseconds(unit: str, values: Values) -> pa.Array:
    """Counts of time in microseconds; what is finer goes to the one before, as it must before 1970, too."""
    if unit == "ns":
        values = [None if value is None else value // 1000 for value in values]
    array = pa.array(values, pa.int64())
    return pc.multiply_checked(array, 1000) if unit == "ms" else array


def _decimals(arrow: pa.DataType, values: Values) -> pa.Array:
    zero = bytes(_DECIMAL_SIZE)
    data = b"".join(
        int.from_bytes(value, "big", signed=True).to_bytes(_DECIMAL_SIZE, "little", signed=True) if value else zero
        for value in values
    )
    valid = pa.array([value is not None for value in values], pa.bool_())
    array = pa.Array.from_buffers(arrow, len(values), [valid.buffers()[1], pa.py_buffer(data)])
    array.validate(full=True)  # the precision
    return array


def _symbols(plan: Symbols, values: Values) -> pa.Array:
    unknown = {index for index, symbol in enumerate(plan.symbols) if symbol is None}
    if unknown and not unknown.isdisjoint(values):
        raise UnresolvedError(plan.path, "there is a symbol that the reader's enum lacks, and that has no default")
    return pa.array(plan.symbols, plan.arrow).take(pa.array(values, pa.int32()))


def _records(plan: Record, values: Values) -> pa.Array:
    present = [value for value in values if value is not None]
    if plan.fields:
        array = pa.StructArray.from_arrays(columns(plan, present), fields=list(plan.arrow))
    else:
        array = pa.array([{}] * len(present), plan.arrow)
    return array if len(present) == len(values) else array.take(_places(values))


def _members(plan: Member, values: Values) -> pa.Array:
    children = [pa.nulls(len(values), child.type) for child in plan.arrow]
    children[plan.index] = build(plan.plan, values)
    null = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(plan.arrow), mask=null)


def _branches(plan: Branches, values: Values) -> pa.Array:
    """Each branch's values make an array of their own; then all go to their places."""
    taken: dict[str, Values] = {key: [] for key in plan.plans}
    place: list[tuple[str, int] | None] = []
    for value in values:
        if value is None:
            place.append(None)
            continue
        ((key, inner),) = value.items()
        place.append((key, len(taken[key])))
        taken[key].append(inner)
    used = {key: inner for key, inner in taken.items() if inner}
    if not used:
        return pa.nulls(len(values), plan.arrow)
    starts = dict(zip(used, np.cumsum([0, *map(len, used.values())]).tolist(), strict=False))
    whole = pa.concat_arrays([build(plan.plans[key], inner) for key, inner in used.items()])
    return whole.take(pa.array([None if at is None else starts[at[0]] + at[1] for at in place], pa.int64()))


def _constants(plan: Constant, rows: int) -> pa.Array:
    if plan.value is None:
        return pa.nulls(rows, plan.arrow)
    return build(plan.plan, [plan.value]).take(pa.array(np.zeros(rows, np.int64)))


def _present(plan: Present, values: Values) -> pa.Array:
    if None in values:
        raise UnresolvedError(plan.path, "there is a null where the reader's schema allows none")
    return build(plan.plan, values)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each list begins, null for one that is null, and the end of the last."""
    lengths: npt.NDArray[np.int32] = np.zeros(len(values) + 1, np.int32)
    lengths[1:] = [len(value) if value else 0 for value in values]
    null = np.array([*(value is None for value in values), False])
    return pa.array(np.cumsum(lengths, dtype=np.int32), mask=null)


def _places(values: Values) -> pa.Array:
    """Of each value its place among those that are not null."""
    present = np.array([value is not None for value in values], np.bool_)
    return pa.array(np.cumsum(present) - 1, mask=~present)
