"""Rows are moved to another blob, without being decoded: the blocks of blobs are joined, and each keeps its versions.

    blobs of a stream ─► their Avro files ─► one file (`arrow_avro.joining`) ─► staged ─► a blob that says what is where
    some of the rows of a blob with moved rows ─► likewise

Names and contents follow from what is moved and from the write id of the entry that will say so: to stage them again
does no harm.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, NoReturn

from arrow_avro import (
    SYNC_SIZE,
    JoinedFormat,
    Placement,
    block,
    blocks,
    codec,
    header,
    join_files,
    read_header,
)
from azureblob_source.log.entry import BlobEntry, MovedRows, attempt_of
from azureblob_source.log.naming import blob_name, block_id
from azureblob_source.log.times import UNIX_EPOCH, microseconds, name_time
from foundation.errors import CorruptError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from arrow_avro import FileHeader
    from azure_account.values import BlobAttributes
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Bounds, LogEntry

_READERS = 32
_BLOCK_BYTES = 8 << 20
_RESTORE = "Restore it (soft delete), then run this again."


@dataclass(frozen=True)
class JoinedBlob:
    """The blob that has the rows of several, and the attributes of the newest of these.

    etags: by name, of those that had the attempt which the log says when they were read.
    """

    blob: BlobEntry
    attributes: BlobAttributes
    etags: Mapping[str, str]


def moved_together(log: CommitLog, blobs: Sequence[tuple[str, int]], write_id: str) -> JoinedBlob:
    """Stage the rows of several blobs as one blob.

    blobs: name of each, and version of the entry that names it. They have one schema and partition.

    `NotFoundError` if one is gone, `CorruptError` if it has not the rows that the log says, `ConfigurationError` if
    they cannot be joined.
    """
    entries = log.entries_of(sorted({version for _, version in blobs}), recent=True)
    named = {(blob.name, entry.version): (entry, blob) for entry in entries.values() for blob in entry.blobs}
    sources = [named[each] for each in blobs]
    files = concurrent_map(log.container.get, [name for name, _ in blobs], _READERS, after_error="abandon")
    moved = [rows for entry, blob in sources for rows in moved_rows(entry, blob)]
    entry, newest = max(sources, key=lambda source: source[0].version)
    columns = {blob.partition_column for _, blob in sources}
    column = newest.partition_column if len(columns) == 1 else None
    together = replace(newest, bounds=_bounds([blob.bounds for _, blob in sources]), partition_column=column)
    read = [(blob.name, file.data, blob.rows) for (_, blob), file in zip(sources, files, strict=True)]
    properties = [(blob, file.properties) for (_, blob), file in zip(sources, files, strict=True)]
    etags = {blob.name: each.etag for blob, each in properties if attempt_of(each.metadata) == blob.attempt}
    return JoinedBlob(_staged(log, together, read, moved, write_id), entry.attributes, etags)


def part_of(log: CommitLog, blob: BlobEntry, keeps: Callable[[MovedRows], bool], write_id: str) -> BlobEntry:
    """Stage the rows of a blob with moved rows that are kept, some at least, as another blob; returns it.

    It has no bounds: engines take those in an Iceberg table for the least and the greatest value of its rows.
    """
    data = log.container.get(blob.name).data
    found = read_header(data, blob=blob.name)
    compressed, whole = codec(found.codec), _BodyRows(data, found, blob)
    files, moved = [], []
    for rows in blob.moved:
        framed: list[bytes | bytearray | memoryview] = [header(found.schema_json, found.codec, found.sync)]
        for count, body in whole.take(rows):
            if keeps(rows):
                framed += block(count, compressed.compress(body), found.sync)
        if keeps(rows):
            files.append((rows.name, b"".join(framed), rows.rows))
            moved.append(rows)
    whole.end()
    return _staged(log, replace(blob, bounds={}), files, moved, write_id)


class _BodyRows:
    """The rows of a blob's blocks, inflated one block at a time, and taken in their order."""

    def __init__(self, data: bytes, found: FileHeader, blob: BlobEntry) -> None:
        self._blob, self._codec = blob, codec(found.codec)
        self._blocks = blocks(data, found, blob=blob.name)
        self._rows, self._body = 0, memoryview(b"")

    def take(self, rows: MovedRows) -> Iterator[tuple[int, memoryview]]:
        """The next rows: the number and the bytes of what each block has of them."""
        count, size = rows.rows, rows.uncompressed
        while count:
            if not self._rows:
                self._inflate_next()
            here = min(count, self._rows)
            end = len(self._body) if here == self._rows else size
            yield here, self._body[:end]
            self._rows, self._body = self._rows - here, self._body[end:]
            count, size = count - here, size - end
        if size:
            self._fail()

    def end(self) -> None:
        """`CorruptError` if there are more rows."""
        if self._rows or any(each.rows for each in self._blocks):
            self._fail()

    def _inflate_next(self) -> None:
        found = next(self._blocks, None)
        if found is None:
            self._fail()
        self._rows, self._body = found.rows, memoryview(self._codec.decompress(found.body, self._blob.uncompressed))

    def _fail(self) -> NoReturn:
        cause = f"it has not the {self._blob.rows} rows, of {self._blob.uncompressed} bytes, that the log says"
        raise CorruptError("move rows of", f"blob {self._blob.name}", cause, _RESTORE)


