"""A stream in memory whose blobs are compacted, and what readers find in it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.compaction import CompactionResult, CompactionRules, compact, plan_compaction
from azureblob_source.maintenance.checkpoints import last_published
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.read.following import Follower
from azureblob_source.read.options import source_options
from azureblob_source.read.source import ReadPlan, SnapshotReader, spark_schema
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import split_blobs
from foundation.clock import ManualClock
from tests.azureblob_source.write.sink_rows import ACCOUNT, NOON, committer, plan_of, stage_rows

if TYPE_CHECKING:
    from azure_account.memory.account import MemoryAccount

ROWS = pa.schema([("gate", pa.string()), ("n", pa.int64())])
BEFORE = datetime.now(UTC) + timedelta(days=365)


def write(account: MemoryAccount, batch: int, numbers: list[int], *, query: str = "q") -> None:
    """One batch, whose rows are divided over the gates a and b."""
    container = account.container("container")
    plan = plan_of(ROWS, partitionColumn="gate")
    rows = pa.record_batch([["ab"[n % 2] for n in numbers], numbers], schema=ROWS)
    staged = stage_rows(container, plan, [rows], seed=1000 + batch)
    committer(container, plan, 1000 + batch).commit([staged], Transaction(query, batch))


def compacted(account: MemoryAccount, **rules: Any) -> CompactionResult:
    """A compaction by a process of its own."""
    log = CommitLog(account.container("container"), "flights", readers=1)
    plan = plan_compaction(log, CompactionRules(BEFORE, **rules), last_published(log).version)
    return compact(
        log, plan, lambda: new_draft(ManualClock(NOON.timestamp()), None), Publisher(log.container, threads=1)
    )


def rows_read(account: MemoryAccount, **options: str) -> Counter[tuple[int, int]]:
    """Version and number of each row, as a batch read gives them."""
    raw = {"path": "container/flights", **ACCOUNT, "metadataColumns": "version", **options}
    plan = ReadPlan(source_options(raw, {}))
    plan.container = account.container("container")
    reader = SnapshotReader(plan, spark_schema(plan))
    found = (row for each in reader.partitions() for batch in reader.read(each) for row in batch.to_pylist())
    return Counter((row.get("_version", -1), row["n"]) for row in found)


def rows_followed(account: MemoryAccount, after: int, until: int) -> Counter[int]:
    """The numbers that a streaming read of these versions gives."""
    log = CommitLog(account.container("container"), "flights", readers=1)
    follower = Follower(log, 0)
    log.refresh()
    blobs = [blob for blob, _ in follower.blobs(after, until)]
    batches = read_splits(log.container, list(split_blobs(blobs)), SplitSettings())
    return Counter(n for _, batch in batches for n in batch["n"].to_pylist())


def newest(log: CommitLog) -> int:
    """The newest version."""
    head = log.refresh()
    assert head is not None
    return head.version
