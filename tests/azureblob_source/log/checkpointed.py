"""Streams with checkpoints of their logs, for tests: written batch by batch, and read with and without these."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from azureblob_source.log.checkpoint.tail import added_by
from azureblob_source.log.checkpointing import checkpoint_in_commit
from azureblob_source.log.commit import commit_and_publish
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import BlobEntry, Draft, LogEntry, Transaction
from azureblob_source.log.live_state import blobs_live_at, by_entries
from azureblob_source.log.naming import schema_name
from azureblob_source.log.publishing.publish import Publisher
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount
    from azureblob_source.log.entry import Operation

STREAM = "flights"
DAY = 24 * 3600.0
EVERY = 4
"""Versions from one checkpoint to the next."""
_SCHEMA = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long"}]}


def log_of(account: MemoryAccount, container: BlobContainer | None = None) -> CommitLog:
    """The log as a new process knows it."""
    return CommitLog(container or account.container("container"), STREAM, readers=1, clock=account.clock)


def draft_of(container: BlobContainer, batch: int, *, overwrite: bool = False) -> Draft:
    """A batch of one blob, which is staged."""
    blob = BlobEntry(
        f"{STREAM}/{batch:03d}.avro",
        STREAM,
        None,
        f"{batch:016x}",
        1,
        1,
        1,
        1,
        "f",
        "end",
        bounds={"n": (batch, batch)},
    )
    container.stage_block(blob.name, blob.block_ids[0], b"x")
    operation: Operation = "overwrite" if overwrite else "append"
    return Draft(
        f"w{batch}", "2026-01-01T00:00:00+00:00", operation, blobs=(blob,), transaction=Transaction("q", batch)
    )


def write(account: MemoryAccount, container: BlobContainer, batch: int, *, overwrite: bool = False) -> None:
    """One published batch, by a process of its own."""
    log = log_of(account, container)
    draft = draft_of(container, batch, overwrite=overwrite)
    entry = commit_and_publish(log, draft, Publisher(container, threads=1))
    if isinstance(entry, LogEntry) and (entry.version + 1) % EVERY == 0:
        checkpoint_in_commit(log, entry)


def stream_of_days(days: int, overwrites: Iterable[int] = ()) -> MemoryAccount:
    """A stream with one version a day."""
    account = new_account()
    account.container("container").put(schema_name(STREAM, "f"), json.dumps(_SCHEMA).encode())
    for batch in range(days):
        write(account, account.container("container"), batch, overwrite=batch in overwrites)
        account.clock.sleep(DAY)
    return account


def names_with_checkpoints(log: CommitLog, version: int) -> list[str]:
    """The live blobs at a version, as a read finds them."""
    return sorted(blob.name for blob in blobs_live_at(log, version))


def names_by_entries(log: CommitLog, version: int) -> list[str]:
    """The same by the entries alone."""
    return sorted(blob.name for _, blob in added_by(by_entries(log, version).entries))
