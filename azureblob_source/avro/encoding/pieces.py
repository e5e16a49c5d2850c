"""The bytes that columns contribute to their rows, before they are brought together.

A column gives pieces: `Words`, at most eight bytes of each row held in a 64-bit word; `DictionaryWords`, the same as positions in
a small table; and `Spans`, a run of bytes of each row that already stands in a buffer. Words and codes are read for a
few thousand rows at a time, so that everything done to them stays in the processor's caches. `merge` joins neighbours
while they fit into one word: whole groups of columns then cost one table look-up or one shift for each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from azureblob_source.avro.varint import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azureblob_source.arrow_values import I64, U64, Bytes

TABLE = 4096  # entries of a joined table: 32 KiB of words stay in the first-level cache
_SIZED = 7  # bytes of a word that leave room for its own length
_u = np.uint64
_BITS = _u(3)
KEEP = np.array([(1 << 8 * n) - 1 for n in range(9)], _u)


@dataclass(frozen=True, slots=True)
class Words:
    """At most eight bytes of each row, between `low` and `high`.

    `read(begin, end)` gives those rows as new arrays, which the reader may overwrite: words with the bytes at the low
    end and zeros above, and the numbers of bits. A scalar of either stands for all rows; a piece whose word and bits
    are always the same scalars has that word as its `constant`.
    """

    read: Callable[[int, int], tuple[U64 | np.uint64, U64 | int]]
    low: int
    high: int
    constant: np.uint64 | None = None


@dataclass(frozen=True, slots=True)
class DictionaryWords:
    """The bytes of row i are `table[code[i]]`, `bits[code[i]]` of them; `read(begin, end)` gives their codes.

    `low` and `high` bound the bytes. If `null` is set, the last entry stands for null.
    """

    read: Callable[[int, int], npt.NDArray[Any]]
    table: U64
    bits: U64
    low: int
    high: int
    null: bool = False

    @classmethod
    def of(
        cls, read: Callable[[int, int], npt.NDArray[Any]], table: U64, bits: U64, *, null: bool = False
    ) -> DictionaryWords:
        """Find the bounds."""
        return cls(read, table, bits, int(bits.min()) // 8, int(bits.max()) // 8, null)


@dataclass(frozen=True, slots=True)
class Spans:
    """`length` bytes of each row, from `start` in `data`.

    Starts never go down; where `low` equals `high`, a span of at most eight bytes begins where the one before it ends.
    """

    data: Bytes
    start: I64
    length: U64
    low: int
    high: int


Piece = Words | DictionaryWords | Spans


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
    word, bits = _u(int.from_bytes(content, "little")), 8 * len(content)
    return Words(lambda _begin, _end: (word, bits), len(content), len(content), word)


def merge(pieces: Iterable[Piece]) -> list[Piece]:
    """The same bytes in fewer pieces."""
    merged: list[Piece] = []
    for piece in pieces:
        if piece.high == 0:
            continue
        given = _short(piece) if isinstance(piece, Spans) and piece.high <= WORD else piece
        last = merged[-1] if merged else None
        if last is None or isinstance(given, Spans) or isinstance(last, Spans) or last.high + given.high > WORD:
            merged.append(given)
        else:
            merged[-1] = _joined(last, given)
    return merged


def gather(data: Bytes, start: I64, width: int = WORD) -> U64:
    """`width` bytes from each start, as rows of words. Before and beyond the data there are zeros."""
    if len(start) == 0:
        return np.empty((0, width // WORD), _u)
    base, last = int(start.min()), int(start.max())
    source = _padded(data, base, last + width)
    chunks = np.ndarray(last - base + 1, f"V{width}", source, strides=(1,))[start - base]
    return chunks.view(_u).reshape(-1, width // WORD)


def _padded(data: Bytes, begin: int, end: int) -> Bytes:
    if begin >= 0 and end <= len(data):
        return data[begin:end]
    before = np.zeros(max(0, -begin), np.uint8)
    return np.concatenate([before, data[max(0, begin) : end], np.zeros(max(0, end - len(data)), np.uint8)])


def _short(span: Spans) -> Words:
    """A span of at most eight bytes as words."""
    stride = span.high if span.low == span.high else 0

    def read(begin: int, end: int) -> tuple[U64, U64 | int]:
        start = span.start[begin:end]
        if stride:  # spans of one length follow each other
            source = _padded(span.data, int(start[0]), int(start[-1]) + WORD)
            word: U64 = np.ndarray(len(start), _u, source, strides=(stride,)) & KEEP[stride]
            return word, 8 * stride
        length = span.length[begin:end]
        word = gather(span.data, start).ravel()
        word &= np.take(KEEP, length, mode="clip")
        return word, length << _BITS

    return Words(read, span.low, span.high)


def looked_up(codes: DictionaryWords) -> Words:
    """DictionaryWords as words."""
    table, bits, low, high = codes.table, codes.bits, codes.low, codes.high
    if low == high:
        return Words(lambda begin, end: (np.take(table, codes.read(begin, end), mode="clip"), 8 * low), low, high)
    if high > _SIZED:

        def read(begin: int, end: int) -> tuple[U64, U64]:
            code = codes.read(begin, end)
            return np.take(table, code, mode="clip"), np.take(bits, code, mode="clip")

        return Words(read, low, high)
    sized = table | bits << _u(8 * _SIZED)

    def read_sized(begin: int, end: int) -> tuple[U64, U64]:
        word = np.take(sized, codes.read(begin, end), mode="clip")
        size = word >> _u(8 * _SIZED)
        word &= KEEP[_SIZED]
        return word, size

    return Words(read_sized, low, high)


def _joined(left: Words | DictionaryWords, right: Words | DictionaryWords) -> Words | DictionaryWords:
    if (
        isinstance(left, DictionaryWords)
        and isinstance(right, DictionaryWords)
        and len(left.table) * len(right.table) <= TABLE
    ):
        return _product(left, right)
    if isinstance(left, DictionaryWords) and isinstance(right, Words) and right.constant is not None:
        size = right.high
        table = left.table | right.constant << left.bits
        return DictionaryWords(left.read, table, left.bits + _u(8 * size), left.low + size, left.high + size)
    if isinstance(left, Words) and isinstance(right, DictionaryWords) and left.constant is not None:
        size = left.high
        table = left.constant | right.table << _u(8 * size)
        return DictionaryWords(right.read, table, right.bits + _u(8 * size), right.low + size, right.high + size)
    one = looked_up(left) if isinstance(left, DictionaryWords) else left
    two = looked_up(right) if isinstance(right, DictionaryWords) else right
    if one.constant is not None and two.constant is not None:
        word = one.constant | two.constant << _u(8 * one.high)
        return constant_word(int(word).to_bytes(WORD, "little")[: one.high + two.high])

    def read(begin: int, end: int) -> tuple[Any, Any]:
        word, bits = one.read(begin, end)
        after, more = two.read(begin, end)
        if isinstance(after, np.ndarray):
            after <<= _u(bits) if isinstance(bits, int) else bits
            after |= word
            return after, bits + more
        return word | after << (_u(bits) if isinstance(bits, int) else bits), bits + more

    return Words(read, one.low + two.low, one.high + two.high)


def _product(left: DictionaryWords, right: DictionaryWords) -> DictionaryWords:
    count = len(right.table)
    table = left.table[:, None] | (right.table << left.bits[:, None])
    bits = left.bits[:, None] + right.bits

    def read(begin: int, end: int) -> npt.NDArray[Any]:
        code = left.read(begin, end) * count
        code += right.read(begin, end)
        return code

    return DictionaryWords(read, table.ravel(), bits.ravel(), left.low + right.low, left.high + right.high)
