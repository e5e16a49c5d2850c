"""Reverting: the batches of a query that come after one of its checkpoint are taken back, to be written again.

    the query's batches  … 5  6 │ 7  8  9      its checkpoint was restored at batch 6
    revert: transaction (query, 6), removed: the blobs of 7, 8, 9 ─► publishing it deletes these

One put takes them back: from then on readers of the log ignore these entries, and the log remembers batch 6 as the last
one of the query, so that batch 7 is committed when the query writes it again. A process that dies after the put leaves
visible blobs, which the next writer, or a repair, deletes. See decision 20.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account.errors import ConfigurationError, ConflictError, describe
from azureblob_source.log.entry import LogEntry, Transaction, remembered
from azureblob_source.log.fencing import check_epoch
from azureblob_source.log.live import entries_in_effect
from azureblob_source.log.naming import is_batch_log
from azureblob_source.log.roll_forward import publish_earlier

if TYPE_CHECKING:
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import Draft
    from azureblob_source.log.publish import Publisher

logger = logging.getLogger(__name__)

_AT_ONCE = 16


def revert(log: CommitLog, last: Transaction, draft: Draft, publisher: Publisher) -> LogEntry | None:
    """Take back the batches after `last` of its id; returns the entry that does so. None if there are none.

    draft: gives write id, time and epoch. What earlier writers have committed is published first. Errors as of
    `batches_after`; `FencedError` if the epoch is too low. The query must not run meanwhile.
    """
    while True:
        head = log.refresh()
        check_epoch(log, head, draft.epoch)
        of_streams = is_batch_log(log.stream)
        if not of_streams and not publish_earlier(log, head, publisher, draft):
            continue
        taken_back = batches_after(log, last)
        if not taken_back or head is None:
            return None
        blobs = () if of_streams else (blob for entry in taken_back for blob in entry.blobs)
        versions = tuple(entry.version for entry in taken_back)
        reverting = replace(draft, operation="revert", transaction=last, reverts=versions)
        entry = reverting.removing(blob.removal for blob in blobs).succeeding(head, head.version)
        if log.put(entry).write_id == entry.write_id:
            publisher.publish(entry)
            return entry


def batches_after(log: CommitLog, last: Transaction) -> list[LogEntry]:
    """The entries in effect of the batches after `last` of its id, oldest first.

    `ConflictError` if a vacuum may have removed one of them, `ConfigurationError` if one replaced all earlier rows.
    """
    head = log.head()
    newest = remembered(head, last)
    if head is None or newest is None or newest.version <= last.version:
        return []
    found: list[LogEntry] = []
    oldest, until = log.first() or 0, head.version
    while until >= oldest and not any(_is_up_to(entry, last) for entry in found):
        start = max(oldest, until - _AT_ONCE + 1)
        found = log.entries(start, until) + found
        until = start - 1
    taken_back = [
        entry
        for entry in entries_in_effect(found)
        if entry.transaction is not None and entry.transaction.id == last.id and entry.operation != "revert"
        if entry.transaction.version > last.version
    ]
    _check_all_kept(log, last, found, taken_back)
    for entry in taken_back:
        if entry.operation == "overwrite":
            cause = f"{entry.transaction} (version {entry.version}) has replaced all earlier rows, which are deleted"
            step = "Start the query with a new checkpoint: its first batch replaces all rows too."
            raise ConfigurationError(describe("revert", _place(log), cause, step))
    return taken_back


def _is_up_to(entry: LogEntry, last: Transaction) -> bool:
    own = entry.transaction
    return own is not None and own.id == last.id and own.version <= last.version


def _check_all_kept(log: CommitLog, last: Transaction, found: list[LogEntry], taken_back: list[LogEntry]) -> None:
    """`ConflictError` unless the entries that were found begin before, or with, the first batch after `last`."""
    if any(_is_up_to(entry, last) for entry in found) or not log.kept_from:
        return
    versions = [each.transaction.version for each in taken_back if each.transaction is not None]
    if min(versions, default=None) != last.version + 1:
        cause = f"a vacuum has removed the versions below {log.kept_from}, which may have batches after {last.version}"
        step = "Restore a newer checkpoint, or revert to a later batch."
        raise ConflictError(describe("revert", _place(log), cause, step))


def _place(log: CommitLog) -> str:
    return f"{log.stream} in {log.container.url}"
