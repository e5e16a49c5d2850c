"""Take a stream over from another writer: open an epoch in its log, before the first row is written in it."""

from __future__ import annotations

import os

from azure_account import connect
from azure_account.location import Location
from azureblob_source.log import commit
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.write.destination import ensure_container
from azureblob_source.write.options import sink_options
from foundation.arguments import Epoch, checked
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError


@checked
def open_epoch(where: Location, epoch: Epoch) -> None:
    """Have a stream refuse every writer of a lower epoch, and those without one, from now on.

    where: the stream, `container/stream`, and the account. The option `createContainer` of the sink counts too.
    epoch: 0 or more; the writer has it as option `epoch`.

    Call it before the query is started. Spark then reads its first offset from the checkpoint when nobody else can
    commit any more: a batch that the writer before has committed is in the checkpoint too, and is not written again.
    What that writer has committed and not published is published; if that is not possible a warning says why, and the
    batch's own query, started with this epoch, writes it again. Idempotent. The container is created if it is absent.
    `FencedError` if the stream is at a higher epoch.
    """
    given = sink_options({**where.options, "path": where.where, "epoch": str(epoch)}, os.environ)
    stream = given.address.path
    if stream is None:
        text = (
            f"{where.where} names no stream. Epochs are of a stream: give `container/stream`, a stream for each task."
        )
        raise ConfigurationError(text)
    container = connect(given.account).container(given.address.container)
    ensure_container(container, create=given.create_container)
    commit.append_epoch(CommitLog(container, stream), new_draft(SYSTEM_CLOCK, epoch), Publisher(container))
