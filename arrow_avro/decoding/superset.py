"""The reader schema that the rows of several writer schemas all resolve to. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

from arrow_avro.limits import RECURSIVE_FIELD_MAX_DEPTH
from arrow_avro.recursion import contains_itself, written_out
from arrow_avro.schema import AvroSchema, read_schema
from arrow_avro.schema_parser import UnsupportedSchemaError, unique
from arrow_avro.types import (
    CATALYST_TYPE,
    SPARK_NAME,
    SPARK_TYPE,
    AvroField,
    AvroType,
    may_be_null,
    time_kind,
    value_branches,
)
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from arrow_avro.decoding.value_errors import Path

# The common type of two. Of int and float it is double, because a float would round the int.
_WIDER = {
    frozenset(("int", "long")): "long",
    frozenset(("int", "float")): "double",
    frozenset(("int", "double")): "double",
    frozenset(("long", "float")): "double",
    frozenset(("long", "double")): "double",
    frozenset(("float", "double")): "double",
    frozenset(("string", "bytes")): "bytes",
    frozenset(("enum", "string")): "string",
}
_LEAVES = frozenset().union(*_WIDER, ["fixed"])
_MICROS = {
    "time": AvroType("long", "time-micros"),
    "instant": AvroType("long", "timestamp-micros"),
    "wall clock": AvroType("long", "local-timestamp-micros"),
}
_NULL = AvroType("null")


@dataclass(frozen=True)
class Difference:
    """A column whose types in earlier schemas and in a later one have no common one."""

    column: str
    earlier: str
    later: str


class _DifferError(TypeError):
    """Two types have no common one."""

    def __init__(self, path: Path, left: object, right: object) -> None:
        self.difference = Difference(".".join(path) or "*", str(left), str(right))
        super().__init__(f"column {self.difference.column!r} is {left} in one and {right} in the other")


@dataclass(frozen=True, slots=True)
class _OptionalField(AvroField):
    """A field that some of the schemas that were merged lack."""


def superset(schemas: Sequence[AvroSchema], columns: Collection[str] | None = None, depth: int = 0) -> AvroSchema:
    """The reader schema that every one of `schemas` resolves to.

    Fields are matched by name and stand in the order in which they first appear. One that some schema lacks has the
    default that the others declare; if these do not agree it becomes nullable, with default null. Numbers widen, times
    become microseconds, decimals of one scale take the greater precision, records merge.

    columns: other columns of the rows are left out, unless one schema can be returned as it is.
    depth: levels of records that contain themselves, see `recursion`.

    Raises ConfigurationError, naming two schemas, the column and its types, where two have no common type, and for a
    record that contains itself if `depth` is 0.
    """
    distinct = list({schema.json: schema for schema in schemas}.values())
    if not distinct:
        raise ConfigurationError("there is no writer schema to read by. Give option avroSchema.")
    recursive = any(contains_itself(schema.type) for schema in distinct)
    if len(distinct) == 1 and not recursive:
        return distinct[0]
    rows = {schema.fingerprint: _of_columns(schema.row, columns) for schema in distinct}
    if recursive:
        rows = {schema.fingerprint: written_out(rows[schema.fingerprint], schema, depth) for schema in distinct}
    given = all(schema.given for schema in distinct)
    try:
        merged = _Renderer(given=given).render(_merge_all(rows.values()), "")
        return replace(read_schema(json.dumps(merged, separators=(",", ":"))), given=given)
    except _DifferError as cause:
        raise _conflict(rows, cause) from cause
    except UnsupportedSchemaError as cause:
        lower = f"Lower option {RECURSIVE_FIELD_MAX_DEPTH}, or name fewer columns in option columns."
        step = lower if recursive else "Give option avroSchema with fewer columns."
        raise ConfigurationError(f"the common schema of the writers' {cause}. {step}") from cause


def difference(schemas: Sequence[AvroSchema]) -> Difference | None:
    """The first column for which `schemas`, taken in this order, have no superset; None if they have one."""
    try:
        _merge_all(schema.row for schema in schemas)
    except _DifferError as cause:
        return cause.difference
    return None


def _of_columns(row: AvroType, columns: Collection[str] | None) -> AvroType:
    if columns is None:
        return row
    return replace(row, fields=tuple(member for member in row.fields if member.column in columns))


def _conflict(rows: Mapping[str, AvroType], cause: _DifferError) -> ConfigurationError:
    """The error for the first two schemas that have no common one, or for all if every two have."""
    for (of_left, left), (of_right, right) in combinations(rows.items(), 2):
        try:
            _merge(left, right, ())
        except _DifferError as pair:
            return ConfigurationError(_message(f"{of_left} and {of_right}", pair))
    return ConfigurationError(_message(", ".join(rows), cause))


def _message(fingerprints: str, cause: _DifferError) -> str:
    return (
        f"the writer schemas {fingerprints} have no common reader schema: {cause}. Leave that column out: name the "
        "others in option columns, or give option avroSchema without it."
    )


def _merge_all(rows: Iterable[AvroType]) -> AvroType:
    return reduce(lambda left, right: _merge(left, right, ()), rows)


def _merge(left: AvroType, right: AvroType, path: Path) -> AvroType:
    if left == right:
        return left
    first, second = value_branches(left), value_branches(right)
    if len(first) <= 1 and len(second) <= 1:
        merged = (_merge_values(first[0], second[0], path),) if first and second else first or second
    else:
        merged = _merge_branches(left, right, path)
    if may_be_null(left) or may_be_null(right):
        return AvroType("union", branches=(_NULL, *merged)) if merged else _NULL
    return merged[0] if len(merged) == 1 else AvroType("union", branches=merged)


def _merge_branches(left: AvroType, right: AvroType, path: Path) -> tuple[AvroType, ...]:
    """The branches of two types, at least one of them a general union.

    The other type adds branches only if it is a general union, too.
    """
    merged = list(value_branches(left))
    others = value_branches(right)
    if len(merged) == 1:
        merged, others = list(others), tuple(merged)
    places: dict[Any, list[int]] = {}
    for place, branch in enumerate(merged):
        _index(places, branch, place)
    for branch in others:
        like = _like(merged, places, branch, path)
        if like is not None:
            merged[like[0]] = like[1]
        elif len(others) > 1:
            _index(places, branch, len(merged))
            merged.append(branch)
        else:
            raise _DifferError(path, left, right)
    return tuple(dict.fromkeys(merged))


def _keys(branch: AvroType) -> tuple[Any, ...]:
    """By what a branch is found: itself, its kind and name, its kind."""
    return branch, (branch.kind, branch.name), branch.kind


def _index(places: dict[Any, list[int]], branch: AvroType, place: int) -> None:
    for key in _keys(branch):
        places.setdefault(key, []).append(place)


def _like(
    merged: Sequence[AvroType], places: dict[Any, list[int]], branch: AvroType, path: Path
) -> tuple[int, AvroType] | None:
    """The place of the branch that `branch` merges with, and both as one.

    It is an equal one, else of its name, else of its kind, else any. To merge twice at each level would take too long.
    """
    alike = chain.from_iterable(places.get(key, ()) for key in _keys(branch))
    others = sorted(chain.from_iterable(places.get(kind, ()) for kind in _LEAVES - {branch.kind}))
    for place in dict.fromkeys(chain(alike, others)):
        try:
            return place, _merge_values(merged[place], branch, path)
        except _DifferError:
            continue
    return None


def _merge_values(left: AvroType, right: AvroType, path: Path) -> AvroType:
    """The common type of two that are neither null nor unions."""
    if left == right:
        return left
    match left.kind, right.kind:
        case "record", "record":
            return _merge_records(left, right, path)
        case ("array", "array") if left.logical == right.logical:
            return replace(left, items=_merge(left.element, right.element, (*path, "element")))
        case "map", "map":
            return replace(left, items=_merge(left.element, right.element, (*path, "value")))
        case "enum", "enum":
            return replace(left, symbols=tuple(dict.fromkeys((*left.symbols, *right.symbols))))
    merged = _merge_leaves(left, right)
    if merged is None:
        raise _DifferError(path, left, right)
    return merged


def _merge_leaves(left: AvroType, right: AvroType) -> AvroType | None:
    if "decimal" in (left.logical, right.logical):
        return _merge_decimals(left, right)
    was, becomes = time_kind(left), time_kind(right)
    if was or becomes:
        return _MICROS.get(was[0], left) if was and becomes and was[0] == becomes[0] else None
    kinds = frozenset((left.kind, right.kind))
    if len(kinds) > 1:
        wider = _WIDER.get(kinds)
        return AvroType(wider) if wider else None
    if left.kind == "int":
        return AvroType("int", hint="short" if {left.hint, right.hint} == {"byte", "short"} else "")
    return replace(left, logical="", hint="") if left.size == right.size else None


def _merge_decimals(left: AvroType, right: AvroType) -> AvroType | None:
    if left.logical != right.logical or left.scale != right.scale:
        return None
    precision = max(left.precision, right.precision)
    if left.kind == right.kind == "fixed":
        return replace(left, size=max(left.size, right.size), precision=precision)
    return AvroType("bytes", "decimal", precision=precision, scale=left.scale)


def _merge_records(left: AvroType, right: AvroType, path: Path) -> AvroType:
    others = {field.name: field for field in right.fields}
    fields = [_merge_fields(field, others.pop(field.name, None), path) for field in left.fields]
    fields += [_merge_fields(field, None, path) for field in others.values()]
    return replace(left, fields=tuple(fields), hint=left.hint if left.hint == right.hint else "")


def _merge_fields(left: AvroField, right: AvroField | None, path: Path) -> AvroField:
    """One field of two, or of one where the other schema lacks it. Order does not matter."""
    inner = (*path, left.column)
    if right is None:
        return _optional(left, _agree(left, left, left.type), inner)
    if left.column != right.column:
        raise _DifferError((*path, left.name), f"named {left.column!r}", f"{right.column!r}")
    if left == right:
        return left
    merged = replace(left, type=_merge(left.type, right.type, inner))
    agreed = _agree(left, right, merged.type)
    if isinstance(left, _OptionalField) or isinstance(right, _OptionalField):
        return _optional(merged, agreed, inner)
    return merged if agreed else replace(merged, has_default=False, default=None)


def _agree(left: AvroField, right: AvroField, merged: AvroType) -> bool:
    """Whether two fields declare one default, and it means the same as a value of their common type."""
    if not (left.has_default and right.has_default and left.default == right.default):
        return False
    if left.default is None:
        return may_be_null(merged)
    from arrow_avro.decoding.resolve import default_value  # noqa: PLC0415 - loads the decoder, for few schemas

    becomes = default_value(replace(left, type=merged), merged)
    return becomes is not None and all(becomes == default_value(each, merged) for each in (left, right))


def _optional(field: AvroField, agreed: bool, path: Path) -> AvroField:
    """A field that some schema lacks: with the default on which the others have `agreed`, else null."""
    if agreed:
        return _OptionalField(field.name, field.column, field.type, has_default=True, default=field.default)
    return _OptionalField(field.name, field.column, _merge(field.type, _NULL, path), has_default=True)


class _Renderer:
    """A type as JSON. A named type is written out wherever it occurs, each time with a name of its own.

    Its own one is an alias then, by which values are read as the right branch of a union. The aliases of a schema that
    is `given`, and the defaults of its enums, are kept.
    """

    def __init__(self, *, given: bool) -> None:
        self._taken: dict[str, int] = {}
        self._given = given

    def render(self, avro: AvroType, namespace: str) -> Any:
        match avro.kind:
            case "union":
                return [self.render(branch, namespace) for branch in avro.branches]
            case "array":
                logical = {"logicalType": avro.logical} if avro.logical else {}
                return {"type": "array", "items": self.render(avro.element, namespace), **logical}
            case "map":
                return {"type": "map", "values": self.render(avro.element, namespace)}
            case "record":
                return self._record(avro, namespace)
        return self._leaf(avro, namespace)

    def _record(self, avro: AvroType, namespace: str) -> dict[str, Any]:
        name = self._unique(avro.name, namespace)
        inner = name.rpartition(".")[0]
        fields = [self._field(field, inner) for field in avro.fields]
        tag = {SPARK_TYPE: avro.hint} if avro.hint else {}
        return {"type": "record", "name": name, "fields": fields, **self._aliases(avro, name), **tag}

    def _aliases(self, avro: AvroType, name: str) -> dict[str, Any]:
        own = [avro.name] if name != avro.name else []
        aliases = [*own, *(avro.aliases if self._given else ())]
        return {"aliases": aliases} if aliases else {}

    def _field(self, field: AvroField, namespace: str) -> dict[str, Any]:
        found = {"name": field.name, "type": self.render(field.type, namespace)}
        if field.has_default:
            found["default"] = field.default
        if self._given and field.aliases:
            found["aliases"] = list(field.aliases)
        return found if field.column == field.name else {**found, SPARK_NAME: field.column}

    def _leaf(self, avro: AvroType, namespace: str) -> Any:
        found: dict[str, Any] = {"type": avro.kind}
        if avro.name:
            found["name"] = self._unique(avro.name, namespace)
            found |= self._aliases(avro, found["name"])
        if avro.kind == "enum":
            found["symbols"] = list(avro.symbols)
            found |= {"default": avro.default} if self._given and avro.default is not None else {}
        if avro.kind == "fixed":
            found["size"] = avro.size
        if avro.logical:
            found["logicalType"] = avro.logical
        if avro.logical == "decimal":
            found |= {"precision": avro.precision, "scale": avro.scale}
        if avro.hint:
            found[SPARK_TYPE if avro.hint in ("byte", "short") else CATALYST_TYPE] = avro.hint
        return avro.kind if len(found) == 1 else found

    def _unique(self, name: str, namespace: str) -> str:
        return unique(name if "." in name or not namespace else f"{namespace}.{name}", self._taken)
