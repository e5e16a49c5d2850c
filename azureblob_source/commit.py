"""The commit protocol: decide, then publish.

Tasks only stage blocks, which nobody sees. The driver *decides* a batch by one conditional put of the next log entry,
and then *publishes* it by committing the block list of every blob that the entry names.

    staged ──put _log/<head+1>.json if absent──► decided ──Put Block List × n──► published
       │ (another attempt was decided)              │ (staged blocks expired)
       └──► ignored, expires in seven days          └──► replaced by a repeat of the batch, or voided

Why this order holds (each clause is a test):
  * The put is the only decision. A crash before it leaves nothing visible; after it, whoever comes next finds the
    entry by the batch's transaction id and finishes it, and whatever the repeat has staged is ignored. So a repeat
    that spreads rows differently over tasks cannot mix with the first run.
  * Two drivers on one checkpoint put the same version; one gets a conflict, reads, finds the transaction, follows.
  * A block list is committed only if the blob is absent; if it is there, its `azureblob_attempt` metadata says whether
    this was us (an answer lost, a second finisher) or another writer, which is never overwritten.
  * Nobody appends to a log before all earlier entries are published, so `published` in an entry is a fact.
  * Azure keeps staged blocks for seven days. A decided entry whose blocks are gone is *replaced* when its own batch
    comes again, else *voided* by the next writer; what it had published is deleted first, so no reader, with or
    without the log, sees a row twice.
  * A put below the log's boundary (a vacuum has passed while this writer slept) decides nothing: `CommitLog.put` says
    so, and the batch is run again. What a vacuum took away had been published, so it counts as such.
"""

from __future__ import annotations

import logging
from concurrent.futures import TimeoutError as FuturesTimeoutError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.account import IF_ABSENT, BlobAttributes, Conflict, Done, Missing, Unknown
from azure_account.errors import ConflictError, FencedError, NotFoundError, TransientError, describe
from azureblob_source.log_entry import ATTEMPT, LogEntry, Transaction, attempt_of
from azureblob_source.side_by_side import Item, Result, side_by_side
from azureblob_source.snapshot import live_blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azure_account.account import BlobContainer
    from azureblob_source.commit_log import CommitLog
    from azureblob_source.log_entry import BlobEntry

logger = logging.getLogger(__name__)

_READBACKS = 5


