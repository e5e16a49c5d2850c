"""Pieces of columns brought together into rows.

Runs of words are shifted together in registers' width, a few thousand rows at a time, into blocks of some words for
each row. What is left for a row, blocks and long strings, is laid out as Arrow binary views, row after row, and one
Arrow cast copies them together; its offsets are the boundaries of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from azureblob_source.avro_pieces import I64, Bytes, EncodedRows, Piece, Spans, Words, gather, merge
from azureblob_source.varint import U64, WORD

CHUNK = 8192  # rows whose intermediate arrays, 64 KiB each, stay in the second-level cache
INLINE = 12  # bytes that an Arrow binary view holds in itself
BLOCK = 64  # bytes of a row that are shifted together at most
SPREAD = 16  # and by how many bytes their length may vary
INT32_MAX = 2**31 - 1
_u = np.uint64


class Rows(Protocol):
    """A column that gives the pieces of any range of its rows, always of the same kinds and bounds."""

    def pieces(self, low: int, high: int) -> list[Piece]:
        """The pieces of the rows `low` up to `high`."""
        ...


def assemble(column: Rows, count: int) -> EncodedRows:
    """All rows of a column as datums of their own."""
    layout: _Layout | None = None
    for low in range(0, count, CHUNK):
        high = min(low + CHUNK, count)
        parts = _grouped(merge(column.pieces(low, high)))
        if layout is None:
            layout = _Layout.of(parts, count)
        layout.fill(parts, low, high)
    if layout is None or layout.columns == 0:
        return EncodedRows(np.empty(0, np.uint8), np.zeros(count + 1, np.int64))
    return layout.rows()


Run = list[Words]
Part = Run | Spans


def _grouped(pieces: list[Words | Spans]) -> list[Part]:
    """Words that will be shifted together, as lists; depends on the bounds alone."""
    parts: list[Part] = []
    low = high = 0
    for piece in pieces:
        if isinstance(piece, Spans):
            parts.append(piece)
            low = high = 0
            continue
        low, high = low + piece.low, high + piece.high
        if high > piece.high and high <= BLOCK and high - low <= SPREAD:
            parts[-1].append(piece)  # type: ignore[union-attr]
        else:
            parts.append([piece])
            low, high = piece.low, piece.high
    return parts


@dataclass(slots=True)
class _Layout:
    """The views of all rows, and the buffers they point into."""

    views: U64
    sources: list[Bytes]
    blocks: dict[int, U64]
    total: int = 0

    @classmethod
    def of(cls, parts: list[Part], count: int) -> _Layout:
        blocks = {
            column: np.empty((count, -(-sum(word.high for word in part) // WORD)), _u)
            for column, part in enumerate(parts)
            if isinstance(part, list) and len(part) > 1
        }
        return cls(np.empty((count, len(parts), 2), _u), [block.view(np.uint8).ravel() for block in blocks.values()], blocks)

    @property
    def columns(self) -> int:
        return self.views.shape[1]

    def fill(self, parts: list[Part], low: int, high: int) -> None:
        """Lay out the rows `low` up to `high`."""
        for column, part in enumerate(parts):
            views = self.views[low:high, column]
            if isinstance(part, Spans):
                self._spans(views, part)
            elif len(part) == 1:
                self._word(views, part[0])
            else:
                self._block(views, part, column, low)

    def rows(self) -> EncodedRows:
        """Copy everything together."""
        count = len(self.views) * self.columns
        buffers = [None, pa.py_buffer(self.views), *(pa.py_buffer(source) for source in self.sources)]
        array = pa.Array.from_buffers(pa.binary_view(), count, buffers, null_count=0)
        small = self.total <= INT32_MAX
        _, offsets, data = array.cast(pa.binary() if small else pa.large_binary()).buffers()
        ends = np.frombuffer(offsets, np.int32 if small else np.int64)[: count + 1 : self.columns].astype(np.int64)
        return EncodedRows(np.frombuffer(data, np.uint8), ends)

    def _word(self, views: U64, part: Words) -> None:
        views[:, 0] = (part.word << _u(32)) | (_u(part.length) if isinstance(part.length, int) else part.length)
        views[:, 1] = part.word >> _u(32)
        self.total += part.high * len(views)

    def _block(self, views: U64, part: Run, column: int, low: int) -> None:
        block = self.blocks[column]
        length = shift_together(part, block[low : low + len(views)])
        width = block.shape[1] * WORD
        if len(block) * width > INT32_MAX:
            raise OverflowError("a batch has too many rows")
        source = list(self.blocks).index(column)
        place = np.arange(low * width, (low + len(views)) * width, width, dtype=np.int64)
        place = (place << 32 | source).view(_u)
        if sum(word.low for word in part) <= INLINE:
            first, second = block[low : low + len(views), 0], block[low : low + len(views), 1]
            views[:, 0] = length | first << _u(32)
            place = np.where(length <= _u(INLINE), first >> _u(32) | second << _u(32), place)
        else:
            views[:, 0] = length
        views[:, 1] = place
        self.total += sum(word.high for word in part) * len(views)

    def _spans(self, views: U64, part: Spans) -> None:
        base = int(part.start.min())
        end = int((part.start + part.length.view(np.int64)).max())
        if end - base > INT32_MAX:
            raise OverflowError("a few thousand rows hold more than 2 GiB in one column")
        views[:, 0] = part.length
        views[:, 1] = ((part.start - base) << 32 | len(self.sources)).view(_u)
        self.sources.append(part.data[base:end])
        self.total += int(part.length.sum())
        if part.low <= INLINE:
            _inline(views, part)


def shift_together(words: Run, block: U64) -> Any:
    """Write the words of each row one after the other into its row of `block`; returns their total lengths."""
    slots: list[Any] = [None] * block.shape[1]
    low = high = 0
    bits: Any = 0
    for word in words:
        for slot in range(low // WORD, -(-(high + word.high) // WORD)):
            for moved in _moved(word, bits, slot, low, high):
                slots[slot] = moved if slots[slot] is None else slots[slot] | moved
        bits = bits + (8 * word.length if isinstance(word.length, int) else word.length << _u(3))
        low, high = low + word.low, high + word.high
    for slot, content in enumerate(slots):
        block[:, slot] = 0 if content is None else content
    return bits // 8 if isinstance(bits, int) else bits >> _u(3)


def _moved(word: Words, bits: Any, slot: int, low: int, high: int) -> list[Any]:
    """What a word that begins after `bits` bits, between the bytes `low` and `high`, contributes to a slot."""
    begin = 8 * WORD * slot
    if isinstance(bits, int):
        return [word.word << _u(bits - begin) if bits >= begin else word.word >> _u(begin - bits)]
    # numpy gives 0 for a shift by 64 or more, and so for the negative distances, which wrap around.
    moved = []
    if 8 * low < begin + 8 * WORD and 8 * high >= begin:
        moved.append(word.word << (bits - _u(begin)))
    if 8 * low < begin < 8 * (high + word.high):
        moved.append(word.word >> (_u(begin) - bits))
    return moved


def _inline(views: U64, part: Spans) -> None:
    """Arrow wants what fits into a view inside it."""
    rows: Any = np.flatnonzero(part.length <= _u(INLINE))
    if 4 * len(rows) > len(views):
        head, tail = gather(part.data, part.start), gather(part.data, part.start + WORD)
        views[:, 0] |= head << _u(32)
        views[:, 1] = np.where(part.length <= _u(INLINE), (head >> _u(32)) | (tail << _u(32)), views[:, 1])
    elif len(rows):
        start = part.start[rows]
        head, tail = gather(part.data, start), gather(part.data, start + WORD)
        views[rows, 0] |= head << _u(32)
        views[rows, 1] = (head >> _u(32)) | (tail << _u(32))


def spans_of(rows: EncodedRows, index: I64, low: int, high: int) -> list[Piece]:
    """Spans of consecutive encoded rows: span i holds the rows from index[i] up to index[i + 1]."""
    offsets = rows.offsets[index]
    return [Spans(rows.data, offsets[:-1], np.diff(offsets).view(_u), low, high)]
