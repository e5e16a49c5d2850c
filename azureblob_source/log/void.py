"""Taking back an entry that cannot be published: who may, and what becomes of its blobs.

    entry ──(its own writer, its own repeat, `repair --void`, anybody after seven days)──► void: replaces, removed

The next entry names the one it voids in `replaces`, and in `removed` the blobs that must not be visible; publishing the
void deletes these. See decision 10.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account.errors import ConfigurationError, ConflictError, NotFoundError, describe
from azureblob_source.log.fencing import check_epoch
from azureblob_source.log.live import standing_entries
from azureblob_source.log.naming import log_name
from azureblob_source.log.publish import Obstacle, Publisher, Unpublishable
from azureblob_source.log.standing import Settled, State, standing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry

logger = logging.getLogger(__name__)

STAGED_SECONDS = 7 * 24 * 3600.0
"""How long Azure keeps the staged blocks of a blob after the last of them."""


def give_up(
    log: CommitLog, version: int, draft: LogEntry, publisher: Publisher, *, leave_blobs: bool = False
) -> LogEntry:
    """Void one entry that cannot be published, whatever its age; returns the entry that was appended.

    `draft` is as for `finish`. `leave_blobs` deletes nothing, for blobs that a policy protects: readers of the log skip
    them, readers of the listing still see them; an entry whose own blobs are public then stands, though blobs that it
    takes away cannot be deleted. `ConflictError` if the entry is published, now or before, or is voided already.
    """
    while True:
        check_epoch(log, log.refresh(), draft.epoch)
        entry = log.read(version)
        state = standing(log, entry)
        if state is not State.OPEN:
            cause = "it is published" if isinstance(state, Settled) else "it is voided or replaced already"
            break
        try:
            lost = publisher.publish(entry)
        except (ConfigurationError, ConflictError):
            if not leave_blobs:
                raise
            return leave_out(log, (), draft, publisher)
        if not lost:
            cause = "it is published"
            break
        put = void(log, log.head(), entry, draft, publisher, lost, leave_blobs=leave_blobs)
        if put is not None:
            return put
    raise ConflictError(describe("void", _version(log, entry), cause, "There is nothing to void."))


def leave_out(log: CommitLog, names: Collection[str], draft: LogEntry, publisher: Publisher) -> LogEntry:
    """Append the entry that takes blobs out of the stream which were deleted by hand; returns it.

    Blobs that earlier entries take away, and that cannot be deleted, stay where they are. `draft` is as for `finish`.
    `ConflictError` if another blob of an entry that is not published yet is missing too.
    """
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        if head is None:
            raise NotFoundError(describe("change", f"the log of {log.stream}", "there is none", "Check the name."))
        unproven = log.entries(max(head.published + 1, log.kept_from), head.version)
        for entry in standing_entries(unproven):
            lost = [each for each in publisher.publish_blobs(entry) if each.blob.name not in names]
            if lost:
                step = "Look again at what is missing."
                raise ConflictError(describe("leave out blobs of", _version(log, entry), _first_of(entry, lost), step))
        entry = replace(draft, transaction=None, removed=tuple(sorted(names))).behind(head, head.version)
        if log.put(entry).write_id == draft.write_id:
            return entry


def unpublishable(log: CommitLog, entry: LogEntry, lost: Sequence[Unpublishable]) -> ConflictError:
    """The error for a batch that its own writer has decided, could not publish, and has voided."""
    cause = f"{_first_of(entry, lost)}. The version was voided"
    step = (
        "Start the query again from its checkpoint, or run the batch again. If the service refused the blob, mend that "
        "first."
    )
    if entry.transaction is None:
        step += " If the rows go to several streams, look first which of these have theirs: they would have them twice."
    return ConflictError(describe("publish", _version(log, entry), cause, step))


def check_expired(log: CommitLog, entry: LogEntry, lost: Sequence[Unpublishable]) -> None:
    """`ConflictError` unless the entry may be voided by a writer of another batch.

    It may if nothing of it is visible, or if it is so old, by the service's clock, that its staged blocks have expired.
    """
    if len(lost) == len(entry.blobs) and all(each.obstacle is not Obstacle.REFUSED for each in lost):
        return
    age = log.container.age(log_name(log.stream, entry.version))
    if age is None or age >= STAGED_SECONDS:
        return
    own = ""
    if entry.transaction is not None:
        own = (
            f"If its own writer (transaction {entry.transaction.id}) failed before the batch was complete, start that "
            "writer again: it writes the batch anew. "
        )
    command = f"python -m azureblob_source repair {log.container.name}/{log.stream}"
    step = (
        f"If a blob was deleted by hand, restore it (soft delete), or go on without its rows: `{command} "
        f"--leave-out-missing`. {own}Or void the version, which deletes its other blobs too: `{command} --void "
        f"{entry.version}`."
    )
    raise ConflictError(describe("finish", _version(log, entry), _first_of(entry, lost), step))


def void(  # noqa: PLR0913 - the log and its head, the entry and why, and who does it
    log: CommitLog,
    head: LogEntry | None,
    entry: LogEntry,
    draft: LogEntry,
    publisher: Publisher,
    lost: Sequence[Unpublishable],
    *,
    leave_blobs: bool = False,
) -> LogEntry | None:
    """Append the entry that takes back `entry`, and delete what of it is public.

    None if another process has appended first, or has published the entry after all: judge it anew. What the service
    only refuses may be published by a process with other rights, so one such blob is made unpublishable first.
    """
    if all(each.obstacle is Obstacle.REFUSED for each in lost) and not _made_final(log, entry, publisher, lost):
        return None
    logger.warning("%s: version %d is voided, %s", log.stream, entry.version, _first_of(entry, lost))
    failed = {each.blob for each in lost}
    foreign = {each.blob.name for each in lost if each.obstacle is Obstacle.FOREIGN}
    own = {blob.name for blob in entry.blobs if blob not in failed or blob.name not in foreign}
    void = replace(
        draft,
        write_id=f"{draft.write_id}-void-{entry.version}",
        operation="void",
        transaction=None,
        replaces=entry.version,
        decision=None,
        blobs=(),
        removed=() if leave_blobs else tuple(sorted(own | publisher.deleted(entry))),
        control=(), metrics={}, writers=(),
    )  # fmt: skip
    published = entry.version - 1 if head is None else max(entry.version - 1, head.published)
    candidate = void.behind(head, published, restored=_before(log, entry))
    put = log.put(candidate)
    log.refresh()
    if put.write_id != candidate.write_id:
        return None
    publisher.publish(put)
    return put


def _made_final(log: CommitLog, entry: LogEntry, publisher: Publisher, lost: Sequence[Unpublishable]) -> bool:
    """Drop the staged blocks of a blob that the service refuses. False if it was published meanwhile."""
    try:
        return publisher.discard(lost[0].blob)
    except ConfigurationError as cause:
        step = (
            "Mend the cause, then start the query again from its checkpoint, or run `python -m azureblob_source "
            "repair`: either publishes the version. Until then it stops other writers of the stream."
        )
        raise ConfigurationError(describe("publish", _version(log, entry), _first_of(entry, lost), step)) from cause


def _before(log: CommitLog, entry: LogEntry) -> LogEntry | None:
    """The entry before an overwrite, if it is kept."""
    if entry.operation != "overwrite" or entry.version == 0:
        return None
    try:
        return log.read(entry.version - 1)
    except NotFoundError:
        return None


def _version(log: CommitLog, entry: LogEntry) -> str:
    return f"version {entry.version} of {log.stream} in {log.container.url}"


def _first_of(entry: LogEntry, lost: Sequence[Unpublishable]) -> str:
    if not lost:
        return "on request"
    return (
        f"{len(lost)} of its {len(entry.blobs)} blobs cannot be published, the first is {lost[0].blob.name}: "
        f"{lost[0].cause}"
    )
