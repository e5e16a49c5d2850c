"""The program that is killed: a streaming query that copies a folder of parquet files into the format `azureblob`.

    python -m tests.crash.flights_job INPUT CHECKPOINT PATH        connection string: AZURE_STORAGE_CONNECTION_STRING

It goes on where the checkpoint says, and ends with 0 when the input is through. With `--failures FOLDER` its tasks
fail up to twice, behind all of their rows, and leave a file in FOLDER for every failure.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"


class ChosenFailure(Exception):  # noqa: N818 - not an error of the program
    """What a task raises that was chosen to fail."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query until the input is through."""
    given = _parser().parse_args(arguments)
    conf = dict(setting.split("=", 1) for setting in given.conf)
    spark = local_spark("flights", **{"spark.master": given.master, **conf})
    flights = _files(spark, given.input, given.files_per_batch)
    if given.failures is not None:
        flights = flights.mapInArrow(partial(_fail_behind_rows, given.failures), flights.schema)
    if given.straggle is not None:
        flights = flights.mapInArrow(partial(_straggle_behind_rows, given.straggle), flights.schema)
    writer = flights.writeStream.format("azureblob").option("partitionColumn", "origin")
    for option in given.option:
        writer = writer.option(*option.split("=", 1))
    query = (
        writer.option("connectionString", os.environ["AZURE_STORAGE_CONNECTION_STRING"])
        .option("checkpointLocation", str(given.checkpoint))
        .trigger(availableNow=True)
        .start(given.path)
    )
    query.awaitTermination()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flights_job")
    parser.add_argument("input", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("path", help="container/stream")
    parser.add_argument("--files-per-batch", type=int, default=2)
    parser.add_argument("--master", default=MASTER)
    parser.add_argument("--failures", type=Path, help="folder for traces of the failures that it then makes")
    parser.add_argument("--straggle", type=Path, help="folder for traces of the first attempts that it then holds up")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    parser.add_argument("--option", action="append", default=[], help="option of the sink as KEY=VALUE")
    return parser


def _files(spark: SparkSession, folder: Path, files_per_batch: int) -> DataFrame:
    first = next(folder.glob("*.parquet"))
    schema = from_arrow_schema(pq.read_schema(first))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch).parquet(str(folder))


def _fail_behind_rows(traces: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass all rows on; then fail in none, the first or the first two attempts, as the task's name decides."""
    task, attempt = _task()
    yield from batches
    if attempt < random.Random(task).randrange(3):
        (traces / f"{task}-{attempt}").touch()
        raise ChosenFailure(task)


def _straggle_behind_rows(traces: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass all rows on; then hold the first attempt of the first task until another one has got as far."""
    task, attempt = _task()
    yield from batches
    if not task.endswith("-0"):
        return
    (traces / f"{task}-{attempt}").touch()
    end = time.monotonic() + 120
    while attempt == 0 and time.monotonic() < end and not (traces / f"{task}-1").exists():
        time.sleep(0.02)


def _task() -> tuple[str, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return f"{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}", context.attemptNumber()


if __name__ == "__main__":
    main()
