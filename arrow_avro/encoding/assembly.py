"""Pieces of columns brought together into rows.

The steps, with the merged pieces of the example in `pieces`, in hexadecimal::

    parts    Words next to each other are packed into one part of each row, of at most 64 bytes; a short span is packed
             with the word before it. A long span is a part of its own.

                 row 0   02 06 02 18 41 64 61 20 4c 6f 76 65 6c 61 63 65           00
                 row 1   02 0a 02 08 41 6c 61 6e                                   00

    views    Each part of each row becomes an Arrow binary view of 16 bytes: the length, then up to 12 bytes themselves,
             or the first four, the number of a buffer and an offset in it.

                 row 0   10 00 00 00 02 06 02 18 00 00 00 00 00 00 00 00           01 00 00 00 00 …
                 row 1   08 00 00 00 02 0a 02 08 41 6c 61 6e 00 00 00 00           01 00 00 00 00 …

    cast     One Arrow cast, of all views to binary, copies all bytes together. Every second offset ends a row: 17, 26.

Parts and views are made for a few thousand rows at a time, so that their arrays stay in the processor's caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from arrow_avro.encoding.pieces import (
    KEEP,
    DictionaryWords,
    EncodedRows,
    Piece,
    Spans,
    Words,
    as_words,
    gather,
    merge,
)
from arrow_avro.varint import WORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from arrow_avro.arrow_values import U64, Bytes

CHUNK = 16384  # rows whose intermediate arrays, 128 KiB each, stay in the second-level cache
INLINE = 12  # bytes that an Arrow binary view can hold itself
MAX_PACKED = 64  # bytes of a row that are packed into one part
MAX_SPREAD = 16  # bytes by which the lengths of such a part may differ
INT32_MAX = 2**31 - 1
_u = np.uint64

Run = list[Words | DictionaryWords]
"""Words next to each other."""

Prefixed = tuple[Words | DictionaryWords, Spans]
"""A short span and the word before it."""

RowPart = Run | Prefixed | Spans


def assemble(pieces: Iterable[Piece], count: int) -> EncodedRows:
    """The `count` rows of which `pieces` are the columns, from left to right."""
    parts = grouped(merge(pieces)) if count else []
    if not parts:
        return EncodedRows(np.empty(0, np.uint8), np.zeros(count + 1, np.int64))
    return _copied(*laid_out(parts, count))


def grouped(pieces: list[Piece]) -> list[RowPart]:
    """The parts of a row."""
    parts: list[RowPart] = []
    for piece in pieces:
        last = parts[-1] if parts else None
        if isinstance(piece, Spans):
            if isinstance(last, list) and last[-1].high + piece.high <= MAX_PACKED:
                parts[-1:] = [last[:-1], (last[-1], piece)] if len(last) > 1 else [(last[-1], piece)]
            else:
                parts.append(piece)
        elif isinstance(last, list) and _may_join(last, piece):
            last.append(piece)
        else:
            parts.append([piece])
    return parts


def laid_out(parts: list[RowPart], count: int) -> tuple[U64, list[Bytes], int]:
    """The views of all parts of all rows, the buffers they point into, and how many bytes the rows have at most."""
    views = np.empty((count, len(parts), 2), _u)
    sources: list[Bytes] = []
    layouts = [_layout(part, count, sources) for part in parts]
    for begin in range(0, count, CHUNK):
        end = min(begin + CHUNK, count)
        for column, layout in enumerate(layouts):
            layout.fill(views[begin:end, column], begin, end)
    return views, sources, sum(layout.total for layout in layouts)


def _copied(views: U64, sources: Sequence[Bytes], total: int) -> EncodedRows:
    count, columns, _ = views.shape
    buffers = [None, pa.py_buffer(views), *(pa.py_buffer(source) for source in sources)]
    array = pa.Array.from_buffers(pa.binary_view(), count * columns, buffers, null_count=0)
    small = total <= INT32_MAX
    _, offsets, data = array.cast(pa.binary() if small else pa.large_binary()).buffers()
    ends = np.frombuffer(offsets, np.int32 if small else np.int64)[: count * columns + 1 : columns].astype(np.int64)
    return EncodedRows(np.frombuffer(data, np.uint8), ends)


def _may_join(run: Run, piece: Words | DictionaryWords) -> bool:
    low, high = _bounds([*run, piece])
    return high <= MAX_PACKED and high - low <= MAX_SPREAD


def _bounds(run: Run) -> tuple[int, int]:
    return sum(word.low for word in run), sum(word.high for word in run)


def _layout(part: RowPart, count: int, sources: list[Bytes]) -> _Layout:
    if isinstance(part, Spans):
        return _SpanLayout(part, sources)
    low, high = _bounds(list(part))  # type: ignore[arg-type]
    total = high * count
    if len(part) == 1:
        only = part[0]
        return _DictionaryLayout.of(only, total) if isinstance(only, DictionaryWords) else _WordLayout(only, total)
    packed = np.empty((count, -(-high // WORD)), _u)
    if packed.nbytes > INT32_MAX:
        raise OverflowError("a batch has too many rows")
    sources.append(packed.view(np.uint8).ravel())
    source, inline = len(sources) - 1, low <= INLINE
    if isinstance(part, tuple):
        prefix, span = part
        return _PrefixedLayout(packed, source, total, inline, as_words(prefix), span)
    return _AdjacentWordsLayout(packed, source, total, inline, [as_words(piece) for piece in part])


class _Layout(Protocol):
    """One part of each row."""

    @property
    def total(self) -> int:
        """How many bytes all rows have at most; known when `fill` has been called for all of them."""
        ...

    def fill(self, views: U64, begin: int, end: int) -> None:
        """Write the views of the rows `begin` up to `end`."""
        ...


@dataclass(frozen=True, slots=True)
class _WordLayout:
    """One word for each row, which its view holds."""

    word: Words
    total: int

    def fill(self, views: U64, begin: int, end: int) -> None:
        word, bits = self.word.read(begin, end)
        views[:, 0] = (word << _u(32)) | (_u(bits // 8) if isinstance(bits, int) else bits >> _u(3))
        views[:, 1] = word >> _u(32)


@dataclass(frozen=True, slots=True)
class _DictionaryLayout:
    """One word for each row, which its view holds, looked up in tables of the two halves of views."""

    dictionary: DictionaryWords
    head: U64
    tail: U64 | None
    total: int

    @classmethod
    def of(cls, dictionary: DictionaryWords, total: int) -> _DictionaryLayout:
        tail = dictionary.table >> _u(32) if dictionary.high > WORD // 2 else None
        return cls(dictionary, dictionary.table << _u(32) | dictionary.bits >> _u(3), tail, total)

    def fill(self, views: U64, begin: int, end: int) -> None:
        index = self.dictionary.read(begin, end)
        views[:, 0] = np.take(self.head, index, mode="clip")
        views[:, 1] = 0 if self.tail is None else np.take(self.tail, index, mode="clip")


@dataclass(frozen=True, slots=True)
class _PackedLayout:
    """Several words for each row in `packed`, which views point into. `inline`: some are short enough for a view."""

    packed: U64
    source: int
    total: int
    inline: bool

    def point(self, views: U64, length: Any, begin: int, end: int) -> None:
        """Write the views of the rows, which have the given lengths."""
        views[:, 0] = length
        width = self.packed.shape[1] * WORD
        position: Any = np.arange(begin * width << 32, end * width << 32, width << 32, dtype=np.int64).view(_u)
        position |= _u(self.source)
        if self.inline:
            first = self.packed[begin:end, 0]
            second = self.packed[begin:end, min(1, self.packed.shape[1] - 1)]
            views[:, 0] |= first << _u(32)
            position = np.where(length <= _u(INLINE), first >> _u(32) | second << _u(32), position)
        views[:, 1] = position


@dataclass(frozen=True, slots=True)
class _AdjacentWordsLayout(_PackedLayout):
    """Words next to each other."""

    words: list[Words]

    def fill(self, views: U64, begin: int, end: int) -> None:
        self.point(views, pack_words(self.words, begin, end, self.packed[begin:end]), begin, end)


@dataclass(frozen=True, slots=True)
class _PrefixedLayout(_PackedLayout):
    """A word and a short span after it.

    The span is gathered with as many bytes before it as the word has, which are then overwritten by the word.
    """

    word: Words
    span: Spans

    def fill(self, views: U64, begin: int, end: int) -> None:
        word, bits = self.word.read(begin, end)
        before: Any = bits // 8 if isinstance(bits, int) else (bits >> _u(3)).view(np.int64)
        packed = self.packed[begin:end]
        packed[:] = gather(self.span.data, self.span.start[begin:end] - before, packed.shape[1] * WORD)
        packed[:, 0] &= ~KEEP[before] if isinstance(before, int) else ~np.take(KEEP, before, mode="clip")
        packed[:, 0] |= word
        length = self.span.length[begin:end].view(np.int64) + before
        self.point(views, length.view(_u), begin, end)


@dataclass(slots=True)
class _SpanLayout:
    """Bytes that stay where they are, but for values that are short enough for a view: Arrow demands those in it."""

    span: Spans
    sources: list[Bytes]
    total: int = 0

    def fill(self, views: U64, begin: int, end: int) -> None:
        start, length = self.span.start[begin:end], self.span.length[begin:end]
        base = int(start[0])  # starts never decrease
        last = int(start[-1]) + int(length[-1])
        if last - base > INT32_MAX:
            raise OverflowError("a few thousand rows hold more than 2 GiB in one column")
        position = start - base
        position <<= 32
        position |= len(self.sources)
        self.sources.append(self.span.data[base:last])
        self.total += int(length.sum())
        views[:, 0] = length
        views[:, 1] = position
        if self.span.low <= INLINE:
            self._inline(views, begin, end)

    def _inline(self, views: U64, begin: int, end: int) -> None:
        start, length = self.span.start[begin:end], self.span.length[begin:end]
        rows = np.flatnonzero((length <= _u(INLINE)) & (length > 0))
        if len(rows) == 0:
            return
        content = gather(self.span.data, start[rows], 2 * WORD)
        heads, tails = views[:, 0], views[:, 1]
        heads[rows] |= content[:, 0] << _u(32)
        tails[rows] = (content[:, 0] >> _u(32)) | (content[:, 1] << _u(32))


def pack_words(words: list[Words], begin: int, end: int, packed: U64) -> Any:
    """Write the words of each row one after the other into its row of `packed`; returns their lengths in bytes."""
    slots: list[Any] = [None] * packed.shape[1]
    low = high = 0
    filled: Any = 0
    for piece in words:
        word, bits = piece.read(begin, end)
        for slot in range(low // WORD, -(-(high + piece.high) // WORD)):
            for moved in _moved(word, filled, slot, low, high, piece.high):
                if isinstance(slots[slot], np.ndarray):
                    slots[slot] |= moved
                else:
                    slots[slot] = moved if slots[slot] is None else moved | slots[slot]
        filled = _u(filled) + bits if isinstance(filled, int) and not isinstance(bits, int) else filled + bits
        low, high = low + piece.low, high + piece.high
    for slot, content in enumerate(slots):
        packed[:, slot] = 0 if content is None else content
    return filled // 8 if isinstance(filled, int) else filled >> _u(3)


def _moved(word: Any, filled: Any, slot: int, low: int, high: int, size: int) -> list[Any]:
    """What a word of up to `size` bytes adds to a slot if it begins after `filled` bits (`low` to `high` bytes)."""
    start = 8 * WORD * slot
    if isinstance(filled, int):
        if filled == start:
            return [word]
        return [word << _u(filled - start) if filled > start else word >> _u(start - filled)]
    # numpy returns 0 for a shift by 64 or more, and so for negative distances, which wrap around to such.
    moved = []
    if 8 * low < start + 8 * WORD and 8 * high >= start:
        moved.append(word << (filled - _u(start) if start else filled))
    if 8 * low < start < 8 * (high + size):
        moved.append(word >> (_u(start) - filled))
    return moved
