"""The rows of splits, wherever they are: a compaction may move them while a task reads, or an overwrite keep them.

read_splits ─► a blob is gone ─► where are the rows of what is left? ─► read_splits, from the next row on
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from azureblob_source.read.blobs import in_copies
from azureblob_source.read.split_reader import read_splits
from azureblob_source.read.splits import Split, split_blobs
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.read.blobs import StreamBlob
    from azureblob_source.read.split_reader import SplitSettings


def read_moving_splits(
    log: CommitLog, splits: Sequence[Split], settings: SplitSettings, *, by_version: bool
) -> Iterator[tuple[Split, int, pa.RecordBatch]]:
    """As `read_splits`, each batch also with the number of its first row in its split.

    splits: of blobs of the log's stream, which a compaction may replace meanwhile. Only what was planned as a whole
    blob, or as a part of one, is found again then; what an overwrite or a restore has removed and keeps always is.
    by_version: as of `BlobSelection`.
    """
    left = list(splits)
    at = skip = 0  # rows of the first split that were read, and that are still to be left out
    while True:
        try:
            for split, batch in read_splits(log.container, left, settings):
                if split is not left[0]:
                    left, at = left[left.index(split) :], 0
                rows = batch.slice(skip)
                if rows.num_rows:
                    yield split, at + batch.num_rows - rows.num_rows, rows
                at, skip = at + batch.num_rows, max(0, skip - batch.num_rows)
        except NotFoundError:
            first, skip = _from_row(log, left[0], skip + at)
            left, at = [*first, *left[1:]], 0
            found = [
                *_located(log, left[:1], by_version=by_version),
                *_located(log, left[1:], by_version=by_version),
            ]
            if left and found == left:
                raise
            left = found
        else:
            return


def _from_row(log: CommitLog, split: Split, row: int) -> tuple[list[Split], int]:
    """What is left of a split after `row` rows, and how many of these the first one has.

    Rows that were moved to one blob may be in several now, in another order. So where some were read, the first one has
    rows that stay together.
    """
    if not row or split.blob.moved_in is None or not _is_whole(split):
        return [split], row
    from azureblob_source.read.moved import MovedRowsFinder  # noqa: PLC0415 - as below

    parts, skip = MovedRowsFinder(log).from_row(split.blob, row)
    return list(split_blobs(parts)), skip


def _located(log: CommitLog, splits: Sequence[Split], *, by_version: bool) -> list[Split]:
    """Where the rows of splits are now."""
    of_log = [split.blob for split in splits if split.blob.version is not None]
    if not of_log or log.refresh() is None:
        return list(splits)
    from azureblob_source.log.publishing.keeping import kept_after  # noqa: PLC0415 - few tasks find a blob gone
    from azureblob_source.read.moved import MovedRowsFinder, every_row  # noqa: PLC0415

    live_at = min(map(_live_at, of_log))
    kept = kept_after(log, live_at)
    as_planned = [split for split in splits if split.blob.name in kept or not _is_whole(split)]
    whole = [split.blob for split in splits if _is_whole(split) and split.blob.name not in kept]
    finder = MovedRowsFinder(log)
    found = finder.located(whole, live_at)
    parts = finder.parts(found, every_row, lambda _: by_version)
    copies = in_copies([split.blob for split in as_planned], kept)
    planned = [replace(split, blob=blob) for split, blob in zip(as_planned, copies, strict=True)]
    return [*planned, *split_blobs(in_copies(parts, kept))]


def _is_whole(split: Split) -> bool:
    return split.blob.part is not None or (split.start == 0 and split.end is None)


def _live_at(blob: StreamBlob) -> int:
    """A version at which the blob was live."""
    return (blob.version if blob.moved_in is None else blob.moved_in) or 0
