"""The status of a log entry as of now: unpublished, published, voided, or replaced by another entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from azureblob_source.log.entry import VOIDED, AnyEntry, GoneEntry, LogEntry, Transaction
from azureblob_source.log.live import entries_in_effect
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LastCommitted


@dataclass(frozen=True)
class Unpublished:
    """No later entry shows that the entry is published."""


@dataclass(frozen=True)
class Published:
    """The entry was published. An overwrite, a restore or a vacuum has deleted its blobs `deleted`."""

    deleted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Voided:
    """The entry was voided or reverted, and nothing has replaced it yet."""


@dataclass(frozen=True)
class Replaced:
    """The entry was revoked, and `by` is in effect for its transaction."""

    by: AnyEntry


Status: TypeAlias = Unpublished | Published | Voided | Replaced


def status_of(log: CommitLog, entry: AnyEntry) -> Status:
    """The status, as of now, of an entry that the log holds or has held."""
    first = log.refresh_boundary().first
    while isinstance(entry, LogEntry) and entry.version >= first:
        head = log.refresh()
        try:
            later = [] if head is None else log.entries(entry.version + 1, head.version)
        except NotFoundError:
            before, first = first, log.refresh_boundary().first
            if first == before:
                raise
            continue
        return _by_later_entries(entry, later)
    return _by_transaction(log, entry)


def _by_later_entries(entry: LogEntry, later: Sequence[LogEntry]) -> Status:
    if any(entry.version in each.revoked for each in later):
        same = [each for each in later if entry.transaction is not None and each.transaction == entry.transaction]
        return Replaced(same[-1]) if same else Voided()
    if any(each.published_up_to >= entry.version for each in later):
        # Nothing is deleted before an entry's own blobs are visible, which of the newest entries is not known.
        in_effect, published = entries_in_effect(later), later[-1].published_up_to
        done = [each for each in in_effect if each.version <= published or not each.blobs]
        removed = {removal.name for each in done for removal in each.removed}
        return Published(frozenset(blob.name for blob in entry.blobs if blob.name in removed))
    return Unpublished()


def _by_transaction(log: CommitLog, entry: AnyEntry) -> Status:
    """The status of an entry that a vacuum has deleted, by the transactions that the head lists.

    One without a transaction leaves no trace: it counts as voided, so that it is never taken for published.
    """
    head, transaction = log.refresh(), entry.transaction
    if head is None or transaction is None:
        return Voided()
    last = log.remembered(transaction)
    if last is None or last.version > transaction.version or last.entry == entry.version:
        return Published(frozenset() if isinstance(entry, GoneEntry) else frozenset(b.name for b in entry.blobs))
    if last.version < transaction.version or last.entry == VOIDED:  # lower: the entry was reverted
        return Voided()
    return Replaced(read_or_gone(log, transaction.id, last))


def newest_batch_entry(log: CommitLog, head: LogEntry) -> LogEntry:
    """The newest entry of a batch log that opens no epoch. A vacuum keeps it: streams may lack their parts of it."""
    while head.operation == "epoch":
        head = log.read(head.version - 1)
    return head


def read_or_gone(log: CommitLog, id_: str, last: LastCommitted) -> AnyEntry:
    """The entry that holds the last version of a transaction id."""
    transaction = Transaction(id_, last.version)
    if last.entry == VOIDED:
        return GoneEntry(transaction, None, last.batch_version)
    try:
        return log.read(last.entry)
    except NotFoundError:
        if last.entry >= log.kept_from:
            raise
    return GoneEntry(transaction, last.entry, last.batch_version)
