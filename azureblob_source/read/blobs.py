"""The blobs of a stream, and what log, name and listing say of each without opening it. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

from azureblob_source.log.folder import visible_blobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.values import BlobProperties
    from azureblob_source.log.entry import BlobEntry, LogEntry

Between: TypeAlias = "tuple[int | None, int | None]"
"""[start, end) in microseconds since 1970 UTC; None is open."""

ALL_TIMES: Between = (None, None)
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# As this project and Samza write it, yyyy/MM/dd/HH/mm-ss, and as Event Hubs Capture does, yyyy/MM/dd/HH/mm/ss.
_TIME_PATH = re.compile(r"(?:^|/)(?=(\d{4})/(\d\d)/(\d\d)/(\d\d)/(\d\d)[-/](\d\d)(?:[-./]|$))", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)
_WITHIN_SECOND = 999_999
_WITHIN_MILLISECOND = 999


@dataclass(frozen=True, slots=True)
class StreamBlob:
    """A blob to read. `size` is in stored bytes; `partition` is one level of its name, or several.

    The times of its rows are from `earliest` to `latest`, in microseconds since 1970 UTC, both included: event times if
    the log has them, else the times of writing. None is unknown.
    """

    name: str
    size: int
    version: int | None = None
    partition: str | None = None
    earliest: int | None = None
    latest: int | None = None
    etag: str | None = None

    def may_hold(self, between: Between) -> bool:
        """Whether one of its rows can have a time in the range."""
        start, end = between
        return (start is None or self.latest is None or self.latest >= start) and (
            end is None or self.earliest is None or self.earliest < end
        )


def stream_blob(entry: LogEntry, blob: BlobEntry) -> StreamBlob:
    """A blob that a log entry adds."""
    earliest, latest = blob.min_event_time, blob.max_event_time
    if earliest is None or latest is None:
        written = microseconds(datetime.fromisoformat(entry.timestamp)) + _WITHIN_MILLISECOND
        earliest, latest = _ordered(name_time(blob.name)[1], written)
    return StreamBlob(blob.name, blob.size, entry.version, blob.partition, earliest, latest)


def listed_blob(stream: str, blob: BlobProperties) -> StreamBlob:
    """A blob of a stream without a log. Its last modification is known in whole seconds."""
    place, started = name_time(blob.name)
    changed = microseconds(blob.last_modified) + _WITHIN_SECOND
    partition = None if place is None else blob.name[len(stream) + 1 : max(place - 1, 0)]
    return StreamBlob(blob.name, blob.size, None, partition or None, *_ordered(started, changed), blob.etag or None)


def listed_blobs(stream: str, found: Sequence[BlobProperties]) -> list[StreamBlob]:
    """The blobs in the listing of a stream without a log, but for empty and hidden ones and those of nested streams."""
    return [listed_blob(stream, blob) for blob in visible_blobs(stream, found)]


def name_time(name: str) -> tuple[int | None, int | None]:
    """Where the time begins in a blob's name, and that time in microseconds; None if there is none."""
    for match in reversed(list(_TIME_PATH.finditer(name))):
        try:
            moment = datetime(*map(int, match.groups()), tzinfo=UTC)  # type: ignore[arg-type, misc]
        except ValueError:
            continue
        return match.end(), microseconds(moment)
    return None, None


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC."""
    return (moment - UNIX_EPOCH) // _MICROSECOND


def _ordered(first: int | None, last: int) -> tuple[int | None, int]:
    """The two times as a range. They are of two clocks, so the first can be the later one."""
    return (None, last) if first is None else (min(first, last), max(first, last))
