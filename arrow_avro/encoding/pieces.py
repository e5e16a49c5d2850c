"""The bytes that columns contribute to their rows, before they are brought together.

A column returns pieces of three kinds; each gives every row some bytes, perhaps none::

    Words             read(begin, end) ─► words, bits     row i: the first bits[i] / 8 bytes of words[i]
    DictionaryWords   read(begin, end) ─► indices         row i: the first bits[k] / 8 bytes of table[k], k = indices[i]
    Spans             start, length                       row i: data[start[i] : start[i] + length[i]]

A word is an unsigned 64-bit number whose lowest byte comes first. Words and indices are read for a few thousand rows at
a time, so that everything done with them stays in the processor's caches. `merge` joins neighbours while they fit into
one word: a group of columns then costs one table look-up, or one shift, for each row.

The pieces of the example in `encode`, in hexadecimal::

    id      Words             02                                    the branch
            DictionaryWords   06, 08, 0a                            indices 0, 2
    name    Words             02                                    the branch
            DictionaryWords   08, 0a, 0c, 0e, 10, 12, 14, 16, 18    indices 8, 0: the lengths
            Spans             Ada Lovelace, Alan
    note    DictionaryWords   02 00, 00                             indices 1, 1: the branch, and the length if not null
            Spans             nothing in either row

and merged, all words up to the length of the name being one dictionary of 27 entries::

            DictionaryWords   02 06 02 08, …, 02 0a 02 18           indices 8, 18: 02 06 02 18 and 02 0a 02 08
            Spans             Ada Lovelace, Alan
            DictionaryWords   02 00, 00                             indices 1, 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from arrow_avro.varint import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arrow_avro.arrow_values import I64, U64, Bytes, Flags

MAX_TABLE = 4096  # entries of a merged table: 32 KiB of words stay in the first-level cache
_SIZED = 7  # bytes of a word that leave a byte for its own length
_u = np.uint64
_BITS = _u(3)
KEEP = np.array([(1 << 8 * n) - 1 for n in range(9)], _u)
"""Masks for the first n bytes of a word."""


@dataclass(frozen=True, slots=True)
class Words:
    """From `low` to `high` bytes of each row, at most eight.

    `read(begin, end)` returns new arrays for those rows, which the caller may overwrite: words with zeros above their
    bytes, and numbers of bits. A scalar of either holds for all rows; a piece whose word and bits are always the same
    scalars has that word as its `constant`.
    """

    read: Callable[[int, int], tuple[U64 | np.uint64, U64 | int]]
    low: int
    high: int
    constant: np.uint64 | None = None


@dataclass(frozen=True, slots=True)
class DictionaryWords:
    """From `low` to `high` bytes of each row, dictionary-encoded: `read(begin, end)` returns indices into a `table`.

    bits: how many each entry has. With `null`, the last entry is the one for null.
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
        """Find `low` and `high`."""
        return cls(read, table, bits, int(bits.min()) // 8, int(bits.max()) // 8, null)


@dataclass(frozen=True, slots=True)
class Spans:
    """`length` bytes of each row, from `low` to `high`, which begin at `start` in `data`.

    Starts never decrease. Where `low` equals `high`, each span of at most eight bytes begins where the one before ends.
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
    """A piece that is the same in each of `count` rows: a word, or a span if they are more than eight."""
    if len(content) <= WORD:
        return [constant_word(content)]
    data = np.frombuffer(content, np.uint8)
    length = np.full(count, len(content), _u)
    return [Spans(data, np.zeros(count, np.int64), length, len(content), len(content))]


def constant_word(content: bytes) -> Words:
    """A word that is the same in every row: at most eight bytes."""
    word, bits = _u(int.from_bytes(content, "little")), 8 * len(content)
    return Words(lambda _begin, _end: (word, bits), len(content), len(content), word)


def either(valid: Flags, present: bytes, absent: bytes) -> DictionaryWords:
    """`present` in rows that are `valid`, `absent` in the others; at most eight bytes each."""
    table = np.array([int.from_bytes(present, "little"), int.from_bytes(absent, "little")], _u)
    bits = np.array([8 * len(present), 8 * len(absent)], _u)
    return DictionaryWords.of(lambda begin, end: (~valid[begin:end]).astype(np.int32), table, bits)


def merge(pieces: Iterable[Piece]) -> list[Piece]:
    """The pieces joined to fewer ones. Those without any bytes are dropped."""
    merged: list[Piece] = []
    for piece in pieces:
        if piece.high == 0:
            continue
        following = _short_words(piece) if isinstance(piece, Spans) and piece.high <= WORD else piece
        last = merged[-1] if merged else None
        if last is None or isinstance(following, Spans) or isinstance(last, Spans) or last.high + following.high > WORD:
            merged.append(following)
        else:
            merged[-1] = _joined(last, following)
    return merged


def gather(data: Bytes, start: I64, width: int = WORD) -> U64:
    """`width` bytes from each start, as rows of words; zeros where they lie outside the data."""
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


def _short_words(span: Spans) -> Words:
    """Spans of at most eight bytes as words."""
    stride = span.high if span.low == span.high else 0

    def read(begin: int, end: int) -> tuple[U64, U64 | int]:
        start = span.start[begin:end]
        if stride:  # all of one length, one after the other
            source = _padded(span.data, int(start[0]), int(start[-1]) + WORD)
            word: U64 = np.ndarray(len(start), _u, source, strides=(stride,)) & KEEP[stride]
            return word, 8 * stride
        length = span.length[begin:end]
        word = gather(span.data, start).ravel()
        word &= np.take(KEEP, length, mode="clip")
        return word, length << _BITS

    return Words(read, span.low, span.high)


def as_words(piece: Words | DictionaryWords) -> Words:
    """The piece as words; a dictionary is looked up."""
    return piece if isinstance(piece, Words) else _looked_up(piece)


def _looked_up(dictionary: DictionaryWords) -> Words:
    table, bits, low, high = dictionary.table, dictionary.bits, dictionary.low, dictionary.high
    if low == high:
        return Words(lambda begin, end: (np.take(table, dictionary.read(begin, end), mode="clip"), 8 * low), low, high)
    if high > _SIZED:

        def read(begin: int, end: int) -> tuple[U64, U64]:
            index = dictionary.read(begin, end)
            return np.take(table, index, mode="clip"), np.take(bits, index, mode="clip")

        return Words(read, low, high)
    sized = table | bits << _u(8 * _SIZED)

    def read_sized(begin: int, end: int) -> tuple[U64, U64]:
        word = np.take(sized, dictionary.read(begin, end), mode="clip")
        size = word >> _u(8 * _SIZED)
        word &= KEEP[_SIZED]
        return word, size

    return Words(read_sized, low, high)


def _joined(left: Words | DictionaryWords, right: Words | DictionaryWords) -> Words | DictionaryWords:
    """Two pieces as one; together they have at most eight bytes."""
    if (
        isinstance(left, DictionaryWords)
        and isinstance(right, DictionaryWords)
        and len(left.table) * len(right.table) <= MAX_TABLE
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
    one, two = as_words(left), as_words(right)
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
    """A table of every entry of `left` followed by every entry of `right`."""
    count = len(right.table)
    table = left.table[:, None] | (right.table << left.bits[:, None])
    bits = left.bits[:, None] + right.bits

    def read(begin: int, end: int) -> npt.NDArray[Any]:
        index = left.read(begin, end) * count
        index += right.read(begin, end)
        return index

    return DictionaryWords(read, table.ravel(), bits.ravel(), left.low + right.low, left.high + right.high)
