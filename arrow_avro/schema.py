"""The Avro schema of the rows: inferred from Arrow, parsed from the option `avroSchema`, and turned back into Arrow."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro.compatibility import (
    IncompatibleTypeError,
    check_compatible,
    is_any_binary,
    is_any_list,
    is_any_string,
    match_fields,
    plain_type,
)
from arrow_avro.schema_parser import (
    Rules,
    UnsupportedSchemaError,
    check_depth,
    check_json_depth,
    is_name,
    parse_type,
    too_deep,
    unique,
)
from arrow_avro.types import (
    CATALYST_TYPE,
    DAY_TIME_INTERVAL,
    SPARK_NAME,
    SPARK_TYPE,
    AvroField,
    AvroType,
    arrow_field,
)
from foundation.errors import ConfigurationError, CorruptError

_ONLY_COLUMN = "value"
ADJUST_TO_UTC = "adjust-to-utc"
"""Attribute of Iceberg's: its readers take a timestamp without it for one of local time."""
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What malformed schemas raise in fastavro and in the code that walks over them."""


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """One schema. `json` is the compact text for file headers, `root` the same parsed.

    given: it is option `avroSchema`; others come from headers, from rows or from other schemas.
    """

    json: str
    root: dict[str, Any] = field(compare=False, repr=False)
    type: AvroType = field(compare=False, repr=False)
    given: bool = field(default=False, compare=False, repr=False)

    @property
    def fingerprint(self) -> str:
        """16 hex characters: the first 8 bytes of the SHA-256 of `json`."""
        return hashlib.sha256(self.json.encode()).hexdigest()[:16]

    @property
    def row(self) -> AvroType:
        """The record of a row: the root, or if that is no record, one with the root as its only field `value`."""
        if self.type.kind == "record":
            return self.type
        return AvroType("record", name="row", fields=(AvroField(_ONLY_COLUMN, _ONLY_COLUMN, self.type),))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the text."""
        return _restored, (self.json, self.given)


def parse(text: str, *, reading: bool = False, option: str = "avroSchema") -> AvroSchema:
    """The schema in an option. Raises ConfigurationError if it is not valid.

    With `reading`, names and enum symbols may have any characters, because those of files may.
    """
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema  # noqa: PLC0415 - few schemas are given

    try:
        raw = json.loads(text)
        schema = _made(raw, Rules.READ if reading else Rules.WRITE, given=True)
        if not reading:
            parse_schema(raw)
    except UnsupportedSchemaError as cause:
        raise ConfigurationError(f"the schema in option {option} {cause}. Give one without that.") from cause
    except (*_MALFORMED, SchemaParseException, UnknownType) as cause:
        detail = f"unknown type {cause}" if isinstance(cause, UnknownType) else str(cause)
        raise ConfigurationError(
            f"Option `{option}` is not a valid Avro schema: {detail.rstrip('.')}. Correct the schema text."
        ) from cause
    return schema


def header_schema(text: str, *, blob: str) -> AvroSchema:
    """The schema in a blob's header, even if it violates the specification, as long as it has a meaning.

    Raises CorruptError if it has none, ConfigurationError if it is not supported; both name the blob.
    """
    try:
        return read_schema(text)
    except (UnsupportedSchemaError, RecursionError) as cause:
        step = "Write the blob again with another schema, or leave it out of the read."
        detail = too_deep() if isinstance(cause, RecursionError) else str(cause)
        raise ConfigurationError("read", f"blob {blob}", f"the schema in its header {detail}", step) from cause
    except ValueError as cause:
        step = "Restore the blob, or skip it with option ignoreCorruptBlobs."
        detail = f"the schema in its header is not an Avro schema: {cause}"
        raise CorruptError("read", f"blob {blob}", detail, step) from cause


@lru_cache(maxsize=256)
def read_schema(text: str) -> AvroSchema:
    """A schema that a program has written, by the rules for headers. Raises ValueError as `parse_type` does."""
    return _made(json.loads(text), Rules.HEADER)


