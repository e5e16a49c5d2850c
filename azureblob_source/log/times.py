"""The times of a blob's rows, as far as its entry and its name say. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from azureblob_source.log.entry import MovedRows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureblob_source.log.entry import BlobEntry

UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# As this project and Samza write it, yyyy/MM/dd/HH/mm-ss, and as Event Hubs Capture does, yyyy/MM/dd/HH/mm/ss.
_TIME_PATH = re.compile(r"(?:^|/)(?=(\d{4})/(\d\d)/(\d\d)/(\d\d)/(\d\d)[-/](\d\d)(?:[-./]|$))", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)
_WITHIN_MILLISECOND = 999
WITHIN_SECOND = 999_999
"""Microseconds by which a time that is known in whole seconds may be later."""


def times_of(timestamp: str, blob: BlobEntry) -> tuple[int | None, int]:
    """The earliest and latest time of a blob's rows, in microseconds since 1970 UTC, both included.

    Event times if the entry has them; else the times of writing, which end with the entry's `timestamp`. None is
    unknown. Rows that were moved keep their times.
    """
    if not blob.moved:
        return times_of_rows(timestamp, blob)
    return spanned(times_of_rows(each.committed, each) for each in blob.moved)


def times_of_rows(timestamp: str, blob: BlobEntry | MovedRows) -> tuple[int | None, int]:
    """The times of rows that the entry with this timestamp has added: see `times_of`."""
    if blob.min_event_time is not None and blob.max_event_time is not None:
        return blob.min_event_time, blob.max_event_time
    modified = None if isinstance(blob, MovedRows) else blob.modified
    if modified is not None:
        return ordered(name_time(blob.name)[1], modified + WITHIN_SECOND)
    written = microseconds(datetime.fromisoformat(timestamp)) + _WITHIN_MILLISECOND
    return ordered(name_time(blob.name)[1], written)


def spanned(times: Iterable[tuple[int | None, int]]) -> tuple[int | None, int]:
    """The range of several, one at least."""
    earliest, latest = zip(*times, strict=True)
    return None if None in earliest else min(earliest), max(latest)


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


def ordered(first: int | None, last: int) -> tuple[int | None, int]:
    """The two times as a range. They are of two clocks, so the first can be the later one."""
    return (None, last) if first is None else (min(first, last), max(first, last))
