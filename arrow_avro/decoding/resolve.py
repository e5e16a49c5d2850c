"""Avro schema resolution, once per blob: from a writer's and a reader's type to a plan. Pure.

    writer type + reader type ─► resolve ─► plan ─► program: what is read of each datum
                                              └───► arrays: the Arrow arrays that it becomes

The rules are those of the Avro specification, with these additions. As in Avro's Java library, names of records, enums
and fixed types choose between the branches of a union, but elsewhere they need not match. Times convert between units,
a decimal may gain precision, and an enum may be read as a string. Types that do not resolve are an error only if a row
has such a value.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from arrow_avro.decoding import plan as plans
from arrow_avro.decoding.arrays import single
from arrow_avro.decoding.buffers import texts
from arrow_avro.decoding.plan import PLAIN_RULES, Plan, ValueRules
from arrow_avro.decoding.value_errors import UnrepresentableValueError, UnresolvedError
from arrow_avro.defaults import default_datum, is_valid_default
from arrow_avro.recursion import contains_itself, records_by_name
from arrow_avro.types import AvroField, AvroType, arrow_type, may_be_null, time_kind, value_branches
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from arrow_avro.decoding.value_errors import Path

_PROMOTIONS = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "enum": ("enum", "string"),
}


def resolve(writer: AvroType, reader: AvroType, rules: ValueRules = PLAIN_RULES) -> Plan:
    """The plan by which values written as `writer` are read as `reader`, in which no record contains itself.

    rules: of the file. Types that do not resolve become `Unresolved`, whose error names the place.
    """
    return _Resolution(writer, rules).plan(writer, reader, ())


def followed(avro: AvroType, plan: Plan) -> AvroType:
    """The writer's type with its references written out where the plan wants values of them."""
    return _followed(avro, (plan,), records_by_name(avro)) if contains_itself(avro) else avro


def _followed(avro: AvroType, wanted: tuple[Plan, ...], records: Mapping[str, AvroType]) -> AvroType:
    wanted = plans.of_values(wanted)
    if not wanted:
        return avro
    match avro.kind:
        case "reference":
            return _followed(records[avro.name], wanted, records)
        case "record":
            inner = (_followed(each, some, records) for _, each, some in plans.of_fields(avro, wanted))
            fields = (replace(member, type=each) for member, each in zip(avro.fields, inner, strict=True))
            return replace(avro, fields=tuple(fields))
        case "union":
            several = len(value_branches(avro)) > 1
            some = (plans.of_branch(tag, wanted) if several else wanted for tag in range(len(avro.branches)))
            pairs = zip(avro.branches, some, strict=True)
            return replace(avro, branches=tuple(_followed(branch, each, records) for branch, each in pairs))
        case "array" | "map":
            return replace(avro, items=_followed(avro.element, plans.of_items(wanted), records))
    return avro


def default_value(member: AvroField, reader: AvroType) -> pa.Array | None:
    """The default that a field declares, as a value of the type `reader`. None unless it is of the field's own type."""
    try:
        if member.has_default and is_valid_default(member.type, member.default):
            return single(member.type, resolve(member.type, reader), default_datum(member.type, member.default))
    except (UnrepresentableValueError, CorruptError, UnicodeEncodeError, TypeError, pa.ArrowException):
        return None  # no column can hold it
    return None


