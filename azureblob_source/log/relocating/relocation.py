"""Relocation: one entry of the log says where the rows of many blobs are from now on.

    small blobs, published ─► their rows staged as one blob ─► entry `compact`: adds that one, removes the small ones
                                                                └ publish: commit its block list, then delete these

The rows keep the versions and times of the entries that have added them: each blob of the entry says which bytes are
whose (`moved`). So a reader that comes later finds the rows of any version, and none twice. See decision 27.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from azureblob_source.log.publishing.roll_forward import publish_earlier, publish_own
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Draft, LogEntry
    from azureblob_source.log.publishing.publish import Publisher


def commit_relocation(log: CommitLog, draft: Draft, publisher: Publisher, planned_at: int) -> LogEntry | None:
    """Append `draft`, whose blobs have the rows of those that it removes, and publish it; returns the entry.

    draft: without an epoch, as rows that are moved are no writer's. planned_at: the version at which the removed blobs
    were live and published. None if one of them is not live any more: then nothing was changed. If a vacuum passes some
    of the rows meanwhile, readers of the log leave them out.

    `ConflictError` if its blobs could not be published: it is voided then. Errors as of `publish_earlier`.
    """
    while True:
        head = log.refresh()
        if head is not None and not publish_earlier(log, head, publisher, draft):
            continue
        if head is None or is_outdated(log, draft, planned_at):
            return None
        entry = log.next_entry(head, draft, head.version)
        if log.put(entry).write_id == draft.write_id:
            return publish_own(log, entry, draft, publisher)


def is_outdated(log: CommitLog, draft: Draft, planned_at: int) -> bool:
    """Whether an entry after `planned_at` has removed a blob that the draft removes, as far as the head is known."""
    head = log.head()
    if head is None:
        return True
    try:
        later = log.entries(planned_at + 1, head.version)
    except NotFoundError:
        if planned_at < log.kept_from:
            return True
        raise
    names = {removal.name for removal in draft.removed}
    return any(
        entry.operation == "overwrite" or not names.isdisjoint(each.name for each in entry.removed) for entry in later
    )


def compactions_after(log: CommitLog, version: int) -> Iterator[LogEntry]:
    """The entries after a version that have moved rows, from the newest back, as far as the head is known."""
    return log.linked_after(version, attrgetter("newest_compaction"), attrgetter("last_compaction"))
