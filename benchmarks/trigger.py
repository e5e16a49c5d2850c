"""What a trigger of a streaming read costs, with a short and with a long log behind it.

Spark's own figures of one query: `latestOffset` (is there something new?) and `triggerExecution`, for triggers that
find nothing and for micro-batches of one small version, which a writer appends when the last one is through. And once:
a new query that has the whole log before it, in one batch.
"""

from __future__ import annotations

import itertools
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.write.batch import BatchCommitter
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from azureblob_source.write.staging import stage
from benchmarks.report import Report
from tools.azurite import running_azurite
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from azureblob_source.write.planning import WritePlan
    from tools.azurite import Azurite

LOGS = (1, 1_000)
TRIGGERS = 30
PATIENCE = 180.0


def run(rounds: int, copies: int) -> list[Report]:  # noqa: ARG001 - a version has one row
    """One table: a line for each length of the log."""
    with running_azurite() as azurite, tempfile.TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"spark.sql.streaming.noDataProgressEventInterval": "0"}
        spark = local_spark("benchmark of triggers", **settings)
        try:
            of_log = {f"{versions:,} versions": _figures(spark, azurite, versions, Path(folder)) for versions in LOGS}
        finally:
            spark.stop()
    lines: list[dict[str, str | float]] = [
        {"ms": name, **{log: figures[name] for log, figures in of_log.items()}} for name in next(iter(of_log.values()))
    ]
    return [Report("Triggers of a streaming read, by length of the log", lines, "Medians of 30 triggers")]


@dataclass(frozen=True)
class Writer:
    """Appends versions of one row."""

    plan: WritePlan
    committer: BatchCommitter
    numbers: Iterator[int]

    @staticmethod
    def to(azurite: Azurite, path: str) -> Writer:
        """A writer of this process."""
        options = sink_options({"path": path, "connectionString": azurite.connection_string}, {})
        container = connect(options.account).container(options.address.container)
        container.create()
        ids, log = itertools.count(), CommitLog(container, str(options.address.path))
        plan = plan_for_rows(options, pa.schema([("id", pa.int64())]))
        committer = BatchCommitter(plan.of_commit, container, lambda _: log, lambda: f"w{next(ids)}")
        return Writer(plan, committer, itertools.count())

    def append(self) -> None:
        """One version."""
        batch = pa.RecordBatch.from_pydict({"id": [next(self.numbers)]})
        committer = self.committer
        staged = stage(
            [batch],
            self.plan,
            committer.container,
            names=BlobIds(os.urandom, suffixed=True),
        )
        committer.commit([staged], None)


def _figures(spark: SparkSession, azurite: Azurite, versions: int, folder: Path) -> dict[str, float]:
    path = f"trigger/log-{versions}"
    writer = Writer.to(azurite, path)
    for _ in range(versions):
        writer.append()
    begin = time.perf_counter()
    _query(spark, azurite, path, folder / f"all-{versions}", "earliest", live=False).awaitTermination()
    at_once = 1e3 * (time.perf_counter() - begin)
    query = _query(spark, azurite, path, folder / str(versions), "latest", live=True)
    try:
        idle = _progress(query, rows=0)
        batches = []
        for _ in range(TRIGGERS):
            writer.append()
            batches += _progress(query, rows=1, count=1)
    finally:
        query.stop()
    warm = batches[5:]
    return {
        "nothing new: latestOffset": statistics.median(each["latestOffset"] for each in idle),
        "nothing new: whole trigger": statistics.median(each["triggerExecution"] for each in idle),
        "one new version: latestOffset": statistics.median(each["latestOffset"] for each in warm),
        "one new version: addBatch": statistics.median(each["addBatch"] for each in warm),
        "one new version: whole trigger": statistics.median(each["triggerExecution"] for each in warm),
        "new query, all versions in one batch": at_once,
    }


def _query(
    spark: SparkSession, azurite: Azurite, path: str, checkpoint: Path, start: str, *, live: bool
) -> StreamingQuery:
    reader = spark.readStream.format("azureblob").option("connectionString", azurite.connection_string)
    rows = reader.option("startingVersion", start).option("maxBlobsPerTrigger", 10**6).load(path)
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(processingTime="100 milliseconds") if live else writer.trigger(availableNow=True)
    return writer.start()


def _progress(query: StreamingQuery, rows: int, count: int = TRIGGERS) -> list[dict[str, int]]:
    """Durations of the next `count` triggers that had so many rows."""
    deadline = time.monotonic() + PATIENCE
    known = {each.timestamp for each in query.recentProgress}
    while True:
        failure = query.exception()
        if failure is not None:
            raise failure
        found = [each for each in query.recentProgress if each.timestamp not in known and each.numInputRows == rows]
        if len(found) >= count:
            return [dict(each.durationMs) for each in found[:count]]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(found)} of {count} triggers in {PATIENCE:.0f} s")
        time.sleep(0.05)
