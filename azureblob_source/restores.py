"""Make live again what a stream had at an earlier version or time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from azure_account.location import Location
from azureblob_source.address import stream_of
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.restore import restore
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.iceberg import try_to_refresh_table
from azureblob_source.maintenance.restoring import restored_version
from foundation.arguments import Epoch, Natural, Seconds, checked
from foundation.clock import SYSTEM_CLOCK


@checked
def restore_stream(
    where: Location,
    *,
    version: Natural | None = None,
    time: datetime | None = None,
    keep_replaced: Seconds | None = None,
    epoch: Epoch | None = None,
) -> int | None:
    """Make live again what a stream had at a version or a time; returns the version that does so.

    where: the stream, `container/stream`, and the account. version: of its log; or time: the last version committed up
    to it, in UTC if it has no zone. keep_replaced: seconds for which what is deleted can be read
    and restored in turn, as of option `keepReplaced`. epoch: of the stream's writer, if it has one.

    None if nothing else is live. What has come since then is deleted, and so is what writers commit meanwhile; their
    queries go on after their last batch. A streaming read that has read it keeps it, one that has not leaves it out.
    Call it again if it was interrupted.

    `ConfigurationError` if a blob of the version was deleted since, by an overwrite, a revert or a repair, and is not
    kept.
    `NotFoundError` if there is no such version any more. `FencedError` if the stream is at a higher epoch.
    """
    stream = stream_of(where.path, where)
    log = CommitLog(where.open(), stream)
    keep = None if keep_replaced is None else timedelta(seconds=keep_replaced)
    draft = replace(new_draft(SYSTEM_CLOCK, epoch), keep=keep)
    entry = restore(log, restored_version(log, version, time), draft, Publisher(log.container))
    try_to_refresh_table(log, new_draft(SYSTEM_CLOCK, epoch))
    return None if entry is None else entry.version
