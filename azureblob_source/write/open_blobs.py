"""The blobs that a task has open: encoded rows in, sealed blocks and finished blobs out. Pure.

    rows ─► body (an Avro block in the making) ─► bodies of one Azure block ─► sealed `Block` ─► staged by the caller
              rolled over at ~1 MiB                  sealed at `block_bytes`, or early when memory is short

All buffers share one byte budget, so ten thousand open blobs cost no more than one. What is sealed is compressed
only when it is rendered, in the upload thread.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from azure_account.account import BLOCKS_OF_A_BLOB
from azureblob_source.avro.files import container_file
from azureblob_source.log.entry import BlobEntry
from azureblob_source.log.naming import blob_name, block_id

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from datetime import datetime

    from azureblob_source.avro.encoding.pieces import EncodedRows
    from azureblob_source.avro.files.block_codecs import Codec
    from azureblob_source.write.routing import Route

AVRO_BLOCK = 1 << 20
"""Bytes of encoded rows in one Avro block: large enough for the codecs, small enough for a reader's splits."""


@dataclass(frozen=True)
class Limits:
    """When blocks are sealed and blobs rolled. Bytes are uncompressed; `None` is no limit; ages are seconds."""

    block_bytes: int = 10 << 20
    blob_bytes: int | None = None
    blob_rows: int | None = None
    blob_age: float | None = None
    blob_blocks: int = BLOCKS_OF_A_BLOB
    memory: int = 128 << 20
    avro_block: int = AVRO_BLOCK

    @property
    def body_bytes(self) -> int:
        """Bytes at which an Avro block ends: none is larger than an Azure block, but for its last row."""
        return min(self.avro_block, self.block_bytes)


@dataclass(frozen=True)
class BlobFormat:
    """How the bytes of every blob are made: header text, Avro codec, and the proposal's gzip over whole blocks."""

    schema_json: str
    schema: str
    codec: Codec
    gzipped: bool = False

    @property
    def extension(self) -> str:
        """`.avro` or `.avro.gz`."""
        return ".avro.gz" if self.gzipped else ".avro"


@dataclass(frozen=True)
class Block:
    """One sealed Azure block: a run of Avro blocks as yet uncompressed. `opens` is true for a blob's first block."""

    blob: str
    id: str
    sync: bytes
    bodies: tuple[tuple[int, bytes | bytearray | memoryview], ...]
    plain_bytes: int
    opens: bool

    def render(self, form: BlobFormat) -> bytes:
        """The bytes to stage."""
        parts: list[bytes | bytearray | memoryview] = []
        if self.opens:
            parts.append(container_file.header(form.schema_json, form.codec.name, self.sync))
        for rows, body in self.bodies:
            parts.extend(container_file.block(rows, form.codec.compress(body), self.sync))
        data = b"".join(parts)
        return gzip.compress(data, compresslevel=6, mtime=0) if form.gzipped else data


class Names(Protocol):
    """Where a blob's random parts come from."""

    def suffix(self) -> str | None:
        """Eight characters for the name, or None."""

    def attempt(self) -> str:
        """The id of this task attempt's work on one blob, of fixed length."""

    def sync(self) -> bytes:
        """Sixteen random bytes."""


class _OpenBlob:
    """One blob in the making."""

    __slots__ = (
        "attempt", "bodies", "bodies_bytes", "body", "body_rows", "first_event", "last_event",
        "name", "opened", "plain_bytes", "route", "rows", "sealed", "sync",
    )  # fmt: skip

    def __init__(self, route: Route, name: str, attempt: str, sync: bytes, opened: float) -> None:
        self.route, self.name, self.attempt, self.sync, self.opened = route, name, attempt, sync, opened
        self.body = bytearray()
        self.body_rows = 0
        self.bodies: list[tuple[int, bytes | bytearray | memoryview]] = []
        self.bodies_bytes = 0
        self.plain_bytes = 0
        self.rows = 0
        self.sealed = 0
        self.first_event: int | None = None
        self.last_event: int | None = None

    @property
    def buffered(self) -> int:
        return self.bodies_bytes + len(self.body)

    def close_body(self) -> None:
        """End the Avro block in the making."""
        if self.body_rows:
            self.add_body(self.body_rows, self.body)
            self.body, self.body_rows = bytearray(), 0

    def add_body(self, rows: int, body: bytes | bytearray | memoryview) -> None:
        self.bodies.append((rows, body))
        self.bodies_bytes += len(body)

    def seal(self) -> Block:
        """Everything buffered, as the next block."""
        self.close_body()
        block = Block(
            blob=self.name,
            id=block_id(self.attempt, self.sealed),
            sync=self.sync,
            bodies=tuple(self.bodies),
            plain_bytes=self.bodies_bytes,
            opens=self.sealed == 0,
        )
        self.bodies, self.bodies_bytes = [], 0
        self.sealed += 1
        return block

    def finished(self, schema: str, rolled_by: str) -> BlobEntry:
        return BlobEntry(
            name=self.name,
            stream=self.route.stream,
            partition=self.route.partition,
            attempt=self.attempt,
            blocks=self.sealed,
            rows=self.rows,
            uncompressed=self.plain_bytes,
            size=0,
            schema=schema,
            rolled_by=rolled_by,
            min_event_time=self.first_event,
            max_event_time=self.last_event,
        )


