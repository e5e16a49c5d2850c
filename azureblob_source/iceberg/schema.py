"""Iceberg's schema of a stream's rows, and the name mapping by which its readers find columns in the data blobs. Pure.

reader schema ─► table_schema    columns with ids, or why there is no table
              ─► name_mapping    the names of these ids in the blobs
              ─► schema_id       of columns, the same wherever they are
writer schemas ─► check_written  whether Iceberg's readers make the same rows of the blobs as this package does

The types are those of format version 2 that Iceberg's Java readers take from Avro files. They go through all of a
file's schema: a type that they do not have fails the read even in a column that is not asked for.
https://iceberg.apache.org/spec/#avro
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from azureblob_source.iceberg.field_ids import inner_types, path_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from arrow_avro import AvroSchema, AvroType

_MAX_PRECISION = 38
_SPARE_BITS = 2
"""Of a digest: the id is an int of Java's, and a program that adds a schema takes the next one."""
_NULL = "null"
_PRIMITIVES = {
    ("null", ""): _NULL,
    ("boolean", ""): "boolean",
    ("int", ""): "int",
    ("int", "date"): "date",
    ("long", ""): "long",
    ("long", "time-micros"): "time",
    ("long", "timestamp-millis"): "timestamptz",
    ("long", "timestamp-micros"): "timestamptz",
    ("float", ""): "float",
    ("double", ""): "double",
    ("bytes", ""): "binary",
    ("string", ""): "string",
    ("enum", ""): "string",
    ("fixed", "uuid"): "uuid",
}
_WIDER = {("int", "long"), ("float", "double")}
"""Types of files that readers widen to that of the table."""


class NotInIcebergError(ValueError):
    """A stream cannot be an Iceberg table. The message says why: a sentence that names the column and its type."""


def table_schema(rows: AvroSchema, ids: Mapping[str, int]) -> dict[str, Any]:
    """The struct of a table's rows, as JSON. rows: the reader schema. ids: of its paths.

    `NotInIcebergError` names the first column whose type Iceberg does not have.
    """
    _check_ambiguous(rows.row)
    return _Renderer(ids).struct(rows.row, "")


def schema_id(struct: Mapping[str, Any]) -> int:
    """The id of a schema that `table_schema` has made, in a table and in manifests, which are written before it."""
    digest = hashlib.sha256(json.dumps(struct).encode()).digest()
    return int.from_bytes(digest[:4]) >> _SPARE_BITS


def name_mapping(rows: AvroSchema, ids: Mapping[str, int]) -> list[dict[str, Any]]:
    """The ids of names in the blobs, as JSON for the table property `schema.name-mapping.default`."""
    return _mapped(rows.row, ids, "")


def ids_in(struct: Mapping[str, Any], path: str = "") -> dict[str, int]:
    """The ids in a struct that `table_schema` has made, by path."""
    found: dict[str, int] = {}
    for each in struct["fields"]:
        below = path_of(each["name"], path)
        found |= {below: each["id"], **_ids_of(each["type"], below)}
    return found


def _ids_of(kind: Any, path: str) -> dict[str, int]:
    match kind:
        case {"type": "struct"}:
            return ids_in(kind, path)
        case {"type": "list"}:
            inner = path_of("element", path)
            return {inner: kind["element-id"], **_ids_of(kind["element"], inner)}
        case {"type": "map"}:
            key, value = path_of("key", path), path_of("value", path)
            ids = {key: kind["key-id"], value: kind["value-id"]}
            return ids | _ids_of(kind["key"], key) | _ids_of(kind["value"], value)
    return {}


def check_written(rows: AvroSchema, written: Iterable[AvroSchema]) -> None:
    """`NotInIcebergError` unless Iceberg's readers make of blobs with these schemas what `rows`, their superset, says.

    They widen an int to a long, a float to a double and a decimal's precision, and nothing else. Where a file has no
    such column they have null, whatever its default.
    """
    for schema in written:
        if schema.type.kind != "record":
            raise NotInIcebergError(f"rows are {schema.type}, and Iceberg's are records")
        _check(schema.row, rows.row, "")


