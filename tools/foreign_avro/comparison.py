"""Compares rows that this project read from an Avro file with the values that fastavro read from it.

fastavro's logical types are switched off, so that its values are the stored ones. What a logical type makes of them is
computed here, by the specification: so a timestamp of the year 20000 is compared like any other.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import fastavro
import fastavro.read
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import BinaryIO

MAX_PRECISION = 38
"""Decimals of more digits have no column type and are read as their bytes."""

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_TYPES = PRIMITIVES | {"record", "error", "enum", "fixed", "array", "map"}
_KINDS: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("int", "long"),
    float: ("float", "double"),
    str: ("string",),
    bytes: ("bytes",),
    list: ("array",),
    dict: ("map",),
}
_TO_MICROS: dict[str, Callable[[int], int]] = {
    "time-millis": lambda value: value * 1000,
    "timestamp-millis": lambda value: value * 1000,
    "timestamp-nanos": lambda value: value // 1000,
    "local-timestamp-millis": lambda value: value * 1000,
    "local-timestamp-nanos": lambda value: value // 1000,
}


def stored(file: BinaryIO) -> tuple[Any, list[Any]]:
    """The schema of an Avro file and its datums without logical types, by fastavro. Errors are fastavro's.

    Call it in a process of its own: it switches logical types off for good.
    """
    fastavro.read.LOGICAL_READERS.clear()
    reader = fastavro.reader(file, return_named_type=True)
    return reader.writer_schema, list(reader)


def numbers(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch, with times, dates and durations as the integers that Arrow stores."""
    if not batch.num_columns:
        return [{}] * batch.num_rows
    rows: list[dict[str, Any]] = batch.cast(pa.schema([_numeric_field(field) for field in batch.schema])).to_pylist()
    return rows


def difference(schema: Any, ours: Iterable[Mapping[str, Any]], theirs: Iterable[Any]) -> str | None:
    """Where two readings of a file differ first, or None. `ours` are from `numbers`, `theirs` from `stored`."""
    named: dict[str, Any] = {}
    root = fastavro.parse_schema(schema, named)
    compare = _Comparison(named)
    for number, (row, datum) in enumerate(zip(ours, theirs, strict=False)):
        value = row if _kind(root) in ("record", "error") else row.get("value")
        found = compare.difference(root, value, datum)
        if found is not None:
            return f"row {number}{found}"
    return None


class _Comparison:
    """Compares values by their schema. A difference is reported by its path and the two values."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def difference(self, schema: Any, ours: Any, theirs: Any) -> str | None:
        """Where two values of a type differ first."""
        schema = self._resolved(schema)
        kind = _kind(schema)
        if kind == "union":
            return self._union(schema, ours, theirs)
        theirs = theirs[1] if isinstance(theirs, tuple) else theirs
        if ours is None and theirs is not None:
            return f": None, not {_short(theirs)}"
        match kind:
            case "record" | "error":
                return self._record(schema, ours, theirs)
            case "array":
                return self._items(schema["items"], [_entry(item) for item in ours], theirs)
            case "map":
                return self._map(schema["values"], dict(ours), theirs)
        expected = _leaf(schema, kind, theirs)
        same = repr(ours) == repr(expected)  # of one type, NaN like NaN, 0.0 unlike -0.0
        return None if same else f": {_short(ours)}, not {_short(expected)}"

    def _resolved(self, schema: Any) -> Any:
        while isinstance(schema, dict) and (not isinstance(schema["type"], str) or schema["type"] not in _TYPES):
            schema = schema["type"]
        return self._named[schema] if isinstance(schema, str) and schema not in PRIMITIVES else schema

    def _record(self, schema: Any, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str | None:
        columns = [field.get("sparkName", field["name"]) for field in schema["fields"]]
        if columns != list(ours):
            return f": columns {list(ours)}, not {columns}"
        for field, value in zip(schema["fields"], ours.values(), strict=True):
            found = self.difference(field["type"], value, theirs[field["name"]])
            if found is not None:
                return f".{field['name']}{found}"
        return None

    def _items(self, items: Any, ours: list[Any], theirs: list[Any]) -> str | None:
        if len(ours) != len(theirs):
            return f": {len(ours)} elements, not {len(theirs)}"
        for place, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            found = self.difference(items, mine, other)
            if found is not None:
                return f"[{place}]{found}"
        return None

    def _map(self, values: Any, ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
        if ours.keys() != theirs.keys():
            return f": keys {list(ours)}, not {list(theirs)}"
        for key, value in theirs.items():
            found = self.difference(values, ours[key], value)
            if found is not None:
                return f"[{key!r}]{found}"
        return None

    def _union(self, branches: list[Any], ours: Any, theirs: Any) -> str | None:
        """A union of one type and null is the type's column; one of more types is a struct with a member for each.

        fastavro gives the branch only of a named type, so any other member that admits the value is right.
        """
        others = [branch for branch in branches if _kind(self._resolved(branch)) != "null"]
        if theirs is None:
            return None if ours is None else f": {_short(ours)}, not None"
        if len(others) == 1:
            return self.difference(others[0], ours, theirs)
        members = [] if ours is None else [place for place, value in enumerate(ours.values()) if value is not None]
        if len(members) != 1:
            return f": {_short(ours)}, not {_short(theirs)}"
        branch = self._resolved(others[members[0]])
        if not _admits(branch, theirs):
            return f": member{members[0]}, not {_short(theirs)}"
        return self.difference(branch, ours[f"member{members[0]}"], theirs)


def _kind(schema: Any) -> str:
    return "union" if isinstance(schema, list) else schema if isinstance(schema, str) else str(schema["type"])


def _entry(item: Any) -> Any:
    """An element of an array. An entry of a map, which the array's logical type made of it, becomes a record again."""
    return dict(zip(("key", "value"), item, strict=True)) if isinstance(item, tuple) else item


def _admits(branch: Any, datum: Any) -> bool:
    if isinstance(datum, tuple):
        return isinstance(branch, dict) and datum[0] == branch.get("name")
    return _kind(branch) in _KINDS[type(datum)]


def _leaf(schema: Any, kind: str, datum: Any) -> Any:
    """The column's value for a datum of a type without inner types."""
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if logical == "decimal" and kind in ("bytes", "fixed") and _is_decimal(schema):
        unscaled = int.from_bytes(datum, "big", signed=True)
        return Decimal(unscaled).scaleb(-schema.get("scale", 0), Context(prec=MAX_PRECISION))
    valid = logical in _TO_MICROS and kind == ("int" if logical == "time-millis" else "long")
    return _TO_MICROS[logical](datum) if valid and logical is not None else datum


def _is_decimal(schema: Any) -> bool:
    """Whether a decimal is valid (the specification says to ignore it otherwise) and fits a column."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not (type(precision) is int and type(scale) is int and 0 <= scale <= precision <= MAX_PRECISION and precision):
        return False
    return "size" not in schema or bool(10**precision <= 1 << 8 * schema["size"] - 1)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 - fits a line


def _numeric_field(field: pa.Field) -> pa.Field:
    """Nullable, as Arrow refuses to cast a null struct with a field that must not be null."""
    return field.with_type(_numeric(field.type)).with_nullable(True)


def _numeric(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(arrow):
        return pa.struct([_numeric_field(field) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(arrow.key_field, _numeric_field(arrow.item_field))
    if pa.types.is_list(arrow):
        return pa.list_(_numeric_field(arrow.value_field))
    if pa.types.is_temporal(arrow):
        return pa.int32() if arrow.bit_width == 32 else pa.int64()  # noqa: PLR2004 - dates
    return arrow
