"""The commit protocol: decide, then publish.

Tasks only stage blocks, which nobody sees. The driver *decides* a batch by one conditional put of the next log entry,
and then *publishes* it by committing the block list of every blob that the entry names.

    staged ──put _log/<head+1>.json if absent──► decided ──Put Block List × n──► published
       │ (another attempt was decided)              │ (a blob cannot be published)
       └──► ignored, expires in seven days          └──► voided ──(its batch comes again)──► decided anew

Why this order holds (each clause is a test):
  * The put is the only decision. A crash before it leaves nothing visible; after it, the next process that commits
    finds the entry by the batch's transaction id and finishes it, and what the repeat has staged is ignored. So a
    repeat that spreads rows differently over tasks cannot mix with the first run.
  * Two drivers on one checkpoint put the same version; one gets a conflict, reads, finds the transaction, follows it.
  * A block list is committed only if the blob is absent; if it is there, the blob itself shows whether this was us (an
    answer lost, a second finisher) or another writer, which is never overwritten.
  * Nobody appends to a log before all earlier entries are published or voided, so `published` in an entry is a fact.
  * An entry that cannot be published (its staged blocks expired after seven days, its name is taken, the service
    refuses it) is *voided*: the next entry takes back what of it was published. Its writer does this at once, before
    it fails; the repeat of its own batch does it at any age; any other writer only if nothing of the entry is visible,
    or if it is older than seven days by the service's clock: blobs that are missing earlier were deleted by hand.
  * The repeat of a voided batch is decided anew, and takes its place. That entry can be voided in turn, any number of
    times.
  * A batch is acknowledged only when the entry that stands for it is published. A process that has found, or slept
    over, an entry of its transaction reads what the log says of it now (`standing`), goes on to the entry that took
    its place, and publishes nothing that was taken back. Only the same transaction and version takes its place.
  * The log's memory of transactions says which entry holds a batch, or that it was voided. So this holds even when a
    vacuum has removed the entry and its void: an entry below the boundary was published unless the head denies it.
  * A put below the log's boundary (a vacuum has passed while this writer slept) decides nothing: `CommitLog.put` says
    so, and the batch is run again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.errors import NotFoundError
from azureblob_source.log.entry import VOIDED, Applied, LogEntry, Transaction
from azureblob_source.log.fencing import IN_PART, NOTHING, check_epoch
from azureblob_source.log.live import live_blobs
from azureblob_source.log.publish import Obstacle, Unpublishable
from azureblob_source.log.standing import Replaced, Settled, Standing, State, read_or_gone, standing
from azureblob_source.log.void import check_expired, unpublishable, void

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.publish import Publisher

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lost:
    """The entry cannot be published: `blobs` say why, none if it was voided before."""

    blobs: Sequence[Unpublishable] = ()


def commit(log: CommitLog, draft: LogEntry, publisher: Publisher) -> LogEntry:
    """Decide and publish one batch of one stream. Returns the entry that stands for it: the draft, or an earlier one.

    Called once per batch, and again with other messages when Spark repeats the batch. On any error the batch is
    undecided or voided, and then invisible, or decided, and then finished by the next process that commits. If a
    later version of the transaction was decided, that entry is returned as it is.
    """
    entry = decide(log, draft, publisher)
    while entry.transaction == draft.transaction:
        match _settle(log, entry, draft, publisher):
            case None:
                log.published = max(log.published, entry.version)
                break
            case Replaced(by):
                entry = by
            case Lost(blobs) if entry.write_id == draft.write_id:
                raise unpublishable(log, entry, blobs)
            case Lost():
                logger.warning("%s: batch %s is replaced, it could not be published", log.stream, entry.transaction)
                entry = decide(log, replacement(entry, draft), publisher)
    return entry


def follow(
    log: CommitLog, draft: LogEntry, publisher: Publisher, superseded: frozenset[str], *, fresh: bool
) -> tuple[LogEntry, Sequence[Unpublishable]]:
    """Decide and publish one stream's part of a batch that was decided for many streams, in a log of its own.

    An entry that carries out an earlier decision on the batch is replaced (`superseded` are the blobs of those
    decisions, for entries of older releases that do not name theirs). One of a later decision is left alone: the caller
    reads the decision again before it acknowledges. If this part was voided and the decision is not `fresh`, that is,
    the caller's own, its blobs are lost: their names are not used again. Returns the entry, and the blobs that cannot
    be published; replacing the decision is left to the caller.
    """
    if not fresh and draft.blobs and _is_voided(log.refresh(), draft):
        return draft, [Unpublishable(blob, Obstacle.GONE) for blob in draft.blobs]
    entry = decide(log, draft, publisher)
    while entry.transaction == draft.transaction:
        if _is_superseded(entry, draft, superseded):
            entry = decide(log, replacement(entry, draft), publisher)
            continue
        if entry.decision not in {None, draft.decision}:
            break
        match _settle(log, entry, draft, publisher):
            case None:
                log.published = max(log.published, entry.version)
                break
            case Replaced(by):
                entry = by
            case Lost(blobs):
                return entry, blobs or [Unpublishable(blob, Obstacle.GONE) for blob in entry.blobs]
    return entry, ()


def repeated(log: CommitLog, draft: LogEntry, publisher: Publisher) -> LogEntry | None:
    """Commit a batch that has no rows, if the log knows it from an earlier run; else write nothing, and return None."""
    return None if _known(log.refresh(), draft) is None else commit(log, draft, publisher)


def decide(log: CommitLog, draft: LogEntry, publisher: Publisher, *, publishes: bool = True) -> LogEntry:
    """Append `draft`, unless its transaction is in the log already; returns the entry that decides the batch.

    Earlier entries are published or voided first. `publishes` is False for a log whose entries name other streams'
    blobs, and are published there.
    """
    while True:
        head = log.head()
        check_epoch(log, head, draft.epoch, NOTHING if draft.decision is None else IN_PART)
        earlier = _decided(log, head, draft)
        if earlier is not None:
            return earlier
        if publishes and not _settle_earlier(log, head, publisher, draft):
            continue
        if draft.decision is None:
            publisher.check_names(draft.blobs)
        removed = draft.removed
        if draft.operation == "overwrite" and head is not None:
            try:
                removed = tuple(live_blobs(log.live_entries(head.version)))
            except NotFoundError:
                if log.head() == head:
                    raise
                continue
        candidate = replace(draft, removed=removed).behind(head, published=-1 if head is None else head.version)
        if log.put(candidate).write_id == draft.write_id:
            return candidate
        log.refresh()


def open_epoch(log: CommitLog, draft: LogEntry, publisher: Publisher) -> LogEntry:
    """Append the entry that opens the draft's epoch, so that writers of lower epochs are refused from now on."""
    head = log.refresh()
    if head is not None and head.epoch == draft.epoch:
        return head
    return decide(log, replace(draft, operation="epoch", transaction=None, blobs=()), publisher)


