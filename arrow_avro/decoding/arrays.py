"""From the outputs of a scan to Arrow arrays, as a plan says. Pure.

A nullable column is first built without its nulls, as the outputs have it; then the nulls are put between the values.
So the code for each type sees no nulls.

The row of `plan`, whose outputs `forth_scan` shows, becomes three arrays of these buffers, the validity first (none if
no value is null). The row's score had no number; the 0 in its place does not count.

    id: int64          -            0300000000000000
    name: string       -            0000000002000000    6162
    score: int64       00           0000000000000000
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro.decoding import layout
from arrow_avro.decoding import plan as plans
from arrow_avro.decoding.buffers import (
    filled,
    indices,
    offsets_from_ends,
    offsets_of,
    spread,
    struct,
    with_nulls,
    with_validity,
)
from arrow_avro.decoding.decimals import decimals
from arrow_avro.decoding.duplicate_keys import entries_to_keep
from arrow_avro.decoding.memory_bounds import item_bytes
from arrow_avro.decoding.program import INT32_MAX, MAX_EMPTY_ITEMS
from arrow_avro.decoding.scan import BodySlice, ScanResult, too_much_text
from arrow_avro.decoding.scanners import scanner_class
from arrow_avro.decoding.value_errors import DamagedValueError, UnrepresentableValueError, UnresolvedError
from arrow_avro.limits import BATCH_BYTES, batch_too_large
from arrow_avro.types import PRIMITIVE_TYPES
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from arrow_avro.arrow_values import I64, Bytes
    from arrow_avro.decoding.layout import Node
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.types import AvroType

    I32 = npt.NDArray[np.int32]

_INT64_MAX = 2**63 - 1
_NO_OUTPUT = layout.NoOutput()
_DAY = 24 * 60 * 60 * 10**6  # in microseconds
_NOT_ASCII = 0x80  # the lowest byte that is not ASCII
_HIGH_BITS = 0xC0  # of a UTF-8 byte: only the first of the two is set in those that continue a character


@dataclass
class EmptyItemBudget:
    """How many items without bytes (nulls, records without fields) a read may still have: its bytes do not bound them.

    A row of five bytes can claim a million of them, and a blob as many such rows as it has room for.
    """

    left: int = 1 << 27

    def read(self, data: int) -> None:
        """Note that bytes of blocks were read, which may have 64 items each."""
        self.left += 64 * data

    def take(self, items: int) -> None:
        """Raises CorruptError for more items than the bytes read so far may have."""
        self.left -= items
        if self.left < 0:
            raise CorruptError("its rows claim more items without bytes than a read of so few bytes may have")


def columns(
    plan: plans.Record, scan: ScanResult, budget: int = BATCH_BYTES, empty: EmptyItemBudget | None = None
) -> list[pa.Array]:
    """The columns of the rows that were scanned, in the order of the plan's fields.

    Raises UnresolvedError for values that the reader's schema has no type for, UnrepresentableValueError for those that
    its types cannot hold, DamagedValueError and CorruptError for bytes that are no values at all, BeyondLimitError if
    items of arrays and maps take more than `budget` bytes. Items without bytes are taken from `empty`.
    """
    return _Builder(scan, budget, empty).fields(plan, scan.root, scan.rows)


def single(avro: AvroType, plan: Plan, datum: bytes) -> pa.Array:
    """An array of the one value of a datum. Raises what `columns` raises."""
    scan = scanner_class()(avro, plan).scan([BodySlice(memoryview(datum), 1)])
    return _Builder(scan).build(plan, scan.root, 1)


class _Builder:
    """Arrays of `count` values each, of type `plan.arrow`. `budget` is what items may take, in bytes."""

    def __init__(self, scan: ScanResult, budget: int = BATCH_BYTES, empty: EmptyItemBudget | None = None) -> None:
        self._scan = scan
        self._budget = budget
        self._empty = empty or EmptyItemBudget()

    def fields(self, plan: plans.Record, node: Node, count: int) -> list[pa.Array]:
        nodes = node.fields if isinstance(node, layout.Fields) else {}
        keys = enumerate(key for key, _ in plan.fields)
        return [self._field(plan, place, nodes.get(key, _NO_OUTPUT), count) for place, key in keys]

    def _field(self, record: plans.Record, place: int, node: Node, count: int) -> pa.Array:
        plan = record.fields[place][1]
        if isinstance(plan, plans.DefaultField):
            return plan.value.take(indices(np.zeros(count, np.int32)))
        try:
            return self.build(plan, node, count)
        except (UnrepresentableValueError, DamagedValueError) as cause:
            raise cause.within(record.arrow.field(place).name) from cause

    def build(self, plan: Plan, node: Node, count: int) -> pa.Array:
        """The array of a node's values, with its nulls."""
        match plan, node:
            case plans.Leaf(kind="null"), _:
                return pa.nulls(count, plan.arrow)
            case plans.Unresolved(), _ if not isinstance(node, layout.Nullable | layout.NullableColumn):
                if count:
                    raise plan.error
                return pa.nulls(0, plan.arrow)
            case plans.NotNull(), layout.TaggedUnion():
                if (self._scan.values(node.tags, count) == node.null).any():
                    raise _unexpected_null(plan)
                return self.build(plan.plan, node, count)
            case _, layout.Nullable():
                return self._nullable(plan, node, count)
            case _, layout.NullableColumn():
                return self._nullable_column(plan, node, count)
        return self._not_null(plan, node, count)

    def _nullable(self, plan: Plan, node: layout.Nullable, count: int) -> pa.Array:
        inner = plan.plan if isinstance(plan, plans.NotNull) else plan
        valid = self._scan.values(node.valid, count).view(np.bool_)
        present = int(np.count_nonzero(valid))
        if present < count and isinstance(plan, plans.NotNull):
            raise _unexpected_null(plan)
        array = self.build(inner, node.inner, present)
        return array if present == count else spread(array, valid)

    def _nullable_column(self, plan: Plan, node: layout.NullableColumn, count: int) -> pa.Array:
        inner = plan.plan if isinstance(plan, plans.NotNull) else plan
        array = with_validity(self.build(inner, node.inner, count), self._scan.outputs[node.valid])
        if array.null_count and isinstance(plan, plans.NotNull):
            raise _unexpected_null(plan)
        return array

    def _not_null(self, plan: Plan, node: Node, count: int) -> pa.Array:
        match plan, node:
            case plans.Leaf(), _:
                return self._leaf(plan, node, count)
            case plans.Decimal(), layout.Text() | layout.Fixed():
                return _decimals(plan, node, *self._texts(node, count))
            case plans.Symbols(), layout.Number():
                return _symbols(plan, self._scan.values(node.output, count))
            case plans.UnionMember(), _:
                return self._member(plan, node, count)
            case plans.Branches(), layout.TaggedUnion():
                return self._branches(plan, node, count)
            case plans.Record(), _:
                return struct(plan.arrow, self.fields(plan, node, count), count)
            case plans.List() | plans.Map() | plans.MapFromArray(), layout.Items():
                return self._items(plan, node, count)
        raise TypeError(f"{node} cannot be read by {plan}")

    def _leaf(self, plan: plans.Leaf, node: Node, count: int) -> pa.Array:
        match node:
            case layout.Number():
                return self._numbers(plan, node, count)
            case layout.Primitive():
                return _cast(self._primitives(plan.kind, node, count), plan.arrow)
            case layout.Text() | layout.Fixed():
                offsets, data = self._texts(node, count)
                if pa.types.is_string(plan.arrow):
                    offsets, data = _valid_text(plan, offsets, data)
                return filled(plan.arrow, count, offsets, data)
        raise TypeError(f"{node} cannot be read by {plan}")

    def _numbers(self, plan: plans.Leaf, node: layout.Number, count: int) -> pa.Array:
        numbers = self._scan.values(node.output, count)
        if plan.unit:
            return _times(plan, _microseconds(plan, numbers.astype(np.int64, copy=False)))
        if plan.rules.calendar is not None and pa.types.is_date32(plan.arrow):
            numbers = plan.rules.calendar.days(numbers)
        stored = numbers.astype(np.int32 if plan.kind == "int" else np.int64, copy=False)
        given = filled(PRIMITIVE_TYPES[plan.kind], count, stored)
        try:
            return _cast(given, plan.arrow)
        except pa.ArrowInvalid as cause:
            raise UnrepresentableValueError(
                f"a value does not fit the type it is read as ({cause})", plan.kind
            ) from cause

    def _primitives(self, kind: str, node: layout.Primitive, count: int) -> pa.Array:
        if node.in_bits:
            return filled(pa.bool_(), count, self._scan.outputs[node.output])
        values = self._scan.values(node.output, count)
        stored = np.packbits(values, bitorder="little") if kind == "boolean" else values
        return filled(PRIMITIVE_TYPES[kind], count, stored)

    def _texts(self, node: layout.Text | layout.Fixed, count: int) -> tuple[I32, Bytes]:
        """Arrow's offsets of the values, and the bytes of all."""
        data = self._scan.outputs[node.data]
        if isinstance(node, layout.Text):
            offsets = offsets_from_ends(self._scan.values(node.ends, count))
            self._scan.values(node.data, int(offsets[-1]))
            return offsets, data
        if len(data) > INT32_MAX:
            raise too_much_text()
        self._scan.values(node.data, count * node.size)
        return offsets_of(np.full(count, node.size, np.int64)), data

    def _items(self, plan: plans.List | plans.Map | plans.MapFromArray, node: layout.Items, count: int) -> pa.Array:
        counts = self._scan.values(node.counts, count)
        total = int(counts.sum())
        self._budget -= total * item_bytes(plan)
        if (node.empty and total > MAX_EMPTY_ITEMS and self._scan.rows > 1) or self._budget < 0:
            raise batch_too_large()
        if total > (MAX_EMPTY_ITEMS if node.empty else INT32_MAX):
            raise CorruptError(f"a row claims {total} items without bytes")
        if node.empty:
            self._empty.take(total)
        if isinstance(plan, plans.List):
            offsets = indices(offsets_of(counts))
            return pa.ListArray.from_arrays(offsets, self.build(plan.item, node.item, total), type=plan.arrow)
        if isinstance(plan, plans.MapFromArray):
            keys, items = self.fields(plan.entry, node.item, total)
        else:
            entry = node.item.fields if isinstance(node.item, layout.Fields) else {}
            keys = self.build(plan.key, entry["key"], total)
            items = self.build(plan.value, entry["value"], total)
        kept = entries_to_keep(counts, keys)
        if kept is not None:
            counts, places = kept
            keys, items = keys.take(places), items.take(places)
        return pa.MapArray.from_arrays(indices(offsets_of(counts)), keys, items, type=plan.arrow)

    def _member(self, plan: plans.UnionMember, node: Node, count: int) -> pa.Array:
        return self._struct(plan.arrow, {plan.index: self.build(plan.plan, node, count)}, count)

    def _struct(self, arrow: pa.DataType, members: Mapping[int, pa.Array], count: int) -> pa.Array:
        """A struct array with some of its members; the others are null.

        Members of one type share one array of nulls, because a union may have thousands of them.
        """
        fields = list(arrow)
        nulls = {kind: pa.nulls(count, kind) for kind in {each.type for each in fields}}
        children = [members[place] if place in members else nulls[each.type] for place, each in enumerate(fields)]
        return struct(arrow, children, count)

    def _branches(self, plan: plans.Branches, node: layout.TaggedUnion, count: int) -> pa.Array:
        """The values of each branch become an array of their own; then all are put in the order of the rows."""
        tags = self._scan.values(node.tags, count)
        counts = np.bincount(tags, minlength=len(node.branches)).tolist()
        used = [tag for tag, number in enumerate(counts) if number and tag != node.null]
        if not used:
            return pa.nulls(count, plan.arrow)
        inner = {tag: plan.plans[f"b{tag}"] for tag in used}
        members = {tag: each.index for tag, each in inner.items() if isinstance(each, plans.UnionMember)}
        arrays = {tag: self.build(_member_plan(each), node.branches[tag], counts[tag]) for tag, each in inner.items()}
        if len(members) < len(inner):
            return _merged(tags, arrays)
        grouped: dict[int, dict[int, pa.Array]] = {}
        for tag, index in members.items():
            grouped.setdefault(index, {})[tag] = arrays[tag]
        array = self._struct(plan.arrow, {index: _merged(tags, some) for index, some in grouped.items()}, count)
        return array if not counts[node.null] or node.null < 0 else with_nulls(array, tags != node.null)


