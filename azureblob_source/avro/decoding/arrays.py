"""Arrow arrays out of what a scan read, as a plan of `resolve` says. Pure.

A nullable column is built of its values that are there; then they go to their places. So no other code knows of nulls.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from azure_account.errors import CorruptError
from azureblob_source.avro.decoding.buffers import filled, indices, offsets_of, spread, struct, with_nulls
from azureblob_source.avro.decoding.decimals import decimals
from azureblob_source.avro.decoding.entries import last_entries
from azureblob_source.avro.decoding.instructions import MAX_EMPTY_ITEMS
from azureblob_source.avro.decoding.layout import (
    INT32_MAX,
    Fixed,
    Items,
    Node,
    Nothing,
    Number,
    Optional,
    Raw,
    Row,
    Text,
)
from azureblob_source.avro.decoding.layout import Union as Tagged
from azureblob_source.avro.decoding.plan import (
    Branches,
    Constant,
    DamagedValueError,
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
    UnfitError,
    UnresolvedError,
)
from azureblob_source.avro.decoding.scan import Part, Scan, Scanner
from azureblob_source.avro.decoding.sizes import item_bytes
from azureblob_source.avro.limits import BATCH_BYTES, batch_too_large
from azureblob_source.avro.types import PRIMITIVE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from azureblob_source.arrow_values import I64, Bytes
    from azureblob_source.avro.types import AvroType

    I32 = npt.NDArray[np.int32]

_INT64_MAX = 2**63 - 1
_NOTHING = Nothing()
_DAY = 24 * 60 * 60 * 10**6  # microseconds
_ASCII = 0x80  # ends below it
_CONTINUES = 0xC0  # the two high bits of a UTF-8 byte, of which only the first is set inside a character


def columns(plan: Record, scan: Scan, room: int = BATCH_BYTES) -> list[pa.Array]:
    """The columns of the rows that were scanned, in the order of the plan's fields.

    Raises UnresolvedError for values that the reader's schema has no place for, UnfitError for values that its types
    cannot hold, DamagedValueError and CorruptError for bytes that are no values at all, BeyondLimitError if items of
    arrays and maps take more than `room` bytes.
    """
    return _Builder(scan, room).fields(plan, scan.program.root, scan.rows)


def single(avro: AvroType, plan: Plan, datum: bytes) -> pa.Array:
    """The one value of a datum; raises as `columns` does."""
    scan = Scanner(avro, plan).scan([Part(memoryview(datum), 1)])
    return _Builder(scan).build(plan, scan.program.root, 1)


class _Builder:
    """Arrays of `count` values each, of type `plan.arrow`."""

    def __init__(self, scan: Scan, room: int = BATCH_BYTES) -> None:
        self._scan = scan
        self._room = room

    def fields(self, plan: Record, node: Node, count: int) -> list[pa.Array]:
        nodes = node.fields if isinstance(node, Row) else {}
        return [self._field(plan, place, nodes.get(key, _NOTHING), count) for place, (key, _) in enumerate(plan.fields)]

    def _field(self, record: Record, place: int, node: Node, count: int) -> pa.Array:
        plan = record.fields[place][1]
        if isinstance(plan, Constant):
            return plan.value.take(indices(np.zeros(count, np.int32)))
        try:
            return self.build(plan, node, count)
        except (UnfitError, DamagedValueError) as cause:
            raise cause.within(record.arrow.field(place).name) from cause

    def build(self, plan: Plan, node: Node, count: int) -> pa.Array:
        """The array of a node's values, nulls among them."""
        match plan, node:
            case Leaf(kind="null"), _:
                return pa.nulls(count, plan.arrow)
            case Never(), _ if not isinstance(node, Optional):
                if count:
                    raise plan.error
                return pa.nulls(0, plan.arrow)
            case Present(), Tagged():
                if (self._scan.numbers(node.tags, count) == node.null).any():
                    raise _missing(plan)
                return self.build(plan.plan, node, count)
            case _, Optional():
                return self._optional(plan, node, count)
        return self._present(plan, node, count)

    def _optional(self, plan: Plan, node: Optional, count: int) -> pa.Array:
        inner = plan.plan if isinstance(plan, Present) else plan
        if node.dense:
            return self.build(inner, node.inner, count)
        there = self._scan.numbers(node.tags, count) == node.present
        present = int(np.count_nonzero(there))
        if present < count and isinstance(plan, Present):
            raise _missing(plan)
        array = self.build(inner, node.inner, present)
        return array if present == count else spread(array, there)

    def _present(self, plan: Plan, node: Node, count: int) -> pa.Array:
        match plan, node:
            case Leaf(), _:
                return self._leaf(plan, node, count)
            case Decimal(), Text() | Fixed():
                return _decimals(plan, node, *self._texts(node, count))
            case Symbols(), Number():
                return _symbols(plan, self._scan.numbers(node.slot, count))
            case Member(), _:
                return self._member(plan, node, count)
            case Branches(), Tagged():
                return self._branches(plan, node, count)
            case Record(), _:
                return struct(plan.arrow, self.fields(plan, node, count), count)
            case Listed() | Mapped() | Paired(), Items():
                return self._items(plan, node, count)
        raise TypeError(f"{node} cannot be read by {plan}")

    def _leaf(self, plan: Leaf, node: Node, count: int) -> pa.Array:
        match node:
            case Number():
                return self._numbers(plan, node, count)
            case Raw():
                return _cast(_raw(plan.kind, self._scan.values(node.output, count)), plan.arrow)
            case Text() | Fixed():
                offsets, data = self._texts(node, count)
                if pa.types.is_string(plan.arrow):
                    _check_text(plan.kind, offsets, data)
                return filled(plan.arrow, count, offsets, data)
        raise TypeError(f"{node} cannot be read by {plan}")

    def _numbers(self, plan: Leaf, node: Number, count: int) -> pa.Array:
        numbers = self._scan.numbers(node.slot, count)
        if node.wide:
            raw = numbers.view(np.uint64)
            numbers = (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64)
        if plan.unit:
            return _times(plan, _microseconds(plan, numbers))
        narrow = plan.kind == "int"
        given = filled(PRIMITIVE_TYPES[plan.kind], count, numbers.astype(np.int32) if narrow else numbers)
        try:
            return _cast(given, plan.arrow)
        except pa.ArrowInvalid as cause:
            raise UnfitError(f"a value does not fit the type it is read as ({cause})", plan.kind) from cause

    def _texts(self, node: Text | Fixed, count: int) -> tuple[I32, Bytes]:
        """Where each value begins and the last ends, and the bytes of all."""
        data = self._scan.outputs[node.data]
        if isinstance(node, Fixed):
            self._scan.values(node.data, count * node.size)
            lengths: I64 = np.full(count, node.size, np.int64)
        else:
            lengths = self._scan.numbers(node.lengths, count)
        if len(data) > INT32_MAX:
            raise UnfitError(f"a batch of it has {len(data)} bytes, which is more than Arrow can hold", "")
        offsets = offsets_of(lengths)
        self._scan.values(node.data, int(offsets[-1]))
        return offsets, data

    def _items(self, plan: Listed | Mapped | Paired, node: Items, count: int) -> pa.Array:
        counts = self._scan.numbers(node.counts, count)
        total = int(counts.sum())
        self._room -= total * item_bytes(plan)
        if (node.free and total > MAX_EMPTY_ITEMS and self._scan.rows > 1) or self._room < 0:
            raise batch_too_large()
        if total > (MAX_EMPTY_ITEMS if node.free else INT32_MAX):
            raise CorruptError(f"a row claims {total} items without bytes")
        if isinstance(plan, Listed):
            offsets = indices(offsets_of(counts))
            return pa.ListArray.from_arrays(offsets, self.build(plan.item, node.item, total), type=plan.arrow)
        if isinstance(plan, Paired):
            keys, items = self.fields(plan.entry, node.item, total)
        else:
            entry = node.item.fields if isinstance(node.item, Row) else {}
            keys = self.build(Leaf(pa.string(), "string"), entry["key"], total)
            items = self.build(plan.value, entry["value"], total)
        kept = last_entries(counts, keys)
        if kept is not None:
            counts, places = kept
            keys, items = keys.take(places), items.take(places)
        return pa.MapArray.from_arrays(indices(offsets_of(counts)), keys, items, type=plan.arrow)

    def _member(self, plan: Member, node: Node, count: int) -> pa.Array:
        return self._struct(plan.arrow, {plan.index: self.build(plan.plan, node, count)}, count)

    def _struct(self, arrow: pa.DataType, members: Mapping[int, pa.Array], count: int) -> pa.Array:
        """A struct of which some members are there. The others share their nulls, for a union may have thousands."""
        fields = list(arrow)
        nulls = {kind: pa.nulls(count, kind) for kind in {each.type for each in fields}}
        children = [members[place] if place in members else nulls[each.type] for place, each in enumerate(fields)]
        return struct(arrow, children, count)

    def _branches(self, plan: Branches, node: Tagged, count: int) -> pa.Array:
        """Each branch's values make an array of their own; then all go to their places."""
        tags = self._scan.numbers(node.tags, count)
        counts = np.bincount(tags, minlength=len(node.branches)).tolist()
        used = [tag for tag, number in enumerate(counts) if number and tag != node.null]
        if not used:
            return pa.nulls(count, plan.arrow)
        plans = {tag: plan.plans[f"b{tag}"] for tag in used}
        members = {tag: inner.index for tag, inner in plans.items() if isinstance(inner, Member)}
        arrays = {tag: self.build(_value(inner), node.branches[tag], counts[tag]) for tag, inner in plans.items()}
        if len(members) < len(plans):
            return _placed(tags, arrays)
        grouped: dict[int, dict[int, pa.Array]] = {}
        for tag, index in members.items():
            grouped.setdefault(index, {})[tag] = arrays[tag]
        array = self._struct(plan.arrow, {index: _placed(tags, some) for index, some in grouped.items()}, count)
        return array if not counts[node.null] or node.null < 0 else with_nulls(array, tags != node.null)


