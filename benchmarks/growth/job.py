"""The program on Spark 4.0: reads orders, a line of JSON each, from standard input, and answers each by a line.

An order names a contender, whether it writes, reads or counts, a point and a place. The answer has the seconds, and in
the first round memory too, or the rows. It ends with its input.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import hadoop_azure
from benchmarks.growth.contenders import Place, read, rows_of, write
from benchmarks.growth.points import Axis, Contender, Point
from benchmarks.process_tree import measured_memory
from benchmarks.rounds import seconds
from tools.azurite import azurite_of
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # How many files a checkpoint of a table is read by: 50 tasks by default, which is for clusters.
    "spark.databricks.delta.snapshotPartitions": "2",
}


@dataclass(frozen=True)
class Order:
    """What is to be done. act: `write`, `read` or `count`. memory: it is measured too."""

    contender: Contender
    act: str
    point: Point
    place: Place
    memory: bool

    @staticmethod
    def from_json(line: str) -> Order:
        """The order of one line."""
        given = json.loads(line)
        point = Point(**{**given["point"], "axis": Axis(given["point"]["axis"])})
        place = Place(**{**given["place"], "azurite": azurite_of(given["place"]["azurite"])})
        return Order(Contender(given["contender"]), given["act"], point, place, given["memory"])


def main(jars: str, cores: str) -> None:
    """Answer orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what Spark prints is no answer
    settings: dict[str, Any] = {"spark.jars": jars, "spark.driver.memory": "1g", **DELTA}
    spark = local_spark("growth", cores=int(cores), **settings)
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        order = Order.from_json(line)
        answer: dict[str, float | str]
        try:
            answer = {**_done(spark, order)}
        except Exception as error:  # noqa: BLE001 - who has ordered it decides
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        answers.write(json.dumps(answer) + "\n")
    os._exit(0)  # who has started this ends Java too: hadoop-azure would wait for its metrics


def _done(spark: SparkSession, order: Order) -> dict[str, float]:
    hadoop_azure.connect(spark, order.place.azurite)
    if order.act == "count":
        return {"rows": read(order.contender, spark, order.place).count()}
    if not order.memory:
        return {"s": _seconds(spark, order)}
    with measured_memory(spark) as memory:
        taken = _seconds(spark, order)
    return {"s": taken, "heap": memory.heap, "worker": memory.worker}


def _seconds(spark: SparkSession, order: Order) -> float:
    if order.act == "write":
        rows = rows_of(spark, order.point)
        return seconds(lambda: write(order.contender, rows, order.point, order.place))
    return seconds(lambda: read(order.contender, spark, order.place).write.format("noop").mode("overwrite").save())


if __name__ == "__main__":
    main(*sys.argv[1:])
