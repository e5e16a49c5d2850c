"""A blob that is gzipped as a whole, read as if it were not. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arrow_avro.files.buffered_ranges import BufferedRanges
from arrow_avro.files.decompression import GzipMembers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arrow_avro.files.container_file import Bytes, Source

_GZIP_MAGIC = b"\x1f\x8b"
_FIRST_STEP, _STEP = 1 << 14, 1 << 18  # gzipped bytes that are asked for at a time


def is_gzip(data: Bytes) -> bool:
    """Whether `data` begins with gzip's magic bytes, with which no Avro file begins."""
    return bytes(data[:2]) == _GZIP_MAGIC


class GunzippedSource:
    """A `Source` of the inflated bytes of a gzipped one. Places, those of framing errors too, count inflated bytes."""

    def __init__(self, source: Source, blob: str) -> None:
        self._source = source
        self._members = GzipMembers(blob)
        self._inflating: Iterator[bytes] = iter(())
        self._buffered = BufferedRanges()
        self._fed = self._inflated = 0
        self._complete = False

    def clip(self, end: int) -> int:
        """`end`, or the size of the inflated bytes, which is known once all have been inflated."""
        while self._inflated < end and not self._complete:
            self._inflate()
        return min(end, self._inflated)

    def read(self, start: int, end: int) -> memoryview:
        """The inflated bytes `[start, end)`."""
        return self._buffered.view(start, end)

    def forget(self, before: int) -> None:
        """Drop the bytes before this place."""
        self._buffered.drop(before)

    def is_near(self, end: int) -> bool:  # noqa: ARG002 - a `Source`
        """Always: inflated bytes can only be had in order."""
        return True

    def peek(self, start: int, end: int) -> memoryview | None:  # noqa: ARG002 - a `Source`
        """Always None: bytes are not known before those in front of them are inflated."""
        return None

    def _inflate(self) -> None:
        """Buffer the next inflated bytes, or feed the next gzipped ones."""
        data = next(self._inflating, None)
        if data is not None:
            self._buffered.add(self._inflated, data)
            self._inflated += len(data)
            return
        self._source.forget(self._fed)
        stop = self._source.clip(self._fed + min(max(self._fed, _FIRST_STEP), _STEP))
        if stop == self._fed:
            self._members.close()
            self._complete = True
            return
        self._inflating = self._members.feed(self._source.read(self._fed, stop))
        self._fed = stop
