"""A driver of the pipeline, which shares the tasks with others.

    python -m demo.pipeline.driver NAME PLACES

PLACES is JSON: `container`, the folders `arrivals` and `disk`, and `master` and `home` of the cluster's
Spark. The account is that of AZURE_STORAGE_CONNECTION_STRING. Prints a line of JSON, with the time, when it starts or
stops a task, when one is done, and when it begins or ends to lead. SIGTERM ends it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordination import CoordinatorTiming, JobCoordinator, LeaseTiming
from coordination.spark import TaskQueries
from demo.pipeline.places import TASKS, Places
from tools.reporting import say, say_who_leads
from tools.spark_session import ROCKSDB_STATE, java_options, local_spark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordination.spark import TaskQuery
    from demo.pipeline.tasks import Tasks

LEASE = LeaseTiming(duration=20, renew_every=4, poll_every=3, request=4, margin=4)
TIMING = CoordinatorTiming(heartbeat=2, death=20, margin=4, request=4, barrier=60)
"""Longer than the defaults: three drivers, their executors and the emulator share two cores."""
GRACE_SECONDS = 30.0
"""After SIGTERM the job is left in this time, whatever a query is at."""


class Queries(TaskQueries):
    """Says what happens to tasks: it begins, starts, stops, or is done."""

    def __init__(self, tasks: Tasks) -> None:
        super().__init__(self._start_task, prepare=tasks.prepare, finish=self._finish_task)
        self._of_program = tasks

    def _start_task(self, task: str, epoch: int) -> TaskQuery:
        query = self._of_program.start(task, epoch)
        say("started", task=task, epoch=epoch)
        return query

    def _finish_task(self, task: str, epoch: int) -> None:
        self._of_program.finish(task, epoch)
        say("done", task=task, epoch=epoch)

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        """As of `TaskQueries`."""
        say("begin", tasks=dict(tasks))
        super().on_new_job_model(tasks)

    def on_job_model_expired(self, tasks: Mapping[str, int]) -> None:
        """As of `TaskQueries`."""
        super().on_job_model_expired(tasks)
        say("stop", tasks=dict(tasks))


def main(name: str, given: str) -> None:
    """Take part until SIGTERM, or until it is killed."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = json.loads(given)
    os.environ["SPARK_HOME"] = settings["home"]
    account = {"connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
    folders = (Path(settings[each]) for each in ("arrivals", "disk"))
    places = Places(settings["container"], account, *folders)
    spark = local_spark(name, quick_start=True, **_conf(settings["master"]))
    from demo.pipeline.tasks import Tasks  # noqa: PLC0415 - its imports take a second of Spark's start

    queries = Queries(Tasks(spark, places))
    coordinator = JobCoordinator(places.job, tasks=TASKS, listener=queries, processor=name, timing=TIMING, lease=LEASE)
    signal.signal(signal.SIGTERM, lambda *_: queries.end(within=GRACE_SECONDS))
    say_who_leads(coordinator)
    say("joins")
    queries.run(coordinator)
    say("left")


def _conf(master: str) -> dict[str, Any]:
    return {
        "spark.driver.memory": "640m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stopTimeout": "20s",
        "spark.sql.streaming.minBatchesToRetain": "10",
        **ROCKSDB_STATE,
        "spark.master": master,
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": java_options(quick_start=True),
        "spark.executor.heartbeatInterval": "5s",
        "spark.network.timeout": "30s",  # an executor that is suspended for longer is lost
        "spark.network.timeoutInterval": "10s",
        "spark.speculation": "true",
        "spark.speculation.multiplier": "4",
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
