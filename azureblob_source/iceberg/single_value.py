"""Bounds of a column as bytes, by Iceberg's binary single-value serialisation. Pure.

Numbers are little-endian, but for a decimal: its unscaled value is big-endian, in as few bytes as hold it.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arrow_avro import AvroType

_NUMBERS = {
    ("boolean", ""): "<?",
    ("int", ""): "<i",
    ("int", "date"): "<i",
    ("long", ""): "<q",
    ("long", "timestamp-micros"): "<q",
    ("long", "local-timestamp-micros"): "<q",
    ("float", ""): "<f",
    ("double", ""): "<d",
}


def encoded(avro: AvroType, value: float | str) -> bytes | None:
    """A bound of a column of this type; None if the type has no bounds here, or readers would not take the value.

    value: a date in days, a timestamp in microseconds, a decimal unscaled. Of floats and doubles the caller gives a
      lower bound of zero as -0.0 and an upper one as 0.0, since readers take these for two values in this order.
    """
    avro = avro.nullable or avro
    match value:
        case str():
            return value.encode() if (avro.kind, avro.logical) == ("string", "") else None
        case int() if avro.logical == "decimal":
            return value.to_bytes(_bytes_of(value), "big", signed=True)
        case _:
            return _number(avro, value)


def _bytes_of(unscaled: int) -> int:
    """The bytes of a number and its sign."""
    return (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1


def _number(avro: AvroType, value: float) -> bytes | None:
    form = _NUMBERS.get((avro.kind, avro.logical))
    is_interval = avro.kind == "long" and avro.hint
    if form is None or is_interval or math.isnan(value) or (form in ("<i", "<q") and isinstance(value, float)):
        return None
    try:
        return struct.pack(form, value)
    except (struct.error, OverflowError):
        return None
