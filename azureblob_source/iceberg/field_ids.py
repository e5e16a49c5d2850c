"""Iceberg's field ids: numbers that columns, and fields within them, keep for the life of a table. Pure.

Data blobs have no ids. The table's metadata gives each path of the rows one, and a name mapping says which name in
the blobs has which id.

path        of
a           a column
a.b         a field of a record
a.element   the elements of an array
m.key       the keys of a map
m.value     its values
`x.y`.b     field b of a column whose name has a dot
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from arrow_avro import AvroType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from arrow_avro import AvroSchema


def assigned(schema: AvroSchema, before: Mapping[str, int]) -> dict[str, int]:
    """The id of each path that rows have or had: those of `before`, and for new ones the next higher numbers.

    Paths that rows have no longer stay, so that no id is given twice. Of a union of several types, of a variant and of
    a record within itself only the path itself has an id.
    """
    fresh = count(max(before.values(), default=0) + 1)
    ids = dict(before)
    for path in _paths_within(schema.row):
        if path not in ids:
            ids[path] = next(fresh)
    return ids


def path_of(name: str, within: str = "") -> str:
    """The path of a column, or of the field `name` of what is at path `within`."""
    level = f"`{name.replace('`', '``')}`" if "." in name or "`" in name else name
    return f"{within}.{level}" if within else level


def inner_types(avro: AvroType) -> list[tuple[str, str, AvroType]]:
    """The types directly within a type that have ids: name in a file, name in a path, type."""
    avro = avro.nullable or avro
    match avro.kind:
        case "record" if not avro.is_variant:
            return [(member.name, member.column, member.type) for member in avro.fields]
        case "array" if avro.logical == "map":
            return [(member.name, member.name, member.type) for member in avro.element.fields]
        case "array":
            return [("element", "element", avro.element)]
        case "map":
            return [("key", "key", AvroType("string")), ("value", "value", avro.element)]
    return []


def _paths_within(avro: AvroType, path: str = "") -> Iterator[str]:
    """The paths below that of a type."""
    for _, name, inner in inner_types(avro):
        below = path_of(name, path)
        yield below
        yield from _paths_within(inner, below)
