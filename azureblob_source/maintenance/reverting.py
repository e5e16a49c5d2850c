"""Take the batches of a query back that its checkpoint does not have, so that it writes them again.

A query whose rows name their streams has a batch log beside the logs of these streams. Its streams are reverted first,
then the batch log: as long as that has the batches, a revert that was interrupted is run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.errors import NotFoundError, describe
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.naming import batches_stream, is_batch_log
from azureblob_source.log.revert import batches_after, revert

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.account import BlobContainer
    from azureblob_source.log.entry import Draft, LogEntry, Transaction
    from azureblob_source.log.publish import Publisher


@dataclass(frozen=True)
class RevertPlan:
    """What a revert would do.

    last: the query, and its batch that stays the last one. entries: those that are taken back, oldest first, by log:
    of streams, then that of batches over many streams.
    """

    last: Transaction
    entries: dict[str, list[LogEntry]]

    @property
    def batches(self) -> list[int]:
        """The numbers of the batches that are taken back."""
        transactions = (entry.transaction for found in self.entries.values() for entry in found)
        return sorted({each.version for each in transactions if each is not None})

    def of_streams(self) -> dict[str, list[LogEntry]]:
        """The entries by stream, without those of the batch log, and without streams that have none."""
        return {name: found for name, found in self.entries.items() if found and not is_batch_log(name)}


def plan_revert(container: BlobContainer, stream: str, last: Transaction) -> RevertPlan:
    """Plan to take back the batches after `last` of its id, in all streams that they have. Changes nothing.

    stream: that the query writes to, or any of them. `NotFoundError` if it has no log; else errors as of
    `batches_after`.
    """
    of_batches = CommitLog(container, batches_stream(last.id))
    batches = batches_after(of_batches, last)
    streams = {stream, *(blob.stream for entry in batches for blob in entry.blobs)}
    entries = {}
    for name in sorted(streams):
        log = CommitLog(container, name)
        if log.refresh() is None and name == stream:
            step = "Check container and stream; `python -m azureblob_source ls` shows what is there."
            raise NotFoundError(describe("revert", f"{container.url}/{name}", "there is no commit log", step))
        entries[name] = batches_after(log, last)
    entries[of_batches.stream] = batches
    return RevertPlan(last, entries)


def carry_out(
    container: BlobContainer, plan: RevertPlan, draft: Callable[[], Draft], publisher: Publisher
) -> dict[str, int]:
    """Carry out a plan; returns the version of the new entry by log. `draft` is as for a repair.

    It also goes through logs that have such an entry already: a process that has died may have left their blobs.
    """
    done = {}
    for name in plan.entries:
        entry = revert(CommitLog(container, name), plan.last, draft(), publisher)
        if entry is not None:
            done[name] = entry.version
    return done
