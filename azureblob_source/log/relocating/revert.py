"""Reverting: the batches of a query that come after one of its checkpoint are taken back, to be written again.

    the query's batches  … 5  6 │ 7  8  9      its checkpoint was restored at batch 6
    revert: transaction (query, 6), removed: the blobs of 7, 8, 9 ─► publishing it deletes these

Rows of these batches that a compaction has moved are moved to blobs of their own first, which the entry removes then.

One put takes them back: from then on readers of the log ignore these entries, and the log remembers the last batch up
to 6 that it has as the last one of the query, so that batch 7 is committed when the query writes it again. A process
that dies after the put leaves visible blobs, which the next writer, or a repair, deletes.

Of batches over many streams, the log of each stream that they name also remembers up to which batch entry they are
taken back. So a driver that was suspended between the parts of its batch puts none any more. See decision 20.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from azureblob_source.log.entry import VOIDED, LogEntry, Transaction
from azureblob_source.log.live import entries_in_effect
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import LAST_VERSION, is_batch_log
from azureblob_source.log.publishing.fencing import check_epoch
from azureblob_source.log.publishing.roll_forward import publish_earlier, publish_in_effect
from azureblob_source.log.relocating.moving import part_of
from azureblob_source.log.relocating.relocation import commit_relocation, compactions_after
from foundation.errors import ConfigurationError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, Draft, MovedRows
    from azureblob_source.log.publishing.publish import Publisher

_AT_ONCE = 16


def revert(
    log: CommitLog,
    last: Transaction,
    draft: Draft,
    publisher: Publisher,
    planned: Collection[int],
    batch_version: int | None = None,
) -> LogEntry | None:
    """Take back the batches after `last` of its id; returns the entry that does so. None if it is there already.

    draft: gives write id, time and epoch. planned: versions of the entries that may be taken back. batch_version: of
    the last batch entry that names this stream and is taken back; None if there is none. What earlier writers have
    committed is published first. The query must not run meanwhile.

    `ConflictError` if there are others than those planned: the query has gone on. Errors as of `batches_after`;
    `ConfigurationError` if blobs must not be deleted; `FencedError` if the epoch is too low.
    """
    of_streams = is_batch_log(log.stream)
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        if not of_streams and not publish_earlier(log, head, publisher, draft):
            continue
        kept_from = log.kept_from
        try:
            if not has_batches_after(log, last) and _refuses_parts(log, last, batch_version):
                return None
            entry = _entry(log, head, last, replace(draft, batch_version=batch_version), publisher, planned)
        except NotFoundError:
            if log.has_moved_on(head, kept_from):
                continue
            raise
        if entry is not None and log.put(entry).write_id == entry.write_id:
            if not of_streams:
                publish_in_effect(log, entry, draft, publisher)
            return entry


def _entry(
    log: CommitLog,
    head: LogEntry | None,
    last: Transaction,
    draft: Draft,
    publisher: Publisher,
    planned: Collection[int],
) -> LogEntry | None:
    """The entry that takes back the batches, to follow `head`. None if that is not the head any more."""
    of_streams = is_batch_log(log.stream)
    found = entries_after(log, last)
    if log.head() != head:
        return None
    taken_back = batches_among(log, found, last)
    unplanned = [entry.version for entry in taken_back if entry.version not in planned]
    if unplanned:
        cause = f"version {unplanned[0]} was written after the revert was planned"
        raise ConflictError("revert", log.place, cause, "Stop the query, then look again.")
    versions = tuple(entry.version for entry in taken_back)
    moved = [] if of_streams else _moved(log, versions)
    removed = [] if of_streams else [blob.removal for entry in taken_back for blob in entry.blobs]
    removed += [blob.removal for _, blob in moved]
    if removed:
        publisher.probe_service(log.stream, draft.attributes, deletes=True)
    if _divide(log, moved, versions, draft, publisher):
        return None
    kept = Transaction(last.id, _last_kept(log, found, last))
    reverting = replace(draft, operation="revert", transaction=kept, reverts=versions, removed=tuple(removed))
    entry = log.next_entry(head, reverting, -1 if head is None else head.version)
    if head is not None and taken_back and not of_streams:
        return replace(entry, schemas=_schemas_without(log, head, taken_back))
    return entry


def _moved(log: CommitLog, versions: Collection[int]) -> list[tuple[LogEntry, BlobEntry]]:
    """The live blobs to which rows of some versions were moved, each with the entry that has moved them."""
    found = list(compactions_after(log, min(versions, default=LAST_VERSION)))
    head = log.head()
    if not found or head is None:
        return []
    live = {blob.name for blob in blobs_live_at(log, head.version)}
    moved = [(entry, blob) for entry in found for blob in entry.blobs if blob.name in live]
    return [(entry, blob) for entry, blob in moved if any(rows.version in versions for rows in blob.moved)]


def _divide(
    log: CommitLog,
    moved: Sequence[tuple[LogEntry, BlobEntry]],
    versions: Collection[int],
    draft: Draft,
    publisher: Publisher,
) -> bool:
    """Move the rows of some versions to blobs of their own, where others are beside them. False if none are."""

    def taken_back(rows: MovedRows) -> bool:
        return rows.version in versions

    head = log.head()
    mixed = [(entry, blob) for entry, blob in moved if not all(map(taken_back, blob.moved))]
    if head is None or not mixed:
        return False
    for entry, blob in mixed:
        write_id = f"{draft.write_id}-divide-{blob.attempt}"
        try:
            parts = (
                part_of(log, blob, lambda rows: not taken_back(rows), write_id),
                part_of(log, blob, taken_back, write_id),
            )
        except NotFoundError:
            if log.refresh() == head and log.refresh_boundary().first <= blob.versions[0]:
                raise
            break
        dividing = replace(
            draft,
            write_id=write_id,
            operation="compact",
            epoch=None,
            blobs=parts,
            removed=(blob.removal,),
            attributes=entry.attributes,
        )
        commit_relocation(log, dividing, publisher, head.version)
    return True


def _schemas_without(log: CommitLog, head: LogEntry, taken_back: Sequence[LogEntry]) -> tuple[str, ...]:
    """The head's schemas, except for those that only the entries have that are taken back: they bind nobody."""
    first, gone = taken_back[0].version, {entry.version for entry in taken_back}
    others = [entry for entry in log.entries(first, head.version) if entry.version not in gone]
    stay = {blob.schema for entry in entries_in_effect(others) for blob in entry.blobs if not blob.moved}
    if first > max(head.since, log.kept_from):  # else nothing before it is live
        stay |= set(log.read(first - 1).schemas)
    return tuple(schema for schema in head.schemas if schema in stay)


