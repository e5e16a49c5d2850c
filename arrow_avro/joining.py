"""Container files of one schema as one file, in which each source's rows can still be found. Pure.

    sources ─► blocks ┬ large: carried over as they are stored
                      └ small: inflated ─► bodies of one block, up to `block_bytes` ─► compressed again
                                                                        ─► chunks of the file, a `Placement` per source

The body of a block is its rows, one after the other, so bodies are joined by their bytes and counts, and no row is
decoded. Without this, ten thousand small files would become as many small blocks, which are read many times more slowly
than the same rows in large ones. A source of 10 rows between others may be placed like this:

    Placement(start=1048731, end=2097422, skip=370, rows=10)
    ─► of the blocks from byte 1048731 up to byte 2097422, leave out 370 rows; the next 10 are its rows

A damaged body could make the rows of others in its block unreadable. So each body that is joined must end where its
rows end, which is found by stepping over them; what its values are is not checked, nor are large blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

from arrow_avro.decoding.decode import decode_blocks
from arrow_avro.decoding.legacy_calendar import LegacyCalendar
from arrow_avro.files.block_codecs import codec
from arrow_avro.files.container_file import (
    SYNC_SIZE,
    AvroBlock,
    FileHeader,
    InMemorySource,
    block,
    blocks,
    header,
    raise_corrupt,
    read_header,
)
from arrow_avro.files.gzipped import GunzippedSource, is_gzip
from arrow_avro.files.placing import Placement
from arrow_avro.limits import BeyondLimitError
from arrow_avro.schema import header_schema
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from arrow_avro.files.block_codecs import Codec
    from arrow_avro.files.container_file import Bytes

JOINED_BLOCK = 1 << 20
_ROWS = 1 << 20  # of a joined block, for rows that have few bytes or none
_STORED_PART = 8
"""A stored body of this part of `block_bytes` is large: readers gain less than a tenth from blocks above 128 KiB."""
_LARGE_PART = 2  # and an inflated one of this part, so a joined block has less than 1.5 times `block_bytes`

JoinedPart: TypeAlias = "Bytes | Placement"


@dataclass(frozen=True, slots=True)
class JoinedFormat:
    """How a joined file is serialized.

    schema_json: that of all sources, which are refused otherwise.
    codec: of its blocks; those of sources with another one are compressed again.
    sync: its marker of 16 bytes; `joined_sync` gives the same one for the same sources.
    metadata: of its header. That of the sources is left out, but their rows must be of the same calendar.
    block_bytes: of bodies that are joined in one block, before compression.
    """

    schema_json: str
    codec: str
    sync: bytes
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    block_bytes: int = JOINED_BLOCK


def joined_sync(names: Iterable[str]) -> bytes:
    """A sync marker that depends on these names alone, such as those of the sources and of the joined blob."""
    return blake2b("\0".join(names).encode(), digest_size=SYNC_SIZE).digest()


def join_files(files: Iterable[tuple[str, Bytes]], form: JoinedFormat) -> Iterator[JoinedPart]:
    """The bytes of the joined file, in order, and between them the placement of each source, in their order.

    files: name and bytes of each source, gzipped or not; asked for one after the other. An empty one has no rows.
    form: of the joined file, which is not gzipped.

    The same sources give the same bytes, with the same versions of the compression libraries. Memory: one source (what
    a gzipped one has between two blocks) and one block. Chunks may be views of a source.

    Errors name the source: `CorruptError` for damaged framing, compression or rows (see above), `ConfigurationError`
    for another schema or calendar. What has been returned before is of no use then.
    """
    joined = _JoinedFile(form)
    yield header(form.schema_json, form.codec, form.sync, form.metadata)
    for name, data in files:
        yield from joined.add(name, data)
    yield from joined.close_block()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A body of a joined block: inflated, from byte `offset` of the source `name`."""

    name: str
    offset: int
    rows: int
    body: bytes

    def as_block(self) -> AvroBlock:
        return AvroBlock(self.offset, self.rows, memoryview(self.body), self.offset)


