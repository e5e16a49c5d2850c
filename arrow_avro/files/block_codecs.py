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
from foundation.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from arrow_avro.files.container_file import Bytes

_CRC_SIZE = 4
_SNAPPY_EXPANSION = 64  # one two-byte copy element yields at most 64 bytes


@dataclass(frozen=True, slots=True)
class _CodecFunctions:
    """What a codec does: `compress` a body, `inflate` stored bytes, up to a size."""

    compress: Callable[[Bytes], Bytes]
    inflate: Callable[[Bytes, int], Bytes]


@dataclass(frozen=True, slots=True)
class Codec:
    """One codec; `codec` finds it."""

    name: str

    def compress(self, body: Bytes) -> Bytes:
        """The stored form of a block's body, any contiguous buffer. Codec null returns `body` itself, no copy."""
        return _KINDS[self.name].compress(body)

    def decompress(self, data: Bytes, most: int = BLOCK_BYTES) -> Bytes:
        """The body of a block from its stored form. Codec null returns `data` itself.

        Raises CorruptError if `data` is damaged, BeyondLimitError if the body has more than `most` bytes. It is
        inflated in steps, so that at most one step beyond `most` is in memory. The errors name only the cause: the
        caller knows blob and offset.
        """
        if not len(data) and self.name != "null":
            raise CorruptError(f"it is not valid {self.name} data (it has no bytes)")
        try:
            return _KINDS[self.name].inflate(data, most)
        except (zlib.error, OSError, ValueError, EOFError, pa.ArrowException) as cause:
            raise CorruptError(f"it is not valid {self.name} data ({cause})") from cause


def codec(name: str) -> Codec:
    """The codec of this Avro name. Raises ConfigurationError if it is unknown."""
    if name not in _KINDS:
        near = get_close_matches(name, CODECS, 1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"there is no Avro codec {name!r}; choose one of {', '.join(CODECS)}.{hint}")
    if name == "xz":
        lzma_module()
    return Codec(name)


# The levels are measured on 1 MiB of flights: deflate 4 is twice as fast as 6 and gives 8 % more, xz 1 is eight times
# as fast as 6 and gives 24 % more; zstandard 1 is smaller than deflate and the fastest.


def _deflate(body: Bytes) -> bytes:
    """Raw deflate: no zlib header, no checksum."""
    stream = zlib.compressobj(4, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join((stream.compress(body), stream.flush()))


def _snappy(body: Bytes) -> bytes:
    crc = zlib.crc32(body).to_bytes(_CRC_SIZE, "big")
    return b"".join((pa.Codec("snappy").compress(pa.py_buffer(body), asbytes=True), crc))


def _zstandard(body: Bytes) -> bytes:
    stored: bytes = pa.Codec("zstd", compression_level=1).compress(pa.py_buffer(body), asbytes=True)
    return stored


def _xz(body: Bytes) -> bytes:
    return bytes(lzma_module().compress(body, preset=1))


def _in_steps(steps: Callable[[Bytes], Iterator[bytes]]) -> Callable[[Bytes, int], Bytes]:
    return lambda data, most: joined(steps(data), most)


def _snappy_body(stored: Bytes, most: int) -> bytes:
    """Raw snappy, which begins with the length of the body; Avro appends the body's big-endian CRC32."""
    data = memoryview(stored)
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


_KINDS = {
    "null": _CodecFunctions(lambda body: body, lambda data, _: data),
    "deflate": _CodecFunctions(_deflate, _in_steps(deflate_steps)),
    "snappy": _CodecFunctions(_snappy, _snappy_body),
    "zstandard": _CodecFunctions(_zstandard, _in_steps(zstandard_steps)),
    "bzip2": _CodecFunctions(bz2.compress, _in_steps(bzip2_steps)),
    "xz": _CodecFunctions(_xz, lambda data, most: joined(xz_steps(data, most), most)),
}

CODECS = tuple(_KINDS)
"""Their names, as the option `codec` has them."""