def _value(plan: Plan) -> Plan:
    """The plan of a value that goes to a member of a struct, without the others."""
    return plan.plan if isinstance(plan, Member) else plan


def _placed(tags: I64, arrays: Mapping[int, pa.Array]) -> pa.Array:
    """The values of some branches where their tags stand, and nulls elsewhere."""
    starts = accumulate([0, *map(len, arrays.values())])
    places: I32 = np.zeros(len(tags), np.int32)
    there = np.zeros(len(tags), np.bool_)
    for start, (tag, array) in zip(starts, arrays.items(), strict=False):
        rows = tags == tag
        places[rows] = np.arange(start, start + len(array), dtype=np.int32)
        there |= rows
    return pa.concat_arrays(list(arrays.values())).take(indices(places, there))


def _missing(plan: Present) -> UnresolvedError:
    return UnresolvedError(plan.path, "there is a null where the reader's schema allows none")


def _raw(kind: str, values: npt.NDArray[Any]) -> pa.Array:
    stored = np.packbits(values, bitorder="little") if kind == "boolean" else values
    return filled(PRIMITIVE_TYPES[kind], len(values), stored)


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """A float may round; what is not one must keep its value."""
    return array if array.type == arrow else array.cast(arrow, safe=not pa.types.is_floating(arrow))


