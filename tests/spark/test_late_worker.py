"""A busy machine does not start a Python process within Spark's ten seconds: the test that meets this is run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import LATE_WORKER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

runs: list[int] = []


def test_a_test_that_meets_the_limit_of_spark_for_the_start_of_a_worker_is_run_again(spark: SparkSession) -> None:
    runs.append(spark.range(3).count())
    if len(runs) == 1:
        raise RuntimeError(f"An error occurred while calling o1.start: {LATE_WORKER}.")
    assert [3, 3] == runs
