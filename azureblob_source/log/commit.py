"""The commit protocol: stage, commit, publish.

Tasks only stage blocks, which nobody sees. The driver *commits* a batch by one conditional put of the next log entry,
and then *publishes* it: it commits the block list of every blob that the entry names.

    staged ──put _log/<head+1>.json if absent──► committed ──Put Block List × n──► published
       │ (another attempt was committed)             │ (a blob cannot be published)
       └──► ignored, expires in seven days           └──► voided ──(its batch is run again)──► committed again

Why this order holds (each clause is a test):
  * Nothing but the put commits. A crash before it leaves nothing visible. After it, the next process that commits finds
    the entry by the batch's transaction and publishes it; what the repeat of the batch has staged is ignored. So a
    repeat that spreads rows differently over tasks cannot mix with the first run.
  * Two drivers on one checkpoint put the same version. One gets a conflict, reads the entry of the other, finds its own
    transaction in it, and publishes that entry.
  * A block list is committed only if the blob is absent. If there is a blob, its metadata show whether this writer
    made it (an answer was lost, a second process publishes the same entry) or another one, which is never overwritten.
  * A writer appends only when all earlier entries are published or voided, so `published` in an entry is a fact. The
    entries that void one or open an epoch do not wait: their `published` is below the first that is not published.
  * An entry that cannot be published (its staged blocks expired after seven days, its name is taken, the service
    refuses it) is *voided*: the next entry revokes it, and its blobs that are visible are deleted. Its own writer voids
    it at once, before it fails; the repeat of the same batch does so at any age; any other writer only if no blob of
    the entry is visible, or if it is older than seven days by the service's clock: blobs that are missing earlier were
    deleted by hand.
  * The repeat of a voided batch is committed again, in another entry, which can be voided in turn, any number of times.
  * The void of a stream's part of a batch entry counts for the part of that batch entry only, not for the next one's.
    So does the part itself, also if a vacuum has deleted it.
  * A batch is acknowledged only when the entry in effect for it is published. A process that has found an entry of its
    transaction, or was paused since it put one, reads the status of that entry now (`status.py`), goes on to the entry
    that has replaced it, and publishes nothing that was revoked. Only the same transaction and version replaces it.
  * The head remembers for each recent transaction the entry that holds it, or that it was voided. So this holds even
    when a vacuum has deleted the entry and its void: an entry below the retention boundary was published unless the
    head denies it.
  * A revert takes the last batches of a query back: the head remembers the batch before them as its last one, so they
    are committed again. A writer that was suspended in one of them finds it revoked, and puts no other part of it.
  * A put below the retention boundary (a vacuum has moved it while this writer was paused) commits nothing:
    `CommitLog.put` raises an error, and the batch is run again.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from azureblob_source.log.entry import VOIDED, Draft, LastCommitted, LogEntry
from azureblob_source.log.naming import is_batch_log
from azureblob_source.log.publishing.fencing import AT_LEAST_ONCE, IN_PART, NOTHING, check_epoch
from azureblob_source.log.publishing.publish import Obstacle, Unpublishable
from azureblob_source.log.publishing.roll_forward import (
    NotPublished,
    publish_committed,
    publish_earlier,
    publish_in_effect,
)
from azureblob_source.log.publishing.status import Replaced, read_or_gone
from azureblob_source.log.publishing.void import ToVoid, void, voided_batch_error
from foundation.errors import ConfigurationError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import AnyEntry, BlobEntry, Removal, Transaction
    from azureblob_source.log.publishing.publish import Publisher

logger = logging.getLogger("azureblob_source")


def commit_and_publish(log: CommitLog, draft: Draft, publisher: Publisher) -> AnyEntry:
    """Commit and publish one batch of one stream. Returns the entry in effect for it: the draft's, or an earlier one.

    Called once per batch, and again with another draft when Spark repeats the batch. After an error the batch is
    either not committed or voided, and then invisible, or committed, and then published by the next process that
    commits. If a later version of the transaction is in the log, its entry is returned as it is.
    """
    attempt = draft
    while True:
        entry, failure = _commit_and_publish_once(log, attempt, publisher)
        if failure is None:
            return entry
        if isinstance(entry, LogEntry) and entry.write_id == draft.write_id:
            raise voided_batch_error(log, entry, failure.blobs)
        logger.warning("%s: %s is replaced, it could not be published", log.stream, entry.transaction)
        attempt = replacement(entry, draft)


def commit_part(log: CommitLog, draft: Draft, publisher: Publisher) -> AnyEntry | NotPublished:
    """Commit and publish one stream's part of a batch entry.

    The part of an earlier batch entry is replaced. That of a later one is left as it is: the caller reads the batch log
    again before it acknowledges. If this part was voided, its blobs cannot be published: their names are not used
    again. Replacing the batch entry is left to the caller.
    """
    log.refresh()
    if draft.blobs and _part_is_voided(log, draft):
        return NotPublished([Unpublishable(blob, Obstacle.GONE) for blob in draft.blobs])
    entry, failure = _commit_and_publish_once(log, draft, publisher)
    if failure is None:
        return entry
    return failure if failure.blobs else NotPublished([Unpublishable(blob, Obstacle.GONE) for blob in _blobs_of(entry)])


def commit_if_repeated(log: CommitLog, draft: Draft, publisher: Publisher) -> AnyEntry | None:
    """Commit and publish a batch without rows, if the log knows it from an earlier run; else write nothing: None."""
    log.refresh()
    last, transaction = log.remembered(draft.transaction), draft.transaction
    if last is None or transaction is None or last.version < transaction.version:
        return None
    return commit_and_publish(log, draft, publisher)


def append_epoch(log: CommitLog, draft: Draft, publisher: Publisher) -> LogEntry:
    """Append the entry that opens the draft's epoch, so that writers of lower epochs are refused from now on.

    Then what earlier writers have committed is published, except for a batch log, which names blobs of streams. An
    entry that cannot be published does not prevent the epoch: it may be that only the repeat of its batch can replace
    it, by the writer that is started with this epoch.
    """
    head = log.refresh()
    if head is None:
        log.check_no_files(own_are_right=True)
    while head is None or head.epoch != draft.epoch:
        check_epoch(log, head, draft.epoch)
        published = -1 if head is None else max(head.published_up_to, log.notes.published_up_to)
        log.put(log.next_entry(head, replace(draft, operation="epoch", transaction=None, blobs=()), published))
        logger.info("%s: epoch %d begins", log.stream, draft.epoch)
        head = log.refresh()
    if is_batch_log(log.stream):
        return head
    try:
        publish_committed(log, draft, publisher)
    except (ConfigurationError, ConflictError) as cause:
        logger.warning(
            "%s: epoch %s is open, but not all that is committed is published: %s", log.stream, draft.epoch, cause
        )
    return head


def commit_entry(log: CommitLog, draft: Draft, publisher: Publisher) -> AnyEntry:
    """Append `draft`, unless its transaction is in the log already; returns the entry that commits the batch.

    Earlier entries are published or voided first; those of a batch log name blobs of streams, and are published by the
    logs of these. The entry itself is not published here.
    """
    while True:
        head = log.head()
        entry: AnyEntry | None = _committed_before(log, head, draft, publisher)
        if entry is None and (is_batch_log(log.stream) or publish_earlier(log, head, publisher, draft)):
            replaced = _not_voided(log, draft)
            if replaced is None:
                entry = _put_after(log, head, draft, publisher)
            else:
                entry = _publish_or_void(log, replaced, draft, publisher)
        if entry is not None:
            return entry


def replacement(entry: AnyEntry, draft: Draft) -> Draft:
    """The draft as what replaces `entry`, which cannot be published or belongs to an earlier batch entry.

    The replacement of an overwrite is an overwrite: it removes nothing before all of its own blobs are visible.
    """
    if draft.overwrites:
        return replace(draft, replaces=entry.version)
    if isinstance(entry, LogEntry) and entry.overwrites:
        return replace(draft, operation=entry.operation, replaces=entry.version)
    removed = tuple(blob.removal for blob in _blobs_of(entry))
    return replace(draft, operation="replace", replaces=entry.version, removed=removed)


def _commit_and_publish_once(
    log: CommitLog, draft: Draft, publisher: Publisher
) -> tuple[AnyEntry, NotPublished | None]:
    """Commit, then publish the entry in effect for the batch; returns it, and why it could not be published."""
    entry = commit_entry(log, draft, publisher)
    while entry.transaction == draft.transaction:
        of_batch = entry.batch_version
        if of_batch is not None and draft.batch_version is not None and of_batch != draft.batch_version:
            if of_batch > draft.batch_version:
                break
            entry = commit_entry(log, replacement(entry, draft), publisher)
            continue
        match publish_in_effect(log, entry, draft, publisher):
            case Replaced(by):
                entry = by
            case NotPublished() as failure:
                return entry, failure
            case None:
                if isinstance(entry, LogEntry):
                    log.notes.published(entry.version)
                break
    return entry, None


def _blobs_of(entry: AnyEntry) -> tuple[BlobEntry, ...]:
    """The blobs that an entry adds; none if it is gone."""
    return entry.blobs if isinstance(entry, LogEntry) else ()


def _part_is_voided(log: CommitLog, draft: Draft) -> bool:
    """Whether this part of a batch entry was voided, and not only that of an earlier batch entry."""
    last, transaction = log.remembered(draft.transaction), draft.transaction
    if last is None or transaction is None or (last.version, last.entry) != (transaction.version, VOIDED):
        return False
    return last.batch_version is not None and last.batch_version >= (draft.batch_version or 0)


def _committed_before(log: CommitLog, head: LogEntry | None, draft: Draft, publisher: Publisher) -> AnyEntry | None:
    """The entry that has committed the draft's transaction, or a later version of it. `FencedError` by the epoch.

    None if the draft is to be committed: it is new, was voided, or replaces that entry.
    """
    visible = AT_LEAST_ONCE if publisher.at_least_once else NOTHING if draft.batch_version is None else IN_PART
    check_epoch(log, head, draft.epoch, visible)
    last, transaction = log.remembered(draft.transaction), draft.transaction
    if last is None or transaction is None:
        return None
    if last.version < transaction.version:
        _check_not_taken_back(log, last, draft)
        return None
    if (newer := log.refresh()) != head:  # a revert may have taken it back
        return _committed_before(log, newer, draft, publisher)
    if last.version == transaction.version and last.entry in {VOIDED, draft.replaces}:
        return None
    entry = read_or_gone(log, transaction.id, last)
    if last.version > transaction.version:
        logger.warning(
            "%s: batch %s of %s was committed before batch %s; this repeat of it is ignored",
            log.stream, transaction.version, transaction.id, last.version,
        )  # fmt: skip
    elif isinstance(entry, LogEntry) and _has_other_rows(entry, draft):
        logger.warning(
            "%s: batch %s of %s was committed with %s rows; this attempt has %s, which are used only if those are lost",
            log.stream, transaction.version, transaction.id, entry.rows, draft.rows,
        )  # fmt: skip
    return entry


def _check_not_taken_back(log: CommitLog, last: LastCommitted, draft: Draft) -> None:
    """`ConflictError` if a revert has taken back the batch entry that the draft is a part of, or what it replaces.

    In the log of a stream the batches of a query and their batch entries rise together. So a later batch of a batch
    entry up to the last known one was taken back.
    """
    of_log, of_draft = last.batch_version, draft.batch_version
    is_later = of_log is None or of_draft is None or of_draft > of_log
    if draft.transaction is not None and (draft.replaces is not None or not is_later):
        raise taken_back_error(draft.transaction, log.place)


def taken_back_error(transaction: Transaction, place: str) -> ConflictError:
    """The error for a driver whose batch a revert has taken back."""
    step = "If the revert was interrupted, run it again. Else this driver is of before it: stop it."
    return ConflictError("commit", f"{transaction} to {place}", "a revert has taken it back", step)


def _has_other_rows(entry: LogEntry, draft: Draft) -> bool:
    """Whether a batch is repeated with another number of rows. Of the last batch before a revert that is not known."""
    return entry.operation != "revert" and entry.rows != draft.rows and draft.batch_version is None


def _not_voided(log: CommitLog, draft: Draft) -> AnyEntry | None:
    """The entry that an overwrite is to replace, if it is not voided: it may have deleted blobs. None if it is."""
    transaction = draft.transaction if draft.overwrites and draft.replaces is not None else None
    last = log.remembered(transaction)
    if transaction is None or last is None or last.entry != draft.replaces:
        return None
    return read_or_gone(log, transaction.id, last)


def _publish_or_void(log: CommitLog, entry: AnyEntry, draft: Draft, publisher: Publisher) -> AnyEntry | None:
    """The entry, if it can be published after all; None if it is voided, or the log has moved on."""
    failed = publisher.publish(entry, log.stream) if isinstance(entry, LogEntry) else []
    if not failed or not isinstance(entry, LogEntry):
        return entry
    void(log, log.head(), ToVoid(entry, failed), draft, publisher)
    return None


def _overwritten(log: CommitLog, head: LogEntry, draft: Draft) -> tuple[Removal, ...]:
    """The blobs that are live at `head` and whose place those of an overwrite take."""
    from azureblob_source.log.live_state import blobs_live_at  # noqa: PLC0415 - an append need not load it

    if draft.operation == "overwrite":
        found = blobs_live_at(log, head.version)
    else:
        partitions = {blob.partition for blob in draft.blobs}
        found = blobs_live_at(log, head.version, partitions) if partitions else []
    return tuple(blob.removal for blob in found)


def _put_after(log: CommitLog, head: LogEntry | None, draft: Draft, publisher: Publisher) -> LogEntry | None:
    """Put the draft as the entry that follows `head`. None if the log has moved on."""
    if draft.batch_version is None:
        publisher.check_names(draft.blobs)
    if draft.operation != "overwrite" and not is_batch_log(log.stream):
        publisher.admit(log.stream, head, [blob.schema for blob in draft.blobs])
    try:
        if draft.overwrites and head is not None:
            draft = replace(draft, removed=_overwritten(log, head, draft))
            if draft.keep is not None:
                from azureblob_source.log.publishing.keeping import check_can_keep  # noqa: PLC0415 - few overwrites keep

                check_can_keep(log, draft.removed)
        entry = log.next_entry(head, draft, -1 if head is None else head.version)
    except NotFoundError:  # a vacuum has removed what the head needs
        if log.head() == head:
            raise
        return None
    if log.put(entry).write_id == draft.write_id:
        return entry
    log.refresh()
    return None