def _restored(text: str, given: bool) -> AvroSchema:
    return replace(read_schema(text), given=given)


def _made(raw: Any, rules: Rules, *, given: bool = False) -> AvroSchema:
    check_json_depth(raw)
    avro = parse_type(raw, rules)
    check_depth(avro)
    root = raw if isinstance(raw, dict) else {"type": raw}
    return AvroSchema(json.dumps(raw, separators=(",", ":")), root, avro, given)


def infer(schema: pa.Schema, *, name: str, namespace: str | None) -> AvroSchema:
    """The Avro schema for rows of an Arrow `schema`, for writes without option `avroSchema`.

    name, namespace: of the record.

    `ConfigurationError` for an Arrow type without an Avro type, and for a record name that Avro does not allow.
    """
    try:
        fields = _Inference().fields(list(schema), name, ())
    except IncompatibleTypeError as cause:
        raise ConfigurationError(f"{cause}. Cast the column to another type or drop it before writing.") from cause
    root: dict[str, Any] = {"type": "record", "name": name}
    if namespace:
        root["namespace"] = namespace
    for option, value in (("recordName", name), ("recordNamespace", namespace or "a")):
        if not is_name(value):
            raise ConfigurationError(
                f"Option `{option}` is {value!r}, which is no Avro name. Use letters, digits and '_'."
            )
    try:
        return _made(root | {"fields": fields}, Rules.WRITE)
    except UnsupportedSchemaError as cause:
        raise ConfigurationError(f"the schema of the rows {cause}. Write fewer columns.") from cause


def arrow_schema(avro: AvroSchema) -> pa.Schema:
    """The Arrow schema that datums of `avro` are read as: the fields of a record, or one column `value`.

    Raises ConfigurationError for a type that no column can hold.
    """
    try:
        return pa.schema([arrow_field(member) for member in avro.row.fields])
    except _MALFORMED as cause:
        step = "Leave that column out: name the others in option columns, or give option avroSchema without it."
        raise ConfigurationError(f"the Avro schema cannot be read as columns: {cause}. {step}") from cause


def check_writable(arrow: pa.Schema, avro: AvroSchema) -> None:
    """Raise ConfigurationError, naming column and both types, unless rows of `arrow` can be written as `avro`."""
    if avro.type.kind != "record":
        raise ConfigurationError(f"Option `avroSchema` is a {avro.type}, but rows need a record at its root.")
    columns = list(arrow)
    try:
        for member, index in match_fields(columns, avro.type):
            if index is not None:
                check_compatible(columns[index].type, member.type, (member.column,))
    except IncompatibleTypeError as cause:
        raise ConfigurationError(f"{cause}. Change option avroSchema or the rows so that they agree.") from cause


def names_alike(avro: AvroSchema) -> tuple[str, str] | None:
    """The first two columns, or fields of one record within them, whose names differ by case only; None if none do."""
    return _names_alike(avro.row, ())


def _names_alike(avro: AvroType, path: tuple[str, ...]) -> tuple[str, str] | None:
    seen: dict[str, str] = {}
    for member in avro.fields:
        other = seen.setdefault(member.column.lower(), member.column)
        if other != member.column:
            return ".".join((*path, other)), ".".join((*path, member.column))
    nested = [(member.type, (*path, member.column)) for member in avro.fields]
    nested += [(each, path) for each in (*avro.branches, *([avro.items] if avro.items else []))]
    return next(filter(None, (_names_alike(each, within) for each, within in nested)), None)


