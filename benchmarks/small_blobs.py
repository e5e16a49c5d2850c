"""Streams of many blobs of ten rows, written without Spark, and their compaction as the command does it."""

from __future__ import annotations

import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account import BlobAttributes, open_account
from azure_account.memory.account import MemoryAccount
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.compaction import (
    CompactionPlan,
    CompactionResult,
    CompactionRules,
    compact,
    plan_compaction,
)
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.staging import stage
from benchmarks.writer import plan_of
from foundation.clock import SYSTEM_CLOCK, utc
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from azure_account import BlobContainer
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.log.publishing.publish import Unpublishable
    from tools.azurite import Azurite

CONTAINER, STREAM = "compaction", "flights"
ROWS = 10
"""Of each small blob."""
BATCH = 50
"""Blobs of a batch."""
THREADS = 16


def rows_of(blobs: int) -> pa.Table:
    """The rows that so many small blobs have."""
    return flights().slice(0, ROWS * blobs)


def stream_in_memory(blobs: int, codec: str, *, small: bool) -> BlobContainer:
    """The rows of so many small blobs, as these, in batches of `BATCH`, or as one blob.

    Written here and copied they are in an emulator in a third of the time.
    """
    rows = rows_of(blobs)
    options = {"path": f"{CONTAINER}/{STREAM}", "codec": codec, **({"maxMessagesPerBlob": str(ROWS)} if small else {})}
    plan = plan_of("UseDevelopmentStorage=true", options, rows.schema)
    container = MemoryAccount(clock=SYSTEM_CLOCK).container(CONTAINER)
    container.create()
    ids, log = itertools.count(), CommitLog(container, STREAM)
    committer = BatchCommitter(plan.of_commit, container, lambda _: log, lambda: f"w{next(ids)}")
    step = ROWS * BATCH if small else rows.num_rows
    for at in range(0, rows.num_rows, step):
        batches = rows.slice(at, step).combine_chunks().to_batches()
        names = BlobIds(os.urandom, suffixed=True)
        committer.commit([stage(batches, plan, container, names=names)], None)
    return container


def copy_stream(source: BlobContainer, azurite: Azurite, container: str) -> None:
    """Copy the stream to a container of the emulator."""
    target = container_of(azurite, container)
    target.create()

    def copy(name: str) -> None:
        content = source.get(name)
        target.put(name, content.data, BlobAttributes(content.properties.metadata))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(copy, [blob.name for blob in source.list(f"{STREAM}/")]))


def container_of(azurite: Azurite, name: str = CONTAINER) -> BlobContainer:
    """A container of the emulator."""
    return open_account({"connectionString": azurite.connection_string}).container(name)


@dataclass(frozen=True)
class TimedPublisher(Publisher):
    """Notes how long rows of an entry are there twice.

    windows: of each entry that moves rows, how many blobs it replaces, and seconds from before its blob is visible
    until they are gone.
    """

    windows: list[tuple[int, float]] = field(default_factory=list)

    def publish(self, entry: LogEntry, stream: str) -> list[Unpublishable]:
        """Publish an entry."""
        begun = time.perf_counter()
        failed = super().publish(entry, stream)
        if entry.operation == "compact":
            self.windows.append((len(entry.removed), time.perf_counter() - begun))
        return failed


@dataclass(frozen=True)
class Compaction:
    """What a compaction has done, until nothing was left. windows: as of its publisher."""

    seconds: float
    windows: Sequence[tuple[int, float]]
    results: Sequence[CompactionResult]

    @property
    def steps(self) -> str:
        """How many blobs there were after each run."""
        return " → ".join(f"{each.made:,}" for each in self.results)


def compacted(container: BlobContainer) -> Compaction:
    """Run the command's steps until no group is left."""
    log, publisher = CommitLog(container, STREAM), TimedPublisher(container)
    begun, results = time.perf_counter(), []
    while (plan := _plan(log)).groups:
        results.append(compact(log, plan, lambda: new_draft(SYSTEM_CLOCK, None), publisher))
        checkpoints.make(log)
    return Compaction(time.perf_counter() - begun, publisher.windows, results)


def _plan(log: CommitLog) -> CompactionPlan:
    return plan_compaction(log, CompactionRules(utc(SYSTEM_CLOCK)), checkpoints.last_published(log).version)
