"""Keys as bytes in the order of the typed keys: numbers big-endian with the sign bit flipped, strings as they are.

    ("AA", 17)  ─►  41 41 00 00  80 00 00 11      a string before another column ends with 00 00, and has 00 FF for 00
    (17, "AA")  ─►  80 00 00 11  41 41            the last column has its bytes as they are

So a store that is sorted by its bytes is sorted by its keys, and the keys that begin with given columns lie together.
Strings are ordered by their UTF-8 bytes, as Spark orders them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.encoding.arrays import constant
from adjunct_store.encoding.schema import key_type_name
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUL, _ESCAPED_NUL, _END = b"\x00", b"\x00\xff", b"\x00\x00"


def encode_keys(keys: pa.RecordBatch) -> pa.Array:
    """The bytes of each key, as `large_binary`; null where a column is null. Columns as of `StoreSchema.keys`."""
    last = keys.num_columns - 1
    columns = [_encoded(column, last=number == last) for number, column in enumerate(keys.columns)]
    if len(columns) == 1:
        return columns[0]
    return pc.binary_join_element_wise(*columns, constant(b""))


def key_columns(values: Sequence[Sequence[object]], keys: pa.Schema) -> pa.RecordBatch:
    """Keys that are given as tuples. `ConfigurationError` for values that are not of the columns' types."""
    for key in values:
        if isinstance(key, str | bytes):
            raise ConfigurationError(f"Key {key!r} is not a tuple of the key columns. Give ({key!r},).")
        if len(key) != len(keys):
            have = ", ".join(keys.names)
            raise ConfigurationError(f"Key {key!r} has {len(key)} values; the store has the columns {have}.")
    columns = [_exactly([key[number] for key in values], column) for number, column in enumerate(keys)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([column.with_nullable(True) for column in keys]))


def _exactly(values: Sequence[object], column: pa.Field) -> pa.Array:
    """Arrow takes 1.5 as 1, and a time without a zone as one in UTC: such keys would be found under another one."""
    of = f"Key column {column.name!r} of the store has type {key_type_name(column)}"
    try:
        typed = pa.array(values, column.type)
        stored = typed.to_pylist()
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError) as error:
        kinds = ", ".join(sorted({type(each).__name__ for each in values}))
        raise ConfigurationError(f"{of}; the type that is looked up is {kinds}: {error}. Convert it.") from error
    for value, found in zip(values, stored, strict=True):
        if value != found:
            raise ConfigurationError(f"{of}; {value!r} is looked up, which would be taken for {found!r}. Convert it.")
    return typed


def encode_prefix(first: Sequence[object], keys: pa.Schema) -> bytes:
    """What the keys begin with that have these first columns, of which a last string may be the beginning of one."""
    if len(first) > len(keys):
        raise ConfigurationError(f"A prefix has {len(first)} values; the store has {len(keys)} key columns.")
    columns = pa.schema(list(keys)[: len(first)])
    if not first:
        return b""
    batch = key_columns([first], columns)
    encoded = [_encoded(column, last=number == len(first) - 1) for number, column in enumerate(batch.columns)]
    prefix = b"".join(each[0].as_py() or b"" for each in encoded)
    if any(each.null_count for each in encoded):
        raise ConfigurationError(f"Prefix {first!r} has a null: no key has one.")
    inner = len(first) < len(keys) and _has_bytes(columns[-1].type)
    return _escaped_bytes(prefix, encoded[-1][0].as_py()) if inner else prefix


def decode_keys(encoded: pa.Array, keys: pa.Schema) -> pa.RecordBatch:
    """The inverse of `encode_keys`, for keys without nulls."""
    rest = [each.as_py() for each in encoded]
    columns = []
    for number, column in enumerate(keys):
        values = []
        for row, key in enumerate(rest):
            value, rest[row] = _decoded(key, column.type, last=number == len(keys) - 1)
            values.append(value)
        columns.append(pa.array(values, _stored_as(column.type)).cast(column.type))
    return pa.RecordBatch.from_arrays(columns, schema=keys)


def readable_key(keys: pa.RecordBatch) -> str:
    """The first of some keys, in a message."""
    values = zip(keys.schema.names, (_readable(column[0]) for column in keys.columns), strict=True)
    return ", ".join(f"{name}={value}"[:80] for name, value in values)


def _readable(value: pa.Scalar) -> str:
    """Python has dates and times of the years 1 to 9999 only."""
    try:
        return repr(value.as_py())
    except (OverflowError, ValueError):
        unit = "days" if pa.types.is_date(value.type) else value.type.unit
        return f"{value.cast(_stored_as(value.type)).as_py():,} {unit} after 1970-01-01"


def _encoded(column: pa.Array, *, last: bool) -> pa.Array:
    if _has_bytes(column.type):
        data = column.cast(pa.large_binary())
        return data if last else _terminated(data)
    stored = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
    width = stored.type.bit_width // 8
    numbers = np.frombuffer(stored.buffers()[1] or b"", f"i{width}")[stored.offset : stored.offset + len(stored)]
    unsigned = numbers.view(f"u{width}")
    if not pa.types.is_boolean(column.type):
        unsigned = unsigned ^ np.array(1 << (8 * width - 1), f"u{width}")
    data = unsigned.astype(f">u{width}").tobytes()
    offsets = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int64)
    whole = pa.Array.from_buffers(pa.large_binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return pc.if_else(column.is_valid(), whole, constant(None)) if column.null_count else whole


def _terminated(data: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(data, pattern=_NUL, replacement=_ESCAPED_NUL)
    end = constant(_END)
    return pc.binary_join_element_wise(escaped, end, constant(b""))


def _escaped_bytes(prefix: bytes, last: bytes) -> bytes:
    return prefix[: len(prefix) - len(last)] + last.replace(_NUL, _ESCAPED_NUL)


def _has_bytes(arrow: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow) or types.is_large_string(arrow) or types.is_binary(arrow) or types.is_large_binary(arrow)
    )


def _decoded(key: bytes, arrow: pa.DataType, *, last: bool) -> tuple[Any, bytes]:
    """The value of a column, and what comes after it."""
    if _has_bytes(arrow):
        text, rest = (key, b"") if last else _until_end(key)
        return (text if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) else text.decode()), rest
    if pa.types.is_boolean(arrow):
        return bool(key[0]), key[1:]
    width = arrow.bit_width // 8
    return int.from_bytes(key[:width], "big") - (1 << (8 * width - 1)), key[width:]


def _until_end(key: bytes) -> tuple[bytes, bytes]:
    at = key.index(_NUL)
    while key[at : at + 2] == _ESCAPED_NUL:
        at = key.index(_NUL, at + 2)
    return key[:at].replace(_ESCAPED_NUL, _NUL), key[at + 2 :]


def _stored_as(arrow: pa.DataType) -> pa.DataType:
    """Dates and timestamps are numbers: Python has them from year 1 to 9999 only."""
    if pa.types.is_date(arrow):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(arrow) else arrow
