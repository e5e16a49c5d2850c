"""Blobs that are gzipped as a whole: members that follow each other, inflated in steps of bounded size. Pure."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from azureblob_source.avro.files.buffered_ranges import BufferedRanges
from azureblob_source.avro.files.container_file import broken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.account import Bytes
    from azureblob_source.avro.files.container_file import Source

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_STEP = 1 << 20
_FIRST_STEP, _STEP = 1 << 14, 1 << 18  # gzipped bytes that are asked for at a time


def is_gzip(data: Bytes) -> bool:
    """Whether `data` begins as gzip does, which no Avro file can."""
    return bytes(data[:2]) == _GZIP_MAGIC


class GzipMembers:
    """Gzip members, one behind the other, whose bytes come piece by piece. Raises CorruptError for anything else."""

    def __init__(self, blob: str = "") -> None:
        self._blob = blob
        self._stream: zlib._Decompress | None = None
        self._at = self._member = 0

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """The plain bytes that the next piece adds, in pieces of at most 1 MiB.

        Steps bound what zlib copies behind a member, and how much comes out at once.
        """
        at, full = 0, False
        while at < len(data) or full:
            if self._stream is None:
                self._stream, self._member = zlib.decompressobj(_GZIP_WINDOW), self._at
            step = data[at : at + _GZIP_STEP]
            try:
                plain = self._stream.decompress(step, _GZIP_STEP)
            except zlib.error as cause:
                broken(self._blob, self._member, f"there is no whole gzip member ({cause})", cause)
            taken = len(step) - len(self._stream.unused_data) - len(self._stream.unconsumed_tail)
            at, self._at = at + taken, self._at + taken
            full = len(plain) == _GZIP_STEP and not self._stream.eof
            if self._stream.eof:
                self._stream = None
            yield plain

    def close(self) -> None:
        """There is no more: what has begun must have ended."""
        if self._stream is not None:
            broken(self._blob, self._member, "the gzip member that begins there stops too early")


class GunzippedSource:
    """A `Source` over the plain bytes of a gzipped one. Places count in the plain bytes, in errors too."""

    def __init__(self, source: Source, blob: str) -> None:
        self._source = source
        self._members = GzipMembers(blob)
        self._coming: Iterator[bytes] = iter(())
        self._pieces = BufferedRanges()
        self._taken = self._plain = 0
        self._whole = False

    def clip(self, end: int) -> int:
        """`end`, or the size of the plain bytes, which is known when they have all been inflated."""
        while self._plain < end and not self._whole:
            self._inflate()
        return min(end, self._plain)

    def read(self, start: int, end: int) -> memoryview:
        """The plain bytes `[start, end)`."""
        return self._pieces.view(start, end)

    def forget(self, before: int) -> None:
        """Let go of what lies before."""
        self._pieces.drop(before)

    def is_near(self, end: int) -> bool:  # noqa: ARG002 - a `Source`
        """They can be had in order alone."""
        return True

    def peek(self, start: int, end: int) -> memoryview | None:  # noqa: ARG002 - a `Source`
        """Nothing is known of bytes before those before them are inflated."""
        return None

    def _inflate(self) -> None:
        """One more piece, or one more step of the gzipped bytes."""
        data = next(self._coming, None)
        if data is not None:
            self._pieces.add(self._plain, data)
            self._plain += len(data)
            return
        self._source.forget(self._taken)
        stop = self._source.clip(self._taken + min(max(self._taken, _FIRST_STEP), _STEP))
        if stop == self._taken:
            self._members.close()
            self._whole = True
            return
        self._coming = self._members.feed(self._source.read(self._taken, stop))
        self._taken = stop