@dataclass
class OpenBlobs:
    """All open blobs of one task. The methods yield what the caller must stage (`Block`) or keep (`BlobEntry`).

    A blob's `BlobEntry` comes behind its last block, with `size` 0: the stored size is known once the blocks are
    staged. `utc` and `clock` (s, monotonic) are read when a blob is opened.
    """

    limits: Limits
    form: BlobFormat
    names: Names
    utc: Callable[[], datetime]
    clock: Callable[[], float]
    buffered: int = 0
    _open: dict[Route, _OpenBlob] = field(default_factory=dict)

    def append(
        self, route: Route, rows: EncodedRows, first: int, last: int, events: tuple[int, int] | None = None
    ) -> Iterator[Block | BlobEntry]:
        """Add the rows `first … last-1` to the open blob of `route`. `events` are their least and greatest event time.

        A blob that rolls in the midst of these rows carries `events` whole: bounds, not exact values.
        """
        while first < last:
            blob = self._open.get(route) or self._start(route)
            fits, reason = self._room(blob, rows.offsets, first, last)
            if fits == first:
                yield from self._finish(blob, reason)
                continue
            first = yield from self._add(blob, rows, first, fits)
            _widen(blob, events)
            if reason and fits <= first < last:
                yield from self._finish(blob, reason)
        if self.buffered > self.limits.memory:
            yield from self._relieve()

    def close(self) -> Iterator[Block | BlobEntry]:
        """Finish every open blob."""
        for blob in list(self._open.values()):
            yield from self._finish(blob, "end")

    def _start(self, route: Route) -> _OpenBlob:
        name = blob_name(route.stream, route.partition, self.utc(), self.names.suffix(), self.form.extension)
        blob = _OpenBlob(route, name, self.names.attempt(), self.names.sync(), self.clock())
        self._open[route] = blob
        return blob

    def _room(self, blob: _OpenBlob, offsets: np.ndarray, first: int, last: int) -> tuple[int, str]:
        """The row up to which the blob can take rows, and what limits it. A blob takes at least one row."""
        limits = self.limits
        if blob.sealed >= limits.blob_blocks:
            return first, "blocks"
        if limits.blob_age is not None and blob.rows and self.clock() - blob.opened >= limits.blob_age:
            return first, "age"
        fits, reason = last, ""
        if limits.blob_rows is not None and first + limits.blob_rows - blob.rows < fits:
            fits, reason = first + limits.blob_rows - blob.rows, "messages"
        if limits.blob_bytes is not None:
            end = offsets[first] + limits.blob_bytes - blob.plain_bytes
            by_size = int(np.searchsorted(offsets[first : last + 1], end, side="right")) - 1 + first
            if by_size < fits:
                fits, reason = max(by_size, first), "size"
        if fits == first and blob.rows == 0:
            fits = first + 1
        return fits, reason

    def _add(self, blob: _OpenBlob, rows: EncodedRows, first: int, last: int) -> Generator[Block, None, int]:
        """Add rows, cutting Avro blocks and Azure blocks. Returns the row reached: `last`, unless blocks ran out."""
        offsets, body_bytes = rows.offsets, self.limits.body_bytes
        # A view keeps all the encoded rows alive, so only their main owner may keep one; the others copy.
        keeps_views = 2 * (offsets[last] - offsets[first]) >= len(rows.data)
        while first < last and blob.sealed < self.limits.blob_blocks:
            start, end, cut = int(offsets[first]), int(offsets[last]), last
            room = max(body_bytes - len(blob.body), 1)
            if end - start > room:
                cut = int(np.searchsorted(offsets[first : last + 1], start + room, side="left")) + first
                end = int(offsets[cut])
            piece: memoryview = rows.data[start:end].data
            if keeps_views and not blob.body_rows and len(piece) >= body_bytes:
                blob.add_body(cut - first, piece)
            else:
                blob.body += piece
                blob.body_rows += cut - first
                if len(blob.body) >= body_bytes:
                    blob.close_body()
            blob.rows += cut - first
            blob.plain_bytes += end - start
            self.buffered += end - start
            if blob.buffered >= self.limits.block_bytes:
                yield self._seal(blob)
            first = cut
        return first

    def _seal(self, blob: _OpenBlob) -> Block:
        self.buffered -= blob.buffered
        return blob.seal()

    def _finish(self, blob: _OpenBlob, rolled_by: str) -> Iterator[Block | BlobEntry]:
        del self._open[blob.route]
        if blob.bodies or blob.body_rows:
            yield self._seal(blob)
        if blob.rows:
            yield blob.finished(self.form.schema, rolled_by)

    def _relieve(self) -> Iterator[Block]:
        """Seal the largest buffers until a quarter of the memory is free again."""
        target = self.limits.memory * 3 // 4
        for blob in sorted(self._open.values(), key=lambda each: each.buffered, reverse=True):
            if self.buffered <= target:
                return
            yield self._seal(blob)


def _widen(blob: _OpenBlob, events: tuple[int, int] | None) -> None:
    if events is None:
        return
    first, last = events
    blob.first_event = first if blob.first_event is None else min(first, blob.first_event)
    blob.last_event = last if blob.last_event is None else max(last, blob.last_event)
