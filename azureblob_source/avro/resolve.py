"""Avro schema resolution, once per blob: from a writer's and a reader's type to a plan. Pure.

    writer type + reader type ─► resolve ─► plan ─► program: what of the datums is read
                                              └───► arrays: which Arrow arrays it becomes

The rules are those of the specification, with what Spark's users expect of them: names of records, enums and fixed
types choose between the branches of a union, but do not forbid a match elsewhere (as in Avro's Java library); logical
types of one kind convert between units; a decimal may gain precision; an enum may be read as a string.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from azure_account.errors import CorruptError
from azureblob_source.avro.arrays import single
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
from azureblob_source.avro.types import DAY_TIME_INTERVAL, AvroField, AvroType, arrow_type
from azureblob_source.avro.wire import datum, may_be_null, value_branches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from azureblob_source.avro.plan import Path

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
_NO_DEFAULT = (
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    OverflowError,
    struct.error,
    CorruptError,
    pa.ArrowException,
)
_PROMOTIONS = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "enum": ("enum", "string"),
}


@dataclass(frozen=True, slots=True)
class Aliases:
    """What a reader schema says beyond its types, by full name: aliases of fields, defaults of enums."""

    fields: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)


def resolve(writer: AvroType, reader: AvroType, aliases: Aliases | None = None) -> Plan:
    """How to read as `reader` what was written as `writer`. Raises UnresolvedError, naming the innermost place."""
    return _Resolution(aliases or Aliases()).plan(writer, reader, ())


def read_aliases(schema: Any) -> Aliases:
    """The aliases and enum defaults in the JSON of a reader schema."""
    fields: dict[tuple[str, str], tuple[str, ...]] = {}
    symbols: dict[str, str] = {}
    for name, named in _named_types(schema, ""):
        for member in named.get("fields", ()):
            fields[name, member["name"]] = tuple(member.get("aliases", ()))
        if named["type"] == "enum" and "default" in named:
            symbols[name] = named["default"]
    return Aliases(fields, symbols)


class _Resolution:
    """One walk over two types."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases

    def plan(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        plan = self._matched(writer, reader, path)
        if may_be_null(writer) and not may_be_null(reader):
            return Present(plan.arrow, plan, path)
        return plan

    def _matched(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        written, read = value_branches(writer), value_branches(reader)
        if not written and may_be_null(reader):
            return Leaf(arrow_type(reader), "null")
        if len(written) > 1:
            arrow = arrow_type(reader)
            branches = ((f"b{place}", branch) for place, branch in enumerate(writer.branches) if branch.kind != "null")
            return Branches(arrow, {key: self._or_never(branch, reader, path, arrow) for key, branch in branches})
        if not written or not read:
            raise UnresolvedError(path, f"what was written as {writer} cannot be read as {reader}")
        if len(read) > 1:
            return self._member(written[0], reader, read, path)
        return self._single(written[0], read[0], path)

    def _or_never(self, writer: AvroType, reader: AvroType, path: Path, arrow: pa.DataType) -> Plan:
        try:
            return self.plan(writer, reader, path)
        except UnresolvedError as error:
            return Never(arrow, error)

    def _member(self, writer: AvroType, reader: AvroType, read: tuple[AvroType, ...], path: Path) -> Plan:
        """The branch of a general union that is most like what was written."""
        arrow = arrow_type(reader)
        found: list[tuple[tuple[bool, ...], int, Plan]] = []
        for index, branch in enumerate(read):
            plan = self._or_never(writer, branch, path, arrow)
            if not isinstance(plan, Never):
                found.append((_unlike(writer, branch), index, plan))
        if not found:
            raise UnresolvedError(path, f"what was written as {writer} cannot be read as any branch of {reader}")
        _, index, plan = min(found, key=lambda each: each[:2])
        return Member(arrow, index, plan)

    def _single(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        arrow = arrow_type(reader)
        match writer.kind, reader.kind:
            case "record", "record":
                return self._record(writer, reader, path)
            case "array", "array" if reader.logical == "map":
                return self._pairs(writer, reader, path)
            case "array", "array":
                return Listed(arrow, self.plan(writer.element, reader.element, (*path, "element")))
            case "map", "map":
                return Mapped(arrow, self.plan(writer.element, reader.element, (*path, "value")))
            case "enum", "enum":
                return Symbols(arrow, self._symbols(writer, reader), path)
            case "enum", "string":
                return Symbols(arrow, writer.symbols, path)
        plan = _leaf(writer, reader, arrow)
        if plan is None:
            raise UnresolvedError(path, f"what was written as {writer} cannot be read as {reader}")
        return plan

    def _record(self, writer: AvroType, reader: AvroType, path: Path) -> Record:
        places = {member.name: place for place, member in enumerate(writer.fields)}
        fields = tuple(self._field(writer, reader, member, places, path) for member in reader.fields)
        return Record(arrow_type(reader), fields)

    def _field(
        self, writer: AvroType, reader: AvroType, member: AvroField, places: Mapping[str, int], path: Path
    ) -> tuple[str, Plan]:
        inner = (*path, member.column)
        names = (member.name, *self._aliases.fields.get((reader.name, member.name), ()))
        place = next((places[name] for name in names if name in places), None)
        if place is not None:
            return f"f{place}", self.plan(writer.fields[place].type, member.type, inner)
        if not member.has_default:
            raise UnresolvedError(inner, f"{writer} has no such field and the reader's schema gives no default")
        plan = self.plan(member.type, member.type, inner)
        try:
            value = single(member.type, plan, datum(member.type, member.default))
        except _NO_DEFAULT as cause:
            raise UnresolvedError(inner, f"its default {member.default!r} is no {member.type}") from cause
        return "", Constant(plan.arrow, value)

    def _pairs(self, writer: AvroType, reader: AvroType, path: Path) -> Plan:
        entry = self.plan(writer.element, reader.element, path)
        if not isinstance(entry, Record):
            raise UnresolvedError(path, f"what was written as {writer} cannot be read as {reader}")
        return Paired(arrow_type(reader), entry)

    def _symbols(self, writer: AvroType, reader: AvroType) -> tuple[str | None, ...]:
        default = self._aliases.symbols.get(reader.name)
        return tuple(symbol if symbol in reader.symbols else default for symbol in writer.symbols)


def time_kind(avro: AvroType) -> tuple[str, str] | None:
    """What kind of time a number counts, and in which unit; None if it is just a number."""
    return _UNITS.get(avro.logical or avro.hint) if avro.kind in ("int", "long") else None


def _leaf(writer: AvroType, reader: AvroType, arrow: pa.DataType) -> Plan | None:
    """The plan of a primitive or fixed type, None if the writer's does not resolve to the reader's."""
    if reader.logical == "decimal" and writer.kind in ("bytes", "fixed"):
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


def _unlike(writer: AvroType, reader: AvroType) -> tuple[bool, ...]:
    """A sort key: how little a reader's branch is like the writer's type."""
    short = writer.name.rpartition(".")[2] != reader.name.rpartition(".")[2]
    return writer.kind != reader.kind, short, writer.name != reader.name, writer.logical != reader.logical


def _named_types(schema: Any, namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records, enums and fixed types of a schema with their full names."""
    match schema:
        case list():
            for branch in schema:
                yield from _named_types(branch, namespace)
        case {"type": "record" | "error" | "enum" | "fixed", "name": str(name)}:
            space = schema.get("namespace", namespace)
            full = name if "." in name or not space else f"{space}.{name}"
            yield full, schema
            for member in schema.get("fields", ()):
                yield from _named_types(member["type"], full.rpartition(".")[0])
        case dict():
            for key in ("type", "items", "values"):
                yield from _named_types(schema.get(key), namespace)