def _member_plan(plan: Plan) -> Plan:
    """The plan of a member's own value, if the value becomes a member of a struct."""
    return plan.plan if isinstance(plan, plans.UnionMember) else plan


def _merged(tags: I64, arrays: Mapping[int, pa.Array]) -> pa.Array:
    """The values of some branches (`arrays` by tag) in the order of `tags`, and nulls for all other tags."""
    starts = accumulate([0, *map(len, arrays.values())])
    places: I32 = np.zeros(len(tags), np.int32)
    valid = np.zeros(len(tags), np.bool_)
    for start, (tag, array) in zip(starts, arrays.items(), strict=False):
        rows = tags == tag
        places[rows] = np.arange(start, start + len(array), dtype=np.int32)
        valid |= rows
    return pa.concat_arrays(list(arrays.values())).take(indices(places, valid))


def _unexpected_null(plan: plans.NotNull) -> UnresolvedError:
    return UnresolvedError(plan.path, "there is a null where the reader's schema allows none")


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The values as another type. Only floats may be rounded."""
    return array if array.type == arrow else array.cast(arrow, safe=not pa.types.is_floating(arrow))


def _microseconds(plan: plans.Leaf, numbers: I64) -> I64:
    """Counts of time in microseconds, of instants by the Gregorian calendar."""
    micros = _in_microseconds(plan, numbers)
    calendar = plan.rules.calendar
    is_instant = pa.types.is_timestamp(plan.arrow) and plan.arrow.tz is not None
    return micros if calendar is None or not is_instant else calendar.microseconds(micros)


def _in_microseconds(plan: plans.Leaf, numbers: I64) -> I64:
    """Nanoseconds are rounded down, also before 1970."""
    if plan.unit == "ns":
        return numbers // 1000
    if plan.unit == "ms":
        if len(numbers) and max(-int(numbers.min()), int(numbers.max())) > _INT64_MAX // 1000:
            raise UnrepresentableValueError("a time is too far from 1970 to be counted in microseconds", plan.kind)
        return numbers * 1000
    return numbers


def _times(plan: plans.Leaf, microseconds: I64) -> pa.Array:
    outside = pa.types.is_time(plan.arrow) and len(microseconds) and microseconds.view(np.uint64).max() >= _DAY
    if outside:
        raise UnrepresentableValueError("a time of day is not from 00:00 to before 24:00", plan.kind)
    return filled(plan.arrow, len(microseconds), microseconds)


def _decimals(plan: plans.Decimal, node: Node, offsets: I32, data: Bytes) -> pa.Array:
    try:
        return decimals(plan.arrow, offsets, data)
    except pa.ArrowInvalid as cause:
        raise UnrepresentableValueError(str(cause), "fixed" if isinstance(node, layout.Fixed) else "bytes") from cause


def _valid_text(plan: plans.Leaf, offsets: I32, data: Bytes) -> tuple[I32, Bytes]:
    """The texts if they are UTF-8, else an error, or what each is without its invalid bytes."""
    try:
        _check_text(plan.kind, offsets, data)
    except (DamagedValueError, UnrepresentableValueError):
        if not plan.rules.replace_invalid_utf8:
            raise
        values = [data[begin:end].tobytes().decode(errors="replace").encode() for begin, end in pairwise(offsets)]
        lengths = np.array([len(value) for value in values], np.int64)
        if lengths.sum() > INT32_MAX:
            raise too_much_text() from None
        return offsets_of(lengths), np.frombuffer(b"".join(values), np.uint8)
    return offsets, data


def _check_text(kind: str, offsets: I32, data: Bytes) -> None:
    """Checks that all bytes together are UTF-8, and that no value begins within a character.

    kind: the type they were written as.
    """
    if not len(data) or data.max() < _NOT_ASCII:
        return
    whole = filled(pa.binary(), 1, np.array([0, len(data)], np.int32), data)
    begins = data[offsets[offsets < len(data)]]
    try:
        whole.cast(pa.string())
    except pa.ArrowInvalid as cause:
        raise _not_utf8(kind) from cause
    if ((begins & _HIGH_BITS) == _NOT_ASCII).any():
        raise _not_utf8(kind)


def _not_utf8(kind: str) -> Exception:
    """A string that is not UTF-8 is damaged. Bytes need not be, but then they cannot be read as a string."""
    if kind == "string":
        return DamagedValueError("a string is not utf8")
    return UnrepresentableValueError(f"{kind} that are not utf8 are read as a string", kind)


def _symbols(plan: plans.Symbols, numbers: I64) -> pa.Array:
    found = plan.symbols.take(indices(numbers.astype(np.int32, copy=False)))
    if found.null_count:
        raise UnresolvedError(plan.path, "there is a symbol that the reader's enum lacks, and that has no default")
    return found
