"""The bytes that columns contribute to their rows, before they are brought together.

A column of n rows gives pieces: `Words`, at most eight bytes of each row held in a 64-bit word; `Codes`, the same as
positions in a small table; and `Spans`, a run of bytes of each row that already stands in a buffer. Neighbouring words
and codes are joined while they fit into one word, so that whole groups of columns cost one table look-up or one shift.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from azureblob_source.varint import U64, WORD

I64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

TABLE = 4096  # entries of a joined table: 32 KiB of words stay in the first-level cache
_u = np.uint64
_KEEP = np.array([(1 << 8 * n) - 1 for n in range(9)], _u)


@dataclass(frozen=True, slots=True)
class Words:
    """`length` bytes of each row, at the low end of `word`; the bytes above are zero. A scalar stands for every row.

    `low` and `high` bound the length.
    """

    word: U64 | np.uint64
    length: U64 | int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Codes:
    """Row i has the bytes `table[code[i]]`, `sizes[code[i]]` of them. If `null` is set, the last entry stands for null."""

    code: npt.NDArray[Any]
    table: U64
    sizes: U64
    low: int
    high: int
    null: bool = False

    def words(self) -> Words:
        """The same looked up."""
        word = np.take(self.table, self.code, mode="clip")
        length: Any = self.low if self.low == self.high else np.take(self.sizes, self.code, mode="clip")
        return Words(word, length, self.low, self.high)


@dataclass(frozen=True, slots=True)
class Spans:
    """`length` bytes of each row, from `start` in `data`."""

    data: Bytes
    start: I64
    length: U64
    low: int
    high: int


Piece = Words | Codes | Spans


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Avro datums one after the other. Row i is `data[offsets[i]:offsets[i + 1]]`; offsets[0] need not be 0."""

    data: Bytes
    offsets: I64

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.offsets) - 1


def constant(content: bytes, count: int) -> list[Piece]:
    """Pieces that put the same bytes into each of `count` rows."""
    if len(content) <= WORD:
        return [constant_word(content)]
    data = np.frombuffer(content, np.uint8)
    length = np.full(count, len(content), _u)
    return [Spans(data, np.zeros(count, np.int64), length, len(content), len(content))]


def constant_word(content: bytes) -> Words:
    """The same few bytes in every row."""
    return Words(_u(int.from_bytes(content, "little")), len(content), len(content), len(content))


def merge(pieces: Iterable[Piece]) -> list[Words | Spans]:
    """The same bytes in fewer pieces. Which pieces come out depends on kinds, bounds and tables, not on the rows."""
    merged: list[Piece] = []
    for piece in pieces:
        if piece.high == 0:
            continue
        given = short_span(piece) if isinstance(piece, Spans) and piece.high <= WORD else piece
        last = merged[-1] if merged else None
        if last is None or isinstance(given, Spans) or isinstance(last, Spans) or last.high + given.high > WORD:
            merged.append(given)
        else:
            merged[-1] = _joined(last, given)
    return [piece.words() if isinstance(piece, Codes) else piece for piece in merged]


def short_span(span: Spans) -> Words:
    """A span of at most eight bytes as words."""
    word = gather(span.data, span.start, span.high if span.low == span.high else 0)
    if span.low < span.high:
        word &= np.take(_KEEP, span.length, mode="clip")
        return Words(word, span.length, span.low, span.high)
    word &= _KEEP[span.high]
    return Words(word, span.high, span.low, span.high)


def gather(data: Bytes, start: I64, stride: int = 0) -> U64:
    """Eight bytes from each start, zeros beyond the end. `stride`: the starts are known to be so far apart."""
    count = len(start)
    if count == 0:
        return np.empty(0, _u)
    base, last = (int(start[0]), int(start[-1])) if stride else (int(start.min()), int(start.max()))
    source = data[base : last + WORD]
    if len(source) < last + WORD - base:
        source = np.concatenate([source, np.zeros(last + WORD - base - len(source), np.uint8)])
    if stride:
        return np.ndarray(count, _u, source, strides=(stride,)).copy()
    words: U64 = np.ndarray(last - base + 1, _u, source, strides=(1,))[start - base]
    return words


def _joined(left: Words | Codes, right: Words | Codes) -> Words | Codes:
    if isinstance(left, Codes) and isinstance(right, Codes) and len(left.table) * len(right.table) <= TABLE:
        return _product(left, right)
    if isinstance(left, Codes) and _is_constant(right):
        word = left.table | (right.word << (left.sizes << _u(3)))  # type: ignore[union-attr]
        return Codes(left.code, word, left.sizes + _u(right.high), left.low + right.high, left.high + right.high)
    if isinstance(right, Codes) and _is_constant(left):
        word = left.word | (right.table << _u(8 * left.high))  # type: ignore[union-attr]
        return Codes(right.code, word, right.sizes + _u(left.high), left.high + right.low, left.high + right.high)
    one = left.words() if isinstance(left, Codes) else left
    two = right.words() if isinstance(right, Codes) else right
    distance: Any = _u(8 * one.length) if isinstance(one.length, int) else one.length << _u(3)
    return Words(one.word | (two.word << distance), one.length + two.length, one.low + two.low, one.high + two.high)


def _is_constant(piece: Words | Codes) -> bool:
    return isinstance(piece, Words) and isinstance(piece.word, np.uint64) and isinstance(piece.length, int)


def _product(left: Codes, right: Codes) -> Codes:
    code = left.code * len(right.table) + right.code
    table = left.table[:, None] | (right.table << (left.sizes << _u(3))[:, None])
    sizes = left.sizes[:, None] + right.sizes
    return Codes(code, table.ravel(), sizes.ravel(), left.low + right.low, left.high + right.high)
