"""The datum of a field's default, written where the rows lack the field."""

from __future__ import annotations

import struct
from typing import Any

from azureblob_source.avro import varint
from azureblob_source.avro.types import AvroType


def default_bytes(value: Any, avro: AvroType) -> bytes:
    """The datum of a default, which is JSON: a union takes its first branch, bytes are ISO 8859-1 text."""
    match avro.kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return varint.encode(value)
        case "float" | "double":
            return struct.pack("<f" if avro.kind == "float" else "<d", float(value))
        case "enum":
            return varint.encode(avro.symbols.index(value))
        case "fixed":
            return str(value).encode("latin-1")
        case "bytes" | "string":
            content = value.encode("latin-1" if avro.kind == "bytes" else "utf-8")
            return varint.encode(len(content)) + bytes(content)
        case "union":
            return varint.encode(0) + default_bytes(value, avro.branches[0])
        case "record":
            members = (default_bytes(value.get(f.name, f.default), f.type) for f in avro.fields)
            return b"".join(members)
    entries = value.items() if avro.kind == "map" else ((None, one) for one in value)
    keyed = [
        (b"" if key is None else default_bytes(key, AvroType("string"))) + default_bytes(one, avro.element)
        for key, one in entries
    ]
    return (varint.encode(len(keyed)) if keyed else b"") + b"".join(keyed) + b"\0"
