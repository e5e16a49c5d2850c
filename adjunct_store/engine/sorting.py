"""Changes in any order become sorted ones, by key and order, in bounded memory.

changes ─► runs of 64 MiB, sorted ─► one run: as it is
                                     several: on disk, merged

A merge holds one piece of each run. What is not above the lowest last row of these pieces is complete: no run has
more of it. It is sorted as a whole, without a loop over rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.engine.entry import Changes
from adjunct_store.engine.rocks import storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

RUN_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20
_PIECE_ROWS = 10_000
_KEY, _ORDER, _RECORD = "key", "order", "record"


def in_order(changes: Iterable[Changes], folder: Path, run_bytes: int = RUN_BYTES) -> Iterator[Changes]:
    """Sort changes by key and, if they have one, by order. folder: for files; it exists, and they stay.

    `ConfigurationError` if the disk is full.
    """
    paths: list[Path] = []
    held: list[pa.RecordBatch] = []
    size, ordered = 0, False
    for each in changes:
        ordered = each.orders is not None
        held.append(_as_batch(each))
        size += held[-1].nbytes
        if size >= run_bytes:
            paths.append(_spilled(_sorted(held), folder / f"run-{len(paths):06}.arrow"))
            held, size = [], 0
    last = iter(_pieces(_sorted(held))) if held else iter(())
    runs = [*(_read(path) for path in paths), last]
    for piece in _merged(runs) if paths else last:
        yield _as_changes(piece, ordered=ordered)


def _as_batch(changes: Changes) -> pa.RecordBatch:
    orders = np.zeros(len(changes.keys), np.int64) if changes.orders is None else changes.orders
    return pa.RecordBatch.from_arrays([changes.keys, pa.array(orders), changes.records], names=[_KEY, _ORDER, _RECORD])


def _as_changes(piece: pa.RecordBatch, *, ordered: bool) -> Changes:
    orders = piece.column(_ORDER).to_numpy() if ordered else None
    return Changes(piece.column(_KEY), piece.column(_RECORD), orders)


def _sorted(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = pa.concat_batches(batches)
    return whole.take(pc.sort_indices(whole, [(_KEY, "ascending"), (_ORDER, "ascending")]))


def _pieces(whole: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = min(_PIECE_ROWS, max(1, whole.num_rows * _PIECE_BYTES // max(1, whole.nbytes)))
    return (whole.slice(begin, rows) for begin in range(0, whole.num_rows, rows))


def _spilled(whole: pa.RecordBatch, path: Path) -> Path:
    with storage_errors("write", path), pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, whole.schema) as to:
        for piece in _pieces(whole):
            to.write_batch(piece)
    return path


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as pieces:
        yield from pieces


@dataclass
class _Run:
    """What is left of a run: a piece that is not empty, and those after it."""

    piece: pa.RecordBatch
    rest: Iterator[pa.RecordBatch]

    @property
    def last(self) -> tuple[bytes, int]:
        """Key and order of the last row of the piece."""
        end = self.piece.num_rows - 1
        return self.piece.column(_KEY)[end].as_py(), self.piece.column(_ORDER)[end].as_py()

    def until(self, key: bytes, order: int) -> pa.RecordBatch:
        """Remove and return the rows that are not above these."""
        keys = self.piece.column(_KEY)
        bound = pa.scalar(key, pa.large_binary())
        same = pc.and_(pc.equal(keys, bound), pc.less_equal(self.piece.column(_ORDER), order))
        count = pc.sum(pc.or_(pc.less(keys, bound), same)).as_py()
        found, self.piece = self.piece.slice(0, count), self.piece.slice(count)
        return found

    def has_more(self) -> bool:
        """Read the next piece if this one is used up. False at the end."""
        while not self.piece.num_rows:
            following = next(self.rest, None)
            if following is None:
                return False
            self.piece = following
        return True


def _merged(runs: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    started = ((next(run, None), run) for run in runs)
    left = [_Run(piece, run) for piece, run in started if piece is not None]
    while left := [run for run in left if run.has_more()]:
        key, order = min(run.last for run in left)
        yield _sorted([run.until(key, order) for run in left])