def copy_of(log: CommitLog, blob: BlobEntry, source: str, moved: Sequence[MovedRows], write_id: str) -> BlobEntry:
    """Stage a blob as another one, with its bytes as they are; returns that.

    source: the name under which its bytes are. moved: its rows, by the entries that have added them.
    `CorruptError` if it has not got the bytes that the log says.
    """
    first = log.container.get(source, 0, _BLOCK_BYTES)
    size, etag = first.properties.size, first.properties.etag
    if size != blob.size:
        raise CorruptError("copy", f"blob {source}", f"it has {size} bytes, by the log {blob.size}", _RESTORE)
    digest = blake2b(f"{write_id}\0{source}".encode()).digest()
    attempt, suffix = digest[:8].hex(), digest[8:12].hex()
    name = blob_name(log.stream, blob.partition, _began(moved), suffix, ".avro")
    starts = range(0, size, _BLOCK_BYTES)
    for place, start in enumerate(starts):
        part = first if start == 0 else log.container.get(source, start, _BLOCK_BYTES, if_match=etag)
        log.container.stage_block(name, block_id(attempt, place), part.data)
    if not blob.moved:
        moved = [replace(moved[0], start=read_header(first.data, blob=source).size, end=size)]
    return replace(blob, name=name, attempt=attempt, blocks=len(starts), moved=tuple(moved))


def moved_rows(entry: LogEntry, blob: BlobEntry) -> Sequence[MovedRows]:
    """The rows of a blob, by the entries that have added them; of one without moved rows their place is unknown."""
    if blob.moved:
        return blob.moved
    times = blob.min_event_time, blob.max_event_time
    return [MovedRows(blob.name, entry.version, entry.timestamp, 0, 0, 0, blob.rows, blob.uncompressed, *times)]


def _joined(files: Sequence[tuple[str, bytes, int]], form: JoinedFormat) -> bytes:
    """The files as one. `CorruptError` unless each has its rows."""
    parts = list(join_files(((name, data) for name, data, _ in files), form))
    found = (part.rows for part in parts if isinstance(part, Placement))
    for (name, _, expected), rows in zip(files, found, strict=True):
        if rows != expected:
            raise CorruptError("move rows of", f"blob {name}", f"it has {rows} rows, by the log {expected}", _RESTORE)
    return b"".join(part for part in parts if not isinstance(part, Placement))


def _staged(
    log: CommitLog, like: BlobEntry, files: Sequence[tuple[str, bytes, int]], moved: Sequence[MovedRows], write_id: str
) -> BlobEntry:
    """Stage the files as one blob, which has the moved rows in this order. like: a blob of the partition and schema.

    files: name, bytes and rows of each.
    """
    digest = blake2b("\0".join((write_id, *(name for name, _, _ in files))).encode()).digest()
    attempt, suffix, sync = digest[:8].hex(), digest[8:12].hex(), digest[-SYNC_SIZE:]
    newest = read_header(files[-1][1], blob=files[-1][0])
    data = _joined(files, JoinedFormat(newest.schema_json, newest.codec, sync))
    name = blob_name(log.stream, like.partition, _began(moved), suffix, ".avro")
    starts = range(0, len(data), _BLOCK_BYTES)
    for place, start in enumerate(starts):
        log.container.stage_block(name, block_id(attempt, place), data[start : start + _BLOCK_BYTES])
    earliest, latest = _event_times(moved)
    return replace(
        like,
        name=name,
        attempt=attempt,
        blocks=len(starts),
        rows=sum(each.rows for each in moved),
        uncompressed=sum(each.uncompressed for each in moved),
        size=len(data),
        rolled_by="compaction",
        min_event_time=earliest,
        max_event_time=latest,
        moved=tuple(_placed(moved, data, name)),
    )


def _began(moved: Iterable[MovedRows]) -> datetime:
    """The time in the name of a blob with these rows: that of the oldest."""
    times = (name_time(rows.name)[1] or microseconds(datetime.fromisoformat(rows.committed)) for rows in moved)
    return UNIX_EPOCH + timedelta(microseconds=min(times))


def _event_times(moved: Sequence[MovedRows]) -> tuple[int | None, int | None]:
    """The range of the event times, if all are known."""
    earliest = [each.min_event_time for each in moved if each.min_event_time is not None]
    latest = [each.max_event_time for each in moved if each.max_event_time is not None]
    return (min(earliest), max(latest)) if len(earliest) == len(latest) == len(moved) else (None, None)


def _placed(moved: Sequence[MovedRows], data: bytes, name: str) -> Iterator[MovedRows]:
    """The moved rows, which follow each other in the file, each with its place."""
    found = [(each.offset, each.rows) for each in blocks(data, read_header(data, blob=name), blob=name)]
    starts = [start for start, _ in found] + [len(data)]
    ends = list(accumulate((rows for _, rows in found), initial=0))
    before = 0
    for rows in moved:
        first = bisect_right(ends, before) - 1
        last = bisect_left(ends, before + rows.rows)
        yield replace(rows, start=starts[first], end=starts[last], skip=before - ends[first])
        before += rows.rows


def _bounds(several: Sequence[Bounds]) -> Bounds:
    """The bounds of columns of which all blobs have some."""
    columns = [name for name in several[0] if all(name in each for each in several)]
    return {name: (min(each[name][0] for each in several), max(each[name][1] for each in several)) for name in columns}
