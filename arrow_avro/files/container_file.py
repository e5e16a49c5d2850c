"""Framing of Avro object container files, both directions. Pure.

    header  `Obj` 1, map of metadata (avro.schema, avro.codec, …), sync marker (16 bytes)
    block   rows (long), size (long), body of `size` bytes in the file's codec, sync marker
    block   …

Longs are zig-zag varints. A reader takes a file in memory, or a `Source` that fetches bytes as they are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

from arrow_avro.limits import BLOCK_BYTES, block_too_large
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Bytes: TypeAlias = "bytes | bytearray | memoryview"
MAGIC = b"Obj\x01"
SYNC_SIZE = 16
"""Bytes of a sync marker."""

_SCHEMA = "avro.schema"
_CODEC = "avro.codec"
_MAX_VARINT = 10
_MAX_METADATA = 64 << 20  # bytes of a whole header
_MAX_ENTRIES = 100_000
_PAGE = 512  # bytes of which page blobs have a multiple


class Source(Protocol):
    """The bytes of one blob, read from front to back. Places are offsets from its first byte."""

    def clip(self, end: int) -> int:
        """`end`, or the size of the blob if that is smaller."""

    def read(self, start: int, end: int) -> memoryview:
        """The bytes `[start, end)`; `end` is not beyond the blob, see `clip`."""

    def forget(self, before: int) -> None:
        """The caller will not read before this place again, so the bytes there can be dropped."""

    def is_near(self, end: int) -> bool:
        """Whether the bytes up to `end` are in memory or being fetched anyway."""

    def peek(self, start: int, end: int) -> memoryview | None:
        """The bytes `[start, end)`, clipped; None if they cannot be had without those before them."""


@dataclass(frozen=True, slots=True)
class InMemorySource:
    """A `Source` whose bytes are all in memory. `read` returns views."""

    data: memoryview

    def clip(self, end: int) -> int:
        """`end`, or the size of the data."""
        return min(end, len(self.data))

    def read(self, start: int, end: int) -> memoryview:
        """A view of the bytes `[start, end)`."""
        return self.data[start:end]

    def forget(self, before: int) -> None:
        """Does nothing."""

    def is_near(self, end: int) -> bool:  # noqa: ARG002 - a `Source`
        """Always."""
        return True

    def peek(self, start: int, end: int) -> memoryview | None:
        """A view of the bytes `[start, end)`."""
        return self.read(start, end)


Readable: TypeAlias = "Bytes | Source"


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The header of `size` bytes, after which the first block begins; `metadata` is without schema and codec."""

    schema_json: str
    codec: str
    sync: bytes
    size: int
    metadata: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AvroBlock:
    """One block: bytes `[offset, end)` of the blob, sync marker included. `body` is a view, still compressed."""

    offset: int
    rows: int
    body: memoryview
    end: int


def header(schema_json: str, codec: str, sync: bytes, metadata: Mapping[str, bytes] | None = None) -> bytes:
    """The bytes of a header.

    schema_json: the Avro schema. codec: its name in Avro. sync: 16 random bytes. metadata: the writer's own entries.
    """
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
    """The buffers of one block, in order, without a copy.

    rows: how many. body: compressed with the file's codec. sync: the file's sync marker.
    """
    return encode(rows) + encode(memoryview(body).nbytes), body, sync


def read_header(data: Readable, *, blob: str = "") -> FileHeader:
    """The header at the start of `data`, which may be a prefix of the blob. An absent codec means null.

    Raises CorruptError if `data` does not begin with a whole header.
    """
    cursor = _Cursor(_source(data), blob)
    if cursor.take(len(MAGIC), "the magic bytes") != MAGIC:
        cursor.fail("it does not begin with the magic bytes of an Avro file", at=0)
    metadata: dict[str, bytes] = {}
    while count := cursor.long("the count of metadata"):
        if count < 0:
            count = -count
            cursor.long("the size of metadata")
        if count + len(metadata) > _MAX_ENTRIES:
            cursor.fail(f"its header claims {count} entries of metadata")
        for _ in range(count):
            key = cursor.text("a metadata key")
            metadata[key] = bytes(cursor.field("a metadata value", _MAX_METADATA - cursor.at))
    if _SCHEMA not in metadata:
        cursor.fail("its header has no avro.schema")
    sync = bytes(cursor.take(SYNC_SIZE, "the sync marker"))
    schema_json = cursor.decoded(metadata.pop(_SCHEMA), "avro.schema")
    codec = cursor.decoded(metadata.pop(_CODEC, b"null"), _CODEC)
    return FileHeader(schema_json, codec, sync, cursor.at, metadata)


def blocks(
    data: Readable,
    header: FileHeader,
    start: int | None = None,
    *,
    end: int | None = None,
    blob: str = "",
    most: int = BLOCK_BYTES,
) -> Iterator[AvroBlock]:
    """The blocks of a file, in order.

    data: the bytes of the file.
    header: the file's header.
    start: where a block begins (byte), by default the first one.
    end: only blocks whose preceding sync marker begins before this byte; by default all.
    blob: its name, for errors.
    most: bytes that a block may have.

    Zeros up to a multiple of 512 bytes, which page blobs have, may follow the last block.

    `CorruptError`, which names blob and byte, where the framing is damaged or the data ends within a block;
    `ConfigurationError` for a block that is larger than `most`.
    """
    source = _source(data)
    cursor = _Cursor(source, blob, header.size if start is None else start)
    while (end is None or cursor.at - SYNC_SIZE < end) and not cursor.done:
        offset = cursor.at
        if _is_padding(cursor, header.sync):
            return
        source.forget(offset - SYNC_SIZE)
        rows = cursor.long("the row count of a block")
        if rows < 0:
            cursor.fail(f"a block claims {rows} rows", at=offset)
        body = _body(cursor, header.sync, offset, most)
        marker = cursor.at
        if cursor.take(SYNC_SIZE, "the sync marker of a block") != header.sync:
            cursor.fail(_no_marker(offset), at=marker)
        yield AvroBlock(offset, rows, body, cursor.at)


