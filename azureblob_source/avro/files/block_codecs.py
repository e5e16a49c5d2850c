"""Codecs of Avro blocks, by the names that stand in file headers. Pure.

Every codec releases the interpreter lock while it works on a block, so upload threads compress side by side.
"""

from __future__ import annotations

import bz2
import zlib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from azure_account.errors import ConfigurationError, CorruptError
from azureblob_source.avro.limits import BLOCK_BYTES, block_too_large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from azure_account.account import Bytes

# Levels that exist, and the default. Measured on 1 MiB of airline flights: deflate 4 is twice as fast as 6 and leaves
# 8 % more, xz 1 is eight times as fast as 6 and leaves 24 % more; zstandard 1 is smaller than deflate and the fastest.
_LEVELS: dict[str, tuple[range, int] | None] = {
    "null": None,
    "deflate": (range(1, 10), 4),
    "snappy": None,
    "zstandard": (range(1, 23), 1),
    "bzip2": (range(1, 10), 9),
    "xz": (range(10), 1),
}
NAMES = tuple(_LEVELS)

_STEP = 4 << 20
"""Plain bytes of one step. Few blocks are larger, and those are copied together."""

_INPUT_STEP = 1 << 16  # of bzip2 and xz, which copy what follows a stream
_TOO_WIDE = "Memory usage limit"  # what liblzma says
_XZ_DICTIONARY = 96 << 20  # what level 9 takes beyond the plain bytes, and some
_CRC_SIZE = 4
_SNAPPY_EXPANSION = 64  # one two-byte copy element yields at most 64 bytes


class _Decompressor(Protocol):
    """What bzip2 and xz have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: Bytes, max_length: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec at one level. Make it with `codec`."""

    name: str
    level: int | None = None

    def compress(self, body: Bytes) -> Bytes:
        """The stored form of a block's body, any contiguous buffer. Codec null returns `body` itself, no copy."""
        match self.name:
            case "deflate":
                return _deflate(body, self.level or 4)
            case "snappy":
                crc = zlib.crc32(body).to_bytes(_CRC_SIZE, "big")
                return b"".join((pa.Codec("snappy").compress(pa.py_buffer(body), asbytes=True), crc))
            case "zstandard":
                stored: bytes = pa.Codec("zstd", compression_level=self.level).compress(
                    pa.py_buffer(body), asbytes=True
                )
                return stored
            case "bzip2":
                return bz2.compress(body, self.level or 9)
            case "xz":
                return bytes(_lzma().compress(body, preset=self.level))
        return body

    def decompress(self, data: Bytes, most: int = BLOCK_BYTES) -> Bytes:
        """The body out of its stored form. Codec null returns `data` itself.

        Raises CorruptError if `data` is broken, BeyondLimitError if the body has more than `most` bytes. It is
        inflated in steps, so that at most one step beyond `most` is ever held. The errors name only the cause: the
        caller knows blob and offset.
        """
        try:
            return self._decompress(data, most)
        except (zlib.error, OSError, ValueError, EOFError, pa.ArrowException) as cause:
            raise CorruptError(f"it is not valid {self.name} data ({cause})") from cause

    def _decompress(self, data: Bytes, most: int) -> Bytes:
        if not len(data) and self.name != "null":
            raise EOFError("there is none")
        match self.name:
            case "deflate":
                return _joined(_inflated(data), most)
            case "snappy":
                return _unsnap(memoryview(data), most)
            case "zstandard":
                return _joined(_unzstd(data), most)
            case "bzip2":
                return _joined(_streams(memoryview(data), bz2.BZ2Decompressor, OSError), most)
            case "xz":
                return _joined(_unxz(memoryview(data), most), most)
        return data


