"""Take the batches of a query back that its restored checkpoint does not have, so that it writes them again."""

from __future__ import annotations

from typing import Annotated

from azure_account.location import Location
from azureblob_source.address import stream_of
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.iceberg import try_to_refresh_table
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from foundation.arguments import Epoch, Name, Range, checked
from foundation.clock import SYSTEM_CLOCK


@checked
def revert_batches(
    where: Location, query: Name, after: Annotated[int, Range(-1)], *, epoch: Epoch | None = None
) -> list[int]:
    """Take back what a query has written after a batch; returns the batches that were taken back, in order.

    where: the stream, `container/stream`, and the account; of a query that writes to several streams, any of them.
    query: its id, such as `RestoredCheckpoint.query`; or a `txnAppId`.
    after: the batch that stays the last one, such as `RestoredCheckpoint.batch`; -1 takes all batches back.
    epoch: of the query's writer, if its stream has one. Its drivers of lower epochs are refused then, in all streams.

    Call it while the query does not run, after a restore from a background backup, and again if it was interrupted; not
    any more once the query has started. The query then writes these batches again, with the rows that its checkpoint
    gives them. A streaming read that has read them already reads them twice.

    `NotFoundError` if the stream has no log. `ConflictError` if a vacuum has removed one of the batches, or the query
    goes on writing. `ConfigurationError` if one of them replaced all earlier rows (`outputMode("complete")`).
    `FencedError` if the stream is at a higher epoch.
    """
    stream, container = stream_of(where.path, where), where.open()
    plan = plan_revert(container, stream, Transaction(query, after))
    carry_out(container, plan, lambda: new_draft(SYSTEM_CLOCK, epoch), Publisher(container))
    for name in plan.streams:
        try_to_refresh_table(CommitLog(container, name), new_draft(SYSTEM_CLOCK, epoch))
    return plan.batches
