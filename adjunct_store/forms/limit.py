"""How many bytes of values one look-up may find: as many rows may find much more than they have."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

_FIELD_BYTES = 8
"""Of a number or an offset in Arrow, nearly."""


class TooManyBytesError(Exception):
    """The values of these keys take more bytes than the caller wants at once. It asks for fewer keys."""


@dataclass
class ByteBudget:
    """Counts bytes up to a number of them; None for any."""

    at_most: int | None
    bytes: int = 0

    def add(self, found: int) -> None:
        """`TooManyBytesError` if there are more now."""
        self.bytes += found
        if self.at_most is not None and self.bytes > self.at_most:
            raise TooManyBytesError


def growth(values: pa.DataType) -> int:
    """How many times as large as in Avro values may be in Arrow: a small number of a list takes one byte there."""
    types = pa.types
    if types.is_struct(values):
        return max((growth(each.type) for each in values), default=1)
    return _FIELD_BYTES if types.is_list(values) or types.is_large_list(values) or types.is_map(values) else 1


def row_bytes(values: pa.DataType) -> int:
    """What Arrow takes for each row whatever is in it, be it null."""
    if pa.types.is_struct(values):
        return sum(row_bytes(each.type) for each in values)
    return _FIELD_BYTES
