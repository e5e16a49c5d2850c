"""Parses the JSON of a schema to a tree of types. Pure.

The schema in a file's header may violate the specification, as in Avro's Java library: names of any characters, invalid
defaults, attributes of any type. It is only refused if it has no meaning. A user's schema must keep to the
specification. In both, an invalid or unknown logical type is ignored, as the specification demands.

Everything that walks over a schema is recursive, in Spark too, so nesting is limited twice: in the JSON, which is
checked without recursion, and in the types, as a few lines of JSON with named types can define any depth.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from arrow_avro.defaults import is_valid_default
from arrow_avro.limits import MAX_LEVELS
from arrow_avro.types import (
    CATALYST_TYPE,
    DAY_TIME_INTERVAL,
    PRIMITIVES,
    SPARK_NAME,
    SPARK_TYPE,
    AvroField,
    AvroType,
    may_be_null,
)

MAX_TYPES = 50_000
"""More than any table has columns. A few lines with named types could define billions."""

_JSON_LEVELS = 6 * MAX_LEVELS  # a nullable record takes four
_MAX_SIZE = 2**31 - 1  # bytes of a fixed: no block has more
_SHOWN = 80  # characters of JSON that a message shows
_UUID_SIZE, _DURATION_SIZE = 16, 12
_SPARK_INTS = ("byte", "short")
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
}


class UnsupportedSchemaError(ValueError):
    """A schema that has a meaning, but is not supported. The message continues "the schema …"."""


class Rules(Enum):
    """What a schema must keep to."""

    HEADER = "it must have a meaning"
    READ = "the specification, but names and symbols may have any characters, because those of files may"
    WRITE = "the specification"


def parse_type(schema: Any, rules: Rules = Rules.HEADER) -> AvroType:
    """The type of a schema. Raises ValueError if it breaks the rules, UnsupportedSchemaError if it exceeds limits."""
    avro = _Parser(rules, schema).type(schema, "")
    if _size(avro, {}) > MAX_TYPES:
        raise UnsupportedSchemaError(f"has more than {MAX_TYPES:,} types with its named types written out")
    return avro


def is_name(name: str) -> bool:
    """Whether Avro allows the name, which may have a namespace."""
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name, re.ASCII) is not None


def unique(name: str, taken: dict[str, int]) -> str:
    """`name`, or `name_2`, `name_3`, … if that is taken. `taken` is updated; its values are the last numbers tried."""
    free, count = name, taken.get(name, 1)
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    taken[name] = count
    taken.setdefault(free, 1)
    return free


@dataclass
class _Parser:
    """Parses the schema `whole`. `known` are the named types so far, by full name."""

    rules: Rules
    whole: Any
    known: dict[str, AvroType] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)

    def type(self, schema: Any, namespace: str) -> AvroType:
        """The type of a schema within `namespace`."""
        match schema:
            case str():
                return AvroType(schema) if schema in PRIMITIVES else self._named(schema, namespace)
            case list():
                return self._union([self.type(branch, namespace) for branch in schema])
            case {"type": dict() as inner}:
                return self.type(_with_logical_type(inner, schema), namespace)
            case {"type": list() as inner}:
                return self.type(inner, namespace)
            case {"type": str(kind)}:
                return self._complex(kind, schema, namespace)
        raise ValueError(f"{json.dumps(schema)[:_SHOWN]} is not a type")

    def _complex(self, kind: str, schema: dict[str, Any], namespace: str) -> AvroType:
        match kind:
            case "record" | "error":
                return self._record(schema, namespace)
            case "enum" | "fixed":
                return self._defined(schema, namespace)
            case "array":
                items = self.type(_required(schema, "items"), namespace)
                return AvroType("array", "map" if _is_map(schema, items) else "", items=items)
            case "map":
                return AvroType("map", items=self.type(_required(schema, "values"), namespace))
        return _primitive(kind, schema) if kind in PRIMITIVES else self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> AvroType:
        name = _text(name)
        found = self.known.get(_full(name, namespace)) or self.known.get(name)
        if found is None and self._is_defined_later(name.rpartition(".")[2]):
            raise UnsupportedSchemaError(f"refers to the type {name} before it defines it")
        if found is None:
            raise ValueError(f"unknown type {name}")
        return found

    def _is_defined_later(self, name: str) -> bool:
        """Whether a type of this name, without its namespace, is defined only after the place that is being parsed."""
        return _defines(self.whole, name) and name not in (known.rpartition(".")[2] for known in self.known)

    def _union(self, branches: list[AvroType]) -> AvroType:
        kinds = [branch.name or branch.kind for branch in branches]
        shown = AvroType("union", branches=tuple(branches))
        self._refuse(not kinds or len(set(kinds)) < len(kinds), f"a union of {shown}")
        if "union" in kinds:
            raise UnsupportedSchemaError(f"has a union within the union {shown}")
        return shown

    def _record(self, schema: dict[str, Any], namespace: str) -> AvroType:
        full, name = self._names(schema, namespace)
        self.known[full] = AvroType("reference", name=name)
        space = full.rpartition(".")[0]
        fields = [self._field(member, space) for member in _list(schema, "fields")]
        names = {member.name for member in fields}
        self._refuse(len(names) < len(fields), f"record {full} has two fields of one name")
        fields = _distinct(fields)
        hint = "variant" if schema.get(SPARK_TYPE) == "variant" and _is_variant(fields) else ""
        aliases = _aliases(schema, space)
        self.known[full] = AvroType("record", name=name, hint=hint, fields=tuple(fields), aliases=aliases)
        return self.known[full]

    def _field(self, member: Any, namespace: str) -> AvroField:
        match member:
            case {"name": str(given), "type": inner}:
                name = _text(given)
            case _:
                raise ValueError(f"{json.dumps(member)[:_SHOWN]} is not a field")
        self._check_name(name, f"field {name!r}")
        self._refuse("." in name and self.rules is Rules.WRITE, f"field {name!r} has no Avro name")
        try:
            avro = self.type(inner, namespace)
        except UnsupportedSchemaError:
            raise
        except ValueError as cause:
            raise ValueError(f"field {name!r}: {cause}") from cause
        column = member.get(SPARK_NAME)
        default = member.get("default")
        unfit = "default" in member and not is_valid_default(avro, default)
        self._refuse(unfit, f"field {name!r}: its default {json.dumps(default)[:_SHOWN]} is not valid for {avro}")
        column = _text(column) if isinstance(column, str) else name
        return AvroField(name, column, avro, "default" in member, default, _strings(member.get("aliases")))

    def _defined(self, schema: dict[str, Any], namespace: str) -> AvroType:
        full, name = self._names(schema, namespace)
        made = self._enum(schema, name) if schema["type"] == "enum" else _fixed(schema, name)
        self._refuse(isinstance(schema.get("size"), float), f"fixed {name} has a size with a fraction")
        self.known[full] = replace(made, aliases=_aliases(schema, full.rpartition(".")[0]))
        return self.known[full]

    def _enum(self, schema: dict[str, Any], name: str) -> AvroType:
        given = _list(schema, "symbols")
        symbols = _strings(given)
        if len(symbols) < len(given):
            raise ValueError(f"enum {name} has symbols that are not strings")
        self._refuse(len(set(symbols)) < len(symbols), f"enum {name} has a symbol twice")
        default = schema.get("default")
        self._refuse(default is not None and default not in symbols, f"enum {name} has no symbol {default!r}")
        return AvroType(
            "enum", name=name, symbols=symbols, default=_text(default) if isinstance(default, str) else None
        )

    def _names(self, schema: dict[str, Any], namespace: str) -> tuple[str, str]:
        """The full name by which the schema refers to a type, and a name that no other type of the schema has."""
        given, space = schema.get("name"), schema.get("namespace", namespace)
        self._check_name(given, f"{schema['type']} {given!r}")
        name = _text(given) if isinstance(given, str) else ""
        full = _full(name, _text(space) if isinstance(space, str) else namespace)
        self._check_name(full, f"{schema['type']} {full!r}")
        self._refuse(full in self.known, f"type {full} is defined twice")
        return full, unique(full, self.names)

    def _check_name(self, name: Any, what: str) -> None:
        wrong = not isinstance(name, str) or not (is_name(name) if self.rules is Rules.WRITE else name)
        self._refuse(wrong, f"{what} has no Avro name")

    def _refuse(self, wrong: bool, message: str) -> None:
        if wrong and self.rules is not Rules.HEADER:
            raise ValueError(message)


def _with_logical_type(inner: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """A type with the logical type that stands outside of it, where Avro's C# library writes that of a fixed."""
    if "logicalType" in inner:
        return inner
    return {**{key: outer[key] for key in ("logicalType", "precision", "scale") if key in outer}, **inner}


