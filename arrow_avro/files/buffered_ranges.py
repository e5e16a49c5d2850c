"""Which bytes of a blob are in memory while it is read. No input or output."""

from __future__ import annotations


class BufferedRanges:
    """Byte ranges of one blob, each with what it counts for in the reader's budget. They may overlap and leave gaps."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, bytes, int]] = []

    def add(self, start: int, data: bytes, charge: int = 0) -> None:
        """Keep `data`, which begins at byte `start` of the blob."""
        self._ranges.append((start, data, charge))
        self._ranges.sort(key=lambda item: item[0])

    def until(self, start: int) -> int:
        """The first byte from `start` on that is not buffered."""
        for first, data, _ in self._ranges:
            if first <= start < first + len(data):
                start = first + len(data)
        return start

    def is_far(self, start: int) -> bool:
        """Whether there is a gap between all buffered bytes and `start`."""
        return bool(self._ranges) and all(first + len(data) < start for first, data, _ in self._ranges)

    def view(self, start: int, end: int) -> memoryview:
        """The bytes `[start, end)`, which are buffered: a view of one range, or a copy of several joined."""
        views = []
        for first, data, _ in self._ranges:
            if first <= start < min(first + len(data), end):
                views.append(memoryview(data)[start - first : end - first])
                start = first + len(data)
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def drop(self, before: int) -> int:
        """Drop the ranges that end before this place; returns the sum of their charges."""
        kept = [item for item in self._ranges if item[0] + len(item[1]) > before]
        freed = sum(item[2] for item in self._ranges) - sum(item[2] for item in kept)
        self._ranges = kept
        return freed