@dataclass(frozen=True, slots=True)
class _BranchIndex:
    """The places of the branches of a union, which may have thousands.

    full: by kind and full name (or alias). short: by kind and last part of the name. kinds: by kind.
    """

    full: Mapping[tuple[str, str], Sequence[int]]
    short: Mapping[tuple[str, str], Sequence[int]]
    kinds: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, branches: Sequence[AvroType]) -> _BranchIndex:
        """The index of all branches."""
        full: dict[tuple[str, str], list[int]] = defaultdict(list)
        short: dict[tuple[str, str], list[int]] = defaultdict(list)
        kinds: dict[str, list[int]] = defaultdict(list)
        for place, branch in enumerate(branches):
            for name in (branch.name, *branch.aliases):
                full[branch.kind, name].append(place)
            for name in (branch.name, *branch.aliases):
                short[branch.kind, _short(name)].append(place)
            kinds[branch.kind].append(place)
        return cls(full, short, kinds)

    def candidates(self, writer: AvroType) -> Iterator[int]:
        """Places of branches that a value of `writer` may be read as, in the order of Avro's Java library.

        That is by name, by kind, by promotion. A place may come twice.
        """
        yield from self.full.get((writer.kind, writer.name), ())
        yield from self.short.get((writer.kind, _short(writer.name)), ())
        yield from self.kinds.get(writer.kind, ())
        yield from sorted(place for kind in _PROMOTIONS.get(writer.kind, ())[1:] for place in self.kinds.get(kind, ()))


@dataclass(frozen=True, slots=True)
class _ReaderType:
    """What `_Resolution` needs of a reader's type, computed once. `values` are its types other than null."""

    arrow: pa.DataType
    nullable: bool
    values: tuple[AvroType, ...]
    branches: _BranchIndex | None

    @classmethod
    def of(cls, avro: AvroType) -> _ReaderType:
        """From the type."""
        values = value_branches(avro)
        return cls(arrow_type(avro), may_be_null(avro), values, _BranchIndex.of(values) if len(values) > 1 else None)


