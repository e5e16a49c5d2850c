"""Framing of Avro object container files, both directions. Pure.

    header  `Obj` 1, map of metadata (avro.schema, avro.codec, …), sync marker (16 bytes)
    block   rows (long), size (long), body of `size` bytes in the file's codec, sync marker
    block   …

Longs are zig-zag varints. Any position can be searched for the next sync marker, so a large file is read in parts: a
block belongs to the part in which the marker before it begins.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from azure_account.errors import ConfigurationError, CorruptError, describe
from azureblob_source.avro.varint import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from azure_account.account import Bytes

MAGIC = b"Obj\x01"
SYNC_SIZE = 16

_SCHEMA = "avro.schema"
_CODEC = "avro.codec"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_GZIP_STEP = 1 << 20
_MAX_VARINT = 10


@dataclass(frozen=True, slots=True)
class FileHeader:
    """What stands before the first block. `size` is where that begins; `metadata` lacks schema and codec."""

    schema_json: str
    codec: str
    sync: bytes
    size: int
    metadata: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `offset` is its first byte in the blob; `body` is a view, still in the file's codec."""

    offset: int
    rows: int
    body: memoryview


def header(schema_json: str, codec: str, sync: bytes, metadata: Mapping[str, bytes] | None = None) -> bytes:
    """The bytes before the first block. `sync` is 16 random bytes, `metadata` the writer's own."""
    if len(sync) != SYNC_SIZE:
        raise ConfigurationError(f"a sync marker has {SYNC_SIZE} bytes, not {len(sync)}. Draw {SYNC_SIZE} random ones.")
    reserved = [key for key in metadata or {} if key.startswith("avro.")]
    if reserved:
        raise ConfigurationError(f"Avro reserves metadata keys that begin with `avro.`. Rename {', '.join(reserved)}.")
    entries = {_SCHEMA: schema_json.encode(), _CODEC: codec.encode(), **(metadata or {})}
    parts = [MAGIC, encode(len(entries))]
    for key, value in entries.items():
        name = key.encode()
        parts += [encode(len(name)), name, encode(len(value)), value]
    return b"".join([*parts, encode(0), sync])


def block(rows: int, body: Bytes, sync: bytes) -> tuple[bytes, Bytes, bytes]:
    """The buffers of one block, in order, without a copy. `body` is already in the file's codec."""
    return encode(rows) + encode(memoryview(body).nbytes), body, sync


def read_header(data: Bytes, *, blob: str = "") -> FileHeader:
    """The header at the start of `data`, which may be a prefix of the blob.

    Raises CorruptError if it is not one or `data` ends within it. An absent codec means null.
    """
    cursor = _Cursor(data, blob)
    if cursor.take(len(MAGIC), "the magic bytes") != MAGIC:
        cursor.fail("it does not begin with the magic bytes of an Avro file", at=0)
    metadata: dict[str, bytes] = {}
    while count := cursor.long("the count of metadata"):
        if count < 0:
            count = -count
            cursor.long("the size of metadata")
        for _ in range(count):
            key = cursor.text("a metadata key")
            metadata[key] = bytes(cursor.field("a metadata value"))
    if _SCHEMA not in metadata:
        cursor.fail("its header has no avro.schema")
    sync = bytes(cursor.take(SYNC_SIZE, "the sync marker"))
    schema_json = cursor.decoded(metadata.pop(_SCHEMA), "avro.schema")
    codec = cursor.decoded(metadata.pop(_CODEC, b"null"), _CODEC)
    return FileHeader(schema_json, codec, sync, cursor.at, metadata)