def _is_padding(cursor: _Cursor, sync: bytes) -> bool:
    """Whether only the zeros of a page blob follow. More of them may be rows that were lost, as after a crash."""
    left = cursor.left(_PAGE)
    if left == _PAGE or (cursor.at + left) % _PAGE:
        return False
    return any(sync) and not any(cursor.source.read(cursor.at, cursor.at + left))


def _body(cursor: _Cursor, sync: bytes, offset: int, most: int) -> memoryview:
    """The stored body of the block at `offset`.

    A damaged size could make the source fetch gigabytes. So before a body that is not near is fetched, the sync marker
    after it is, alone.
    """
    what = "the body of a block"
    start = cursor.at
    size = cursor.long(f"the length of {what}")
    if size < 0:
        cursor.fail(f"{what} claims {size} bytes", at=start)
    marker = cursor.at + size
    if not size and _is_zero(cursor, sync):
        cursor.fail(
            "zeros follow the last block: more than the padding of a page blob, or rows that were lost", at=offset
        )
    if size > most or not cursor.source.is_near(marker + SYNC_SIZE):
        found = cursor.source.peek(marker, marker + SYNC_SIZE)
        if found is not None and len(found) < SYNC_SIZE:
            cursor.skip(size, what)
            cursor.take(SYNC_SIZE, "the sync marker of a block")
        elif found is not None and found != sync:
            cursor.fail(_no_marker(offset), at=marker)
    if size > most:
        error = block_too_large("it has", most)
        target = f"blob {cursor.blob}, block from byte {offset},"
        raise ConfigurationError("read", target, str(error), error.step)
    return cursor.take(size, what)


def _is_zero(cursor: _Cursor, sync: bytes) -> bool:
    """Whether zeros stand where the sync marker should."""
    return any(sync) and not any(cursor.source.read(cursor.at, cursor.at + cursor.left(SYNC_SIZE)))


def _no_marker(offset: int) -> str:
    return f"the block from byte {offset} does not end with the file's sync marker"


def is_block(source: Source, sync: bytes, at: int) -> bool:
    """Whether the bytes at `at` are framed as a block: row count, size, and the sync marker where the body ends."""
    cursor = _Cursor(source, "", at)
    try:
        rows, size = cursor.long(""), cursor.long("")
        cursor.at += size
        return rows >= 0 and size >= 0 and cursor.take(SYNC_SIZE, "") == sync
    except CorruptError:
        return False


def after_sync(data: bytes | bytearray, sync: bytes, start: int) -> int | None:
    """The end of the first sync marker that begins at `start` or later; None if there is none."""
    marker = data.find(sync, start)
    return None if marker < 0 else marker + SYNC_SIZE


def _source(data: Readable) -> Source:
    return InMemorySource(memoryview(data)) if isinstance(data, (bytes, bytearray, memoryview)) else data


class _Cursor:
    """A position in a blob's bytes that moves forward. Its errors name blob and byte."""

    def __init__(self, source: Source, blob: str, at: int = 0) -> None:
        self.source = source
        self.blob, self.at = blob, at

    @property
    def done(self) -> bool:
        return not self.left(1)

    def left(self, most: int) -> int:
        """How many of the next `most` bytes exist."""
        return max(self.source.clip(self.at + most) - self.at, 0)

    def long(self, what: str) -> int:
        """Read a zig-zag varint."""
        value, start = 0, self.at
        ahead = self.source.read(start, start + self.left(_MAX_VARINT))
        for index, byte in enumerate(ahead):
            value |= (byte & 0x7F) << 7 * index
            self.at += 1
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)
        if len(ahead) == _MAX_VARINT:
            self.fail(f"{what} is longer than {_MAX_VARINT} bytes", at=start)
        return self._fail_short(1, what)

    def take(self, size: int, what: str) -> memoryview:
        """Read `size` bytes."""
        start = self.at
        self.skip(size, what)
        return self.source.read(start, self.at)

    def skip(self, size: int, what: str) -> None:
        """Step over `size` bytes."""
        if self.source.clip(self.at + size) < self.at + size:
            self._fail_short(size, what)
        self.at += size

    def field(self, what: str, most: int) -> memoryview:
        """Read a length of up to `most`, and as many bytes."""
        start = self.at
        size = self.long(f"the length of {what}")
        if size < 0 or size > most:
            self.fail(f"{what} claims {size} bytes", at=start)
        return self.take(size, what)

    def text(self, what: str) -> str:
        """Read a length and as many bytes of UTF-8."""
        return self.decoded(bytes(self.field(what, _MAX_METADATA - self.at)), what)

    def decoded(self, data: bytes, what: str) -> str:
        """`data`, which has been read, as UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-8")

    def fail(self, cause: str, *, at: int | None = None) -> NoReturn:
        raise_corrupt(self.blob, self.at if at is None else at, cause)

    def _fail_short(self, size: int, what: str) -> NoReturn:
        self.fail(f"it stops within {what}: {size} bytes expected, {self.left(size)} left")


def raise_corrupt(blob: str, offset: int, cause: str, error: Exception | None = None) -> NoReturn:
    """Raise the CorruptError for the bytes at `offset`."""
    target = f"blob {blob} at byte {offset}" if blob else f"an Avro file at byte {offset}"
    raise CorruptError("read", target, cause, "Restore the blob, or skip it with option ignoreCorruptBlobs.") from error
