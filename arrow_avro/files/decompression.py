"""Compressed bytes inflated in steps of bounded size, so that no input can take more memory than it is allowed. Pure.

    deflate, zstandard     one stream; `deflate_steps`, `zstandard_steps`
    bzip2, xz              one or several streams, one after the other; `bzip2_steps`, `xz_steps`
    gzip                   a whole blob: one or several members, fed as they are read; `GzipMembers`

The generators raise what their library raises; `Codec.decompress` makes a CorruptError of it.
"""

from __future__ import annotations

import bz2
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from arrow_avro.files.container_file import raise_corrupt
from arrow_avro.limits import block_too_large
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from arrow_avro.files.container_file import Bytes

_STEP = 4 << 20
"""Inflated bytes of one step. Few blocks are larger, and the steps of those are copied into one buffer."""

_INPUT_STEP = 1 << 16  # bytes given to bzip2 and xz at once: they copy whatever follows a stream
_MEMORY_LIMIT = "Memory usage limit"  # the beginning of liblzma's message
_XZ_DICTIONARY = 96 << 20  # more than xz at level 9 needs besides the inflated bytes
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_STEP = 1 << 20


def joined(steps: Iterator[bytes], most: int) -> Bytes:
    """All steps as one body, not copied if there is only one. Raises BeyondLimitError if it exceeds `most` bytes."""
    first = next(steps, b"")
    second = next(steps, b"")
    if not second and len(first) <= most:
        return first
    body = bytearray(first)
    body += second
    while len(body) <= most and (step := next(steps, b"")):
        body += step
    if len(body) > most:
        raise block_too_large("it inflates to", most)
    return body


def deflate_steps(data: Bytes) -> Iterator[bytes]:
    """Raw deflate. Bytes after the stream are ignored: fastavro leaves part of a checksum there."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    rest = data
    while not stream.eof:
        plain = stream.decompress(rest, _STEP)
        if not plain and not stream.eof:
            raise EOFError("it stops too early")
        rest = stream.unconsumed_tail
        if plain:
            yield plain


def zstandard_steps(data: Bytes) -> Iterator[bytes]:
    """One zstandard frame."""
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while plain := stream.read(_STEP):
            yield plain


def bzip2_steps(data: Bytes) -> Iterator[bytes]:
    """Streams of bzip2, one after the other."""
    return _stream_steps(memoryview(data), bz2.BZ2Decompressor, OSError)


def xz_steps(data: Bytes, most: int) -> Iterator[bytes]:
    """Streams of xz, one after the other.

    The header of a stream sets the size of its dictionary, so that memory is bounded too: BeyondLimitError.
    """
    lzma: Any = lzma_module()
    limit = most + _XZ_DICTIONARY
    try:
        yield from _stream_steps(memoryview(data), partial(lzma.LZMADecompressor, memlimit=limit), lzma.LZMAError)
    except lzma.LZMAError as cause:
        if _MEMORY_LIMIT in str(cause):
            raise block_too_large("to inflate it takes", most) from cause
        raise ValueError(str(cause)) from cause


class _StreamDecompressor(Protocol):
    """What the decompressors of bzip2 and xz have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: Bytes, max_length: int, /) -> bytes: ...


def _stream_steps(
    data: memoryview, new_stream: Callable[[], _StreamDecompressor], error: type[Exception]
) -> Iterator[bytes]:
    """The inflated bytes of consecutive streams. Bytes after them that do not begin another stream are ignored."""
    at, ended = 0, False
    while at < len(data):
        stream, begun = new_stream(), False
        try:
            while not stream.eof:
                given = data[at : at + _INPUT_STEP] if stream.needs_input else b""
                if stream.needs_input and not given:
                    raise EOFError("it stops too early")
                at += len(given)
                plain = stream.decompress(given, _STEP)
                if plain:
                    begun = True
                    yield plain
        except error as cause:
            if ended and not begun and _MEMORY_LIMIT not in str(cause):
                return
            raise
        at -= len(stream.unused_data)
        ended = True


def lzma_module() -> ModuleType:
    """The standard library's `lzma`. Raises ConfigurationError in a Python that was built without liblzma."""
    try:
        import lzma  # noqa: PLC0415 - optional
    except ImportError as cause:
        message = "codec xz needs the module lzma, which this Python was built without. Use another Python or codec."
        raise ConfigurationError(message) from cause
    return lzma


class GzipMembers:
    """Consecutive gzip members whose bytes are fed as they are read. Raises CorruptError for anything else."""

    def __init__(self, blob: str = "") -> None:
        self._blob = blob
        self._stream: zlib._Decompress | None = None
        self._at = self._member = 0

    def feed(self, data: memoryview) -> Iterator[bytes]:
        """The inflated bytes of the next `data`, at most 1 MiB at a time.

        zlib gets 1 MiB at a time too: it copies whatever follows the end of a member.
        """
        at, full = 0, False
        while at < len(data) or full:
            if self._stream is None:
                self._stream, self._member = zlib.decompressobj(_GZIP_WINDOW), self._at
            step = data[at : at + _GZIP_STEP]
            try:
                plain = self._stream.decompress(step, _GZIP_STEP)
            except zlib.error as cause:
                raise_corrupt(self._blob, self._member, f"there is no whole gzip member ({cause})", cause)
            taken = len(step) - len(self._stream.unused_data) - len(self._stream.unconsumed_tail)
            at, self._at = at + taken, self._at + taken
            full = len(plain) == _GZIP_STEP and not self._stream.eof
            if self._stream.eof:
                self._stream = None
            yield plain

    def close(self) -> None:
        """End the stream of bytes. Raises CorruptError if the last member is incomplete."""
        if self._stream is not None:
            raise_corrupt(self._blob, self._member, "the gzip member that begins there stops too early")