def codec(name: str, level: int | None = None) -> Codec:
    """The codec of an Avro name, at `level` or its own default. Raises ConfigurationError for what does not exist."""
    if name not in _LEVELS:
        near = get_close_matches(name, NAMES, 1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"there is no Avro codec {name!r}; choose one of {', '.join(NAMES)}.{hint}")
    if name == "xz":
        _lzma()
    able = _LEVELS[name]
    if able is None:
        if level is not None:
            raise ConfigurationError(f"codec {name} has no levels. Leave the level out.")
        return Codec(name)
    levels, default = able
    if level is not None and level not in levels:
        raise ConfigurationError(f"codec {name} has levels {levels[0]} to {levels[-1]}, not {level}. Choose one.")
    return Codec(name, default if level is None else level)


def _deflate(body: Bytes, level: int) -> bytes:
    """Raw deflate: no zlib header, no checksum."""
    stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join((stream.compress(body), stream.flush()))


def _joined(steps: Iterator[bytes], most: int) -> Bytes:
    """The pieces as one body; a body of one piece is not copied."""
    first = next(steps, b"")
    second = next(steps, b"")
    if not second and len(first) <= most:
        return first
    body = bytearray(first)
    body += second
    while len(body) <= most and (piece := next(steps, b"")):
        body += piece
    if len(body) > most:
        raise block_too_large("it inflates to", most)
    return body


def _inflated(data: Bytes) -> Iterator[bytes]:
    """The plain bytes. What follows them is ignored: fastavro leaves part of a checksum there."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    rest = data
    while not stream.eof:
        piece = stream.decompress(rest, _STEP)
        if not piece and not stream.eof:
            raise EOFError("it stops too early")
        rest = stream.unconsumed_tail
        if piece:
            yield piece


def _unzstd(data: Bytes) -> Iterator[bytes]:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while piece := stream.read(_STEP):
            yield piece


def _streams(data: memoryview, start: Callable[[], _Decompressor], error: type[Exception]) -> Iterator[bytes]:
    """The plain bytes of streams that follow each other. What follows them and is none is ignored."""
    at, ended = 0, False
    while at < len(data):
        stream, begun = start(), False
        try:
            while not stream.eof:
                given = data[at : at + _INPUT_STEP] if stream.needs_input else b""
                if stream.needs_input and not given:
                    raise EOFError("it stops too early")
                at += len(given)
                piece = stream.decompress(given, _STEP)
                if piece:
                    begun = True
                    yield piece
        except error as cause:
            if ended and not begun and _TOO_WIDE not in str(cause):
                return
            raise
        at -= len(stream.unused_data)
        ended = True


def _unsnap(data: memoryview, most: int) -> bytes:
    """Raw snappy begins with the plain length; Avro puts the big-endian CRC32 of the plain bytes behind it."""
    packed, crc = data[:-_CRC_SIZE], data[-_CRC_SIZE:]
    size = _plain_size(packed)
    if size > _SNAPPY_EXPANSION * len(packed):
        raise ValueError(f"{len(packed)} bytes cannot hold {size}")
    if size > most:
        raise block_too_large("it inflates to", most)
    body: bytes = pa.Codec("snappy").decompress(pa.py_buffer(packed), size, asbytes=True)
    if zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise ValueError("the checksum differs")
    return body


def _plain_size(packed: memoryview) -> int:
    size = 0
    for place, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return size
    raise ValueError("its length is unreadable")


def _unxz(data: memoryview, most: int) -> Iterator[bytes]:
    """A stream's header says how much memory its dictionary takes, too."""
    lzma: Any = _lzma()
    room = most + _XZ_DICTIONARY
    try:
        yield from _streams(data, partial(lzma.LZMADecompressor, memlimit=room), lzma.LZMAError)
    except lzma.LZMAError as cause:
        if _TOO_WIDE in str(cause):
            raise block_too_large("to inflate it takes", most) from cause
        raise ValueError(str(cause)) from cause


def _lzma() -> ModuleType:
    """The standard library's `lzma`, which Python builds without liblzma lack."""
    try:
        import lzma  # noqa: PLC0415 - optional
    except ImportError as cause:
        message = "codec xz needs the module lzma, which this Python was built without. Use another Python or codec."
        raise ConfigurationError(message) from cause
    return lzma