def finish(log: CommitLog, draft: LogEntry, publisher: Publisher) -> LogEntry | None:
    """Publish what is decided and not published, and void what has expired, without deciding a batch.

    `draft` gives write id, time and epoch of the entries that void. Returns the head, None if the log is empty.
    `ConflictError` for an entry that cannot be published and is younger than seven days.
    """
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        if head is None or _settle_earlier(log, head, publisher, draft):
            return head


def replacement(entry: LogEntry, draft: LogEntry) -> LogEntry:
    """The draft as what takes the place of `entry`, which cannot be published or is superseded.

    The replacement of an overwrite is an overwrite: it removes nothing before all of its own blobs are public.
    """
    if "overwrite" in (entry.operation, draft.operation):
        return replace(draft, operation="overwrite", replaces=entry.version)
    return replace(draft, operation="replace", replaces=entry.version, removed=tuple(b.name for b in entry.blobs))


def _settle(log: CommitLog, entry: LogEntry, draft: LogEntry, publisher: Publisher) -> Replaced | Lost | None:
    """Publish an entry that stands, and nothing that was taken back. None if the entry is, or was, published.

    The draft's own entry is voided here if it cannot be published. A process that has slept since it read the log may
    publish what was taken back meanwhile: it looks at the log again, and deletes that.
    """
    ours = entry.write_id == draft.write_id
    state: Standing = State.OPEN if ours else standing(log, entry)
    lost: Sequence[Unpublishable] = ()
    while state is State.OPEN:
        lost = publisher.publish(entry)
        if not lost and log.looked_lately():
            return None
        state = standing(log, entry)
        publisher.remove(sorted(_taken_back(entry, state, lost)), entry)
        if state is State.OPEN and not lost:
            return None
        if not ours or state is not State.OPEN or void(log, log.head(), entry, draft, publisher, lost) is not None:
            break
        state = standing(log, entry)  # another process has published it, or was first to append
    match state:
        case Replaced():
            return state
        case Settled():
            return None
        case _:
            return Lost(lost)


