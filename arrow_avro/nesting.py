"""Limits how deeply types are nested, because everything that walks over a schema is recursive, in Spark too. Pure.

Two limits: of the JSON, checked without recursion before types are made of it; and of the types, as a few lines of JSON
with named types can define any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arrow_avro.limits import MAX_LEVELS
from arrow_avro.schema_parser import UnsupportedSchemaError

if TYPE_CHECKING:
    from arrow_avro.types import AvroType

_JSON_LEVELS = 6 * MAX_LEVELS  # a nullable record takes four


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
