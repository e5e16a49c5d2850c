"""Restoring: what was live at an earlier version is live again, by an entry that removes what has come since.

    version  0 … 16 17 │ 18 19 20      restore: restores 17, removed: blobs of 18 to 20 ─► publishing it deletes them

Of a blob to which rows of several versions were moved, those that stay are moved to another one, which the entry adds.
So are rows that an overwrite or a restore has removed and keeps (`keeping`): their copies are copied under new names.

One put restores. What an overwrite, a revert or a repair has deleted cannot come back, so only a version can be
restored whose rows are all live or kept. Transactions stay: a query goes on after its last batch. See decision 28.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from azureblob_source.log.entry import Removal
from azureblob_source.log.live import entries_in_effect
from azureblob_source.log.live_state import check_version, with_live_state
from azureblob_source.log.naming import is_batch_log
from azureblob_source.log.publishing.fencing import check_epoch
from azureblob_source.log.publishing.keeping import check_can_keep, kept_after
from azureblob_source.log.publishing.publish import still_there
from azureblob_source.log.publishing.roll_forward import publish_earlier, publish_own
from azureblob_source.log.relocating.moving import copy_of, moved_rows, part_of
from azureblob_source.log.relocating.relocation import compactions_after
from azureblob_source.log.stored_entries import find_entry
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.checkpoint.tail import TailEffect
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, MovedRows
    from azureblob_source.log.live_state import LiveState
    from azureblob_source.log.publishing.publish import Publisher

_Rows: TypeAlias = "tuple[str, int]"
"""The rows that an entry has added with one blob: its name and the version, wherever they are by now."""


_COPIES_AT_ONCE = 4
"""Blobs that are copied back at once, each in blocks that pass through this process."""


@dataclass(frozen=True)
class _LiveBlob:
    """A live blob, and the version of the entry that names it. is_moved: it has moved rows, which may not be known."""

    blob: BlobEntry
    entry: int
    is_moved: bool


@dataclass(frozen=True)
class PartlyRestored:
    """A blob of which some rows are live again: they stay, or are copied back."""

    blob: BlobEntry
    live: frozenset[_Rows]

    @property
    def rows(self) -> int:
        """How many are."""
        return sum(each.rows for each in self.blob.moved if self.keeps(each)) if self.blob.moved else self.blob.rows

    def keeps(self, rows: MovedRows) -> bool:
        """Whether moved rows are among them."""
        return _added(rows) in self.live


@dataclass(frozen=True)
class KeptBlob(PartlyRestored):
    """A blob that was removed, of which some rows are copied back. copy: the name of what is kept of it."""

    copy: str

    @property
    def is_whole(self) -> bool:
        """Whether all of its rows are copied back."""
        return len(self.live) == max(1, len(self.blob.moved))


@dataclass(frozen=True)
class Restoration:
    """What restores version `to` at a head. kept, removed: live blobs, the removed ones with those that are cut."""

    to: LogEntry
    head: LogEntry
    kept: tuple[BlobEntry, ...]
    removed: tuple[BlobEntry, ...]
    cut: tuple[PartlyRestored, ...] = ()
    back: tuple[KeptBlob, ...] = ()

    @property
    def rows_kept(self) -> int:
        """Rows that stay."""
        return sum(blob.rows for blob in self.kept) + sum(each.rows for each in self.cut)

    @property
    def rows_back(self) -> int:
        """Rows that are copied back."""
        return sum(each.rows for each in self.back)

    @property
    def changes(self) -> bool:
        """Whether something else is live than at the version."""
        return bool(self.removed or self.back)

    @property
    def rows_removed(self) -> int:
        """Rows that are deleted."""
        return sum(blob.rows for blob in self.removed) - sum(each.rows for each in self.cut)

    def succeeding(self, entry: LogEntry) -> LogEntry:
        """The entry that restores, with the schemas of the version: others bind nobody any more."""
        live_from = self.to.since if self.back else entry.since
        since = live_from if self.rows_kept or self.back else entry.version
        return replace(entry, schemas=self.to.schemas or self.head.schemas, since=since)


def restoration(log: CommitLog, version: int) -> Restoration:
    """What restores a version at the head, as far as that is known. Changes nothing.

    `ConfigurationError` if rows of the version were deleted since; `NotFoundError` if there is no such version.
    """
    if is_batch_log(log.stream):
        step = "Restore its streams, each by its own version."
        raise ConfigurationError("restore", log.place, "it is a batch log, which has no rows", step)
    head = check_version(log, version)
    to = head if version == head.version else log.read(version)
    now = _live_at(log, head.version)
    then = _live_at(log, version)  # second: a vacuum in between has taken nothing from it that is live now
    kept = [each.blob for removal, each in now.items() if removal in then]
    newer = [each for removal, each in now.items() if removal not in then]
    gone = _rows_of(log, [each for removal, each in then.items() if removal not in now])
    if not gone:
        return Restoration(to, head, tuple(kept), tuple(each.blob for each in newer))
    there = _rows_of(log, newer)
    is_live = frozenset[_Rows]().union(*(rows for _, rows in there))
    lost = [(blob, rows) for blob, rows in gone if not rows <= is_live]
    back, missing = _kept_rows(log, version, lost, is_live) if lost else ((), frozenset[_Rows]())
    if missing:
        raise _deleted(log, version, head, [(blob, rows) for blob, rows in lost if not rows.isdisjoint(missing)])
    stay = frozenset[_Rows]().union(*(rows for _, rows in gone))
    kept += [blob for blob, rows in there if rows <= stay]
    changed = [(blob, rows & stay) for blob, rows in there if not rows <= stay]
    cut = tuple(PartlyRestored(blob, rows) for blob, rows in changed if rows)
    return Restoration(to, head, tuple(kept), tuple(blob for blob, _ in changed), cut, back)


def restore(
    log: CommitLog, version: int, draft: Draft, publisher: Publisher, planned: int | None = None
) -> LogEntry | None:
    """Make what was live at `version` live again; returns the entry that does so. None if nothing else is live.

    draft: gives write id, time, epoch, and for how long what is removed is kept. planned: the head for which this was
    planned; `ConflictError` if a batch has followed it. By default what other writers commit meanwhile is removed too.
    What earlier writers have committed is published first.

    Errors as of `restoration`; `ConfigurationError` also if blobs must not be deleted; `FencedError` by the epoch.
    """
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        if not publish_earlier(log, head, publisher, draft):
            continue
        kept_from = log.kept_from
        try:
            found = restoration(log, version)
            if planned is not None:
                _check_planned(log, planned, found.head)
            if not found.changes:
                return None
            publisher.probe_service(log.stream, draft.attributes, deletes=True, keeps=draft.keep is not None)
            removed = tuple(blob.removal for blob in found.removed)
            if draft.keep is not None:
                check_can_keep(log, removed)
            left = tuple(part_of(log, each.blob, each.keeps, draft.write_id) for each in found.cut)
            back = partial(_copied_back, log, write_id=draft.write_id)
            left += tuple(concurrent_map(back, found.back, _COPIES_AT_ONCE, after_error="wait"))
            restoring = replace(draft, operation="restore", restores=version, removed=removed, blobs=left)
            entry = found.succeeding(log.next_entry(found.head, restoring, found.head.version))
        except NotFoundError:
            if log.has_moved_on(head, kept_from):
                continue
            raise
        if log.put(entry).write_id == entry.write_id:
            return publish_own(log, entry, restoring, publisher)


def _kept_rows(
    log: CommitLog, version: int, lost: Sequence[tuple[BlobEntry, frozenset[_Rows]]], live: frozenset[_Rows]
) -> tuple[tuple[KeptBlob, ...], frozenset[_Rows]]:
    """What is kept of lost rows, and which of them is nowhere. `ConfigurationError` if they cannot be copied back."""
    needed = frozenset[_Rows]().union(*(rows for _, rows in lost)) - live
    kept = kept_after(log, version)
    movers = reversed([*compactions_after(log, version)]) if kept else ()
    moved = [blob for entry in movers for blob in entry.blobs if blob.moved and blob.name in kept]
    holders = [each for each in lost if each[0].name in kept]
    holders += [(blob, frozenset(map(_added, blob.moved))) for blob in moved]
    removals = [Removal(kept[blob.name], blob.attempt) for blob, _ in holders]
    there = concurrent_map(partial(still_there, log.container), removals, log.readers, after_error="abandon")
    found: list[KeptBlob] = []
    for (blob, rows), removal, copy in zip(holders, removals, there, strict=True):
        if copy is not None and not needed.isdisjoint(rows):
            found.append(KeptBlob(blob, rows & needed, removal.name))
            needed -= rows
    gzipped = next((each.blob.name for each in found if each.blob.name.endswith(".gz")), None)
    if gzipped is not None:
        cause, step = f"{gzipped} is gzipped, and is kept for reads only", "Read the version, and write its rows."
        raise ConfigurationError("restore", f"version {version} of {log.place}", cause, step)
    return tuple(found), needed


def _copied_back(log: CommitLog, kept: KeptBlob, write_id: str) -> BlobEntry:
    """Stage the rows of a kept blob that are copied back."""
    if not kept.is_whole:
        return part_of(log, replace(kept.blob, name=kept.copy), kept.keeps, write_id)
    moved: Sequence[MovedRows] = kept.blob.moved
    if not moved:
        ((_, version),) = kept.live
        entry = log.read(version)
        moved = moved_rows(entry, kept.blob)
    return copy_of(log, kept.blob, kept.copy, moved, write_id)


def _live_at(log: CommitLog, version: int) -> dict[Removal, _LiveBlob]:
    """The blobs that are live at a version."""

    def found(state: LiveState, effect: TailEffect) -> dict[Removal, _LiveBlob]:
        blobs = {blob.removal: _LiveBlob(blob, entry.version, bool(blob.moved)) for entry, blob in effect.added}
        table = state.of_base(effect)
        if table is not None:
            from azureblob_source.log.checkpoint.live_table import blobs_of  # noqa: PLC0415 - loads Arrow

            for (added, _, blob), moved_in in zip(blobs_of(table, log.stream), table["moved_in"], strict=True):
                mover = moved_in.as_py()
                blobs[blob.removal] = _LiveBlob(blob, added if mover is None else mover, mover is not None)
        return blobs

    return with_live_state(log, version, found)


def _rows_of(log: CommitLog, blobs: Sequence[_LiveBlob]) -> list[tuple[BlobEntry, frozenset[_Rows]]]:
    """The rows of live blobs, which are then known to have moved rows."""
    unknown = sorted({each.entry for each in blobs if each.is_moved and not each.blob.moved})
    read = concurrent_map(partial(find_entry, log.container, log.stream), unknown, log.readers, after_error="abandon")
    movers = {(version, blob.name): blob for version, of in zip(unknown, read, strict=True) if of for blob in of.blobs}
    found = []
    for each in blobs:
        blob = each.blob
        if each.is_moved and not blob.moved:
            if (each.entry, blob.name) not in movers:
                raise log.not_kept(each.entry)
            blob = movers[each.entry, blob.name]
        found.append((blob, frozenset(map(_added, blob.moved)) or frozenset({(blob.name, each.entry)})))
    return found


def _check_planned(log: CommitLog, planned: int, head: LogEntry) -> None:
    """`ConflictError` if an entry after the planned head has rows that are new."""
    later = log.entries(planned + 1, head.version) if head.version > planned else []
    written = next((entry.version for entry in later if any(not blob.moved for blob in entry.blobs)), None)
    if written is not None:
        cause, step = f"version {written} was written after the restore was planned", "Stop the writers, or look again."
        raise ConflictError("restore", log.place, cause, step)


def _deleted(
    log: CommitLog, version: int, head: LogEntry, lost: Sequence[tuple[BlobEntry, frozenset[_Rows]]]
) -> ConfigurationError:
    """The error for a version whose rows are not all live."""
    names, last = {blob.name for blob, _ in lost}, head.version
    rows = frozenset[_Rows]().union(*(rows for _, rows in lost))
    for entry in entries_in_effect(log.entries(version + 1, head.version)):
        if not names.isdisjoint(removal.name for removal in entry.removed):
            last = entry.version
            names |= {blob.name for blob in entry.blobs if not rows.isdisjoint(map(_added, blob.moved))}
    cause = f"version {last} has deleted rows that it has, those of {lost[0][0].name} among them"
    return ConfigurationError(
        "restore", f"version {version} of {log.place}", cause, f"Restore version {last} or a later one."
    )


def _added(rows: MovedRows) -> _Rows:
    return rows.name, rows.version
