"""Blocks to batches: as many rows as fit into the memory of a batch are read in one run. Pure.

Half of `batch_bytes` is for what each row takes by its schema, which bounds the rows of a run; half is for texts and
items, which bounds the bytes that the run reads. What items take in Arrow is known once they are counted: if that is
too much, or if the bytes end before the rows, the run is repeated with half of the rows. A single row that is larger
than a run is read by a program that counts its items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from arrow_avro.decoding.arrays import EmptyItemBudget, columns
from arrow_avro.decoding.memory_bounds import arrow_bytes, growth_factor, scanned_bytes
from arrow_avro.decoding.scan import BodySlice
from arrow_avro.decoding.value_errors import DamagedValueError
from arrow_avro.limits import BeyondLimitError, batch_too_large
from arrow_avro.nested_arrays import batch_of
from foundation.errors import CorruptError

if TYPE_CHECKING:
    import pyarrow as pa

    from arrow_avro.decoding.plan import Record
    from arrow_avro.decoding.scanners import Scanner
    from arrow_avro.types import AvroType


_UNREADABLE = (CorruptError, DamagedValueError, BeyondLimitError)


@dataclass(frozen=True, slots=True)
class Body:
    """What has not been read of an Avro block, decompressed.

    offset: where the block begins in the blob. rows_before, rows: how many have been read, and have not.
    """

    offset: int
    rows: int
    data: memoryview
    rows_before: int = 0


class UnreadableBlockError(Exception):
    """The next rows of a block, `failed`, cannot be read because of `reason`."""

    def __init__(self, body: Body, failed: BodySlice, reason: Exception) -> None:
        super().__init__(str(reason))
        self.body = body
        self.failed = failed
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RunBudget:
    """What one run may read: rows, bytes of bodies, and bytes of items in Arrow.

    `items_grow` if items may take more memory than they have bytes.
    """

    rows: int
    data: int
    items: int
    items_grow: bool


def run_budget(avro: AvroType, plan: Record, batch_rows: int, batch_bytes: int) -> RunBudget:
    """The budget of each run. Raises BeyondLimitError if it is too small for any row of this schema."""
    half = batch_bytes // 2
    each = scanned_bytes(avro) + arrow_bytes(plan)
    if each > half:
        raise batch_too_large(f"by the schema alone one row has {each:,} bytes, which")
    factor = growth_factor(avro)
    return RunBudget(max(min(batch_rows, half // max(each, 1)), 1), max(half // factor, 1), half, factor > 1)


@dataclass
class BatchAssembler:
    """Collects the bodies of blocks, and makes batches of them."""

    scanner: Scanner
    plan: Record
    arrow: pa.Schema
    budget: RunBudget

    def __post_init__(self) -> None:
        self._bodies: list[Body] = []
        self._count = self._size = 0
        self._rows = self.budget.rows
        self._empty = EmptyItemBudget()

    def add(self, body: Body) -> None:
        """One more block."""
        self._empty.read(len(body.data))
        self._bodies.append(body)
        self._count, self._size = self._count + body.rows, self._size + len(body.data)

    @property
    def full(self) -> bool:
        """Whether there are rows for a whole batch."""
        return bool(self._bodies) and (self._count >= self.budget.rows or self._size >= self.budget.data)

    @property
    def offset(self) -> int:
        """Where the block of the next row begins."""
        return self._bodies[0].offset

    @property
    def empty(self) -> bool:
        """Whether all rows have been read."""
        return not self._bodies

    def next(self) -> pa.RecordBatch:
        """A batch of the next rows. Raises UnreadableBlockError, UnresolvedError or UnrepresentableValueError."""
        while True:
            slices = self._slices()
            rows = sum(each.rows for each in slices)
            try:
                batch, end = self._read(slices)
            except _UNREADABLE as cause:
                if rows > 1 and (isinstance(cause, BeyondLimitError) or self._is_cut(slices)):
                    self._rows = rows // 2
                    continue
                raise self._unreadable(slices, cause) from cause
            self._rows = min(self._rows + self._rows // 8 + 1, self.budget.rows)
            self._remove(slices, end)
            return batch

    def _slices(self) -> list[BodySlice]:
        """The next batch: the rows that fit, at least one. The size of a row is estimated by the average of its block.

        The bytes that a run reads are bounded by its budget, unless it has a single row. Of a block that does not fit
        whole, a quarter fewer rows are taken than these bytes hold on average, because a run whose bytes end before
        its rows is repeated.
        """
        slices: list[BodySlice] = []
        rows, size = self._rows, self.budget.data
        for body in self._bodies:
            fit = min(body.rows, rows)
            if len(body.data) > size:
                fit = min(fit, size * body.rows * 3 // (len(body.data) * 4))
            if rows == self._rows:
                fit = max(fit, min(body.rows, 1))
            if fit or not body.rows:
                alone = fit == 1 and rows == self._rows
                data = body.data if alone or fit == body.rows else body.data[:size]
                slices.append(BodySlice(data, fit, fit == body.rows))
            rows, size = rows - fit, size - len(body.data)
            if fit < body.rows or rows <= 0 or size <= 0:
                break
        return slices

    def _is_cut(self, slices: list[BodySlice]) -> bool:
        """Whether the last slice has only some of its block's bytes."""
        return len(slices[-1].body) < len(self._bodies[len(slices) - 1].data)

    def _read(self, slices: list[BodySlice]) -> tuple[pa.RecordBatch, int]:
        """The rows of all slices as a batch, and where those of the last slice end."""
        large = self.budget.items_grow and sum(len(each.body) for each in slices) > self.budget.data
        items = self.budget.items if sum(each.rows for each in slices) > 1 else 2 * self.budget.items
        scan = self.scanner.scan(slices, items if large else None)
        empty = replace(self._empty)  # a run that fails is repeated with fewer rows
        arrays = columns(self.plan, scan, items, empty)
        self._empty = empty
        return batch_of(arrays, self.arrow, scan.rows), scan.end

    def _remove(self, slices: list[BodySlice], end: int) -> None:
        last, body = slices[-1], self._bodies[len(slices) - 1]
        for each in self._bodies[: len(slices)]:
            self._count, self._size = self._count - each.rows, self._size - len(each.data)
        del self._bodies[: len(slices)]
        if not last.whole:
            rest = Body(body.offset, body.rows - last.rows, body.data[end:], body.rows_before + last.rows)
            self._bodies.insert(0, rest)
            self._count, self._size = self._count + rest.rows, self._size + len(rest.data)

    def _unreadable(self, slices: list[BodySlice], cause: Exception) -> UnreadableBlockError:
        """The error for the first slice that cannot be read by itself."""
        if len(slices) > 1:
            for body, each in zip(self._bodies, slices, strict=False):
                try:
                    self._read([each])
                except _UNREADABLE as reason:
                    return UnreadableBlockError(body, each, reason)
        return UnreadableBlockError(self._bodies[0], slices[0], cause)
