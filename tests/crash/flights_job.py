"""The program that is killed: a streaming query that copies a folder of parquet files into the format `azureblob`.

    python -m tests.crash.flights_job INPUT CHECKPOINT PATH        connection string: AZURE_STORAGE_CONNECTION_STRING

It goes on where the checkpoint says, and ends with 0 when the input is through. With `--failures FOLDER` its tasks
fail up to twice, after all of their rows, and leave a file in FOLDER for every failure; with `--lost-executors` they
kill the executor instead, once in each batch, which needs executors that are processes of their own.
"""

from __future__ import annotations

import argparse
import os
import random
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow.parquet as pq
from azure.storage.blob import ContainerClient
from pyspark.sql.pandas.types import from_arrow_schema

from state_backup import Location
from state_backup.spark import restore_checkpoint
from tests.crash.visible_blobs import blob_names
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"
STAGING_SECONDS = 30.0
OF_ANOTHER_TASK = 3
"""Blobs that the other task of a batch may have staged: one for each origin."""


class ChosenFailure(Exception):  # noqa: N818 - not an error of the program
    """Raised by a task that was chosen to fail."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query to the end of its input."""
    given = _parser().parse_args(arguments)
    conf = dict(setting.split("=", 1) for setting in given.conf)
    spark = local_spark("flights", **{"spark.master": given.master, **conf})
    flights = _files(spark, given.input, given.files_per_batch)
    connection_string = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    if given.failures is not None:
        flights = flights.mapInArrow(partial(_fail_after_rows, given.failures), flights.schema)
    if given.lost_executors is not None:
        lose = partial(_lose_executor_after_rows, given.lost_executors, given.path, connection_string)
        flights = flights.mapInArrow(lose, flights.schema)
    writer = flights.writeStream.format("azureblob").option("partitionColumn", "origin")
    if given.backup is not None:
        found = restore_checkpoint(Location(given.backup), given.checkpoint)
        print(f"restored {found.batch if found.restored else None}", flush=True)  # noqa: T201 - a program
        writer = writer.option("checkpointBackup", given.backup)
    for option in given.option:
        writer = writer.option(*option.split("=", 1))
    query = (
        writer.option("connectionString", connection_string)
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
    parser.add_argument("--lost-executors", type=Path, help="folder for traces of the executors that it then kills")
    parser.add_argument("--backup", help="container/state that has the checkpoint, which is restored first")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    parser.add_argument("--option", action="append", default=[], help="option of the sink as KEY=VALUE")
    return parser


def _files(spark: SparkSession, folder: Path, files_per_batch: int) -> DataFrame:
    first = next(folder.glob("*.parquet"))
    schema = from_arrow_schema(pq.read_schema(first))
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch).parquet(str(folder))


def _fail_after_rows(traces: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield all rows; then fail in no attempt, the first one or the first two, which depends on the task."""
    task, attempt = _task()
    yield from batches
    if attempt < random.Random(task).randrange(3):
        (traces / f"{task}-{attempt}").touch()
        raise ChosenFailure(task)


def _lose_executor_after_rows(
    traces: Path, path: str, connection_string: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield all rows; then the first attempt of a batch's first task kills its executor, once some are staged."""
    task, attempt = _task()
    chosen = task.endswith("-0") and attempt == 0
    before = _staged_blobs(path, connection_string) if chosen else 0
    yield from batches
    if chosen:
        deadline = time.monotonic() + STAGING_SECONDS
        while _staged_blobs(path, connection_string) <= before + OF_ANOTHER_TASK and time.monotonic() < deadline:
            time.sleep(0.2)
        (traces / f"{task}-{attempt}").touch()
        next(process for process in psutil.Process().parents() if process.name() == "java").kill()
        threading.Event().wait()


def _staged_blobs(path: str, connection_string: str) -> int:
    """How many blobs of the stream have staged blocks only."""
    container, stream = path.split("/", 1)
    with ContainerClient.from_connection_string(connection_string, container) as client:
        _, staged = blob_names(client, stream)
    return len(staged)


def _task() -> tuple[str, int]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return f"{context.getLocalProperty('streaming.sql.batchId')}-{context.partitionId()}", context.attemptNumber()


if __name__ == "__main__":
    main()
