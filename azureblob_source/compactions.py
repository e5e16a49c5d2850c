"""Make few large blobs of many small ones, in this process or by tasks of Spark; rows keep their versions."""

from __future__ import annotations

import pickle
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from azure_account.location import Location
from azureblob_source.address import stream_of
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.log.relocating.compaction import (
    CompactionResult,
    CompactionRules,
    Staged,
    Staging,
    compact,
    plan_compaction,
    staged_here,
)
from azureblob_source.maintenance import checkpoints
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.iceberg import try_to_refresh_table
from foundation.arguments import Natural, Wait, checked
from foundation.clock import SYSTEM_CLOCK, utc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
else:
    SparkSession = object  # any session, of Spark Connect too; the module is imported without Spark


@checked
def compact_stream(
    where: Location,
    *,
    older_than: Wait = 0.0,
    most_bytes: Natural | None = None,
    spark: SparkSession | None = None,
) -> CompactionResult:
    """Compact a stream until nothing is left to join; returns what was done.

    where: the stream, `container/stream`, and the account. older_than: seconds; only what was committed so long ago.
    most_bytes: about so much is read, and the rest is left to the next call; None for no limit.
    spark: whose tasks read and stage the blobs, one for each new blob, while the log is changed from here; None reads
    them in this process.

    Call it while others write and read. `NotFoundError` if the stream has no log.
    """
    stream = stream_of(where.path, where)
    log = CommitLog(where.open(), stream)
    rules = CompactionRules(utc(SYSTEM_CLOCK) - timedelta(seconds=older_than), most_bytes=most_bytes)
    stage = None if spark is None else partial(_staged_by_tasks, spark, where)
    publisher, done = Publisher(log.container), CompactionResult()
    draft = partial(new_draft, SYSTEM_CLOCK, None)
    try:
        while True:
            plan = plan_compaction(log, rules, checkpoints.last_published(log).version)
            made = compact(log, plan, draft, publisher, stage=stage)
            done = done.plus(made)
            if not made.made or most_bytes is not None:
                break
        if done.made:
            checkpoints.make(log)
    finally:
        try_to_refresh_table(log, draft())
    return done


def _staged_by_tasks(spark: SparkSession, where: Location, groups: Sequence[Staging]) -> Iterator[Staged]:
    """Stage groups by tasks of Spark, one for each."""
    if not groups:
        return
    frame = spark.range(0, len(groups), 1, len(groups)).mapInArrow(partial(_stage, where, groups), "staged binary")
    for row in frame.toLocalIterator(prefetchPartitions=True):
        yield pickle.loads(row.staged)  # noqa: S301 - of our own task


def _stage(where: Location, groups: Sequence[Staging], places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task: stage the groups whose places it is given."""
    import pyarrow as pa  # noqa: PLC0415 - in the task

    for batch in places:
        chosen = [groups[place] for place in batch["id"].to_pylist()]
        found = [pickle.dumps(each) for each in staged_here(CommitLog(where.open(), chosen[0].stream), chosen)]
        yield pa.record_batch({"staged": pa.array(found, pa.binary())})
