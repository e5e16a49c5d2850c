"""Appends versions to a stream without Spark: task and driver run in this process."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from azureblob_source.write.staging import stage
from tests.azureblob_source.write.sink_rows import put_anyway

if TYPE_CHECKING:
    import pyarrow as pa


def append_version(
    options: dict[str, str], target: str, rows: pa.RecordBatch, mode: str = "append", **more: Any
) -> None:
    """Write one version of the stream `target`: one blob, or one for each partition."""
    given = sink_options({"path": target, **options, **more}, {})
    container = connect(given.account).container(given.address.container)
    container.create()
    plan = plan_for_rows(given, rows.schema)
    names = BlobIds(os.urandom, suffixed=True)
    staged = stage([rows], plan, container, names=names)
    committer = BatchCommitter(
        plan.of_commit, container, lambda stream: CommitLog(container, stream), lambda: uuid.uuid4().hex
    )
    committer.commit([staged], None, overwrite=mode == "overwrite")


def append_anyway(options: dict[str, str], target: str, rows: pa.RecordBatch) -> None:
    """Write one version of the stream, which no writer of ours would: it makes the stream unreadable."""
    given = sink_options({"path": target, **options}, {})
    put_anyway(connect(given.account).container(given.address.container), plan_for_rows(given, rows.schema), rows)
