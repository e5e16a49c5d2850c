"""Avro decimals (big-endian two's complement, of any length) to Arrow decimals (little-endian, 16 bytes). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro.decoding.buffers import filled

if TYPE_CHECKING:
    import numpy.typing as npt

    from arrow_avro.arrow_values import Bytes

_SIZE = 16
_SIGN = 0x80  # the bit of the first byte that is set in negative numbers
_LOWEST = np.array([0] * (_SIZE - 1) + [_SIGN], np.uint8)
_PLACES = np.arange(_SIZE)


def decimals(arrow: pa.DataType, offsets: npt.NDArray[np.int32], data: Bytes) -> pa.Array:
    """The decimals whose bytes are between neighbouring offsets. A decimal without bytes is zero.

    Raises ArrowInvalid for a number beyond the precision.
    """
    start, end = offsets[:-1], offsets[1:]
    length = end - start
    if not len(data):
        return _array(arrow, np.zeros((len(length), _SIZE), np.uint8))
    first = np.take(data, start, mode="clip")
    sign = np.where((length > 0) & (first >= _SIGN), np.uint8(255), np.uint8(0))
    # The last 16 bytes of each number, reversed. Of a shorter number the rest belongs to the number before it.
    padded = np.concatenate([np.zeros(_SIZE, np.uint8), data])
    tails = np.lib.stride_tricks.sliding_window_view(padded, _SIZE)[end][:, ::-1]
    _check_fit(length, sign, tails[:, -1], start, data)
    return _array(arrow, np.where(length[:, None] > _PLACES, tails, sign[:, None]))


def _check_fit(
    length: npt.NDArray[np.int32], sign: Bytes, highest: Bytes, start: npt.NDArray[np.int32], data: Bytes
) -> None:
    """Raises ArrowInvalid unless all bytes before the last 16 of a number only repeat their sign."""
    long = length > _SIZE
    if not long.any():
        return
    begin, stop = start[long], (start + length - _SIZE)[long]
    for filler in (0, 255):
        others = np.concatenate([[0], np.cumsum(data != filler)])
        extended = (others[stop] == others[begin]) & ((highest[long] >= _SIGN) == (filler >= _SIGN))
        if not (extended | (sign[long] != filler)).all():
            raise pa.ArrowInvalid("a decimal has more than 128 bits")


def _array(arrow: pa.DataType, numbers: Bytes) -> pa.Array:
    array = filled(arrow, len(numbers), numbers)
    array.validate(full=True)  # the precision
    if (numbers == _LOWEST).all(axis=1).any():  # Arrow accepts it because its absolute value overflows
        raise pa.ArrowInvalid("a decimal has more digits than its precision")
    return array
