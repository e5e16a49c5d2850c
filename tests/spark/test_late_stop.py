"""A query that Spark does not stop within `stopTimeout`: what Spark raises then, and what becomes of the query."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from coordination.metrics import ProcessorMetrics
from coordination.spark import TaskQueries
from tools.reporting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Membership:
    metrics = ProcessorMetrics("job", "one")

    def start(self) -> None:
        """Nobody else takes part."""

    def stop(self) -> None:
        """Nobody else takes part."""


@pytest.fixture
def stop_timeout(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.streaming.stopTimeout", "200ms")
    yield
    spark.conf.unset("spark.sql.streaming.stopTimeout")


@pytest.mark.every_spark
@pytest.mark.usefixtures("stop_timeout")
def test_a_query_that_is_busy_when_it_is_to_stop_is_stopped_when_it_can_be(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    busy, may_end, started = threading.Event(), threading.Event(), list[Any]()

    def start(task: str, epoch: int) -> StreamingQuery:
        def write(_rows: object, _batch: int) -> None:
            busy.set()
            may_end.wait(60)

        rows = spark.readStream.format("rate").load().writeStream.foreachBatch(write)
        started.append(rows.option("checkpointLocation", str(tmp_path / f"{task}-{epoch}")).start())
        return cast("StreamingQuery", started[-1])

    queries = TaskQueries(start)
    runs = threading.Thread(target=queries.run, args=(cast("Any", Membership()),))
    runs.start()
    queries.on_new_job_model({"a": 1})
    busy.wait(60)
    expired = threading.Thread(target=queries.on_job_model_expired, args=({"a": 1},))
    expired.start()
    wait_for(lambda: caplog.text.count("it is stopped again") >= 2, 60, poll=0.01)
    may_end.set()
    expired.join(60)
    queries.end()
    runs.join(60)

    assert not expired.is_alive()
    assert not runs.is_alive()
    assert [False] == [query.isActive for query in started]
    assert {} == queries.failing
