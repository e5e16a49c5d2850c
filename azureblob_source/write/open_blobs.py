"""The blobs that a task has open: encoded rows in, sealed blocks and finished blobs out. Pure.

    rows ─► body (of the current Avro block) ─► bodies of one Azure block ─► `SealedBlock` ─► staged by the caller
              closed at ~1 MiB                    sealed at `block_bytes`, or earlier when memory is short

All open blobs share one byte budget, so ten thousand of them buffer no more than one. A sealed block is compressed
when it is rendered, in the upload thread.
"""

from __future__ import annotations

import gzip
import string
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

import arrow_avro
from azure_account.values import BLOCKS_OF_A_BLOB
from azureblob_source.log.entry import BlobEntry
from azureblob_source.log.naming import blob_name, block_id
from azureblob_source.write.column_bounds import bounds_of, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from arrow_avro import Codec, EncodedRows
    from azureblob_source.write.column_bounds import Extremes
    from azureblob_source.write.routing import Route
    from foundation.clock import Clock

AVRO_BLOCK = 1 << 20
"""Bytes of encoded rows in one Avro block: large enough to compress well, small enough for a reader's splits."""

_SUFFIX_CHARACTERS = string.digits + string.ascii_lowercase


@dataclass(frozen=True)
class BlobLimits:
    """When blocks are sealed and blobs rolled. Bytes are uncompressed; `None` is no limit; `blob_age` is in seconds."""

    block_bytes: int = 10 << 20
    blob_bytes: int | None = None
    blob_rows: int | None = None
    blob_age: float | None = None
    blob_blocks: int = BLOCKS_OF_A_BLOB
    memory_budget: int = 128 << 20
    avro_block: int = AVRO_BLOCK

    @property
    def body_bytes(self) -> int:
        """Bytes at which an Avro block is closed. It exceeds an Azure block by its last row at most."""
        return min(self.avro_block, self.block_bytes)


@dataclass(frozen=True)
class BlobFormat:
    """How blobs are serialized: the header's schema, its fingerprint, the Avro codec, gzip around every Azure block."""

    schema_json: str
    schema: str
    codec: Codec
    gzipped: bool = False

    @property
    def extension(self) -> str:
        """`.avro` or `.avro.gz`."""
        return ".avro.gz" if self.gzipped else ".avro"


@dataclass(frozen=True)
class SealedBlock:
    """The content of one Azure block: Avro blocks, not compressed yet. `is_first` is true for a blob's first block.

    bodies: row count and encoded rows of each Avro block.
    """

    blob: str
    stream: str
    id: str
    sync: bytes
    bodies: tuple[tuple[int, bytes | bytearray | memoryview], ...]
    uncompressed: int
    is_first: bool

    @property
    def rows(self) -> int:
        """The rows of all its Avro blocks."""
        return sum(rows for rows, _ in self.bodies)

    def render(self, blob_format: BlobFormat) -> bytes:
        """The bytes to stage."""
        buffers: list[bytes | bytearray | memoryview] = []
        if self.is_first:
            buffers.append(arrow_avro.header(blob_format.schema_json, blob_format.codec.name, self.sync))
        for rows, body in self.bodies:
            buffers.extend(arrow_avro.block(rows, blob_format.codec.compress(body), self.sync))
        data = b"".join(buffers)
        return gzip.compress(data, compresslevel=6, mtime=0) if blob_format.gzipped else data


@dataclass(frozen=True)
class RowRanges:
    """Between which values some rows lie. event_times: None if all are null. columns: of which it is known."""

    event_times: tuple[int, int] | None = None
    columns: Extremes = field(default_factory=dict)


NO_RANGES = RowRanges()


