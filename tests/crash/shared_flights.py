"""A driver that shares the twelve months of the flights with others: one task, stream and checkpoint for each month.

    python -m tests.crash.shared_flights shared|standby INPUT CHECKPOINTS CONTAINER NAME

INPUT has a folder of Parquet files for each task; with `standby` there is one task, `ALL`, that the leader runs. The
connection string is AZURE_STORAGE_CONNECTION_STRING. Prints a line of JSON, with the time, when it starts or stops a
task, and when it begins or ends to lead.
"""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from azure_account.location import Location
from azureblob_source.epochs import open_epoch
from coordination import CoordinatorTiming, JobCoordinator, LeaderElector, LeaseTiming
from coordination.spark import LeaderQuery, TaskQueries
from tools.reporting import say, say_who_leads
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

JOB = "flights by month"
TASKS = [f"m{month:02}" for month in range(1, 13)]
ALL = "all"
"""The task of the driver that leads, where the others stand by."""
LEASE = LeaseTiming(duration=20, renew_every=4, poll_every=3, request=4, margin=4)
TIMING = CoordinatorTiming(heartbeat=2, death=20, margin=4, request=4, barrier=40)


class Queries(TaskQueries):
    """Says which tasks begin and stop, and whose writes were refused."""

    def __init__(self, start: Callable[[str, int], StreamingQuery]) -> None:
        super().__init__(self._start_task)
        self._of_program = start
        self._started: dict[str, StreamingQuery] = {}

    def _start_task(self, task: str, epoch: int) -> StreamingQuery:
        self._started[task] = self._of_program(task, epoch)
        return self._started[task]

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        say("begin", tasks=dict(tasks))
        super().on_new_job_model(tasks)

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        queries = {task: self._started[task] for task in tasks if task in self._started}
        super().on_job_model_expired(tasks)
        fenced = [task for task, query in queries.items() if "FencedError" in str(query.exception())]
        say("stop", tasks=dict(tasks), fenced=fenced)


def start(
    spark: SparkSession, folder: Path, checkpoints: Path, container: str, task: str, epoch: int
) -> StreamingQuery:
    """The query of one task."""
    open_epoch(Location(f"{container}/{task}"), epoch)
    files = folder / task
    schema = from_arrow_schema(pq.read_schema(next(files.glob("*.parquet"))))
    flights = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    return (
        flights.writeStream.format("azureblob")
        .option("partitionColumn", "origin")
        .option("epoch", epoch)
        .option("checkpointLocation", str(checkpoints / task))
        .trigger(processingTime="500 milliseconds")
        .start(f"{container}/{task}")
    )


class StandBy(LeaderQuery):
    """Says when the query begins and stops."""

    def on_elected(self, epoch: int) -> None:
        say("leads")
        say("begin", tasks={ALL: epoch})
        super().on_elected(epoch)

    def on_deposed(self, reason: str) -> None:
        super().on_deposed(reason)
        say("no longer leads", reason=reason)


def main(mode: str, folder: Path, checkpoints: Path, container: str, name: str) -> None:
    """Take part until it is killed."""
    logging.basicConfig(level=logging.WARNING)
    memory: dict[str, Any] = {"spark.driver.memory": "640m"}
    begin = partial(start, local_spark(name, cores=1, quick_start=True, **memory), folder, checkpoints, container)
    if mode == "standby":
        query = StandBy(partial(begin, ALL))
        query.run(LeaderElector(Location(f"{container}/leaders/flights"), name, query, LEASE))
        return
    queries = Queries(begin)
    coordinator = JobCoordinator(
        Location(f"{container}/{JOB}"), tasks=TASKS, listener=queries, processor=name, timing=TIMING, lease=LEASE
    )
    say_who_leads(coordinator)
    queries.run(coordinator)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5])
