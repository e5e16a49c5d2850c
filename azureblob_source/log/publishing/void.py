"""Voiding an entry that cannot be published: who may, and what becomes of its blobs.

    entry ──(its own writer, its own repeat, `repair --void`, anybody after seven days)──► void: replaces, removed

The next entry names the one that it voids in `replaces`, and in `removed` the blobs that must not be visible:
publishing the void deletes these. See decision 10.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.values import STAGED_SECONDS
from azureblob_source.log.live import entries_in_effect, first_unpublished
from azureblob_source.log.naming import log_name
from azureblob_source.log.publishing.fencing import check_epoch
from azureblob_source.log.publishing.publish import Obstacle, Publisher, Unpublishable
from azureblob_source.log.publishing.status import Published, Unpublished, status_of
from foundation.errors import ConfigurationError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Removal

logger = logging.getLogger("azureblob_source")


def void_version(
    log: CommitLog, version: int, draft: Draft, publisher: Publisher, *, leave_blobs: bool = False
) -> LogEntry:
    """Void one entry that cannot be published, whatever its age; returns the entry that was appended.

    `draft` is as for `publish_committed`. `leave_blobs` deletes nothing, for blobs that a policy protects: readers of
    the log skip them, readers of the listing still see them. An entry whose own blobs are visible is then not voided,
    but counts as published although blobs that it removes cannot be deleted. `ConflictError` if the entry is published,
    now or before, or was revoked already.
    """
    while True:
        check_epoch(log, log.refresh(), draft.epoch)
        entry = log.read(version)
        status = status_of(log, entry)
        if not isinstance(status, Unpublished):
            cause = "it is published" if isinstance(status, Published) else "it is voided or replaced already"
            break
        try:
            failed = publisher.publish(entry, log.stream)
        except (ConfigurationError, ConflictError):
            if not leave_blobs:
                raise
            return leave_out(log, (), draft, publisher)
        if not failed:
            cause = "it is published"
            break
        put = void(log, log.head(), ToVoid(entry, failed, leave_blobs), draft, publisher)
        if put is not None:
            return put
    raise ConflictError("void", _version(log, entry), cause, "There is nothing to void.")


def leave_out(log: CommitLog, blobs: Collection[BlobEntry], draft: Draft, publisher: Publisher) -> LogEntry:
    """Append the entry that removes blobs from the stream which were deleted by hand; returns it.

    Blobs that earlier entries remove, and that cannot be deleted, stay where they are. An entry with moved rows that
    cannot be published is voided if they are where they were. `draft` is as for `publish_committed`. `ConflictError` if
    another blob of an unpublished entry is missing too.
    """
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        if head is None:
            raise NotFoundError("change", f"the log of {log.stream}", "there is none", "Check the name.")
        unpublished = log.entries(first_unpublished(head, kept_from=log.kept_from), head.version)
        left_out = {blob.removal for blob in blobs}
        stuck = _stuck(unpublished, left_out, publisher)
        if stuck is None:
            draft = replace(draft, transaction=None, removed=tuple(sorted(left_out)))
            entry = log.next_entry(head, draft, head.version)
            if log.put(entry).write_id == draft.write_id:
                return entry
        elif not stuck.entry.moves:
            place, step = _version(log, stuck.entry), "Look again at what is missing."
            raise ConflictError("leave out blobs of", place, _cause(stuck.entry, stuck.failed), step)
        else:
            put = void(log, head, stuck, draft, publisher)
            own = {blob.removal for blob in stuck.entry.blobs}
            blobs = [blob for blob in blobs if blob.removal not in own]
            if put is not None and not blobs:
                return put


def _stuck(entries: Sequence[LogEntry], left_out: Collection[Removal], publisher: Publisher) -> ToVoid | None:
    """The first of the entries that cannot be published: without blobs that are left out, unless it is to move rows."""
    for entry in entries_in_effect(entries):
        failed = publisher.publish_blobs(entry)
        if failed and (not entry.moves or len(entry.removed) == len(publisher.deleted_by(entry))):
            failed = [each for each in failed if each.blob.removal not in left_out]
        if failed:
            return ToVoid(entry, failed)
    return None


def voided_batch_error(log: CommitLog, entry: LogEntry, failed: Sequence[Unpublishable]) -> ConflictError:
    """The error for a batch that its own writer has committed, could not publish, and has voided."""
    cause = f"{_cause(entry, failed)}. The version was voided"
    step = (
        "Start the query again from its checkpoint, or run the batch again. If the service refused the blob, correct "
        "the cause first."
    )
    if entry.transaction is None:
        step += " If the rows go to several streams, look first which of these have theirs: they would have them twice."
    return ConflictError("publish", _version(log, entry), cause, step)


def check_may_void(log: CommitLog, entry: LogEntry, failed: Sequence[Unpublishable]) -> None:
    """`ConflictError` unless the entry may be voided by a writer of another batch.

    It may if nothing of it is visible, or if it is so old, by the service's clock, that its staged blocks have expired.
    """
    if len(failed) == len(entry.blobs) and all(each.obstacle is not Obstacle.REFUSED for each in failed):
        return
    age = log.container.age(log_name(log.stream, entry.version))
    if age is None or age >= STAGED_SECONDS:
        return
    own = ""
    if entry.transaction is not None:
        own = (
            f"If its own writer (transaction {entry.transaction.id}) failed before the batch was complete, start that "
            "writer again: it writes the batch again. "
        )
    command = f"python -m azureblob_source repair {log.container.name}/{log.stream}"
    step = (
        f"If a blob was deleted by hand, restore it (soft delete), or go on without its rows: `{command} "
        f"--leave-out-missing`. {own}Or void the version, which deletes its other blobs too: `{command} --void "
        f"{entry.version}`."
    )
    raise ConflictError("finish", _version(log, entry), _cause(entry, failed), step)


@dataclass(frozen=True)
class ToVoid:
    """An entry that is to be voided.

    entry: the entry.
    failed: its blobs that cannot be published.
    leave_blobs: its visible blobs are not deleted.
    """

    entry: LogEntry
    failed: Sequence[Unpublishable]
    leave_blobs: bool = False


def void(log: CommitLog, head: LogEntry | None, target: ToVoid, draft: Draft, publisher: Publisher) -> LogEntry | None:
    """Append the entry that voids the target after `head`, and delete the target's visible blobs.

    None if another process has appended first, or has published the entry after all: read its status again. What the
    service only refuses may be published by a process with other rights, so one such blob is made unpublishable first.
    """
    entry, failed = target.entry, target.failed
    refused = all(each.obstacle is Obstacle.REFUSED for each in failed)
    if refused and not _drop_refused_blob(log, entry, publisher, failed):
        return None
    logger.warning("%s: version %d is voided, %s", log.stream, entry.version, _cause(entry, failed))
    foreign = {each.blob for each in failed if each.obstacle is Obstacle.FOREIGN}
    own = {blob.removal for blob in entry.blobs if blob not in foreign}
    voiding = replace(
        draft,
        write_id=f"{draft.write_id}-void-{entry.version}",
        operation="void",
        transaction=None,
        replaces=entry.version,
        batch_version=entry.batch_version,
        blobs=(),
        control=(), metrics={}, writers=(), commit_info=None,
        removed=() if target.leave_blobs else tuple(sorted(own | publisher.deleted_by(entry))),
    )  # fmt: skip
    published = entry.version - 1 if head is None else max(entry.version - 1, head.published_up_to)
    candidate = log.next_entry(head, voiding, published, voided=entry)
    put = log.put(candidate)
    log.refresh()
    if put.write_id != candidate.write_id:
        return None
    publisher.publish(put, log.stream)
    return put


def _drop_refused_blob(log: CommitLog, entry: LogEntry, publisher: Publisher, failed: Sequence[Unpublishable]) -> bool:
    """Drop the staged blocks of a blob that the service refuses. False if another process has published it."""
    try:
        return publisher.discard(failed[0].blob)
    except ConfigurationError as cause:
        step = (
            "Correct the cause, then start the query again from its checkpoint, or run `python -m azureblob_source "
            "repair`: either publishes the version. Until then it stops other writers of the stream."
        )
        raise ConfigurationError("publish", _version(log, entry), _cause(entry, failed), step) from cause


def _version(log: CommitLog, entry: LogEntry) -> str:
    return f"version {entry.version} of {log.place}"


def _cause(entry: LogEntry, failed: Sequence[Unpublishable]) -> str:
    if not failed:
        return "it was voided or taken back on request"
    return (
        f"{len(failed)} of its {len(entry.blobs)} blobs cannot be published, the first is {failed[0].blob.name}: "
        f"{failed[0].cause}"
    )
