"""Cutting blobs into parts, and packing parts into tasks. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azureblob_source.read.blobs import StreamBlob

PART_BYTES = 32 << 20
_MOST_PARTS = 128


@dataclass(frozen=True, slots=True)
class Part:
    """Stored bytes `[start, end)` of a blob; `end` None is the blob's end."""

    blob: StreamBlob
    start: int = 0
    end: int | None = None

    @property
    def size(self) -> int:
        """Stored bytes."""
        return (self.blob.size if self.end is None else self.end) - self.start


def cut(blobs: Iterable[StreamBlob], part_bytes: int = PART_BYTES) -> Iterator[Part]:
    """The parts of all blobs, in name order: equal ranges of at most `part_bytes`. Gzip cannot be cut."""
    for blob in sorted(blobs, key=lambda each: each.name):
        count = 1 if blob.name.endswith(".gz") else max(1, -(-blob.size // part_bytes))
        bounds = [blob.size * number // count for number in range(count)]
        ends: list[int | None] = [*bounds[1:], None]
        yield from (Part(blob, start, end) for start, end in zip(bounds, ends, strict=True))


def packed(parts: Iterable[Part], part_bytes: int = PART_BYTES) -> Iterator[tuple[Part, ...]]:
    """Parts in the same order, as many to a task as are together no larger than `part_bytes`; one at least.

    Each counts for a share of that even if it is smaller, as it costs a request: a task has at most 128 parts.
    """
    waiting: list[Part] = []
    size = 0
    for part in parts:
        cost = max(part.size, -(-part_bytes // _MOST_PARTS))
        if waiting and size + cost > part_bytes:
            yield tuple(waiting)
            waiting, size = [], 0
        waiting.append(part)
        size += cost
    if waiting:
        yield tuple(waiting)
