"""Avro schemas as a tree of values, so that no other module reads raw schema JSON.

`read_type` resolves names and keeps of each logical type only what the specification calls valid; an invalid or unknown
logical type leaves its underlying type, as the specification demands.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
CATALYST_TYPE = "spark.sql.catalyst.type"
DAY_TIME_INTERVAL = "interval day to second"
SPARK_TYPE = "sparkType"
SPARK_NAME = "sparkName"
MAX_PRECISION = 38
_MAX_SIZE = 2**31 - 1  # of a fixed, as in Java

_LOGICAL_TYPES = {
    "int": {"date", "time-millis"},
    "long": {
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "timestamp-nanos",
        "local-timestamp-millis",
        "local-timestamp-micros",
        "local-timestamp-nanos",
    },
    "string": {"uuid"},
    "bytes": {"decimal"},
    "fixed": {"decimal", "duration", "uuid"},
    "array": {"map"},
}


@dataclass(frozen=True, slots=True)
class AvroField:
    """A record field. `column` is the name of the Arrow field it stands for; `default` is raw JSON."""

    name: str
    column: str
    type: AvroType
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type of a schema. Attributes that a kind does not have keep their empty default.

    `kind` is the Avro type name, or `reference` for a record that contains itself; `items` is the element type of an
    array or the value type of a map; `hint` is Spark's own type name where the Avro type alone is ambiguous.
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

    def __str__(self) -> str:
        """The type as error messages show it."""
        match self.kind:
            case "union":
                return f"[{', '.join(map(str, self.branches))}]"
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
        """`items` of an array or map, which always have them."""
        if self.items is None:
            raise TypeError(f"{self.kind} has no items")
        return self.items

    @property
    def nullable(self) -> AvroType | None:
        """The other branch of a union of one type with null, else None."""
        others = [branch for branch in self.branches if branch.kind != "null"]
        return others[0] if len(others) == 1 and len(self.branches) > 1 else None

    @property
    def is_variant(self) -> bool:
        """Whether this is the record that stands for Spark's VARIANT."""
        return self.hint == "variant" and [field.name for field in self.fields] == ["value", "metadata"]


def read_type(schema: Any, namespace: str = "", known: dict[str, AvroType] | None = None) -> AvroType:
    """The tree of a schema that fastavro has accepted. `namespace` and `known` are of the enclosing type.

    Raises ValueError for what fastavro lets pass and Avro does not: bad names, fields or branches twice, empty unions.
    """
    known = {} if known is None else known
    match schema:
        case str():
            return AvroType(schema) if schema in PRIMITIVES else _named(schema, namespace, known)
        case list():
            return _union([read_type(branch, namespace, known) for branch in schema])
        case {"type": dict() | list()}:
            return read_type(schema["type"], namespace, known)
        case {"type": "record" | "error"}:
            return _record(schema, namespace, known)
        case {"type": "enum" | "fixed"}:
            return known.setdefault(_full_name(schema, namespace), _leaf(schema, _full_name(schema, namespace)))
        case {"type": "array"}:
            return AvroType("array", _logical(schema), items=read_type(schema["items"], namespace, known))
        case {"type": "map"}:
            return AvroType("map", items=read_type(schema["values"], namespace, known))
    return _leaf(schema, "") if schema["type"] in PRIMITIVES else _named(schema["type"], namespace, known)


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
    return pa.field(name, arrow_type(avro), nullable=any(one.kind == "null" for one in (avro, *avro.branches)))


def _variant_field(field: AvroField) -> pa.Field:
    tag = {"variant": "true"} if field.name == "metadata" else None
    return pa.field(field.name, pa.binary(), nullable=False, metadata=tag)


def _union_type(avro: AvroType) -> pa.DataType:
    others = [branch for branch in avro.branches if branch.kind != "null"]
    if len(others) == 1:
        return arrow_type(others[0])
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
"""Arrow's type for the values of each kind as they stand in a file, logical types left out."""


def _union(branches: list[AvroType]) -> AvroType:
    kinds = [branch.name or branch.kind for branch in branches]
    if not kinds or len(set(kinds)) < len(kinds) or "union" in kinds:
        raise ValueError(f"a union of [{', '.join(kinds)}]")
    return AvroType("union", branches=tuple(branches))


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    name: str = schema["name"]
    space = schema.get("namespace", namespace)
    full = name if "." in name or not space else f"{space}.{name}"
    if not is_name(full):
        raise ValueError(f"{full!r} is not an Avro name")
    return full


def is_name(name: str) -> bool:
    """Whether a name, perhaps with a namespace before it, is one that Avro allows."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name, re.ASCII) is not None


def _named(name: str, namespace: str, known: dict[str, AvroType]) -> AvroType:
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    return known.get(full) or known[name]


def _record(schema: dict[str, Any], namespace: str, known: dict[str, AvroType]) -> AvroType:
    name = _full_name(schema, namespace)
    known[name] = AvroType("reference", name=name)
    inner = name.rpartition(".")[0]
    fields = tuple(_field(field, inner, known) for field in schema["fields"])
    names = [field.name for field in fields]
    if len(set(names)) < len(names) or not all(is_name(field) and "." not in field for field in names):
        raise ValueError(f"record {name} has fields of one name, or of no Avro name, among {names}")
    known[name] = AvroType("record", name=name, hint=_text(schema.get(SPARK_TYPE)), fields=fields)
    return known[name]


def _field(field: dict[str, Any], namespace: str, known: dict[str, AvroType]) -> AvroField:
    column = field.get(SPARK_NAME, field["name"])
    avro = read_type(field["type"], namespace, known)
    return AvroField(field["name"], column, avro, "default" in field, field.get("default"))


def _leaf(schema: dict[str, Any], name: str) -> AvroType:
    size = _size(schema, name)
    return AvroType(
        schema["type"],
        _logical(schema),
        name,
        _text(schema.get(SPARK_TYPE)) or _text(schema.get(CATALYST_TYPE)),
        symbols=tuple(schema.get("symbols", ())),
        size=size,
        precision=_number(schema.get("precision")),
        scale=_number(schema.get("scale")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _size(schema: dict[str, Any], name: str) -> int:
    size = schema.get("size", 0)
    if schema["type"] == "fixed" and not (type(size) is int and 0 <= size <= _MAX_SIZE):
        raise ValueError(f"fixed {name} has the size {size!r}, which is not a number from 0 to {_MAX_SIZE}")
    return _number(size)


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def _digits(size: int) -> int:
    """The decimal digits that so many bytes of two's complement always hold."""
    return math.floor(math.log10(2) * (8 * size - 1)) if size > 0 else 0


def _logical(schema: dict[str, Any]) -> str:
    logical: Any = schema.get("logicalType", "")
    if logical not in _LOGICAL_TYPES.get(schema["type"], ()):
        return ""
    size = {"duration": 12, "uuid": 16}.get(logical)
    valid = schema["type"] != "fixed" or size is None or schema["size"] == size
    if logical == "decimal":
        precision: Any = schema.get("precision")
        scale = schema.get("scale", 0)
        valid = type(precision) is int and type(scale) is int and precision > 0 and 0 <= scale <= precision
        valid = valid and (schema["type"] != "fixed" or precision <= _digits(schema["size"]))
    if logical == "map":
        items = schema["items"]
        names = [field["name"] for field in items.get("fields", ())] if isinstance(items, dict) else []
        valid = names == ["key", "value"]
    return str(logical) if valid else ""