class _Inference:
    """Arrow to Avro. Every named type gets a name of its own, as a schema defines each name once."""

    def __init__(self) -> None:
        self._types: dict[str, int] = {}

    def fields(self, members: list[pa.Field], parent: str, path: tuple[str, ...]) -> list[dict[str, Any]]:
        self._types.setdefault(parent, 1)
        names: dict[str, int] = {}
        return [self._field(member, parent, names, path) for member in members]

    def _field(self, member: pa.Field, parent: str, names: dict[str, int], path: tuple[str, ...]) -> dict[str, Any]:
        name = unique(_sanitised(member.name), names)
        avro = self._nullable(member, f"{parent}_{name}", (*path, member.name))
        found: dict[str, Any] = {"name": name, "type": avro}
        if isinstance(avro, list):
            found["default"] = None
        if name != member.name:
            found[SPARK_NAME] = member.name
        return found

    def _nullable(self, member: pa.Field, name: str, path: tuple[str, ...]) -> Any:
        avro = self._type(plain_type(member.type), name, path)
        return ["null", avro] if member.nullable and avro != "null" else avro

    def _type(self, arrow: pa.DataType, name: str, path: tuple[str, ...]) -> Any:
        if arrow_is.is_decimal128(arrow):
            return self._decimal(arrow, name, path)
        if is_any_list(arrow):
            return {"type": "array", "items": self._nullable(arrow.value_field, f"{name}_element", path)}
        if arrow_is.is_map(arrow) and is_any_string(plain_type(arrow.key_type)):
            return {"type": "map", "values": self._nullable(arrow.item_field, f"{name}_value", path)}
        if arrow_is.is_map(arrow):
            entry = [arrow.key_field.with_name("key"), arrow.item_field.with_name("value")]
            return {"type": "array", "logicalType": "map", "items": self._record(entry, f"{name}_entry", path)}
        if arrow_is.is_struct(arrow):
            tag = {SPARK_TYPE: "variant"} if _is_variant(arrow) else {}
            return self._record(list(arrow), name, path) | tag
        return _leaf(arrow, path)

    def _record(self, members: list[pa.Field], name: str, path: tuple[str, ...]) -> dict[str, Any]:
        name = unique(name, self._types)
        return {"type": "record", "name": name, "fields": self.fields(members, name, path)}

    def _decimal(self, arrow: pa.DataType, name: str, path: tuple[str, ...]) -> dict[str, Any]:
        if not 0 <= arrow.scale <= arrow.precision:
            raise IncompatibleTypeError(path, f"Arrow type {arrow} has a scale that Avro does not know")
        size = ((10**arrow.precision - 1).bit_length() + 8) // 8
        given = {"type": "fixed", "name": unique(name, self._types), "size": size, "logicalType": "decimal"}
        return given | {"precision": arrow.precision, "scale": arrow.scale}


def _leaf(arrow: pa.DataType, path: tuple[str, ...]) -> Any:
    if arrow in _LEAVES:
        return _LEAVES[arrow]
    if is_any_string(arrow):
        return "string"
    if is_any_binary(arrow):
        return "bytes"
    if arrow_is.is_date(arrow):
        return {"type": "int", "logicalType": "date"}
    if arrow_is.is_time(arrow):
        return {"type": "long", "logicalType": "time-micros"}
    if arrow_is.is_timestamp(arrow):
        if arrow.tz is None:
            return {"type": "long", "logicalType": "local-timestamp-micros"}
        return {"type": "long", "logicalType": "timestamp-micros", ADJUST_TO_UTC: True}
    if arrow_is.is_duration(arrow):
        return {"type": "long", CATALYST_TYPE: DAY_TIME_INTERVAL}
    raise IncompatibleTypeError(path, f"Arrow type {arrow} has no Avro type")


_LEAVES: dict[pa.DataType, Any] = {
    pa.null(): "null",
    pa.bool_(): "boolean",
    pa.int8(): {"type": "int", SPARK_TYPE: "byte"},
    pa.int16(): {"type": "int", SPARK_TYPE: "short"},
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.uint64(): "long",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
}


def _is_variant(arrow: pa.DataType) -> bool:
    tags = [(member.metadata or {}).get(b"variant") for member in arrow if member.name == "metadata"]
    return tags == [b"true"] and [member.name for member in arrow] == ["value", "metadata"]


def _sanitised(name: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"
