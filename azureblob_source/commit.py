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
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from azure_account.errors import ConfigurationError, ConflictError, FencedError, NotFoundError, describe
from azureblob_source.log_entry import VOIDED, LogEntry, Transaction
from azureblob_source.naming import log_name
from azureblob_source.publish import Obstacle, Publisher, Unpublishable
from azureblob_source.snapshot import live_blobs, standing_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from azure_account.account import BlobAttributes
    from azureblob_source.commit_log import CommitLog
    from azureblob_source.log_entry import BlobEntry


logger = logging.getLogger(__name__)

_NOTHING = "Nothing of this batch was published."
_IN_PART = "The batch was decided for many streams; what it has in others is finished by its repeat."
STAGED_SECONDS = 7 * 24 * 3600.0
"""How long Azure keeps the staged blocks of a blob after the last of them."""


class State(Enum):
    """What the log says of an entry that stands by itself."""

    OPEN = "no later entry shows whether it is published"
    VOIDED = "taken back, and not replaced yet"


@dataclass(frozen=True)
class Settled:
    """The entry was published; an overwrite or a vacuum has deleted its blobs `gone` since."""

    gone: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Replaced:
    """The entry was taken back, and `by` stands for its batch."""

    by: LogEntry


@dataclass(frozen=True)
class Lost:
    """The entry cannot be published: `blobs` say why, none if it was voided before."""

    blobs: Sequence[Unpublishable] = ()


Standing: TypeAlias = "State | Settled | Replaced"


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
    if not fresh and draft.blobs and _last(log.refresh(), draft) == VOIDED:
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
    return None if _last(log.refresh(), draft) is None else commit(log, draft, publisher)


def decide(log: CommitLog, draft: LogEntry, publisher: Publisher, *, publishes: bool = True) -> LogEntry:
    """Append `draft`, unless its transaction is in the log already; returns the entry that decides the batch.

    Earlier entries are published or voided first. `publishes` is False for a log whose entries name other streams'
    blobs, and are published there.
    """
    while True:
        head = log.head()
        check_epoch(log, head, draft.epoch, _NOTHING if draft.decision is None else _IN_PART)
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
        put = _void(log, log.head(), entry, draft, publisher, lost, leave_blobs=leave_blobs)
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


def standing(log: CommitLog, entry: LogEntry) -> Standing:
    """What the log, as of now, says of one of its entries."""
    first = log.boundary().first
    while entry.version >= first:
        head = log.refresh()
        try:
            later = [] if head is None else log.entries(entry.version + 1, head.version)
        except NotFoundError:
            before, first = first, log.boundary().first
            if first == before:
                raise
            continue
        return _by_later_entries(entry, later)
    return _by_transaction(log, entry)


def _by_later_entries(entry: LogEntry, later: Sequence[LogEntry]) -> Standing:
    if any(each.replaces == entry.version for each in later):
        same = [each for each in later if entry.transaction is not None and each.transaction == entry.transaction]
        return Replaced(same[-1]) if same else State.VOIDED
    if any(each.published >= entry.version for each in later):
        # An overwrite deletes nothing before its own blobs are public, which of the newest entries is not known.
        done = [each for each in standing_entries(later) if each.version <= later[-1].published]
        removed = {name for each in done for name in each.removed}
        return Settled(frozenset(blob.name for blob in entry.blobs if blob.name in removed))
    return State.OPEN


def _by_transaction(log: CommitLog, entry: LogEntry) -> Standing:
    """What the head's memory of transactions says of an entry that a vacuum has removed.

    One without a transaction leaves no trace: it counts as voided, so that it is never taken for public.
    """
    head, transaction = log.refresh(), entry.transaction
    if head is None or transaction is None:
        return State.VOIDED
    last = head.transactions.get(transaction.id)
    if last is None or last.version > transaction.version or last.entry == entry.version:
        return Settled(frozenset(blob.name for blob in entry.blobs))
    return State.VOIDED if last.entry == VOIDED else Replaced(_read_or_gone(log, last.entry, transaction, head))