@dataclass(frozen=True)
class Publisher:
    """Commits block lists side by side. `deadline` (s) bounds one entry; `threads` bounds the requests at once.

    `unique_names` says that names carry a random suffix, so that no other blob can have them.
    """

    container: BlobContainer
    threads: int = 32
    deadline: float = 300.0
    unique_names: bool = True

    def refuse_taken_names(self, blobs: Sequence[BlobEntry]) -> None:
        """`ConflictError` if a blob's name is taken, or stands twice in `blobs`. Called before they are decided."""
        if self.unique_names:
            return
        attempts: dict[str, str] = {}
        for blob in blobs:
            shared = attempts.setdefault(blob.name, blob.attempt) != blob.attempt
            if shared or self._attempt_at(blob.name) not in (None, blob.attempt):
                message = describe(
                    "commit",
                    f"blob {blob.name} in {self.container.url}",
                    "another blob has this name; nothing of this batch was decided",
                    "Set `suffixRandomStringToBlobName` to true.",
                )
                raise ConflictError(message)

    def publish(self, entry: LogEntry) -> list[BlobEntry]:
        """Make every blob of a decided entry visible. Returns those that cannot be: their staged blocks are gone.

        Idempotent, and safe for several processes at once.
        """
        if entry.operation in ("replace", "void"):
            self.remove(entry.removed)
        done = self._side_by_side(lambda blob: self.publish_blob(blob, entry.attributes), entry.blobs)
        lost = [blob for blob, is_public in zip(entry.blobs, done, strict=True) if not is_public]
        if not lost and entry.operation == "overwrite":
            self.remove(entry.removed)
        return lost

    def publish_blob(self, blob: BlobEntry, attributes: BlobAttributes) -> bool:
        """Commit one block list; False if its staged blocks are gone and the blob is not there."""
        own = replace(attributes, metadata={**attributes.metadata, ATTEMPT: blob.attempt})
        for _ in range(_READBACKS):
            match self.container.commit_block_list(blob.name, blob.block_ids, own, condition=IF_ABSENT):
                case Done():
                    return True
                case Missing():
                    return self._is_public(blob)
                case Conflict() | Unknown():
                    if self._is_public(blob):
                        return True
        message = describe("publish", f"blob {blob.name}", "its state stays unknown", "Run the batch again.")
        raise TransientError(message)

    def _is_public(self, blob: BlobEntry) -> bool:
        attempt = self._attempt_at(blob.name)
        if attempt is None:
            return False
        if attempt == blob.attempt:
            return True
        message = describe(
            "publish",
            f"blob {blob.name} in {self.container.url}",
            f"another writer's blob has this name (attempt {attempt}, ours {blob.attempt}); it was left as it is",
            "Set `suffixRandomStringToBlobName` to true, then run the batch again.",
        )
        raise ConflictError(message)

    def _attempt_at(self, name: str) -> str | None:
        """The attempt that wrote the blob of this name: `unknown` if it does not say, None if there is no blob."""
        there = self.container.properties(name)
        return None if there is None else attempt_of(there.metadata) or "unknown"

    def remove(self, names: Sequence[str]) -> None:
        """Delete blobs that an entry takes away. Idempotent: their names are never used again."""
        self._side_by_side(self.container.delete, names)

    def _side_by_side(self, act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        try:
            return side_by_side(act, items, self.threads, self.deadline)
        except FuturesTimeoutError as error:
            message = describe(
                "publish",
                f"{len(items)} blobs in {self.container.url}",
                "the time allowed by `closeTimeoutMs` is over",
                "The batch is decided: run it again, or let the next commit finish it.",
                elapsed=self.deadline,
            )
            raise TransientError(message) from error


def commit(log: CommitLog, draft: LogEntry, publisher: Publisher) -> LogEntry:
    """Decide and publish one batch of one stream. Returns the entry that stands for it: the draft, or an earlier one.

    Called once per batch, and again with other messages when Spark repeats the batch. On any error the batch is
    either undecided, and then invisible, or decided, and then finished by whoever comes next.
    """
    entry = decide(log, draft, publisher)
    lost = publisher.publish(entry)
    while lost:
        if _taken_away(log, entry, lost, by=("overwrite", "replace")):
            break
        if entry.write_id == draft.write_id:
            raise vanished(log, entry, lost)
        logger.warning("%s: batch %s is replaced, its staged blocks have expired", log.stream, entry.transaction)
        entry = decide(log, replacement(entry, draft), publisher)
        lost = publisher.publish(entry)
    log.published = max(log.published, entry.version)
    return entry


def follow(
    log: CommitLog, draft: LogEntry, publisher: Publisher, superseded: frozenset[str]
) -> tuple[LogEntry, list[BlobEntry]]:
    """Decide and publish one stream's part of a batch that was decided for many streams, in a log of its own.

    An earlier entry of the transaction stands, unless it is the part of a decision that has been replaced: then all its
    blobs are in `superseded`. Returns the entry and the blobs that cannot be published; replacing the decision is left
    to the caller.
    """
    entry = decide(log, draft, publisher)
    names = {blob.name for blob in entry.blobs}
    stale = bool(superseded) and names <= superseded and entry.transaction == draft.transaction
    if stale and names != {blob.name for blob in draft.blobs}:
        entry = decide(log, replacement(entry, draft), publisher)
    lost = publisher.publish(entry)
    if lost and not _taken_away(log, entry, lost, by=("overwrite", "replace")):
        return entry, lost
    log.published = max(log.published, entry.version)
    return entry, []


def decide(log: CommitLog, draft: LogEntry, publisher: Publisher | None) -> LogEntry:
    """Append `draft`, unless its transaction is in the log already; returns the entry that decides the batch.

    Earlier entries are published first (by `publisher`; None for a log whose entries name other streams' blobs).
    """
    while True:
        head = log.head()
        _check_epoch(log, head, draft)
        earlier = _decided(log, head, draft)
        if earlier is not None:
            return earlier
        if publisher is not None and head is not None and not _finish_earlier(log, head, publisher, draft):
            continue
        if publisher is not None:
            publisher.refuse_taken_names(draft.blobs)
        removed = draft.removed
        if draft.operation == "overwrite":
            try:
                removed = tuple(live_blobs(log.history(head.version))) if head is not None else ()
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
    """Publish what is decided and not published, and void what cannot be, without deciding a batch.

    `draft` gives write id, time and epoch of the entries that void. Returns the head, None if the log is empty.
    """
    while True:
        head = log.refresh()
        _check_epoch(log, head, draft)
        if head is None or _finish_earlier(log, head, publisher, draft):
            return head


def _check_epoch(log: CommitLog, head: LogEntry | None, draft: LogEntry) -> None:
    if head is None or head.epoch is None or (draft.epoch is not None and draft.epoch >= head.epoch):
        return
    ours = "carries none" if draft.epoch is None else f"has epoch {draft.epoch}"
    message = describe(
        "commit to",
        f"{log.stream} in {log.container.url}",
        f"the stream is at epoch {head.epoch} since version {head.version}, this writer {ours}",
        "Another writer has taken over: stop this one. Nothing of this batch was published.",
    )
    raise FencedError(message)


def _decided(log: CommitLog, head: LogEntry | None, draft: LogEntry) -> LogEntry | None:
    """The entry that decided the draft's transaction before, if any; without its blobs if a vacuum took it away."""
    if head is None or draft.transaction is None:
        return None
    last = head.transactions.get(draft.transaction.id)
    if last is None or last.version < draft.transaction.version:
        return None
    if draft.replaces is not None and last.entry == draft.replaces:
        return None
    entry = _read_or_vacuumed(log, last.entry, Transaction(draft.transaction.id, last.version), head)
    if last.version > draft.transaction.version:
        logger.warning(
            "%s: batch %s of %s was decided before batch %s; this repeat of it is ignored",
            log.stream, draft.transaction.version, draft.transaction.id, last.version,
        )  # fmt: skip
    return entry


def _read_or_vacuumed(log: CommitLog, version: int, transaction: Transaction, head: LogEntry) -> LogEntry:
    try:
        return log.read(version)
    except NotFoundError:
        if version >= log.kept_from:
            raise
        return LogEntry(version, "vacuumed", head.timestamp, transaction=transaction, published=version)


def _finish_earlier(log: CommitLog, head: LogEntry, publisher: Publisher, draft: LogEntry) -> bool:
    """Publish what earlier writers decided and may not have finished. False if that moved the head."""
    if log.published >= head.version:
        return True
    try:
        unproven = log.entries(max(head.published, log.published) + 1, head.version)
    except NotFoundError:
        newer = log.refresh()
        if newer is None or newer.version == head.version:
            raise
        return False
    for entry in unproven:
        lost = publisher.publish(entry)
        if lost and not _taken_away(log, entry, lost, by=("overwrite", "replace", "void")):
            logger.warning("%s: version %d is voided, its staged blocks have expired", log.stream, entry.version)
            void = replace(
                draft,
                write_id=f"{draft.write_id}-void-{entry.version}",
                operation="void",
                transaction=None,
                replaces=entry.version,
                blobs=(),
                removed=tuple(blob.name for blob in entry.blobs),
                control=(), metrics={}, writers=(),
            )  # fmt: skip
            publisher.publish(log.put(void.behind(head, published=entry.version - 1)))
            log.refresh()
            return False
    log.published = head.version
    return True


def _taken_away(log: CommitLog, entry: LogEntry, lost: Sequence[BlobEntry], *, by: Sequence[str]) -> bool:
    """Whether later entries of these operations, or a vacuum, removed every blob that could not be published.

    What was *voided* is settled for other writers, but the batch's own repeat must still replace it.
    """
    if entry.version < log.boundary().first:
        return True
    head = log.refresh()
    if head is None or head.version <= entry.version:
        return False
    later = {
        name for each in log.entries(entry.version + 1, head.version) if each.operation in by for name in each.removed
    }
    return all(blob.name in later for blob in lost)


def replacement(entry: LogEntry, draft: LogEntry) -> LogEntry:
    """The draft as what takes the place of `entry`, whose blobs cannot all be published.

    What an overwrite was to remove is still there: it removes nothing before all of its own blobs are public.
    """
    overwritten = entry.removed if entry.operation == "overwrite" else ()
    removed = (*overwritten, *(blob.name for blob in entry.blobs))
    return replace(draft, operation="replace", replaces=entry.version, removed=removed)


def vanished(log: CommitLog, entry: LogEntry, lost: Sequence[BlobEntry]) -> ConflictError:
    """The error for a batch that has only just been decided and cannot be published."""
    return ConflictError(
        describe(
            "publish",
            f"version {entry.version} of {log.stream} in {log.container.url}",
            f"the staged blocks of {len(lost)} of {len(entry.blobs)} blobs are gone, the first is {lost[0].name}",
            "The batch is decided but not whole: run it again and it is replaced.",
        )
    )
