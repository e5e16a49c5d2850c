"""Rolling forward: publishing what the log has committed, whichever process has committed it.

earlier entries ─► publish ─┬─► published
                            └─► unpublishable ─► void, if that is permitted (`void.py`)
the batch's entry ─► status ─► publish, unless it was revoked ─► status again, if this process may have been paused
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azureblob_source.log.entry import AnyEntry, GoneEntry
from azureblob_source.log.live import entries_in_effect, first_unpublished
from azureblob_source.log.publishing.fencing import check_epoch
from azureblob_source.log.publishing.status import Published, Replaced, Status, Unpublished, status_of
from azureblob_source.log.publishing.void import ToVoid, check_may_void, void, voided_batch_error
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Draft, LogEntry, Removal
    from azureblob_source.log.publishing.publish import Publisher, Unpublishable

logger = logging.getLogger("azureblob_source")


@dataclass(frozen=True)
class NotPublished:
    """The entry cannot be published: `blobs` say why, none if it was voided before."""

    blobs: Sequence[Unpublishable] = ()


def publish_committed(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry | None:
    """Publish every committed entry, void those that have expired, and commit nothing.

    draft: gives write id, time and epoch of the entries that void. Returns the head, None if the log is empty.
    `ConflictError` for an entry that cannot be published and is younger than seven days.
    """
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        if head is None or publish_earlier(log, head, publisher, draft):
            return head


def publish_earlier(log: CommitLog, head: LogEntry | None, publisher: Publisher, draft: Draft) -> bool:
    """Publish what earlier writers have committed up to `head`, and void what cannot be. False if the head has moved.

    draft: what is to be appended next. An entry that it replaces is voided at any age, others only if
    `check_may_void` permits it.
    """
    if head is None or log.notes.published_up_to >= head.version:
        return True
    first = first_unpublished(head, known=log.notes.published_up_to, kept_from=log.kept_from)
    try:
        unpublished = log.entries(first, head.version)
    except NotFoundError:
        if log.has_moved_on(head, first):
            return False
        raise
    for entry in entries_in_effect(unpublished):
        failed = publisher.publish(entry, log.stream)
        if failed:
            if log.refresh() == head:
                if draft.replaces != entry.version:
                    check_may_void(log, entry, failed)
                void(log, head, ToVoid(entry, failed), draft, publisher)
            return False
    if log.notes.published_up_to < 0:
        logger.info("%s: goes on after version %d, all up to it is published", log.stream, head.version)
    log.notes.published(head.version)
    return True


def publish_in_effect(
    log: CommitLog, entry: AnyEntry, draft: Draft, publisher: Publisher
) -> Replaced | NotPublished | None:
    """Publish the entry of the draft's transaction, unless it was revoked. None if it is, or was, published.

    The draft's own entry is voided here if it cannot be published. A process that was paused since it read the log may
    publish an entry that was revoked in between: it looks at the log again, and deletes the blobs.
    """
    if isinstance(entry, GoneEntry):
        return _result(status_of(log, entry), ())
    own = entry.write_id == draft.write_id
    status: Status = Unpublished() if own else status_of(log, entry)
    failed: Sequence[Unpublishable] = ()
    while isinstance(status, Unpublished):
        status, failed = _publish_and_look_again(log, entry, publisher)
        if isinstance(status, Unpublished):
            if not own:
                return NotPublished(failed)
            voiding = void(log, log.head(), ToVoid(entry, failed), draft, publisher)
            if voiding is not None:
                return NotPublished(failed)
            status = status_of(log, entry)  # another process has published it, or was first to append
    return _result(status, failed)


def publish_own(log: CommitLog, entry: LogEntry, draft: Draft, publisher: Publisher) -> LogEntry:
    """Publish the draft's own entry; returns it. `ConflictError` if it cannot be published: it is voided then."""
    failure = publish_in_effect(log, entry, draft, publisher)
    if isinstance(failure, NotPublished):
        raise voided_batch_error(log, entry, failure.blobs)
    log.notes.published(entry.version)
    return entry


def _publish_and_look_again(
    log: CommitLog, entry: LogEntry, publisher: Publisher
) -> tuple[Status, Sequence[Unpublishable]]:
    """Publish an entry; returns its status then, and its blobs that cannot be published.

    Blobs that the status does not permit are deleted again. `Unpublished` only if there are unpublishable blobs.
    """
    failed = publisher.publish(entry, log.stream)
    if not failed and log.boundary_is_recent():
        return Published(), failed
    status = status_of(log, entry)
    publisher.remove(_to_delete(entry, status, failed), entry)
    return Published() if isinstance(status, Unpublished) and not failed else status, failed


def _result(status: Status, failed: Sequence[Unpublishable]) -> Replaced | NotPublished | None:
    match status:
        case Replaced():
            return status
        case Published():
            return None
        case _:
            return NotPublished(failed)


def _to_delete(entry: LogEntry, status: Status, failed: Sequence[Unpublishable]) -> list[Removal]:
    """The blobs of an entry that are visible, as they were just published or were before, and must not be any more."""
    missing = {each.blob for each in failed}
    visible = [blob.removal for blob in entry.blobs if blob not in missing]
    match status:
        case Unpublished():
            return []
        case Published(deleted):
            return [removal for removal in visible if removal.name in deleted]
        case _:
            return visible
