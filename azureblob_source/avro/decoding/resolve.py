"""Avro schema resolution, once per blob: from a writer's and a reader's type to a plan. Pure.

    writer type + reader type ─► resolve ─► plan ─► program: what of the datums is read
                                              └───► arrays: which Arrow arrays it becomes

The rules are those of the specification, with what Spark's users expect of them: names of records, enums and fixed
types choose between the branches of a union, but do not forbid a match elsewhere (as in Avro's Java library); logical
types of one kind convert between units; a decimal may gain precision; an enum may be read as a string. What does not
resolve is an error when a row has such a value, not before.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from azure_account.errors import CorruptError
from azureblob_source.avro.decoding.arrays import single
from azureblob_source.avro.decoding.buffers import texts
from azureblob_source.avro.decoding.plan import (
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
    UnfitError,
    UnresolvedError,
)
from azureblob_source.avro.defaults import default_datum, is_valid_default
from azureblob_source.avro.types import DAY_TIME_INTERVAL, AvroField, AvroType, arrow_type, may_be_null, value_branches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from azureblob_source.avro.decoding.plan import Path

_UNITS = {
    "date": ("date", ""),
    "time-millis": ("time", "ms"),
    "time-micros": ("time", "us"),
    "timestamp-millis": ("instant", "ms"),
    "timestamp-micros": ("instant", "us"),
    "timestamp-nanos": ("instant", "ns"),
    "local-timestamp-millis": ("wall clock", "ms"),
    "local-timestamp-micros": ("wall clock", "us"),
    "local-timestamp-nanos": ("wall clock", "ns"),
    DAY_TIME_INTERVAL: ("interval", "us"),
}
_PROMOTIONS = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "enum": ("enum", "string"),
}


def resolve(writer: AvroType, reader: AvroType) -> Plan:
    """How to read as `reader`, which no record in it contains itself, what was written as `writer`.

    Where that cannot be, the plan is `Never`: a row with such a value raises the error, which names the place.
    """
    return _Resolution().plan(writer, reader, ())


@dataclass(frozen=True, slots=True)
class _Branches:
    """Where to look for a branch of a union, which may have thousands.

    Places by kind and full name (or an alias), by kind and last part of the name, and by kind.
    """

    full: Mapping[tuple[str, str], Sequence[int]]
    short: Mapping[tuple[str, str], Sequence[int]]
    kinds: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, branches: Sequence[AvroType]) -> _Branches:
        """Look at all of them once."""
        full: dict[tuple[str, str], list[int]] = defaultdict(list)
        short: dict[tuple[str, str], list[int]] = defaultdict(list)
        kinds: dict[str, list[int]] = defaultdict(list)
        for place, branch in enumerate(branches):
            for name in (branch.name, *branch.aliases):
                full[branch.kind, name].append(place)
            short[branch.kind, _short(branch.name)].append(place)
            kinds[branch.kind].append(place)
        return cls(full, short, kinds)

    def candidates(self, writer: AvroType) -> Iterator[int]:
        """Those that what was written may go to, as Avro's Java library looks for them: by name, by kind, by promotion.

        Places may come twice.
        """
        yield from self.full.get((writer.kind, writer.name), ())
        yield from self.short.get((writer.kind, _short(writer.name)), ())
        yield from self.kinds.get(writer.kind, ())
        yield from sorted(place for kind in _PROMOTIONS.get(writer.kind, ())[1:] for place in self.kinds.get(kind, ()))


@dataclass(frozen=True, slots=True)
class _Reader:
    """What is asked of a reader's type again and again. `values` are the types of what is not null."""

    arrow: pa.DataType
    nullable: bool
    values: tuple[AvroType, ...]
    branches: _Branches | None

    @classmethod
    def of(cls, avro: AvroType) -> _Reader:
        """Look at the whole type once."""
        values = value_branches(avro)
        return cls(arrow_type(avro), may_be_null(avro), values, _Branches.of(values) if len(values) > 1 else None)


