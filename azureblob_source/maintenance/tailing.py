"""The newest rows of a stream, then those of each version as it is published. Without Spark: entries, blobs, Arrow."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arrow_avro import superset
from azureblob_source.log.entry import ADOPTED
from azureblob_source.options import LATEST
from azureblob_source.read.blobs import stream_blob
from azureblob_source.read.following import Follower, TriggerLimits, new_blobs
from azureblob_source.read.moved import MovedRowsFinder
from azureblob_source.read.relocating import read_moving_splits
from azureblob_source.read.split_reader import SplitSettings
from azureblob_source.read.splits import split_blobs
from foundation.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from arrow_avro import AvroSchema
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from foundation.clock import Clock

logger = logging.getLogger("azureblob_source")

_POLL_SECONDS = 1.0
_ENTRIES_AT_ONCE = 16


@dataclass(frozen=True)
class Rows:
    """The rows of one blob of one version, all of them or the last."""

    entry: LogEntry
    blob: BlobEntry
    batch: pa.RecordBatch


@dataclass
class Tail:
    """Reads the end of a stream. `columns` are the names of the columns to read, None for all.

    last: called first. following: called after that.
    """

    log: CommitLog
    clock: Clock
    columns: Sequence[str] | None = None
    _schemas: dict[str, AvroSchema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._follower = Follower(self.log, float("inf"), self.clock)
        self._at = -1

    def last(self, count: int) -> list[Rows]:
        """The last `count` published rows, in order. `NotFoundError` if the stream has no log."""
        first = self.log.first()
        if first is None:
            step = "Check container and stream; `python -m azureblob_source ls` shows what is there."
            place = f"{self.log.container.url}/{self.log.stream}"
            raise NotFoundError("read the newest rows of", place, "there is no commit log", step)
        self._at = self._follower.version_before(LATEST)
        wanted = self._newest_blobs(first, count)
        rows = list(self._read(wanted))
        surplus = sum(each.batch.num_rows for each in rows) - count
        while rows and surplus >= rows[0].batch.num_rows:
            surplus -= rows.pop(0).batch.num_rows
        if rows and surplus > 0:
            rows[0] = Rows(rows[0].entry, rows[0].blob, rows[0].batch.slice(surplus))
        return rows

    def following(self) -> Iterator[list[Rows]]:
        """The rows of each version that is published from now on; several versions at a time if they are. Endless."""
        while True:
            until = self._follower.latest(self._at, TriggerLimits())
            if until > self._at:
                entries = self._follower.entries(self._at, until)
                self._at = until
                self._follower.forget(until)
                rows = list(self._read(new_blobs(entries), entries[0].version))
                if rows:
                    yield rows
            self.clock.sleep(_POLL_SECONDS)

    def _newest_blobs(self, first: int, count: int) -> list[tuple[LogEntry, BlobEntry]]:
        """The last blobs up to the current version that have `count` rows together."""
        entries: list[LogEntry] = []
        low = self._at + 1
        while low > first and sum(_rows(blob) for _, blob in new_blobs(entries)) < count:
            low = max(first, low - _ENTRIES_AT_ONCE)
            upper = entries[0].version if entries else self._at + 1
            entries = [*self.log.entries(low, upper - 1), *entries]
        chosen: list[tuple[LogEntry, BlobEntry]] = []
        rows = 0
        in_order = sorted(new_blobs(entries), key=_newest_version)
        for found in reversed(in_order):
            if rows >= count:
                break
            rows += _rows(found[1])
            chosen.append(found)
        return chosen[::-1]

    def _read(self, found: Iterable[tuple[LogEntry, BlobEntry]], first: int = 0) -> Iterator[Rows]:
        """The rows of the blobs, wherever they are by now, in the superset of all schemas seen so far.

        first: of rows that were moved, those of earlier versions are left out; so are those of deleted blobs.
        """
        found = list(found)
        for _, blob in found:
            if blob.schema not in self._schemas:
                self._schemas[blob.schema] = self.log.writer_schema(blob.schema)
        reader = superset(tuple(self._schemas.values()), self.columns) if found else None
        finder, settings = MovedRowsFinder(self.log), SplitSettings(reader, self.columns)
        for entry, blob in found:
            parts = finder.parts([stream_blob(entry, blob)], lambda rows: rows.version >= first, lambda _: first > 0)
            try:
                for _, _, batch in read_moving_splits(self.log, [*split_blobs(parts)], settings, by_version=False):
                    yield Rows(entry, blob, batch)
            except (ConflictError, NotFoundError):
                text = "blob %s of version %d is deleted or replaced, its rows are left out"
                logger.warning(text, blob.name, entry.version)


def _rows(blob: BlobEntry) -> int:
    """How many rows a blob has; one, if they were not counted."""
    return 1 if blob.rolled_by == ADOPTED else blob.rows


def _newest_version(found: tuple[LogEntry, BlobEntry]) -> int:
    """The version of the newest rows of a blob."""
    entry, blob = found
    return blob.versions[1] if blob.moved else entry.version