def _taken_back(entry: LogEntry, state: Standing, lost: Sequence[Unpublishable]) -> set[str]:
    """The blobs of an entry that were just published, or were public before, and must not be visible any more."""
    failed = {each.blob for each in lost}
    public = {blob.name for blob in entry.blobs if blob not in failed}
    match state:
        case State.OPEN:
            return set()
        case Settled(gone):
            return public & gone
        case _:
            return public


def _known(head: LogEntry | None, draft: LogEntry) -> Applied | None:
    """What the log says of the draft's transaction: the newest version of it, if that is the draft's or a later one."""
    if head is None or draft.transaction is None:
        return None
    last = head.transactions.get(draft.transaction.id)
    return None if last is None or last.version < draft.transaction.version else last


def _is_voided(head: LogEntry | None, draft: LogEntry) -> bool:
    """Whether the newest version of the draft's transaction is the draft's own, and was voided."""
    last = _known(head, draft)
    return last is not None and draft.transaction is not None and last == Applied(draft.transaction.version, VOIDED)


def _is_superseded(entry: LogEntry, draft: LogEntry, superseded: frozenset[str]) -> bool:
    """Whether a stream's entry of the draft's transaction carries out an earlier decision than the draft."""
    if entry.decision is not None and draft.decision is not None:
        return entry.decision < draft.decision
    names = {blob.name for blob in entry.blobs}
    return bool(superseded) and names <= superseded and names != {blob.name for blob in draft.blobs}


def _decided(log: CommitLog, head: LogEntry | None, draft: LogEntry) -> LogEntry | None:
    """The entry that decided the draft's transaction before, if any; without its blobs if a vacuum took it away."""
    last = _known(head, draft)
    if head is None or draft.transaction is None or last is None:
        return None
    if last.version == draft.transaction.version and last.entry in {VOIDED, draft.replaces}:
        return None
    entry = read_or_gone(log, last.entry, Transaction(draft.transaction.id, last.version), head)
    if last.version > draft.transaction.version:
        logger.warning(
            "%s: batch %s of %s was decided before batch %s; this repeat of it is ignored",
            log.stream, draft.transaction.version, draft.transaction.id, last.version,
        )  # fmt: skip
    elif entry.rows != draft.rows and draft.decision is None and entry.operation != "gone":
        logger.warning(
            "%s: batch %s of %s was committed with %s rows; this attempt has %s, which are used only if those are lost",
            log.stream, draft.transaction.version, draft.transaction.id, entry.rows, draft.rows,
        )  # fmt: skip
    return entry


def _settle_earlier(log: CommitLog, head: LogEntry | None, publisher: Publisher, draft: LogEntry) -> bool:
    """Publish what earlier writers decided and may not have finished, void what cannot be. False if the head moved."""
    if head is None or log.published >= head.version:
        return True
    first = max(head.published + 1, log.published + 1, log.kept_from)
    try:
        unproven = log.entries(first, head.version)
    except NotFoundError:
        if log.refresh() == head and log.kept_from <= first:
            raise
        return False
    taken_back = {entry.replaces for entry in unproven}
    for entry in unproven:
        if entry.version in taken_back:
            continue
        lost = publisher.publish(entry)
        if lost:
            if log.refresh() == head:
                if draft.replaces != entry.version:
                    check_expired(log, entry, lost)
                void(log, head, entry, draft, publisher, lost)
            return False
    log.published = head.version
    return True