class _Renderer:
    """Types as JSON of Iceberg's."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = ids

    def struct(self, record: AvroType, path: str) -> dict[str, Any]:
        """The type of a record at a path."""
        fields = [self._field(member.column, member.type, path_of(member.column, path)) for member in record.fields]
        return {"type": "struct", "fields": fields}

    def _field(self, name: str, avro: AvroType, path: str) -> dict[str, Any]:
        return {"id": self._ids[path], "name": name, "required": not _optional(avro), "type": self._type(avro, path)}

    def _type(self, avro: AvroType, path: str) -> Any:
        avro = _value(avro, path)
        match avro.kind:
            case "record":
                return self.struct(avro, path)
            case "map":
                return self._map("string", avro.element, path)
            case "array" if avro.logical == "map":
                key, value = avro.element.fields
                return self._map(self._type(key.type, path_of("key", path)), value.type, path)
            case "array":
                return {"type": "list", **self._inner("element", avro.element, path)}
        primitive = _primitive(avro, path)
        if primitive == _NULL:
            raise _lacking(path, avro, "Iceberg has no type without values before format version 3")
        return primitive

    def _map(self, key: Any, value: AvroType, path: str) -> dict[str, Any]:
        of_key = {"key-id": self._ids[path_of("key", path)], "key": key}
        return {"type": "map", **of_key, **self._inner("value", value, path)}

    def _inner(self, name: str, avro: AvroType, path: str) -> dict[str, Any]:
        inner = path_of(name, path)
        return {
            f"{name}-id": self._ids[inner],
            name: self._type(avro, inner),
            f"{name}-required": not _optional(avro),
        }


def _mapped(avro: AvroType, ids: Mapping[str, int], path: str) -> list[dict[str, Any]]:
    """The ids of the names within a type."""
    found = []
    for name, column, inner in inner_types(avro):
        below = path_of(column, path)
        fields = _mapped(inner, ids, below)
        found.append({"field-id": ids[below], "names": [name]} | ({"fields": fields} if fields else {}))
    return found


def _check(written: AvroType, rows: AvroType, path: str) -> None:
    """Check a type of a blob against that of the rows."""
    written, rows = _value(written, path), _value(rows, path)
    if written.kind == _NULL:
        return
    match written.kind, rows.kind:
        case "record", "record":
            _check_record(written, rows, path)
        case ("array", "array") if written.logical == rows.logical == "map":
            _check_record(written.element, rows.element, path)
        case ("array", "array") if written.logical == rows.logical:
            _check(written.element, rows.element, path_of("element", path))
        case "map", "map":
            _check(written.element, rows.element, path_of("value", path))
        case _:
            if not _becomes(written, rows, path):
                detail = f"is {written} in some blobs and {rows} in others, which Iceberg does not widen"
                raise NotInIcebergError(f"column {path!r} {detail}")


def _check_record(written: AvroType, rows: AvroType, path: str) -> None:
    there = {member.name: member for member in rows.fields}
    for member in written.fields:
        inner = path_of(member.column, path)
        found = there.pop(member.name, None)
        if found is None:
            _check_skipped(member.type, inner)
        else:
            _check(member.type, found.type, inner)
    for member in there.values():
        if member.default is not None or not _optional(member.type):
            shown = path_of(member.column, path)
            raise NotInIcebergError(
                f"column {shown!r} ({member.type}) is missing in some blobs and has the default {member.default!r}, "
                "and Iceberg has no defaults before format version 3"
            )


def _check_skipped(written: AvroType, path: str) -> None:
    """Check a type that the rows do not have."""
    within = inner_types(_value(written, path))
    for _, name, inner in within:
        _check_skipped(inner, path_of(name, path))
    if not within:
        _primitive(_value(written, path), path)


def _becomes(written: AvroType, rows: AvroType, path: str) -> bool:
    """Whether readers make values of the one type of the other."""
    if written.inner or rows.inner:
        return False
    of_file, of_table = _primitive(written, path), _primitive(rows, path)
    if written.logical == rows.logical == "decimal":
        return written.scale == rows.scale and written.precision <= rows.precision
    return of_file == of_table or (of_file, of_table) in _WIDER


def _optional(avro: AvroType) -> bool:
    return any(branch.kind == _NULL for branch in avro.branches)


def _value(avro: AvroType, path: str) -> AvroType:
    """The type of values that are not null, if Iceberg may have it."""
    if avro.kind == "union":
        if avro.nullable is None or len(avro.branches) > 2:  # noqa: PLR2004 - null and another type
            raise _lacking(path, avro, "Iceberg has no unions")
        avro = avro.nullable
    if avro.is_variant:
        raise _lacking(path, avro, "Iceberg has no variants before format version 3")
    if avro.kind == "reference":
        raise _lacking(path, avro, "Iceberg has no records within themselves")
    return avro


def _primitive(avro: AvroType, path: str) -> str:
    """Iceberg's name of a type that has no other in it; no column has `null`."""
    if avro.logical == "decimal":
        if avro.precision > _MAX_PRECISION:
            raise _lacking(path, avro, f"Iceberg's decimals have {_MAX_PRECISION} digits at most")
        return f"decimal({avro.precision}, {avro.scale})"
    if avro.kind == "long" and avro.hint:
        raise _lacking(path, avro, "Iceberg has no intervals")
    if "nanos" in avro.logical:
        raise _lacking(path, avro, "Iceberg has no nanoseconds before format version 3")
    if avro.kind == "fixed" and not avro.logical:
        return f"fixed[{avro.size}]"
    found = _PRIMITIVES.get((avro.kind, avro.logical))
    if found is None:
        raise _lacking(path, avro, "Iceberg's readers do not take this Avro type")
    return found


def _lacking(path: str, avro: AvroType, why: str) -> NotInIcebergError:
    shown = "a variant" if avro.is_variant else f"{avro} {avro.hint}".rstrip() if avro.kind == "long" else str(avro)
    return NotInIcebergError(f"column {path!r} is {shown}, and {why}")


def _check_ambiguous(row: AvroType) -> None:
    """Refuse a column whose name is the path of a field in another: Iceberg names both by it."""
    seen: set[str] = set()
    for name in _full_names(row, ""):
        if name in seen:
            raise NotInIcebergError(f"column {name!r} is there twice, the one as a field of a record")
        seen.add(name)


def _full_names(avro: AvroType, path: str) -> Iterator[str]:
    for _, name, inner in inner_types(avro):
        full = f"{path}.{name}" if path else name
        yield full
        yield from _full_names(inner, full)
