"""What tests of the log share: drafts that are committed and looked at again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureblob_source.log.commit import commit_and_publish, commit_batch_entry, commit_entry
from azureblob_source.log.entry import LogEntry

if TYPE_CHECKING:
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import AnyEntry, Draft
    from azureblob_source.log.publish import Publisher

WEEK_AND_A_DAY = 8 * 24 * 3600.0
"""Seconds after which the staged blocks of a blob have expired."""


def published(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry:
    """The entry in effect for the draft's batch, published."""
    return kept(commit_and_publish(log, draft, publisher))


def committed(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry:
    """The entry that commits the draft's batch; it is not published yet."""
    return kept(commit_entry(log, draft, publisher))


def batch_committed(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry:
    """The batch entry that commits the draft's batch."""
    return kept(commit_batch_entry(log, draft, publisher))


def kept(entry: AnyEntry) -> LogEntry:
    """An entry that is in the log still."""
    assert isinstance(entry, LogEntry)
    return entry
