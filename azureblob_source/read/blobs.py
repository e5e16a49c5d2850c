"""The blobs of a stream, and what log, name and listing say of each without opening it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from azureblob_source.log.folder import visible_blobs
from azureblob_source.log.naming import partition_value
from azureblob_source.log.times import WITHIN_SECOND, microseconds, name_time, ordered, times_of

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from azure_account.values import BlobProperties
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.read.bounds_pruning import BoundsPruning

Between: TypeAlias = "tuple[int | None, int | None]"
"""[start, end) in microseconds since 1970 UTC; None is open."""

ALL_TIMES: Between = (None, None)


@dataclass(frozen=True, slots=True)
class BlobPart:
    """Rows of a blob that were moved to it: `rows`, after `skip` rows of the first Avro block in bytes [start, end).

    versions: how many of them each version has, in order.
    """

    start: int
    end: int
    skip: int
    rows: int
    versions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class StreamBlob:
    """A blob to read. `size` is in stored bytes; `partition` is one level of its name, or several.

    The times of its rows are from `earliest` to `latest`, in microseconds since 1970 UTC, both included: event times if
    the log has them, else the times of writing. None is unknown.
    first_version, moved_in: if its rows were moved, the oldest version of these, `version` being the newest, and that
    of the entry that moved them. part: the rows of it that are read, None for all.
    """

    name: str
    size: int
    version: int | None = None
    partition: str | None = None
    earliest: int | None = None
    latest: int | None = None
    etag: str | None = None
    first_version: int | None = None
    moved_in: int | None = None
    part: BlobPart | None = None

    @property
    def adopted(self) -> bool:
        """Whether another program has written it, and a log names it."""
        return self.version is not None and self.etag is not None

    @property
    def bytes_read(self) -> int:
        """Stored bytes of what is read."""
        return self.size if self.part is None else self.part.end - self.part.start


@dataclass(frozen=True)
class BlobSelection:
    """Which blobs of a stream are read: those that can have a row in the time range, and are of these partitions.

    pruning: the pushed filters by which blobs of a log are left out too; `keeps` does not ask it.
    by_version: of rows that were moved, it must be known of which version each is.
    """

    between: Between = ALL_TIMES
    partitions: re.Pattern[str] | None = None
    pruning: BoundsPruning | None = None
    by_version: bool = False

    def keeps(self, blob: StreamBlob) -> bool:
        """Whether the blob is one of them."""
        return self.overlaps(blob.earliest, blob.latest) and self.has(blob.partition)

    def overlaps(self, earliest: int | None, latest: int | None) -> bool:
        """Whether a time from `earliest` to `latest` is in the time range; None is unknown."""
        start, end = self.between
        return (start is None or latest is None or latest >= start) and (
            end is None or earliest is None or earliest < end
        )

    def covers(self, blob: StreamBlob) -> bool:
        """Whether all times of a blob are in the time range."""
        start, end = self.between
        return (start is None or (blob.earliest is not None and start <= blob.earliest)) and (
            end is None or (blob.latest is not None and blob.latest < end)
        )

    def has(self, partition: str | None) -> bool:
        """Whether the partition is one of them, which None is not unless all are read."""
        if self.partitions is None:
            return True
        return partition is not None and self.partitions.fullmatch(partition_value(partition)) is not None


ALL_BLOBS = BlobSelection()


def stream_blob(entry: LogEntry, blob: BlobEntry) -> StreamBlob:
    """A blob that a log entry adds."""
    earliest, latest = times_of(entry.timestamp, blob)
    if not blob.moved:
        return StreamBlob(blob.name, blob.size, entry.version, blob.partition, earliest, latest, blob.etag)
    first, last = blob.versions
    return StreamBlob(
        blob.name, blob.size, last, blob.partition, earliest, latest, first_version=first, moved_in=entry.version
    )


PLANNED = ("name", "size", "version", "partition", "earliest", "latest", "etag", "first_version", "moved_in")
"""The columns of a live table that a read needs, which are fields of `StreamBlob`."""


def stream_blobs(table: pa.Table) -> Iterator[StreamBlob]:
    """The blobs of a live table with the columns `PLANNED`."""
    return map(StreamBlob, *(table[name].to_pylist() for name in PLANNED))


def in_copies(blobs: Iterable[StreamBlob], kept: Mapping[str, str]) -> tuple[StreamBlob, ...]:
    """The blobs, by the names of their copies if they have one: they were removed, and are kept."""
    return tuple(replace(blob, name=kept.get(blob.name, blob.name)) for blob in blobs)


def listed_blob(stream: str, blob: BlobProperties) -> StreamBlob:
    """A blob of a stream without a log. Its last modification is known in whole seconds."""
    place, started = name_time(blob.name)
    changed = microseconds(blob.last_modified) + WITHIN_SECOND
    partition = None if place is None else blob.name[len(stream) + 1 : max(place - 1, 0)]
    return StreamBlob(blob.name, blob.size, None, partition or None, *ordered(started, changed), blob.etag or None)


def listed_blobs(stream: str, found: Sequence[BlobProperties]) -> list[StreamBlob]:
    """The blobs in the listing of a stream without a log, but for empty and hidden ones and those of nested streams."""
    return [listed_blob(stream, blob) for blob in visible_blobs(stream, found)]