def blocks(
    data: Bytes, header: FileHeader, start: int | None = None, *, end: int | None = None, blob: str = "", base: int = 0
) -> Iterator[Block]:
    """The blocks of `data` from `start`, where a block begins (by default behind the header), to the end.

    With `end`, only those whose preceding sync marker begins before it. `base` is the place of `data` in the blob.
    Raises CorruptError, naming blob and byte, where the framing breaks or `data` stops within a block.
    """
    cursor = _Cursor(data, blob, base, header.size if start is None else start)
    while not cursor.done and (end is None or cursor.at - SYNC_SIZE < end):
        offset = cursor.at
        rows = cursor.long("the row count of a block")
        if rows < 0:
            cursor.fail(f"a block claims {rows} rows", at=offset)
        body = cursor.field("the body of a block")
        marker = cursor.at
        if cursor.take(SYNC_SIZE, "the sync marker of a block") != header.sync:
            cursor.fail(f"the block from byte {base + offset} does not end with the file's sync marker", at=marker)
        yield Block(base + offset, rows, body)


def after_sync(data: bytes | bytearray, sync: bytes, start: int) -> int | None:
    """Where the first block begins whose sync marker lies at or after `start`; None if there is no marker."""
    place = data.find(sync, start)
    return None if place < 0 else place + SYNC_SIZE


def is_gzip(data: Bytes) -> bool:
    """Whether `data` begins as gzip does, which no Avro file can."""
    return bytes(data[:2]) == _GZIP_MAGIC


def ungzip(data: Bytes, *, blob: str = "") -> bytes:
    """The plain bytes of all gzip members, one behind the other. Raises CorruptError for anything else between them."""
    view = memoryview(data)
    parts: list[bytes] = []
    at = 0
    while at < len(view):
        member, at = at, _member(view, at, parts, blob)
        if at == member:
            _broken(blob, member, "there is something other than gzip data")
    return b"".join(parts)


def _member(view: memoryview, start: int, parts: list[bytes], blob: str) -> int:
    """Append the plain bytes of the member at `start`; returns its end. Steps bound what zlib copies behind it."""
    stream = zlib.decompressobj(_GZIP_WINDOW)
    at = start
    while not stream.eof:
        step = view[at : at + _GZIP_STEP]
        if not step:
            _broken(blob, start, "the gzip member that begins there stops too early")
        try:
            parts.append(stream.decompress(step))
        except zlib.error as cause:
            _broken(blob, start, f"there is no whole gzip member ({cause})", cause)
        at += len(step) - len(stream.unused_data)
    return at


class _Cursor:
    """A position in a blob's bytes that moves forward, and tells where it fails."""

    def __init__(self, data: Bytes, blob: str, base: int = 0, at: int = 0) -> None:
        self._data = memoryview(data)
        self._blob, self._base, self.at = blob, base, at

    @property
    def done(self) -> bool:
        return self.at >= len(self._data)

    def long(self, what: str) -> int:
        """A zig-zag varint."""
        value, start, byte = 0, self.at, 0x80
        while byte & 0x80:
            if self.at - start == _MAX_VARINT:
                self.fail(f"{what} is longer than {_MAX_VARINT} bytes", at=start)
            shift = 7 * (self.at - start)
            byte = self.take(1, what)[0]
            value |= (byte & 0x7F) << shift
        return (value >> 1) ^ -(value & 1)

    def take(self, size: int, what: str) -> memoryview:
        """The next `size` bytes."""
        end = self.at + size
        if end > len(self._data):
            self.fail(f"it stops within {what}: {size} bytes expected, {len(self._data) - self.at} left")
        start, self.at = self.at, end
        return self._data[start:end]

    def field(self, what: str) -> memoryview:
        """A length and as many bytes."""
        start = self.at
        size = self.long(f"the length of {what}")
        if size < 0:
            self.fail(f"{what} claims {size} bytes", at=start)
        return self.take(size, what)

    def text(self, what: str) -> str:
        """A length and as many bytes of UTF-8."""
        return self.decoded(bytes(self.field(what)), what)

    def decoded(self, data: bytes, what: str) -> str:
        """`data`, already taken, as UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8")

    def fail(self, cause: str, *, at: int | None = None) -> NoReturn:
        _broken(self._blob, self._base + (self.at if at is None else at), cause)


def _broken(blob: str, offset: int, cause: str, error: Exception | None = None) -> NoReturn:
    target = f"blob {blob} at byte {offset}" if blob else f"an Avro file at byte {offset}"
    raise CorruptError(describe("read", target, cause, "Restore the blob or delete it.")) from error
