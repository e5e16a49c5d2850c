"""Take the batches of a query back that its checkpoint does not have, so that it writes them again.

A query whose rows name their streams has a batch log beside the logs of these streams. Its streams are reverted first,
then the batch log: as long as that has the batches, a revert that was interrupted is run again. Epochs are opened
first, and in the batch log too: a driver of a lower one commits no batch of the query to any stream then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azureblob_source.log.commit import append_epoch
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import batches_stream, is_batch_log
from azureblob_source.log.publishing.publish import still_there
from azureblob_source.log.relocating.revert import (
    batches_after,
    batches_among,
    entries_after,
    has_batches_after,
    is_after,
    revert,
)
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import Draft, LogEntry, Transaction
    from azureblob_source.log.publishing.publish import Publisher
    from foundation.clock import Clock


@dataclass(frozen=True)
class RevertPlan:
    """What a revert would do.

    last: the query, and its batch that stays the last one. entries: those that are taken back, oldest first, by log:
    of streams, then that of batches over many streams.
    batch_versions: by stream that batch entries name which are taken back, the last of these.
    is_needed: whether a log remembers a later batch, with entries or not, or an earlier revert is not finished.
    """

    last: Transaction
    entries: dict[str, list[LogEntry]]
    batch_versions: dict[str, int]
    is_needed: bool

    @property
    def batches(self) -> list[int]:
        """The numbers of the batches that are taken back."""
        transactions = (entry.transaction for found in self.entries.values() for entry in found)
        return sorted({each.version for each in transactions if each is not None})

    @property
    def streams(self) -> list[str]:
        """All streams that the query may have batches in."""
        return [name for name in self.entries if not is_batch_log(name)]

    def of_streams(self) -> dict[str, list[LogEntry]]:
        """The entries by stream, without those of the batch log, and without streams that have none."""
        return {name: found for name, found in self.entries.items() if found and not is_batch_log(name)}


def plan_revert(container: BlobContainer, stream: str, last: Transaction) -> RevertPlan:
    """Plan to take back the batches after `last` of its id, in all streams that they have. Changes nothing.

    stream: that the query writes to, or any of them. `NotFoundError` if it has no log, and none of these batches has
    rows for it; errors as of `batches_after`.
    """
    of_batches = CommitLog(container, batches_stream(last.id))
    of_batches.refresh()
    found = entries_after(of_batches, last)
    every = [entry for entry in found if is_after(entry, last)]  # replaced ones too
    batch_versions = {blob.stream: every[-1].version for entry in every for blob in entry.blobs}
    logs = [CommitLog(container, name) for name in sorted({stream, *batch_versions})]
    for log in logs:
        if log.refresh() is None and log.stream not in batch_versions and (batch_versions or not every):
            raise _no_log(log)
    entries = {log.stream: batches_after(log, last) for log in logs}
    entries[of_batches.stream] = batches_among(of_batches, found, last)
    needed = any(has_batches_after(log, last) or _is_unfinished(log) for log in (*logs, of_batches))
    return RevertPlan(last, entries, batch_versions, needed)


def carry_out(
    container: BlobContainer,
    plan: RevertPlan,
    draft: Callable[[], Draft],
    publisher: Publisher,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Carry out a plan. `draft` is as for a repair; if it has an epoch, lower ones are refused from now on.

    It also goes through logs that have such an entry already: a process that has died may have left their blobs.
    Errors as of `revert`.
    """
    logs = {name: CommitLog(container, name, clock=clock) for name in plan.entries}
    for log in logs.values():
        new = draft()
        if new.epoch is not None and (log.refresh() is not None or log.stream in plan.batch_versions):
            append_epoch(log, new, publisher)
    for name, entries in plan.entries.items():
        planned = {entry.version for entry in entries}
        revert(logs[name], plan.last, draft(), publisher, planned, plan.batch_versions.get(name))


def _no_log(log: CommitLog) -> NotFoundError:
    step = "Check container and stream. If the query has written nothing yet, nothing is to be taken back: start it."
    return NotFoundError("revert", log.place, "there is no commit log", step)


def _is_unfinished(log: CommitLog) -> bool:
    """Whether a blob is there that a revert has taken back."""
    head = log.head()
    if head is None or head.newest_deletion is None or head.newest_deletion <= head.published_up_to:
        return False
    newest = log.read(head.newest_deletion)
    return newest.operation == "revert" and any(still_there(log.container, each) for each in newest.removed)
