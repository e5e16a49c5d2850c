"""Pieces of columns brought together into rows.

Runs of words are shifted together into blocks, some words for each row. Then the parts of each row, blocks and long
strings, are laid out as Arrow binary views, row after row, and one Arrow cast copies them together; its offsets are the
boundaries of the rows. All but the cast is done for a few thousand rows at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from azureblob_source.avro.encoding.pieces import (
    KEEP,
    DictionaryWords,
    EncodedRows,
    Piece,
    Spans,
    Words,
    gather,
    looked_up,
    merge,
)
from azureblob_source.avro.varint import WORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from azureblob_source.arrow_values import U64, Bytes

CHUNK = 16384  # rows whose intermediate arrays, 128 KiB each, stay in the second-level cache
INLINE = 12  # bytes that an Arrow binary view holds in itself
BLOCK = 64  # bytes of a row that are shifted together at most
SPREAD = 16  # and by how many bytes their length may vary
INT32_MAX = 2**31 - 1
_u = np.uint64

Run = list[Words | DictionaryWords]
Prefixed = tuple[Words | DictionaryWords, Spans]


def assemble(pieces: Iterable[Piece], count: int) -> EncodedRows:
    """The `count` rows of which `pieces` are the columns, from left to right."""
    parts = _grouped(merge(pieces)) if count else []
    if not parts:
        return EncodedRows(np.empty(0, np.uint8), np.zeros(count + 1, np.int64))
    views = np.empty((count, len(parts), 2), _u)
    sources: list[Bytes] = []
    layouts = [_layout(part, count, sources) for part in parts]
    for begin in range(0, count, CHUNK):
        end = min(begin + CHUNK, count)
        for column, layout in enumerate(layouts):
            layout.fill(views[begin:end, column], begin, end)
    total = sum(layout.total for layout in layouts)
    return _copied(views, sources, total)


def _copied(views: U64, sources: Sequence[Bytes], total: int) -> EncodedRows:
    count, columns, _ = views.shape
    buffers = [None, pa.py_buffer(views), *(pa.py_buffer(source) for source in sources)]
    array = pa.Array.from_buffers(pa.binary_view(), count * columns, buffers, null_count=0)
    small = total <= INT32_MAX
    _, offsets, data = array.cast(pa.binary() if small else pa.large_binary()).buffers()
    ends = np.frombuffer(offsets, np.int32 if small else np.int64)[: count * columns + 1 : columns].astype(np.int64)
    return EncodedRows(np.frombuffer(data, np.uint8), ends)


def _grouped(pieces: list[Piece]) -> list[Run | Prefixed | Spans]:
    """Words that will be shifted together, as lists; a short span takes the word before it along."""
    parts: list[Run | Prefixed | Spans] = []
    for piece in pieces:
        last = parts[-1] if parts else None
        if isinstance(piece, Spans):
            if isinstance(last, list) and last[-1].high + piece.high <= BLOCK:
                parts[-1:] = [last[:-1], (last[-1], piece)] if len(last) > 1 else [(last[-1], piece)]
            else:
                parts.append(piece)
        elif isinstance(last, list) and _may_join(last, piece):
            last.append(piece)
        else:
            parts.append([piece])
    return parts


def _may_join(run: Run, piece: Words | DictionaryWords) -> bool:
    low, high = _bounds([*run, piece])
    return high <= BLOCK and high - low <= SPREAD


def _bounds(run: Run) -> tuple[int, int]:
    return sum(word.low for word in run), sum(word.high for word in run)


def _layout(part: Run | Prefixed | Spans, count: int, sources: list[Bytes]) -> _Layout:
    if isinstance(part, Spans):
        return _SpanLayout(part, sources)
    low, high = _bounds(list(part))  # type: ignore[arg-type]
    if len(part) == 1:
        first = part[0]
        return (
            _CodeLayout.of(first, high * count)
            if isinstance(first, DictionaryWords)
            else _WordLayout(first, high * count)
        )
    block = np.empty((count, -(-high // WORD)), _u)
    if block.nbytes > INT32_MAX:
        raise OverflowError("a batch has too many rows")
    sources.append(block.view(np.uint8).ravel())
    source, total, inline = len(sources) - 1, high * count, low <= INLINE
    if isinstance(part, tuple):
        prefix, span = part
        words = looked_up(prefix) if isinstance(prefix, DictionaryWords) else prefix
        return _PrefixedLayout(block, source, total, inline, words, span)
    return _RunLayout(
        block, source, total, inline, [looked_up(p) if isinstance(p, DictionaryWords) else p for p in part]
    )


class _Layout(Protocol):
    """One part of each row, as views."""

    @property
    def total(self) -> int:
        """Bytes of all rows at most, once all are laid out."""
        ...

    def fill(self, views: U64, begin: int, end: int) -> None:
        """Write the views of the rows `begin` up to `end`."""
        ...


@dataclass(frozen=True, slots=True)
class _WordLayout:
    """One word for each row, inside its view."""

    word: Words
    total: int

    def fill(self, views: U64, begin: int, end: int) -> None:
        word, bits = self.word.read(begin, end)
        views[:, 0] = (word << _u(32)) | (_u(bits // 8) if isinstance(bits, int) else bits >> _u(3))
        views[:, 1] = word >> _u(32)


@dataclass(frozen=True, slots=True)
class _CodeLayout:
    """One word for each row, inside its view, from tables that are halves of views already."""

    codes: DictionaryWords
    head: U64
    tail: U64 | None
    total: int

    @classmethod
    def of(cls, codes: DictionaryWords, total: int) -> _CodeLayout:
        tail = codes.table >> _u(32) if codes.high > WORD // 2 else None
        return cls(codes, codes.table << _u(32) | codes.bits >> _u(3), tail, total)

    def fill(self, views: U64, begin: int, end: int) -> None:
        code = self.codes.read(begin, end)
        views[:, 0] = np.take(self.head, code, mode="clip")
        views[:, 1] = 0 if self.tail is None else np.take(self.tail, code, mode="clip")


@dataclass(frozen=True, slots=True)
class _BlockLayout:
    """Some words for each row, gathered in a block, which the views point into."""

    block: U64
    source: int
    total: int
    inline: bool

    def point(self, views: U64, length: Any, begin: int, end: int) -> None:
        """Write the views of rows of the given lengths."""
        views[:, 0] = length
        width = self.block.shape[1] * WORD
        place: Any = np.arange(begin * width << 32, end * width << 32, width << 32, dtype=np.int64).view(_u)
        place |= _u(self.source)
        if self.inline:
            first = self.block[begin:end, 0]
            second = self.block[begin:end, min(1, self.block.shape[1] - 1)]
            views[:, 0] |= first << _u(32)
            place = np.where(length <= _u(INLINE), first >> _u(32) | second << _u(32), place)
        views[:, 1] = place


@dataclass(frozen=True, slots=True)
class _RunLayout(_BlockLayout):
    """Words shifted together."""

    words: list[Words]

    def fill(self, views: U64, begin: int, end: int) -> None:
        self.point(views, shift_together(self.words, begin, end, self.block[begin:end]), begin, end)


@dataclass(frozen=True, slots=True)
class _PrefixedLayout(_BlockLayout):
    """A word, and after it a short span, which is gathered with as many bytes before it as the word will cover."""

    word: Words
    span: Spans

    def fill(self, views: U64, begin: int, end: int) -> None:
        word, bits = self.word.read(begin, end)
        before: Any = bits // 8 if isinstance(bits, int) else (bits >> _u(3)).view(np.int64)
        block = self.block[begin:end]
        block[:] = gather(self.span.data, self.span.start[begin:end] - before, block.shape[1] * WORD)
        block[:, 0] &= ~KEEP[before] if isinstance(before, int) else ~np.take(KEEP, before, mode="clip")
        block[:, 0] |= word
        length = self.span.length[begin:end].view(np.int64) + before
        self.point(views, length.view(_u), begin, end)


@dataclass(slots=True)
class _SpanLayout:
    """Bytes where they stand; Arrow wants what fits into a view inside it."""

    span: Spans
    sources: list[Bytes]
    total: int = 0

    def fill(self, views: U64, begin: int, end: int) -> None:
        start, length = self.span.start[begin:end], self.span.length[begin:end]
        base = int(start[0])  # starts never go down
        last = int(start[-1]) + int(length[-1])
        if last - base > INT32_MAX:
            raise OverflowError("a few thousand rows hold more than 2 GiB in one column")
        place = start - base
        place <<= 32
        place |= len(self.sources)
        self.sources.append(self.span.data[base:last])
        self.total += int(length.sum())
        views[:, 0] = length
        views[:, 1] = place
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


def shift_together(words: list[Words], begin: int, end: int, block: U64) -> Any:
    """Write the words of each row one after the other into its row of `block`; returns their total lengths in bytes."""
    slots: list[Any] = [None] * block.shape[1]
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
        block[:, slot] = 0 if content is None else content
    return filled // 8 if isinstance(filled, int) else filled >> _u(3)


def _moved(word: Any, filled: Any, slot: int, low: int, high: int, size: int) -> list[Any]:
    """What a word of up to `size` bytes that begins after `filled` bits, `low` to `high` bytes, puts into a slot."""
    start = 8 * WORD * slot
    if isinstance(filled, int):
        if filled == start:
            return [word]
        return [word << _u(filled - start) if filled > start else word >> _u(start - filled)]
    # numpy gives 0 for a shift by 64 or more, and so for the negative distances, which wrap around.
    moved = []
    if 8 * low < start + 8 * WORD and 8 * high >= start:
        moved.append(word << (filled - _u(start) if start else filled))
    if 8 * low < start < 8 * (high + size):
        moved.append(word >> (_u(start) - filled))
    return moved
