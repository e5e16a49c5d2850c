"""Avro schemas as a tree of types, which `schema_parser` makes, and the Arrow types that values are read as."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
CATALYST_TYPE = "spark.sql.catalyst.type"
DAY_TIME_INTERVAL = "interval day to second"
SPARK_TYPE = "sparkType"
SPARK_NAME = "sparkName"
MAX_PRECISION = 38
_TIMES = {
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
_SHOWN = 8  # branches of a union that a message lists


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record. `column` is the name of its Arrow field; `default` is a JSON value.

    aliases: other names under which a reader looks for the field. Equal fields may differ in them.
    """

    name: str
    column: str
    type: AvroType
    has_default: bool = False
    default: Any = field(default=None, hash=False)
    aliases: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type of a schema. Attributes that a kind does not have keep their empty default.

    kind: the name of the Avro type, or `reference` for a record within itself.
    items: the element type of an array or the value type of a map.
    hint: Spark's type name where the Avro type alone is ambiguous.
    aliases, default: full names, and an enum's default. They only matter when other writers' data is read: equal types
    may differ in them.
    """

    kind: str
    logical: str = ""
    name: str = ""
    hint: str = ""
    fields: tuple[AvroField, ...] = ()
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0
    aliases: tuple[str, ...] = field(default=(), compare=False)
    default: str | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """The type as error messages name it."""
        match self.kind:
            case "union":
                more = [f"{len(self.branches) - _SHOWN} more"] if len(self.branches) > _SHOWN else []
                return f"[{', '.join([*map(str, self.branches[:_SHOWN]), *more])}]"
            case "array" | "map":
                return f"{self.logical or self.kind} of {self.items}"
            case "record" | "enum" | "reference":
                return f"{self.kind} {self.name}"
        size = f"({self.size})" if self.kind == "fixed" else ""
        if self.logical == "decimal":
            return f"{self.kind}{size} decimal({self.precision},{self.scale})"
        return f"{self.kind}{size} {self.logical}".rstrip()

    @property
    def element(self) -> AvroType:
        """`items` of an array or map. Raises TypeError for other kinds."""
        if self.items is None:
            raise TypeError(f"{self.kind} has no items")
        return self.items

    @property
    def inner(self) -> tuple[AvroType, ...]:
        """The types directly within this one: of fields, branches and items."""
        return (*(member.type for member in self.fields), *self.branches, *([self.items] if self.items else []))

    @property
    def nullable(self) -> AvroType | None:
        """The type X of a union of null and X, else None."""
        others = [branch for branch in self.branches if branch.kind != "null"]
        return others[0] if len(others) == 1 and len(self.branches) > 1 else None

    @property
    def is_variant(self) -> bool:
        """Whether this is the record that Spark's VARIANT is written as."""
        return self.hint == "variant" and [field.name for field in self.fields] == ["value", "metadata"]


def walk(avro: AvroType) -> Iterator[AvroType]:
    """The type and all types in it; references are not followed."""
    yield avro
    for inner in avro.inner:
        yield from walk(inner)


def may_be_null(avro: AvroType) -> bool:
    """Whether values of `avro` may be null."""
    return any(one.kind == "null" for one in (avro, *avro.branches))


def value_branches(avro: AvroType) -> tuple[AvroType, ...]:
    """The types of values that are not null: branches of a union, or the type itself."""
    return tuple(one for one in (avro.branches if avro.kind == "union" else (avro,)) if one.kind != "null")


def has_no_bytes(avro: AvroType) -> bool:
    """Whether values of `avro` are encoded as no bytes at all."""
    match avro.kind:
        case "null":
            return True
        case "fixed":
            return avro.size == 0
        case "record":
            return all(has_no_bytes(member.type) for member in avro.fields)
    return False


def time_kind(avro: AvroType) -> tuple[str, str] | None:
    """The kind of time that a number is, and its unit; None if it is no time."""
    return _TIMES.get(avro.logical or avro.hint) if avro.kind in ("int", "long") else None


def arrow_type(avro: AvroType) -> pa.DataType:
    """The Arrow type that values of `avro` are read as. Raises TypeError for a record that contains itself."""
    match avro.kind:
        case "record":
            return pa.struct(
                [_variant_field(field) if avro.is_variant else arrow_field(field) for field in avro.fields]
            )
        case "array" if avro.logical == "map":
            key, value = avro.element.fields
            return pa.map_(arrow_type(key.type), _member("value", value.type))
        case "array":
            return pa.list_(_member("element", avro.element))
        case "map":
            return pa.map_(pa.string(), _member("value", avro.element))
        case "union":
            return _union_type(avro)
        case "reference":
            raise TypeError(f"record {avro.name} contains itself, which no column type can express")
    return _leaf_type(avro)


def arrow_field(field: AvroField) -> pa.Field:
    """The Arrow column of a record field."""
    return _member(field.column, field.type)


def _member(name: str, avro: AvroType) -> pa.Field:
    arrow = arrow_type(avro)
    nullable = pa.types.is_null(arrow) or any(one.kind == "null" for one in (avro, *avro.branches))
    return pa.field(name, arrow, nullable=nullable)


def _variant_field(field: AvroField) -> pa.Field:
    tag = {"variant": "true"} if field.name == "metadata" else None
    return pa.field(field.name, pa.binary(), nullable=False, metadata=tag)


def _union_type(avro: AvroType) -> pa.DataType:
    others = [branch for branch in avro.branches if branch.kind != "null"]
    if len(others) <= 1:
        return arrow_type(others[0]) if others else pa.null()
    return pa.struct([pa.field(f"member{index}", arrow_type(branch)) for index, branch in enumerate(others)])


def _leaf_type(avro: AvroType) -> pa.DataType:
    match avro.kind, avro.logical or avro.hint:
        case "int", "byte":
            return pa.int8()
        case "int", "short":
            return pa.int16()
        case "int", "date":
            return pa.date32()
        case (("int" | "long"), ("time-millis" | "time-micros")):
            return pa.time64("us")
        case "long", ("timestamp-millis" | "timestamp-micros" | "timestamp-nanos"):
            return pa.timestamp("us", "UTC")
        case "long", ("local-timestamp-millis" | "local-timestamp-micros" | "local-timestamp-nanos"):
            return pa.timestamp("us")
        case "long", hint if hint == DAY_TIME_INTERVAL:
            return pa.duration("us")
        case (("bytes" | "fixed"), "decimal") if avro.precision <= MAX_PRECISION:
            return pa.decimal128(avro.precision, avro.scale)
    return PRIMITIVE_TYPES[avro.kind]


PRIMITIVE_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
"""The Arrow type of each kind, without regard to logical types."""
