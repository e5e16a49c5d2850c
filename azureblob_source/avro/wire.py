"""What stands in a file for a value: the parts of a type that have bytes, and the datum of a field's default. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from azureblob_source.avro.varint import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureblob_source.avro.types import AvroType


def walk(avro: AvroType) -> Iterator[AvroType]:
    """The type and all types in it, but none behind a reference."""
    yield avro
    for inner in (*(member.type for member in avro.fields), *avro.branches, *([avro.items] if avro.items else [])):
        yield from walk(inner)


def may_be_null(avro: AvroType) -> bool:
    """Whether values of `avro` may be null."""
    return any(one.kind == "null" for one in (avro, *avro.branches))


def value_branches(avro: AvroType) -> tuple[AvroType, ...]:
    """The types that values other than null have: the branches of a union, or the type itself."""
    return tuple(one for one in (avro.branches if avro.kind == "union" else (avro,)) if one.kind != "null")


def has_no_bytes(avro: AvroType) -> bool:
    """Whether values of `avro` have no bytes at all."""
    match avro.kind:
        case "null":
            return True
        case "fixed":
            return avro.size == 0
        case "record":
            return all(has_no_bytes(member.type) for member in avro.fields)
    return False


def datum(avro: AvroType, default: Any) -> bytes:
    """The bytes of a default, which is JSON; a union takes the first branch that it fits.

    Raises ValueError, TypeError, AttributeError or LookupError, or struct.error, if it fits nowhere.
    """
    match avro.kind:
        case "boolean":
            return bytes([default])
        case "int" | "long" | "enum":
            return encode(avro.symbols.index(default) if avro.kind == "enum" else default)
        case "float" | "double":
            return struct.pack("<f" if avro.kind == "float" else "<d", float(default))
        case "bytes" | "string":
            content = bytes(default.encode("latin-1" if avro.kind == "bytes" else "utf-8"))
            return encode(len(content)) + content
        case "fixed":
            return bytes(default.encode("latin-1"))
        case "record":
            return b"".join(datum(each.type, default.get(each.name, each.default)) for each in avro.fields)
        case "union":
            place = next((place for place, branch in enumerate(avro.branches) if _fits(branch, default)), 0)
            return encode(place) + datum(avro.branches[place], default)
        case "array":
            return _block([datum(avro.element, item) for item in default])
        case "map":
            return _block([_text(key) + datum(avro.element, value) for key, value in default.items()])
    return b""


def _text(key: str) -> bytes:
    return encode(len(key.encode())) + key.encode()


def _block(items: list[bytes]) -> bytes:
    return b"".join([encode(len(items)), *items, encode(0)]) if items else encode(0)


def _fits(avro: AvroType, default: Any) -> bool:
    match default:
        case None:
            return avro.kind == "null"
        case bool():
            return avro.kind == "boolean"
        case int():
            return avro.kind in ("int", "long", "float", "double")
        case float():
            return avro.kind in ("float", "double")
        case str():
            return default in avro.symbols if avro.kind == "enum" else avro.kind in ("string", "bytes", "fixed")
        case list():
            return avro.kind == "array"
    return avro.kind in ("record", "map")
