"""Avro's zig-zag varints for whole arrays: each as little-endian bytes in 64-bit words, with its length.

A varint of up to eight bytes fits into one word; the ninth and tenth byte of longer ones are in a second word. Bytes of
a word beyond the length are zero. -70 has the zig-zag number 139 and the varint 8b 01, which is the word 0x018b.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from arrow_avro.arrow_values import U64

WORD = 8
TABLED = 1 << 15  # the tables hold the signed numbers from -TABLED to TABLED - 1

_u = np.uint64
_ALL = 0x8080808080808080
# The continuation bits of a word, by the length of its varint.
_CONTINUE = np.array([0, 0, *(_ALL & ((1 << 8 * n) - 1) for n in range(1, 8)), _ALL, _ALL], _u)
_SPREAD = (
    (_u(0x000000000FFFFFFF), _u(0x00FFFFFFF0000000), _u(4)),
    (_u(0x00003FFF00003FFF), _u(0x0FFFC0000FFFC000), _u(2)),
    (_u(0x007F007F007F007F), _u(0x3F803F803F803F80), _u(1)),
)


def zigzag(values: npt.NDArray[Any]) -> U64:
    """Signed integers of any width as zig-zag numbers: 0, -1, 1, -2 become 0, 1, 2, 3."""
    doubled = values.astype(np.int64)
    sign = doubled >> 63
    doubled <<= 1
    doubled ^= sign
    return doubled.view(_u)


def size(value: int) -> int:
    """Bytes of the varint of one zig-zag number."""
    return max(1, -(-value.bit_length() // 7))


def encode(value: int) -> bytes:
    """The varint of one signed number."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest >> 7:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def lengths(zigzagged: U64, low: int, high: int) -> U64:
    """Bytes of each varint, which are known to be from `low` to `high`."""
    count = np.full(len(zigzagged), low, np.uint8)
    for bytes_less in range(low, high):
        count += zigzagged >= _u(1 << 7 * bytes_less)
    return count.astype(_u)


def tables(smallest: int, largest: int) -> tuple[U64, U64]:
    """Words and numbers of bits of all signed numbers in the range, which lies within -TABLED and TABLED - 1."""
    words_of, bits_of = _tables()
    return words_of[smallest + TABLED : largest + TABLED + 1], bits_of[smallest + TABLED : largest + TABLED + 1]


@cache
def _tables() -> tuple[U64, U64]:
    number = zigzag(np.arange(-TABLED, TABLED))
    length = lengths(number, 1, 3)
    return words(number, length), length << _u(3)


def words(zigzagged: U64, length: U64 | int) -> U64:
    """The first eight bytes of each varint."""
    word = zigzagged
    for keep, move, distance in _SPREAD:
        moved = word & move
        moved <<= distance
        word = word & keep
        word |= moved
    word |= _CONTINUE[length] if isinstance(length, int) else np.take(_CONTINUE, length, mode="clip")
    return word


def tails(zigzagged: U64) -> U64:
    """The ninth and tenth byte of each varint, zero where it has fewer."""
    top = zigzagged >> _u(56)
    more = (top > _u(0x7F)).astype(_u)
    return (top & _u(0x7F)) | (more << _u(7)) | (more << _u(8))