class _Resolution:
    """One walk over two types."""

    def __init__(self) -> None:
        self._readers: dict[int, _Reader] = {}

    def plan(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        """The plan for any value of `writer`."""
        read = self._reader(reader)
        plan = self._matched(writer, reader, read, path)
        if may_be_null(writer) and not read.nullable and value_branches(writer):
            return Present(plan.arrow, plan, path)
        return plan

    def _reader(self, avro: AvroType) -> _Reader:
        """The types live as long as this walk, so that their ids name them."""
        if id(avro) not in self._readers:
            self._readers[id(avro)] = _Reader.of(avro)
        return self._readers[id(avro)]

    def _matched(self, writer: AvroType, reader: AvroType, read: _Reader, path: Path) -> Plan:
        written = value_branches(writer)
        if not written and (read.nullable or (writer.kind == "union" and not writer.branches)):
            return Leaf(read.arrow, "null")
        if len(written) > 1:
            branches = ((f"b{place}", branch) for place, branch in enumerate(writer.branches) if branch.kind != "null")
            return Branches(read.arrow, {key: self.plan(branch, reader, path) for key, branch in branches})
        if not written or not read.values:
            return _never(writer, reader, read.arrow, path)
        if read.branches is not None:
            return self._member(written[0], reader, read, read.branches.candidates(written[0]), path)
        return self._single(written[0], read.values[0], path)

    def _member(self, writer: AvroType, reader: AvroType, read: _Reader, candidates: Iterator[int], path: Path) -> Plan:
        """The first branch of a general union that what was written can be read as, be it but an empty array."""
        found: Member | None = None
        for place in candidates:
            plan = self._single(writer, read.values[place], path)
            if not _fails(plan):
                return Member(read.arrow, place, plan)
            if found is None and not isinstance(plan, Never):
                found = Member(read.arrow, place, plan)
        return found or _never(writer, reader, read.arrow, path, "any branch of ")

    def _single(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        """The plan for two types that are neither null nor unions."""
        arrow = self._reader(reader).arrow
        match writer.kind, reader.kind:
            case "record", "record":
                return self._record(writer, reader, path)
            case "array", "array" if reader.logical == "map":
                entry = self.plan(writer.element, reader.element, path)
                return Paired(arrow, entry) if isinstance(entry, Record) else _never(writer, reader, arrow, path)
            case "array", "array":
                return Listed(arrow, self.plan(writer.element, reader.element, (*path, "element")))
            case "map", "map":
                return Mapped(arrow, self.plan(writer.element, reader.element, (*path, "value")))
            case "enum", "enum":
                known = frozenset(reader.symbols)
                symbols = [symbol if symbol in known else reader.default for symbol in writer.symbols]
                return Symbols(arrow, texts(arrow, symbols), path)
            case "enum", "string":
                return Symbols(arrow, texts(arrow, writer.symbols), path)
        return _leaf(writer, reader, arrow) or _never(writer, reader, arrow, path)

    def _record(self, writer: AvroType, reader: AvroType, path: Path) -> Record:
        places = {member.name: place for place, member in enumerate(writer.fields)}
        fields = tuple(self._field(writer, member, places, path) for member in reader.fields)
        return Record(self._reader(reader).arrow, fields)

    def _field(self, writer: AvroType, member: AvroField, places: Mapping[str, int], path: Path) -> tuple[str, Plan]:
        inner = (*path, member.column)
        place = next((places[name] for name in (member.name, *member.aliases) if name in places), None)
        if place is not None:
            return f"f{place}", self.plan(writer.fields[place].type, member.type, inner)
        return "", self._default(writer, member, inner)

    def _default(self, writer: AvroType, member: AvroField, path: Path) -> Plan:
        """What a field has in all rows where it was not written."""
        if not member.has_default:
            reason = f"{writer} has no such field and the reader's schema gives no default"
            return Never(self._reader(member.type).arrow, UnresolvedError(path, reason))
        plan = self.plan(member.type, member.type, path)
        try:
            if is_valid_default(member.type, member.default):
                return Constant(plan.arrow, single(member.type, plan, default_datum(member.type, member.default)))
        except (UnfitError, CorruptError, UnicodeEncodeError, pa.ArrowException):
            pass
        return Never(plan.arrow, UnresolvedError(path, f"its default {member.default!r} is no {member.type}"))


def _never(writer: AvroType, reader: AvroType, arrow: pa.DataType, path: Path, any_of: str = "") -> Never:
    return Never(arrow, UnresolvedError(path, f"what was written as {writer} cannot be read as {any_of}{reader}"))


def _fails(plan: Plan) -> bool:
    """Whether a plan is right for some values only, by their types alone."""
    match plan:
        case Never():
            return True
        case Record():
            return any(_fails(inner) for _, inner in plan.fields)
        case Listed():
            return _fails(plan.item)
        case Mapped():
            return _fails(plan.value)
        case Paired():
            return _fails(plan.entry)
        case Present() | Member():
            return _fails(plan.plan)
    return False


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def time_kind(avro: AvroType) -> tuple[str, str] | None:
    """What kind of time a number counts, and in which unit; None if it is just a number."""
    return _UNITS.get(avro.logical or avro.hint) if avro.kind in ("int", "long") else None


def _leaf(writer: AvroType, reader: AvroType, arrow: pa.DataType) -> Plan | None:
    """The plan of a primitive or fixed type, None if the writer's does not resolve to the reader's."""
    if reader.logical == "decimal":
        if writer.kind not in ("bytes", "fixed"):
            return None
        same = writer.scale == reader.scale and writer.precision <= reader.precision
        plain = writer.kind == reader.kind and writer.size == reader.size
        return _decimal(arrow) if (same if writer.logical == "decimal" else plain) else None
    was, becomes = time_kind(writer), time_kind(reader)
    if was and becomes:
        return Leaf(arrow, writer.kind, was[1]) if was[0] == becomes[0] else None
    if reader.kind not in _PROMOTIONS.get(writer.kind, (writer.kind,)) or writer.size != reader.size:
        return None
    return Leaf(arrow, writer.kind, becomes[1] if becomes else "")


def _decimal(arrow: pa.DataType) -> Plan:
    """Decimals too wide for Arrow's 128 bits are read as their bytes."""
    return Decimal(arrow) if pa.types.is_decimal(arrow) else Leaf(arrow, "bytes")