class BlobIds:
    """The random parts of a blob's name and content, from a source of random bytes such as `os.urandom`."""

    def __init__(self, random_bytes: Callable[[int], bytes], *, suffixed: bool) -> None:
        self._random_bytes = random_bytes
        self._suffixed = suffixed

    def suffix(self) -> str | None:
        """Eight digits or lower-case letters (41 bits), or None if `suffixRandomStringToBlobName` is false."""
        if not self._suffixed:
            return None
        number = int.from_bytes(self._random_bytes(8), "big")
        return "".join(_SUFFIX_CHARACTERS[number // 36**place % 36] for place in range(8))

    def attempt(self) -> str:
        """The attempt id of one blob: sixteen hexadecimal characters."""
        return self._random_bytes(8).hex()

    def sync(self) -> bytes:
        """An Avro sync marker."""
        return self._random_bytes(16)


class _OpenBlob:
    """One blob that still takes rows."""

    __slots__ = (
        "attempt", "bodies", "bodies_bytes", "body", "body_rows", "extremes", "max_event_time", "min_event_time",
        "name", "opened", "route", "rows", "sealed", "sync", "uncompressed",
    )  # fmt: skip

    def __init__(self, route: Route, name: str, attempt: str, sync: bytes, opened: float) -> None:
        self.route, self.name, self.attempt, self.sync, self.opened = route, name, attempt, sync, opened
        self.body = bytearray()
        self.body_rows = 0
        self.bodies: list[tuple[int, bytes | bytearray | memoryview]] = []
        self.bodies_bytes = 0
        self.uncompressed = 0
        self.rows = 0
        self.sealed = 0
        self.min_event_time: int | None = None
        self.max_event_time: int | None = None
        self.extremes: Extremes | None = None

    @property
    def buffered(self) -> int:
        return self.bodies_bytes + len(self.body)

    def close_body(self) -> None:
        """Close the current Avro block."""
        if self.body_rows:
            self.add_body(self.body_rows, self.body)
            self.body, self.body_rows = bytearray(), 0

    def add_body(self, rows: int, body: bytes | bytearray | memoryview) -> None:
        self.bodies.append((rows, body))
        self.bodies_bytes += len(body)

    def seal(self) -> SealedBlock:
        """Everything that is buffered, as the next Azure block."""
        self.close_body()
        block = SealedBlock(
            blob=self.name,
            stream=self.route.stream,
            id=block_id(self.attempt, self.sealed),
            sync=self.sync,
            bodies=tuple(self.bodies),
            uncompressed=self.bodies_bytes,
            is_first=self.sealed == 0,
        )
        self.bodies, self.bodies_bytes = [], 0
        self.sealed += 1
        return block

    def entry(self, schema: str, rolled_by: str) -> BlobEntry:
        return BlobEntry(
            name=self.name,
            stream=self.route.stream,
            partition=self.route.partition,
            attempt=self.attempt,
            blocks=self.sealed,
            rows=self.rows,
            size=0,
            uncompressed=self.uncompressed,
            schema=schema,
            rolled_by=rolled_by,
            min_event_time=self.min_event_time,
            max_event_time=self.max_event_time,
            bounds=bounds_of(self.extremes),
        )


@dataclass
class OpenBlobs:
    """All open blobs of one task. The methods yield blocks to stage, and each blob after its last block, without size.

    The clock gives the time in a blob's name, and its age.
    """

    limits: BlobLimits
    blob_format: BlobFormat
    names: BlobIds
    clock: Clock
    buffered: int = 0
    _open: dict[Route, _OpenBlob] = field(default_factory=dict)

    def append(
        self, route: Route, rows: EncodedRows, first: int, last: int, ranges: RowRanges = NO_RANGES
    ) -> Iterator[SealedBlock | BlobEntry]:
        """Add the rows `first … last-1` to the open blob of `route`.

        ranges: of these rows. If the blob rolls amid them, both blobs get them as a whole, which bounds their rows too.
        """
        while first < last:
            blob = self._open.get(route) or self._start(route)
            fits, reason = self._room(blob, rows.offsets, first, last)
            if fits == first:
                yield from self._finish(blob, reason)
                continue
            first = yield from self._add(blob, rows, first, fits)
            _widen(blob, ranges)
            if reason and fits <= first < last:
                yield from self._finish(blob, reason)
        if self.buffered > self.limits.memory_budget:
            yield from self._relieve()

    def close(self) -> Iterator[SealedBlock | BlobEntry]:
        """Finish every open blob."""
        for blob in list(self._open.values()):
            yield from self._finish(blob, "end")

    def _start(self, route: Route) -> _OpenBlob:
        opened = datetime.fromtimestamp(self.clock.now(), UTC)
        name = blob_name(route.stream, route.partition, opened, self.names.suffix(), self.blob_format.extension)
        blob = _OpenBlob(route, name, self.names.attempt(), self.names.sync(), self.clock.monotonic())
        self._open[route] = blob
        return blob

    def _room(self, blob: _OpenBlob, offsets: np.ndarray, first: int, last: int) -> tuple[int, str]:
        """The row before which the blob is full, and the limit that fills it. A blob takes at least one row."""
        limits = self.limits
        if blob.sealed >= limits.blob_blocks:
            return first, "blocks"
        if limits.blob_age is not None and blob.rows and self.clock.monotonic() - blob.opened >= limits.blob_age:
            return first, "age"
        fits, reason = last, ""
        if limits.blob_rows is not None and first + limits.blob_rows - blob.rows < fits:
            fits, reason = first + limits.blob_rows - blob.rows, "messages"
        if limits.blob_bytes is not None:
            end = offsets[first] + limits.blob_bytes - blob.uncompressed
            by_size = int(np.searchsorted(offsets[first : last + 1], end, side="right")) - 1 + first
            if by_size < fits:
                fits, reason = max(by_size, first), "size"
        if fits == first and blob.rows == 0:
            fits = first + 1
        return fits, reason

    def _add(self, blob: _OpenBlob, rows: EncodedRows, first: int, last: int) -> Generator[SealedBlock, None, int]:
        """Add rows, closing Avro blocks and sealing Azure blocks. Returns `last`, or the first row that is not added.

        A row is left over only if the blob has reached its greatest number of Azure blocks.
        """
        offsets, body_bytes = rows.offsets, self.limits.body_bytes
        # A view keeps all the encoded rows in memory, so only the blob that gets most of them keeps one; others copy.
        keeps_views = 2 * (offsets[last] - offsets[first]) >= len(rows.data)
        while first < last and blob.sealed < self.limits.blob_blocks:
            start, end, cut = int(offsets[first]), int(offsets[last]), last
            room = max(body_bytes - len(blob.body), 1)
            if end - start > room:
                cut = int(np.searchsorted(offsets[first : last + 1], start + room, side="left")) + first
                end = int(offsets[cut])
            encoded: memoryview = rows.data[start:end].data
            if keeps_views and not blob.body_rows and len(encoded) >= body_bytes:
                blob.add_body(cut - first, encoded)
            else:
                blob.body += encoded
                blob.body_rows += cut - first
                if len(blob.body) >= body_bytes:
                    blob.close_body()
            blob.rows += cut - first
            blob.uncompressed += end - start
            self.buffered += end - start
            if blob.buffered >= self.limits.block_bytes:
                yield self._seal(blob)
            first = cut
        return first

    def _seal(self, blob: _OpenBlob) -> SealedBlock:
        self.buffered -= blob.buffered
        return blob.seal()

    def _finish(self, blob: _OpenBlob, rolled_by: str) -> Iterator[SealedBlock | BlobEntry]:
        del self._open[blob.route]
        if blob.bodies or blob.body_rows:
            yield self._seal(blob)
        if blob.rows:
            yield blob.entry(self.blob_format.schema, rolled_by)

    def _relieve(self) -> Iterator[SealedBlock]:
        """Seal the largest open blobs until a quarter of the budget is free."""
        target = self.limits.memory_budget * 3 // 4
        for blob in sorted(self._open.values(), key=lambda each: each.buffered, reverse=True):
            if self.buffered <= target:
                return
            yield self._seal(blob)


def _widen(blob: _OpenBlob, ranges: RowRanges) -> None:
    blob.extremes = joined(blob.extremes, ranges.columns)
    if ranges.event_times is None:
        return
    first, last = ranges.event_times
    blob.min_event_time = first if blob.min_event_time is None else min(first, blob.min_event_time)
    blob.max_event_time = last if blob.max_event_time is None else max(last, blob.max_event_time)