class _JoinedFile:
    """What has been written, up to byte `_at`, and the block that still takes bodies, which begins there.

    `_waiting` are start, skip and rows of the sources that end in that block.
    """

    def __init__(self, form: JoinedFormat) -> None:
        self._form = form
        self._codec = codec(form.codec)
        self._schema = header_schema(form.schema_json, blob="").json
        self._calendar = LegacyCalendar.of(form.metadata)
        self._at = len(header(form.schema_json, form.codec, form.sync, form.metadata))
        self._pieces: list[_Piece] = []
        self._rows = self._size = 0
        self._waiting: list[tuple[int, int, int]] = []

    def add(self, name: str, data: Bytes) -> Iterator[JoinedPart]:
        """Join a source."""
        first: tuple[int, int] | None = None
        rows = 0
        for found, stored in self._blocks(name, data):
            body = self._small_body(name, found, stored)
            if body is None:
                yield from self.close_block()
            if found.rows:
                first = first or (self._at, self._rows)
                rows += found.rows
            if body is None:
                yield from self._write(found.rows, self._carried_over(name, found, stored))
            elif found.rows:
                self._pieces.append(_Piece(name, found.offset, found.rows, body))
                self._rows, self._size = self._rows + found.rows, self._size + len(body)
                if self._size >= self._form.block_bytes or self._rows >= _ROWS:
                    # A source that goes on in the next block is not among those that wait for the end of this one.
                    yield from self.close_block()
        self._waiting.append((*(first or (self._at, 0)), rows))
        if not self._pieces:
            yield from self._placements()

    def close_block(self) -> Iterator[JoinedPart]:
        """Write the block that takes bodies, if it has any, and place the sources that end in it."""
        if self._pieces:
            self._check_rows()
            body = b"".join(piece.body for piece in self._pieces)
            rows = self._rows
            self._pieces, self._rows, self._size = [], 0, 0
            yield from self._write(rows, self._codec.compress(body))
            yield from self._placements()

    def _write(self, rows: int, stored: Bytes) -> Iterator[Bytes]:
        for buffer in block(rows, stored, self._form.sync):
            self._at += memoryview(buffer).nbytes
            yield buffer

    def _placements(self) -> Iterator[Placement]:
        waiting, self._waiting = self._waiting, []
        for start, skip, rows in waiting:
            yield Placement(start, self._at if rows else start, skip, rows)

    def _blocks(self, name: str, data: Bytes) -> Iterator[tuple[AvroBlock, Codec]]:
        """The blocks of a source, each with its codec."""
        whole = InMemorySource(memoryview(data))
        source = GunzippedSource(whole, name) if is_gzip(data) else whole
        if not source.clip(1):
            return
        head = read_header(source, blob=name)
        self._check_header(name, head)
        stored = self._codec if head.codec == self._form.codec else codec(head.codec)
        for found in blocks(source, head, blob=name):
            yield found, stored

    def _check_header(self, name: str, head: FileHeader) -> None:
        same_text = head.schema_json == self._form.schema_json
        if not same_text and header_schema(head.schema_json, blob=name).json != self._schema:
            cause = "its schema is not that of the joined file"
        elif LegacyCalendar.of(head.metadata) != self._calendar:
            cause = "its header names another calendar of dates and timestamps than that of the joined file"
        else:
            return
        raise ConfigurationError("join", f"blob {name}", cause, "Join blobs with those that are like them.")

    def _carried_over(self, name: str, found: AvroBlock, stored: Codec) -> Bytes:
        """The body of a large block as it is stored, or compressed again if the joined file has another codec."""
        if stored is self._codec:
            return found.body
        try:
            return self._codec.compress(_inflated(name, found, stored))
        except BeyondLimitError as cause:
            raise ConfigurationError("join", f"blob {name}", str(cause), cause.step) from cause

    def _small_body(self, name: str, found: AvroBlock, stored: Codec) -> bytes | None:
        """The body of a block, inflated; None if the block is large."""
        if found.rows and self._is_large(found):
            return None
        most = self._form.block_bytes // _LARGE_PART if found.rows else 0
        try:
            body = bytes(_inflated(name, found, stored, most))
        except BeyondLimitError:
            body = None
        if not found.rows and body != b"":
            raise_corrupt(name, found.offset, "a block without rows has bytes")
        return body

    def _is_large(self, found: AvroBlock) -> bool:
        """Whether the block is large, as far as can be said without inflating it."""
        return len(found.body) >= self._form.block_bytes // _STORED_PART or found.rows >= _ROWS // _LARGE_PART

    def _check_rows(self) -> None:
        """Check that each body ends where its rows do. One run steps over all; if it fails, the guilty one is named."""
        try:
            self._step_over("", self._pieces)
        except AzureBlobError:
            for piece in self._pieces:
                self._step_over(piece.name, [piece])
            raise

    def _step_over(self, name: str, pieces: list[_Piece]) -> None:
        plain = FileHeader(self._form.schema_json, "null", self._form.sync, 0, self._form.metadata)
        for _ in decode_blocks(plain, (piece.as_block() for piece in pieces), blob=name, columns=()):
            pass


def _inflated(name: str, found: AvroBlock, stored: Codec, *most: int) -> Bytes:
    """The body of a block, inflated; most and errors as of `Codec.decompress`. `CorruptError` names the source."""
    try:
        return stored.decompress(found.body, *most)
    except CorruptError as cause:
        raise_corrupt(name, found.offset, str(cause), cause)
