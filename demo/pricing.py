"""A streaming query that adds prices to orders from an adjunct store, and can be killed at any time and started again.

    AZURE_STORAGE_CONNECTION_STRING=... python -m demo.pricing ORDERS CHECKPOINT TARGET STORE LOOK_UPS

It reads the files of the folder ORDERS, one in each micro-batch, looks the articles up in STORE (`container/name`), and
writes to the stream TARGET (`container/name`), until it is killed. Each task writes a line of JSON to the file LOOK_UPS
when it has looked its articles up: micro-batch, task, the highest revision that it has found, and when, in seconds of
the machine's monotonic clock. Then it works on the rows for some time. Several processes may write to the file.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext

from adjunct_store.spark import JoinSettings, join
from azure_account import Location
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

TASKS = 6
WORK_SECONDS = 0.7
"""For which each task works on its rows, so that the store changes between two tasks of a micro-batch."""


def main() -> None:
    """Run the query until the process is killed."""
    given = _parser().parse_args()
    connection = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    options = {"connectionSecret": connection}
    prices = Location(given.store, options)
    spark = local_spark("pricing")
    reader = spark.readStream.schema("order long, article long").option("maxFilesPerTrigger", 1)
    orders = reader.parquet(str(given.orders)).repartition(TASKS)
    priced = join(orders, prices, on=["article"], settings=JoinSettings(cache_dir=given.checkpoint.parent / "cache"))
    worked_on = priced.mapInArrow(partial(_work, given.look_ups), priced.schema)
    writer = worked_on.writeStream.format("azureblob").options(**options)
    writer.option("checkpointLocation", str(given.checkpoint)).start(given.target).awaitTermination()


def _work(look_ups: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows, after some time. The look-up goes before: it makes the first of them."""
    rows = list(batches)
    at, context = time.monotonic(), TaskContext.get()
    batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if context is None or batch is None:
        raise RuntimeError("This function is of the tasks of a streaming query.")
    found = [value for part in rows for value in part["revision"].to_pylist() if value is not None]
    line = {"at": at, "batch": int(batch), "task": context.partitionId(), "revision": max(found)}
    with look_ups.open("a") as file:
        file.write(json.dumps(line) + "\n")
    time.sleep(WORK_SECONDS)
    yield from rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A query that adds prices to orders, from a store that changes.")
    parser.add_argument("orders", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("target")
    parser.add_argument("store")
    parser.add_argument("look_ups", type=Path)
    return parser


if __name__ == "__main__":
    main()
