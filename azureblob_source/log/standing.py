"""What a stream's log says now of one of its entries: open, settled, voided, or replaced by another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from azure_account.errors import NotFoundError
from azureblob_source.log.entry import VOIDED, LogEntry, Transaction
from azureblob_source.log.live import standing_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.commit_log import CommitLog


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


Standing: TypeAlias = "State | Settled | Replaced"


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
    return State.VOIDED if last.entry == VOIDED else Replaced(read_or_gone(log, last.entry, transaction, head))


def read_or_gone(log: CommitLog, version: int, transaction: Transaction, head: LogEntry) -> LogEntry:
    """The entry that holds a transaction; one without blobs if it was voided, or a vacuum took it away."""
    if version != VOIDED:
        try:
            return log.read(version)
        except NotFoundError:
            if version >= log.kept_from:
                raise
    return LogEntry(version, "gone", head.timestamp, "gone", transaction, published=version)
