"""What later entries have deleted of the rows that a reader is about to read, so that it does not look for them.

    range of versions ─► later reverts, restores, overwrites of partitions ─► its blobs, without what these have deleted

An overwrite of the whole stream is not among them: a query that starts then begins with it, and the read of one that
lags says that blobs are gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from azureblob_source.log.live import entries_in_effect

if TYPE_CHECKING:
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.read.blobs import StreamBlob

_AT_ONCE = 16
_REMOVING = ("overwrite-partitions", "void")


@dataclass(frozen=True)
class Deleted:
    """Entries in effect that delete blobs of earlier versions: reverts and restores, and overwrites of partitions.

    overwrites: also what leaves out blobs that were deleted by hand, and voids, which may remove such blobs too.

    at: the newest version without an overwrite that may be voided yet.
    reverted: versions that reverts have revoked, also those whose rows a restore has brought back.
    """

    reverts: tuple[LogEntry, ...] = ()
    overwrites: tuple[LogEntry, ...] = ()
    at: int = -1
    reverted: frozenset[int] = frozenset()

    @property
    def taken_back(self) -> frozenset[int]:
        """Versions whose rows the reverts and restores have removed."""
        return frozenset[int]().union(*(entry.taken_back for entry in self.reverts))

    def in_effect(self, until: int) -> int:
        """The version up to `until` after which all that its entries have done is undone by a restore."""
        return min([until, *(entry.restores for entry in self.reverts if entry.restores is not None)])

    @property
    def replaced_at(self) -> int | None:
        """A version at which rows have been replaced; None if none have."""
        return self.at if self.overwrites else None

    def published(self, until: int) -> Deleted:
        """What is deleted but for overwrites after version `until`, up to which all is published: they may be void."""
        found = tuple(entry for entry in self.overwrites if entry.version <= until)
        at = min((entry.version - 1 for entry in self.overwrites if entry.version > until), default=self.at)
        return replace(self, overwrites=found, at=at)

    def left_of(self, blobs: list[tuple[StreamBlob, str]]) -> list[tuple[StreamBlob, str]]:
        """The blobs that none of the entries removes: a restore may remove what another one had brought back."""
        names = {removal.name for entry in (*self.overwrites, *self.reverts) for removal in entry.removed}
        return [each for each in blobs if each[0].name not in names] if names else blobs


@dataclass
class DeletionFinder:
    """Finds, for one reader of a log, what was deleted. It keeps the entries that it has read."""

    log: CommitLog
    _entries: dict[int, LogEntry] = field(default_factory=dict)

    def after(self, version: int, head: LogEntry) -> Deleted:
        """What the entries after a version delete, also those that are not published."""
        every = entries_in_effect(self._deleting(version, head))
        found = _standing(every)
        return Deleted(
            tuple(entry for entry in found if entry.operation in ("revert", "restore")),
            tuple(entry for entry in found if entry.operation in _REMOVING or entry.leaves_out),
            head.version,
            frozenset[int]().union(*(entry.reverts for entry in every)),
        )

    def forget(self, until: int) -> None:
        """Drop the entries up to this version."""
        self._entries = {version: entry for version, entry in self._entries.items() if version > until}

    def _deleting(self, version: int, head: LogEntry) -> list[LogEntry]:
        """The entries after a version that delete rows, in order. Where they follow closely, some are read at once."""
        found: list[LogEntry] = []
        at = head.newest_deletion
        while at is not None and (oldest := max(version + 1, self.log.kept_from)) <= at:
            if at not in self._entries:
                close = bool(found) and found[-1].version - at < _AT_ONCE
                read = self.log.entries(max(oldest, at - _AT_ONCE + 1) if close else at, at)
                self._entries |= {entry.version: entry for entry in read if entry.deletes}
            found.append(self._entries[at])
            at = found[-1].last_deletion
        return found[::-1]


def _standing(entries: list[LogEntry]) -> list[LogEntry]:
    """The entries, in order, that no restore has undone: what those have removed is live again."""
    undone: set[int] = set()
    found: list[LogEntry] = []
    for entry in reversed(entries):
        if entry.version not in undone:
            found.append(entry)
            undone |= set(entry.taken_back) if entry.operation == "restore" else set()
    return found[::-1]
