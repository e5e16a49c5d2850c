"""Ranges of one blob's bytes at their places, as they are held while it is read. No input or output."""

from __future__ import annotations


class BufferedRanges:
    """Ranges of a blob's bytes at their places, each with what it is charged. They may overlap and leave gaps."""

    def __init__(self) -> None:
        self._held: list[tuple[int, bytes, int]] = []

    def add(self, start: int, data: bytes, charge: int = 0) -> None:
        """Hold a piece."""
        self._held.append((start, data, charge))
        self._held.sort(key=lambda piece: piece[0])

    def until(self, start: int) -> int:
        """How far the bytes from `start` on are held without a gap."""
        for first, data, _ in self._held:
            if first <= start < first + len(data):
                start = first + len(data)
        return start

    def is_far(self, start: int) -> bool:
        """Whether there is a gap between what is held and `start`."""
        return bool(self._held) and all(first + len(data) < start for first, data, _ in self._held)

    def view(self, start: int, end: int) -> memoryview:
        """Held bytes: a view of one piece, or of several pieces joined."""
        views = []
        for first, data, _ in self._held:
            if first <= start < min(first + len(data), end):
                views.append(memoryview(data)[start - first : end - first])
                start = first + len(data)
        return views[0] if len(views) == 1 else memoryview(b"".join(views))

    def drop(self, before: int) -> int:
        """Let go of pieces that end before this place; returns what they were charged."""
        kept = [piece for piece in self._held if piece[0] + len(piece[1]) > before]
        freed = sum(piece[2] for piece in self._held) - sum(piece[2] for piece in kept)
        self._held = kept
        return freed
