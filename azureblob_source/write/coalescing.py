"""Coalescing: small Arrow batches joined into larger ones. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COALESCED_ROWS = 32_768
COALESCED_BYTES = 16 << 20
"""Arrow batches are encoded together up to these sizes: Spark's 10,000 rows are too few to pay for a numpy call."""


def coalesce(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches: one ends with the batch that reaches `COALESCED_ROWS` or `COALESCED_BYTES`."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= COALESCED_ROWS or size >= COALESCED_BYTES:
            joined, waiting, rows, size = _joined(waiting), [], 0, 0
            while joined:  # nothing here keeps a batch that was yielded: it may have much memory
                yield joined.pop(0)
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch of several; more if a column would have more than 2 GiB."""
    return batches if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()