def has_batches_after(log: CommitLog, last: Transaction) -> bool:
    """Whether the log remembers a later batch than `last` of its id, be it voided or without rows."""
    newest = log.remembered(last)
    return newest is not None and newest.version > last.version


def batches_after(log: CommitLog, last: Transaction) -> list[LogEntry]:
    """The entries in effect of the batches after `last` of its id, oldest first.

    `ConflictError` if a vacuum may have removed one of them, `ConfigurationError` if one replaced earlier rows.
    """
    return batches_among(log, entries_after(log, last), last)


def batches_among(log: CommitLog, entries: Sequence[LogEntry], last: Transaction) -> list[LogEntry]:
    """What `batches_after` returns, by what `entries_after` has read."""
    taken_back = [entry for entry in entries_in_effect(entries) if is_after(entry, last)]
    for entry in taken_back:
        if entry.overwrites:
            rows = "all earlier rows" if entry.operation == "overwrite" else "earlier rows of its partitions"
            cause = f"{entry.transaction} (version {entry.version}) has replaced {rows}, which are deleted"
            step = "Start the query with a new checkpoint: its batches replace these rows again."
            raise ConfigurationError("revert", log.place, cause, step)
    return taken_back


def entries_after(log: CommitLog, last: Transaction) -> list[LogEntry]:
    """All entries, also of others, after the last one of a batch up to `last`. Errors as of `batches_after`."""
    return log.unless_removed(partial(_entries_after, log, last))


def _entries_after(log: CommitLog, last: Transaction) -> list[LogEntry]:
    """What `entries_after` returns. `NotFoundError` if a vacuum removes one of the entries meanwhile."""
    if not has_batches_after(log, last):
        return []
    oldest, head = log.first() or 0, log.head()
    until = -1 if head is None else head.version
    found: list[LogEntry] = []
    reached = False
    while until >= oldest and not reached:
        some = log.entries(max(oldest, until - _AT_ONCE + 1), until)
        reached = any(_is_up_to(entry, last) for entry in some)
        found, until = some + found, some[0].version - 1
    if found and not reached and oldest > 0:
        _check_all_kept(log, last, found[0])
    return found[max((at for at, entry in enumerate(found, 1) if _is_up_to(entry, last)), default=0) :]


def is_after(entry: LogEntry, last: Transaction) -> bool:
    """Whether it has written a later batch of the id of `last`."""
    own = entry.transaction
    return own is not None and own.id == last.id and own.version > last.version and entry.operation != "revert"


def _is_up_to(entry: LogEntry, last: Transaction) -> bool:
    own = entry.transaction
    return own is not None and own.id == last.id and own.version <= last.version


def _check_all_kept(log: CommitLog, last: Transaction, oldest: LogEntry) -> None:
    """`ConflictError` unless the oldest entry that is kept shows that none before it has a batch after `last`."""
    newest = log.last_committed(last.id, oldest)
    if newest is None:
        return
    removed = newest.version if VOIDED != newest.entry < oldest.version else newest.previous
    if removed > last.version:
        cause = f"a vacuum has removed the versions below {oldest.version}, which had batch {removed} of {last.id}"
        step = f"Restore a newer checkpoint, or revert to batch {removed} or a later one."
        raise ConflictError("revert", log.place, cause, step)


def _last_kept(log: CommitLog, entries: Sequence[LogEntry], last: Transaction) -> int:
    """The last batch of the id that the log has after batches after `last` are taken back, -1 if none."""
    first = next((entry for entry in entries if is_after(entry, last)), None)
    if first is not None:
        return first.transactions[last.id].previous
    newest = log.remembered(last)
    return -1 if newest is None else newest.in_effect


def _refuses_parts(log: CommitLog, last: Transaction, batch_version: int | None) -> bool:
    """Whether the log refuses parts of batch entries up to `batch_version`, which were taken back."""
    newest = log.remembered(last)
    refused = None if newest is None else newest.batch_version
    return batch_version is None or (refused is not None and refused >= batch_version)