def check_epoch(log: CommitLog, head: LogEntry | None, epoch: int | None, outcome: str = _NOTHING) -> None:
    """`FencedError` if the stream's head is at a higher epoch. `outcome` says what of the writer's rows is visible."""
    if head is None or head.epoch is None or (epoch is not None and epoch >= head.epoch):
        return
    ours = "carries none" if epoch is None else f"has epoch {epoch}"
    cause = f"the stream is at epoch {head.epoch} since version {head.version}, this writer {ours}"
    step = f"Another writer has taken over: stop this one. {outcome}"
    raise FencedError(describe("commit to", f"{log.stream} in {log.container.url}", cause, step))


def publish_unless_fenced(
    log_of: Callable[[str], CommitLog], publisher: Publisher, attributes: BlobAttributes, epoch: int | None
) -> Callable[[BlobEntry], object]:
    """What a task with `at-least-once` calls for each finished blob: it asks the stream's log for the epoch first.

    A blob that cannot be published is left to the driver, whose commit finds it.
    """

    def publish(blob: BlobEntry) -> None:
        log = log_of(blob.stream)
        check_epoch(log, log.refresh(), epoch, "What this task has published before stays visible (at-least-once).")
        publisher.publish_blob(blob, attributes)

    return publish


def replacement(entry: LogEntry, draft: LogEntry) -> LogEntry:
    """The draft as what takes the place of `entry`, which cannot be published or is superseded.

    The replacement of an overwrite is an overwrite: it removes nothing before all of its own blobs are public.
    """
    if "overwrite" in (entry.operation, draft.operation):
        return replace(draft, operation="overwrite", replaces=entry.version)
    return replace(draft, operation="replace", replaces=entry.version, removed=tuple(b.name for b in entry.blobs))


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
        if not ours or state is not State.OPEN or _void(log, log.head(), entry, draft, publisher, lost) is not None:
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


def _last(head: LogEntry | None, draft: LogEntry) -> int | None:
    """The entry that holds the draft's transaction or a later version of it, or `VOIDED`; None if the log has none."""
    if head is None or draft.transaction is None:
        return None
    last = head.transactions.get(draft.transaction.id)
    return None if last is None or last.version < draft.transaction.version else last.entry


def _is_superseded(entry: LogEntry, draft: LogEntry, superseded: frozenset[str]) -> bool:
    """Whether a stream's entry of the draft's transaction carries out an earlier decision than the draft."""
    if entry.decision is not None and draft.decision is not None:
        return entry.decision < draft.decision
    names = {blob.name for blob in entry.blobs}
    return bool(superseded) and names <= superseded and names != {blob.name for blob in draft.blobs}


def _decided(log: CommitLog, head: LogEntry | None, draft: LogEntry) -> LogEntry | None:
    """The entry that decided the draft's transaction before, if any; without its blobs if a vacuum took it away."""
    if head is None or draft.transaction is None:
        return None
    last = head.transactions.get(draft.transaction.id)
    if last is None or last.version < draft.transaction.version:
        return None
    if last.version == draft.transaction.version and last.entry in {VOIDED, draft.replaces}:
        return None
    entry = _read_or_gone(log, last.entry, Transaction(draft.transaction.id, last.version), head)
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


def _read_or_gone(log: CommitLog, version: int, transaction: Transaction, head: LogEntry) -> LogEntry:
    """The entry that holds a transaction; one without blobs if it was voided, or a vacuum took it away."""
    if version != VOIDED:
        try:
            return log.read(version)
        except NotFoundError:
            if version >= log.kept_from:
                raise
    return LogEntry(version, "gone", head.timestamp, "gone", transaction, published=version)


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
                    _check_expired(log, entry, lost)
                _void(log, head, entry, draft, publisher, lost)
            return False
    log.published = head.version
    return True


def _check_expired(log: CommitLog, entry: LogEntry, lost: Sequence[Unpublishable]) -> None:
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


def _void(  # noqa: PLR0913 - the log and its head, the entry and why, and who does it
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
