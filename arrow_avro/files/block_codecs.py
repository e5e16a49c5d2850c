"""Codecs of Avro blocks, by their names in file headers. Pure.

Every codec releases the interpreter lock while it works on a block, so upload threads compress in parallel.
"""

from __future__ import annotations

import bz2
import zlib
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

import pyarrow as pa

from arrow_avro.files.decompression import (
    bzip2_steps,
    deflate_steps,
    joined,
    lzma_module,
    xz_steps,
    zstandard_steps,
)
from arrow_avro.limits import BLOCK_BYTES, block_too_large
from azure_account.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from arrow_avro.files.container_file import Bytes

# The levels of each codec, and the default. Measured on 1 MiB of flights: deflate 4 is twice as fast as 6 and gives
# 8 % more, xz 1 is eight times as fast as 6 and gives 24 % more; zstandard 1 is smaller than deflate and the fastest.
_LEVELS: dict[str, tuple[range, int] | None] = {
    "null": None,
    "deflate": (range(1, 10), 4),
    "snappy": None,
    "zstandard": (range(1, 23), 1),
    "bzip2": (range(1, 10), 9),
    "xz": (range(10), 1),
}
NAMES = tuple(_LEVELS)

_CRC_SIZE = 4
_SNAPPY_EXPANSION = 64  # one two-byte copy element yields at most 64 bytes


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec at one level; `codec` makes and checks it."""

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
                return bytes(lzma_module().compress(body, preset=self.level))
        return body

    def decompress(self, data: Bytes, most: int = BLOCK_BYTES) -> Bytes:
        """The body of a block from its stored form. Codec null returns `data` itself.

        Raises CorruptError if `data` is damaged, BeyondLimitError if the body has more than `most` bytes. It is
        inflated in steps, so that at most one step beyond `most` is in memory. The errors name only the cause: the
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
                return joined(deflate_steps(data), most)
            case "snappy":
                return _snappy_body(memoryview(data), most)
            case "zstandard":
                return joined(zstandard_steps(data), most)
            case "bzip2":
                return joined(bzip2_steps(data), most)
            case "xz":
                return joined(xz_steps(data, most), most)
        return data


def codec(name: str, level: int | None = None) -> Codec:
    """The codec of this Avro name, at `level` or its own default. Raises ConfigurationError if either is unknown."""
    if name not in _LEVELS:
        near = get_close_matches(name, NAMES, 1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"there is no Avro codec {name!r}; choose one of {', '.join(NAMES)}.{hint}")
    if name == "xz":
        lzma_module()
    leveled = _LEVELS[name]
    if leveled is None:
        if level is not None:
            raise ConfigurationError(f"codec {name} has no levels. Leave the level out.")
        return Codec(name)
    levels, default = leveled
    if level is not None and level not in levels:
        raise ConfigurationError(f"codec {name} has levels {levels[0]} to {levels[-1]}, not {level}. Choose one.")
    return Codec(name, default if level is None else level)


def _deflate(body: Bytes, level: int) -> bytes:
    """Raw deflate: no zlib header, no checksum."""
    stream = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join((stream.compress(body), stream.flush()))


def _snappy_body(data: memoryview, most: int) -> bytes:
    """Raw snappy, which begins with the length of the body; Avro appends the body's big-endian CRC32."""
    packed, crc = data[:-_CRC_SIZE], data[-_CRC_SIZE:]
    size = _body_size(packed)
    if size > _SNAPPY_EXPANSION * len(packed):
        raise ValueError(f"{len(packed)} bytes cannot hold {size}")
    if size > most:
        raise block_too_large("it inflates to", most)
    body: bytes = pa.Codec("snappy").decompress(pa.py_buffer(packed), size, asbytes=True)
    if zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise ValueError("the checksum differs")
    return body


def _body_size(packed: memoryview) -> int:
    size = 0
    for index, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if not byte & 0x80:
            return size
    raise ValueError("its length is unreadable")
