"""What tests of commits share: rows, and drafts that are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from azureblob_source.log.commit import commit_and_publish, commit_entry
from azureblob_source.log.entry import LogEntry

if TYPE_CHECKING:
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import AnyEntry, Draft
    from azureblob_source.log.publishing.publish import Publisher

ROWS = pa.schema([("stream", pa.string()), ("n", pa.int64())])
WEEK_AND_A_DAY = 8 * 24 * 3600.0
"""Seconds after which the staged blocks of a blob have expired."""


def rows(numbers: list[int], streams: list[str] | None = None) -> pa.RecordBatch:
    """Rows of `ROWS`, each with its number, and the stream that it names."""
    return pa.record_batch([streams or ["-"] * len(numbers), numbers], schema=ROWS)


def published(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry:
    """The entry in effect for the draft's batch, published."""
    return kept(commit_and_publish(log, draft, publisher))


def committed(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry:
    """The entry that commits the draft's batch; it is not published yet."""
    return kept(commit_entry(log, draft, publisher))


def kept(entry: AnyEntry) -> LogEntry:
    """An entry that is in the log still."""
    assert isinstance(entry, LogEntry)
    return entry
