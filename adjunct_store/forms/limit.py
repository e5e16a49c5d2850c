"""How many bytes of values one look-up may find: as many rows may find much more than they have."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

_FIELD_BYTES = 8
"""Of a number or an offset in Arrow, nearly."""


class TooManyBytesError(Exception):
    """The values of these keys take more bytes than the caller wants at once. It asks for fewer keys."""


@dataclass
class Limit:
    """Counts bytes up to a number of them; None for any."""

    at_most: int | None
    bytes: int = 0

    def add(self, found: int) -> None:
        """`TooManyBytesError` if there are more now."""
        self.bytes += found
        if self.at_most is not None and self.bytes > self.at_most:
            raise TooManyBytesError


def row_bytes(values: pa.DataType) -> int:
    """What Arrow takes for each row whatever is in it, be it null."""
    if pa.types.is_struct(values):
        return sum(row_bytes(each.type) for each in values)
    return _FIELD_BYTES