def _microseconds(plan: Leaf, numbers: I64) -> I64:
    """Counts of time in microseconds; what is finer goes to the one before, as it must before 1970, too."""
    if plan.unit == "ns":
        return numbers // 1000
    if plan.unit == "ms":
        if len(numbers) and max(-int(numbers.min()), int(numbers.max())) > _INT64_MAX // 1000:
            raise UnfitError("a time is too far from 1970 to be counted in microseconds", plan.kind)
        return numbers * 1000
    return numbers


def _times(plan: Leaf, microseconds: I64) -> pa.Array:
    outside = pa.types.is_time(plan.arrow) and len(microseconds) and microseconds.view(np.uint64).max() >= _DAY
    if outside:
        raise UnfitError("a time of day is not between 00:00 and 24:00", plan.kind)
    return filled(plan.arrow, len(microseconds), microseconds)


def _decimals(plan: Decimal, node: Text | Fixed, offsets: I32, data: Bytes) -> pa.Array:
    try:
        return decimals(plan.arrow, offsets, data)
    except pa.ArrowInvalid as cause:
        raise UnfitError(str(cause), "fixed" if isinstance(node, Fixed) else "bytes") from cause


def _check_text(kind: str, offsets: I32, data: Bytes) -> None:
    """All bytes together are UTF-8, and no value begins within a character. `kind` is what they were written as."""
    if not len(data) or data.max() < _ASCII:
        return
    whole = filled(pa.binary(), 1, np.array([0, len(data)], np.int32), data)
    begins = data[offsets[offsets < len(data)]]
    try:
        whole.cast(pa.string())
    except pa.ArrowInvalid as cause:
        raise _no_text(kind) from cause
    if ((begins & _CONTINUES) == _ASCII).any():
        raise _no_text(kind)


def _no_text(kind: str) -> Exception:
    """Bytes may be anything, but what was written as a string must be UTF-8."""
    if kind == "string":
        return DamagedValueError("a string is not utf8")
    return UnfitError(f"{kind} that are not utf8 are read as a string", kind)


def _symbols(plan: Symbols, numbers: I64) -> pa.Array:
    found = plan.symbols.take(indices(numbers.astype(np.int32)))
    if found.null_count:
        raise UnresolvedError(plan.path, "there is a symbol that the reader's enum lacks, and that has no default")
    return found
