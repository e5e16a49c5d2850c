"""Defaults of record fields: which JSON values are valid for a type, and their Avro encoding. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from arrow_avro.varint import encode

if TYPE_CHECKING:
    from arrow_avro.types import AvroType


_LIMITS = {"int": 2**31, "long": 2**63}
_LATIN_1 = 0xFF


def default_datum(avro: AvroType, default: Any) -> bytes:
    """The encoding of a valid default. In a union it is a value of the first branch for which it is valid."""
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
            return b"".join(default_datum(each.type, default.get(each.name, each.default)) for each in avro.fields)
        case "union":
            index = next(index for index, branch in enumerate(avro.branches) if is_valid_default(branch, default))
            return encode(index) + default_datum(avro.branches[index], default)
        case "array":
            return _block([default_datum(avro.element, item) for item in default])
        case "map":
            return _block([_string(key) + default_datum(avro.element, value) for key, value in default.items()])
    return b""


def _string(key: str) -> bytes:
    return encode(len(key.encode())) + key.encode()


def _block(items: list[bytes]) -> bytes:
    return b"".join([encode(len(items)), *items, encode(0)]) if items else encode(0)


def is_valid_default(avro: AvroType, default: Any) -> bool:
    """Whether a JSON value is a default for `avro`. A record within itself has no defaults."""
    match avro.kind, default:
        case "union", _:
            return any(is_valid_default(branch, default) for branch in avro.branches)
        case "array", list():
            return all(is_valid_default(avro.element, item) for item in default)
        case "map", dict():
            return all(is_valid_default(avro.element, item) for item in default.values())
        case "record", dict():
            names = {each.name for each in avro.fields if not each.has_default} - default.keys()
            given = (each for each in avro.fields if each.name in default or each.has_default)
            return not names and all(
                is_valid_default(each.type, default.get(each.name, each.default)) for each in given
            )
    return _is_valid_leaf(avro, default)


def _is_valid_leaf(avro: AvroType, default: Any) -> bool:
    match avro.kind, default:
        case ("null", None) | ("boolean", bool()) | ("string", str()):
            return True
        case (("int" | "long"), int()) if not isinstance(default, bool):
            return -_LIMITS[avro.kind] <= default < _LIMITS[avro.kind]
        case (("float" | "double"), (int() | float())) if not isinstance(default, bool):
            return _is_in_range(avro.kind, default)
        case (("bytes" | "fixed"), str()):
            return max(map(ord, default), default=0) <= _LATIN_1 and (avro.kind == "bytes" or len(default) == avro.size)
        case "enum", str():
            return default in avro.symbols
    return False


def _is_in_range(kind: str, number: float) -> bool:
    try:
        struct.pack("<f" if kind == "float" else "<d", number)
    except OverflowError:
        return False
    return True