def _defines(schema: Any, name: str) -> bool:
    """Whether a type of this name, in whatever namespace, is defined anywhere in a schema."""
    left = [schema]
    while left:
        match left.pop():
            case {"type": "record" | "error" | "enum" | "fixed", "name": str(given)} if (
                given.rpartition(".")[2] == name
            ):
                return True
            case dict() as inner:
                left += inner.values()
            case list() as inner:
                left += inner
    return False


def _required(schema: dict[str, Any], key: str) -> Any:
    if key not in schema:
        raise ValueError(f"{json.dumps(schema)[:_SHOWN]} has no {key}")
    return schema[key]


def _list(schema: dict[str, Any], key: str) -> list[Any]:
    found = _required(schema, key)
    if not isinstance(found, list):
        raise ValueError(f"{json.dumps(schema)[:_SHOWN]} has no list of {key}")  # noqa: TRY004 - the schema is wrong, not an argument
    return found


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _text(name: str) -> str:
    """Replace lone surrogates, which JSON allows and UTF-8 does not."""
    return name if name.isascii() else name.encode("utf-8", "replace").decode()


def _strings(given: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in given if isinstance(one, str)) if isinstance(given, list) else ()


def _aliases(schema: dict[str, Any], namespace: str) -> tuple[str, ...]:
    return tuple(_full(alias, namespace) for alias in _strings(schema.get("aliases")))