class _Resolution:
    """The resolution of one pair of types."""

    def __init__(self, writer: AvroType, rules: ValueRules = PLAIN_RULES) -> None:
        self._rules = rules
        self._readers: dict[int, _ReaderType] = {}
        self._records = records_by_name(writer)

    def plan(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        """The plan for any value of `writer`."""
        read = self._reader(reader)
        plan = self._matched(writer, reader, read, path)
        if may_be_null(writer) and not read.nullable and value_branches(writer):
            return plans.NotNull(plan.arrow, plan, path)
        return plan

    def _reader(self, avro: AvroType) -> _ReaderType:
        """Kept by the type's id, which stays valid because the types outlive the resolution."""
        if id(avro) not in self._readers:
            self._readers[id(avro)] = _ReaderType.of(avro)
        return self._readers[id(avro)]

    def _matched(self, writer: AvroType, reader: AvroType, read: _ReaderType, path: Path) -> Plan:
        written = tuple(self._records[one.name] if one.kind == "reference" else one for one in value_branches(writer))
        if not written and (read.nullable or (writer.kind == "union" and not writer.branches)):
            return plans.Leaf(read.arrow, "null")
        if len(written) > 1:
            branches = ((f"b{place}", branch) for place, branch in enumerate(writer.branches) if branch.kind != "null")
            return plans.Branches(read.arrow, {key: self.plan(branch, reader, path) for key, branch in branches})
        if not written or not read.values:
            return self._unresolved(writer, reader, read.arrow, path)
        if read.branches is not None:
            return self._member(written[0], reader, read, read.branches, path)
        return self._single(written[0], read.values[0], path)

    def _member(
        self, writer: AvroType, reader: AvroType, read: _ReaderType, branches: _BranchIndex, path: Path
    ) -> Plan:
        """The first branch of a general union that every value of `writer` can be read as, else that some can be."""
        found: plans.UnionMember | None = None
        for place in branches.candidates(writer):
            plan = self._single(writer, read.values[place], path)
            if not _may_fail(plan):
                return plans.UnionMember(read.arrow, place, plan)
            if found is None and not isinstance(plan, plans.Unresolved):
                found = plans.UnionMember(read.arrow, place, plan)
        return found or self._unresolved(writer, reader, read.arrow, path, "any branch of ")

    def _single(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        """The plan for two types that are neither null nor unions."""
        arrow = self._reader(reader).arrow
        match writer.kind, reader.kind:
            case "record", "record":
                return self._record(writer, reader, path)
            case "array", "array" if reader.logical == "map":
                entry = self.plan(writer.element, reader.element, path)
                if not isinstance(entry, plans.Record):
                    return self._unresolved(writer, reader, arrow, path)
                return plans.MapFromArray(arrow, entry)
            case "array", "array":
                return plans.List(arrow, self.plan(writer.element, reader.element, (*path, "element")))
            case "map", "map":
                key = plans.Leaf(pa.string(), "string", rules=self._rules)
                return plans.Map(arrow, key, self.plan(writer.element, reader.element, (*path, "value")))
            case "enum", "enum":
                known = frozenset(reader.symbols)
                symbols = [symbol if symbol in known else reader.default for symbol in writer.symbols]
                return plans.Symbols(arrow, texts(arrow, symbols), path)
            case "enum", "string":
                return plans.Symbols(arrow, texts(arrow, writer.symbols), path)
        match _leaf(writer, reader, arrow):
            case plans.Leaf() as leaf:
                return replace(leaf, rules=self._rules)
            case found:
                return found or self._unresolved(writer, reader, arrow, path)

    def _unresolved(
        self, writer: AvroType, reader: AvroType, arrow: pa.DataType, path: Path, any_of: str = ""
    ) -> plans.Unresolved:
        reason = f"what was written as {writer} cannot be read as {any_of}{reader}"
        return plans.Unresolved(arrow, UnresolvedError(path, reason, recursive=contains_itself(writer)))

    def _record(self, writer: AvroType, reader: AvroType, path: Path) -> plans.Record:
        places = {member.name: place for place, member in enumerate(writer.fields)}
        fields = tuple(self._field(writer, member, places, path) for member in reader.fields)
        return plans.Record(self._reader(reader).arrow, fields)

    def _field(self, writer: AvroType, member: AvroField, places: Mapping[str, int], path: Path) -> tuple[str, Plan]:
        inner = (*path, member.column)
        place = next((places[name] for name in (member.name, *member.aliases) if name in places), None)
        if place is not None:
            return f"f{place}", self.plan(writer.fields[place].type, member.type, inner)
        return "", self._default(writer, member, inner)

    def _default(self, writer: AvroType, member: AvroField, path: Path) -> Plan:
        """The plan of a field that the writer does not have."""
        if not member.has_default:
            reason = f"{writer} has no such field and the reader's schema gives no default"
            return plans.Unresolved(self._reader(member.type).arrow, UnresolvedError(path, reason))
        value, plan = default_value(member, member.type), self.plan(member.type, member.type, path)
        if value is not None:
            return plans.DefaultField(plan.arrow, value)
        reason = f"its default {member.default!r} is no {member.type}"
        return plans.Unresolved(plan.arrow, UnresolvedError(path, reason))


def _may_fail(plan: Plan) -> bool:
    """Whether some values cannot be read, as far as the types say. The branches of a writer's union do not count."""
    if isinstance(plan, plans.Branches):
        return False
    return isinstance(plan, plans.Unresolved) or any(map(_may_fail, plans.inner_plans(plan)))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _leaf(writer: AvroType, reader: AvroType, arrow: pa.DataType) -> Plan | None:
    """The plan of a primitive or fixed type, None if the writer's type does not resolve to the reader's."""
    if reader.logical == "decimal":
        if writer.kind not in ("bytes", "fixed"):
            return None
        same = writer.scale == reader.scale and writer.precision <= reader.precision
        plain = writer.kind == reader.kind and writer.size == reader.size
        return _decimal(arrow) if (same if writer.logical == "decimal" else plain) else None
    was, becomes = time_kind(writer), time_kind(reader)
    if was and becomes:
        return plans.Leaf(arrow, writer.kind, was[1]) if was[0] == becomes[0] else None
    if reader.kind not in _PROMOTIONS.get(writer.kind, (writer.kind,)) or writer.size != reader.size:
        return None
    return plans.Leaf(arrow, writer.kind, becomes[1] if becomes else "")


def _decimal(arrow: pa.DataType) -> Plan:
    """Decimals too wide for Arrow's 128 bits are read as their bytes."""
    return plans.Decimal(arrow) if pa.types.is_decimal(arrow) else plans.Leaf(arrow, "bytes")
