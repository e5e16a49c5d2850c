"""How deeply types stand within each other: bounded, as each walk over a schema is recursive, and Spark's too. Pure.

Two bounds: of the JSON text, looked at without recursion and before anything else; and of the types, as a named type
may stand for any depth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azureblob_source.avro.limits import MAX_LEVELS
from azureblob_source.avro.schema_parser import UnsupportedSchemaError

if TYPE_CHECKING:
    from azureblob_source.avro.types import AvroType

_JSON_LEVELS = 6 * MAX_LEVELS  # a nullable record takes four


def check_json(schema: Any) -> None:
    """Raise UnsupportedSchemaError for JSON that is nested more deeply than a schema within the limit can be."""
    level = [schema]
    for _ in range(_JSON_LEVELS):
        level = [inner for one in level for inner in _inner(one)]
        if not level:
            return
    raise UnsupportedSchemaError(_message())


def check_levels(avro: AvroType) -> None:
    """Raise UnsupportedSchemaError for more levels of records, arrays and maps than `MAX_LEVELS`."""
    if _levels(avro, {}) > MAX_LEVELS:
        raise UnsupportedSchemaError(_message())


def _levels(avro: AvroType, known: dict[int, int]) -> int:
    if id(avro) not in known:
        inner = [*(member.type for member in avro.fields), *avro.branches, *([avro.items] if avro.items else [])]
        own = avro.kind in ("record", "array", "map")
        known[id(avro)] = own + max((_levels(one, known) for one in inner), default=0)
    return known[id(avro)]


def _inner(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
    return []


def _message() -> str:
    return (
        f"has types that are nested more than {MAX_LEVELS} levels deep, which neither this reader nor Spark can process"
    )
