"""Divides blobs into splits, and packs splits into Spark partitions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azureblob_source.read.blobs import StreamBlob

SPLIT_BYTES = 32 << 20
_MOST_SPLITS = 128


@dataclass(frozen=True, slots=True)
class Split:
    """Stored bytes `[start, end)` of a blob; `end` None is the blob's end. Those of the blob's part, if it has one."""

    blob: StreamBlob
    start: int = 0
    end: int | None = None

    @property
    def size(self) -> int:
        """Stored bytes."""
        return (self.blob.size if self.end is None else self.end) - self.start


def split_blobs(blobs: Iterable[StreamBlob], split_bytes: int = SPLIT_BYTES) -> Iterator[Split]:
    """The splits of all blobs, in name order: equal ranges of at most `split_bytes`. Gzip cannot be divided."""
    for blob in sorted(blobs, key=_order):
        if blob.part is not None:
            yield Split(blob, blob.part.start, blob.part.end)
            continue
        count = 1 if blob.name.endswith(".gz") else max(1, -(-blob.size // split_bytes))
        bounds = [blob.size * number // count for number in range(count)]
        ends: list[int | None] = [*bounds[1:], None]
        yield from (Split(blob, start, end) for start, end in zip(bounds, ends, strict=True))


def _order(blob: StreamBlob) -> tuple[str, int]:
    return blob.name, 0 if blob.part is None else blob.part.start


def least_cost(split_bytes: int) -> int:
    """As how many bytes a small split counts, since it costs a request: a partition has at most 128 splits."""
    return -(-split_bytes // _MOST_SPLITS)


def pack_splits(splits: Iterable[Split], split_bytes: int = SPLIT_BYTES) -> Iterator[tuple[Split, ...]]:
    """The splits of each partition, in the same order: as many as have `split_bytes` together, one at least.

    A small split counts as `least_cost`.
    """
    waiting: list[Split] = []
    size = 0
    for split in splits:
        cost = max(split.size, least_cost(split_bytes))
        if waiting and size + cost > split_bytes:
            yield tuple(waiting)
            waiting, size = [], 0
        waiting.append(split)
        size += cost
    if waiting:
        yield tuple(waiting)