def _distinct(fields: list[AvroField]) -> list[AvroField]:
    """The fields with distinct names and columns: the second `x` becomes `x_2`."""
    names = _numbered([member.name for member in fields])
    columns = _numbered([member.column for member in fields])
    given = zip(fields, names, columns, strict=True)
    return [replace(member, name=name, column=column) for member, name, column in given]


def _numbered(names: list[str]) -> list[str]:
    if len(set(names)) == len(names):
        return names
    taken, seen, found = dict.fromkeys(names, 1), set[str](), list[str]()
    for name in names:
        found.append(unique(name, taken) if name in seen else name)
        seen.add(name)
    return found


def _is_variant(fields: list[AvroField]) -> bool:
    return [(member.name, member.type) for member in fields] == [
        (name, AvroType("bytes")) for name in ("value", "metadata")
    ]


def _is_map(schema: dict[str, Any], items: AvroType) -> bool:
    """Whether an array is a map with keys of any type but null."""
    names = [member.name for member in items.fields]
    return schema.get("logicalType") == "map" and names == ["key", "value"] and not may_be_null(items.fields[0].type)


def _primitive(kind: str, schema: dict[str, Any]) -> AvroType:
    hint = ""
    if kind == "int" and schema.get(SPARK_TYPE) in _SPARK_INTS:
        hint = schema[SPARK_TYPE]
    elif kind == "long" and schema.get(CATALYST_TYPE) == DAY_TIME_INTERVAL:
        hint = DAY_TIME_INTERVAL
    return _with_logical(AvroType(kind, hint=hint), schema)


def _fixed(schema: dict[str, Any], name: str) -> AvroType:
    size = _required(schema, "size")
    if not isinstance(size, int | float) or isinstance(size, bool) or size < 0 or size != size // 1:
        raise ValueError(f"fixed {name} has no valid size, but {json.dumps(size)[:_SHOWN]}")
    return _with_logical(AvroType("fixed", name=name, size=int(min(size, _MAX_SIZE))), schema)


def _with_logical(avro: AvroType, schema: dict[str, Any]) -> AvroType:
    """The type with its logical type, if that is valid."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or logical not in _LOGICAL_TYPES.get(avro.kind, ()):
        return avro
    if logical == "decimal":
        precision: Any = schema.get("precision")
        scale = schema.get("scale", 0)
        valid = _is_decimal(precision, scale, avro.size if avro.kind == "fixed" else None)
        return replace(avro, logical=logical, precision=precision, scale=scale) if valid else avro
    size = {"duration": _DURATION_SIZE, "uuid": _UUID_SIZE}.get(logical)
    return replace(avro, logical=logical) if avro.kind != "fixed" or avro.size == size else avro


def _is_decimal(precision: Any, scale: Any, size: int | None) -> bool:
    if type(precision) is not int or type(scale) is not int:
        return False
    # The digits that the bits of a fixed always hold. By logarithms, as its size may be huge.
    most = precision if size is None else math.floor(math.log10(2) * (8 * size - 1))
    return 0 < precision <= most and 0 <= scale <= precision


def _size(avro: AvroType, known: dict[int, int]) -> int:
    """How many types there are in a type, without null and unions; a named type counts wherever it is used."""
    if id(avro) not in known:
        known[id(avro)] = (avro.kind not in ("null", "union")) + sum(_size(inner, known) for inner in avro.inner)
    return known[id(avro)]


def check_json_depth(schema: Any) -> None:
    """Raise UnsupportedSchemaError for JSON that is nested more deeply than that of any schema within the limit."""
    level = [schema]
    for _ in range(_JSON_LEVELS):
        level = [inner for one in level for inner in _inner_values(one)]
        if not level:
            return
    raise UnsupportedSchemaError(too_deep())


def check_depth(avro: AvroType) -> None:
    """Raise UnsupportedSchemaError for more levels of records, arrays and maps than `MAX_LEVELS`."""
    if _levels(avro, {}) > MAX_LEVELS:
        raise UnsupportedSchemaError(too_deep())


def _levels(avro: AvroType, known: dict[int, int]) -> int:
    if id(avro) not in known:
        own = avro.kind in ("record", "array", "map")
        known[id(avro)] = own + max((_levels(inner, known) for inner in avro.inner), default=0)
    return known[id(avro)]


def _inner_values(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
    return []


def too_deep() -> str:
    """What is wrong with a schema beyond the limit; it continues "the schema …"."""
    return (
        f"has types that are nested more than {MAX_LEVELS} levels deep, which is the limit of this package "
        "(Spark itself fails at about 300)"
    )
