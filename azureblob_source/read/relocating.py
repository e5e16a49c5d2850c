"""The rows of splits, wherever they are: a compaction may move them while a task reads.

read_splits ─► a blob is gone ─► where are the rows of what is left? ─► read_splits, from the next row on
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """The same as `read_splits`, each batch also with the number of its first row in its split.

    splits: of blobs of the log's stream, which a compaction may replace meanwhile. Only what was planned as a whole
    blob, or as a part of one, is found again. by_version: as of `BlobSelection`.
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
            found = [
                *_located(log, left[:1], by_version=by_version),
                *_located(log, left[1:], by_version=by_version),
            ]
            if found == left:
                raise
            left, at, skip = found, 0, skip + at
        else:
            return


def _located(log: CommitLog, splits: Sequence[Split], *, by_version: bool) -> list[Split]:
    """Where the rows of splits are now."""
    whole = [split.blob for split in splits if _is_whole(split) and split.blob.version is not None]
    if not whole or log.refresh() is None:
        return list(splits)
    from azureblob_source.read.moved import MovedRowsFinder, every_row  # noqa: PLC0415 - few tasks meet a compaction

    finder = MovedRowsFinder(log)
    found = finder.located(whole, min(map(_live_at, whole)))
    parts = finder.parts(found, every_row, lambda _: by_version)
    return [*(split for split in splits if not _is_whole(split)), *split_blobs(parts)]


def _is_whole(split: Split) -> bool:
    return split.blob.part is not None or (split.start == 0 and split.end is None)


def _live_at(blob: StreamBlob) -> int:
    """A version at which the blob was live."""
    return (blob.version if blob.moved_in is None else blob.moved_in) or 0
