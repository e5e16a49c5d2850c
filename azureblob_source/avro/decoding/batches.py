"""Blocks to batches: as many rows as fit into the memory of a batch are read in one run. Pure.

Half of `batch_bytes` is for what each row takes by its schema, half for texts and items. The first bounds the rows of a
run, the second the bytes that it gets to see. What items take in Arrow is known once they are counted: where that is
too much, or the bytes do not reach for the rows, the run is repeated with half of the rows. A row that is larger than a
run alone is read by a program that counts its items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from azure_account.errors import CorruptError
from azureblob_source.avro.decoding.arrays import columns
from azureblob_source.avro.decoding.plan import DamagedValueError
from azureblob_source.avro.decoding.scan import Part
from azureblob_source.avro.decoding.sizes import arrow_bytes, growth, scanned_bytes
from azureblob_source.avro.limits import BeyondLimitError, batch_too_large

if TYPE_CHECKING:
    from azureblob_source.avro.decoding.plan import Record
    from azureblob_source.avro.decoding.scan import Scanner
    from azureblob_source.avro.types import AvroType


_BROKEN = (CorruptError, DamagedValueError, BeyondLimitError)


@dataclass(frozen=True, slots=True)
class Body:
    """What is left of a block, no longer in the file's codec. `offset` is the block's, `taken` rows are out already."""

    offset: int
    rows: int
    data: memoryview
    taken: int = 0


class BrokenBlockError(Exception):
    """A block cannot be read because of `reason`. Its next rows, `part`, were tried."""

    def __init__(self, body: Body, part: Part, reason: Exception) -> None:
        super().__init__(str(reason))
        self.body = body
        self.part = part
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Room:
    """What one run may take: rows, bytes of bodies, and bytes of items in Arrow; `metered` if items can grow at all."""

    rows: int
    data: int
    items: int
    metered: bool


def room_of(avro: AvroType, plan: Record, batch_rows: int, batch_bytes: int) -> Room:
    """The room of each run. Raises BeyondLimitError if it is too little for one row, whatever that holds."""
    half = batch_bytes // 2
    each = scanned_bytes(avro) + arrow_bytes(plan)
    if each > half:
        raise batch_too_large(f"by the schema alone one row has {each:,} bytes, which")
    factor = growth(avro)
    return Room(max(min(batch_rows, half // max(each, 1)), 1), max(half // factor, 1), half, factor > 1)


@dataclass
class Batches:
    """Gathers bodies, and makes batches of them."""

    scanner: Scanner
    plan: Record
    arrow: pa.Schema
    room: Room

    def __post_init__(self) -> None:
        self._waiting: list[Body] = []
        self._count = self._size = 0
        self._rows = self.room.rows

    def add(self, body: Body) -> None:
        """One more block."""
        self._waiting.append(body)
        self._count, self._size = self._count + body.rows, self._size + len(body.data)

    @property
    def full(self) -> bool:
        """Whether a batch is complete."""
        return bool(self._waiting) and (self._count >= self.room.rows or self._size >= self.room.data)

    @property
    def offset(self) -> int:
        """Where the block of the next row begins."""
        return self._waiting[0].offset

    @property
    def empty(self) -> bool:
        """Whether nothing is left."""
        return not self._waiting

    def next(self) -> pa.RecordBatch:
        """A batch out of the first bodies. Raises BrokenBlockError, UnresolvedError or UnfitError."""
        while True:
            parts = self._parts()
            rows = sum(part.rows for part in parts)
            try:
                batch, end = self._read(parts)
            except _BROKEN as cause:
                if rows > 1 and (isinstance(cause, BeyondLimitError) or self._is_cut(parts)):
                    self._rows = rows // 2
                    continue
                raise self._broken(parts, cause) from cause
            self._rows = min(self._rows + self._rows // 8 + 1, self.room.rows)
            self._take(parts, end)
            return batch

    def _parts(self) -> list[Part]:
        """As many rows as fit, at least one; how large they are is guessed by the average of their block.

        The bytes that a run sees are bounded by those it has room for, but for a single row. Of a block that is cut the
        rows are a quarter fewer than these bytes hold on average, for a run whose bytes do not reach is run again.
        """
        parts: list[Part] = []
        rows, size = self._rows, self.room.data
        for body in self._waiting:
            fit = min(body.rows, rows)
            if len(body.data) > size:
                fit = min(fit, size * body.rows * 3 // (len(body.data) * 4))
            if rows == self._rows:
                fit = max(fit, min(body.rows, 1))
            if fit or not body.rows:
                alone = fit == 1 and rows == self._rows
                seen = body.data if alone or fit == body.rows else body.data[:size]
                parts.append(Part(seen, fit, fit == body.rows))
            rows, size = rows - fit, size - len(body.data)
            if fit < body.rows or rows <= 0 or size <= 0:
                break
        return parts

    def _is_cut(self, parts: list[Part]) -> bool:
        return len(parts[-1].body) < len(self._waiting[len(parts) - 1].data)

    def _read(self, parts: list[Part]) -> tuple[pa.RecordBatch, int]:
        """The rows of all parts as a batch, and where the last part ended."""
        large = self.room.metered and sum(len(part.body) for part in parts) > self.room.data
        items = self.room.items if sum(part.rows for part in parts) > 1 else 2 * self.room.items
        scan = self.scanner.scan(parts, items if large else None)
        arrays = columns(self.plan, scan, items)
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self.arrow), scan.end
        rows = pa.Array.from_buffers(self.plan.arrow, scan.rows, [None], 0)
        return pa.RecordBatch.from_struct_array(rows), scan.end

    def _take(self, parts: list[Part], end: int) -> None:
        part, last = parts[-1], self._waiting[len(parts) - 1]
        for body in self._waiting[: len(parts)]:
            self._count, self._size = self._count - body.rows, self._size - len(body.data)
        del self._waiting[: len(parts)]
        if not part.whole:
            self._waiting.insert(0, Body(last.offset, last.rows - part.rows, last.data[end:], last.taken + part.rows))
            self._count, self._size = self._count + self._waiting[0].rows, self._size + len(self._waiting[0].data)

    def _broken(self, parts: list[Part], cause: Exception) -> BrokenBlockError:
        """The first part that is broken by itself is to blame."""
        if len(parts) > 1:
            for body, part in zip(self._waiting, parts, strict=False):
                try:
                    self._read([part])
                except _BROKEN as reason:  # noqa: PERF203 - each part by itself
                    return BrokenBlockError(body, part, reason)
        return BrokenBlockError(self._waiting[0], parts[0], cause)
