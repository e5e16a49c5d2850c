"""The program that is killed while it enriches flights, by planes, airports and airlines in adjunct stores.

    python -m tests.crash.enrichment_job INPUT CHECKPOINT CONTAINER --output FOLDER --cache FOLDER

It goes on where the checkpoint says, and ends with 0 when the input is through. A batch, and each repetition of
it, makes `<batch>-<process id>.parquet` in the output, and a file `.json` with the version of the planes in its pin.
Each task that has read the stores leaves a file `<batch>.<task>.<attempt>.<executor's process id>` in `traces`. With
`--lose-executor BATCH` a task of that batch kills its executor, which must be a process of its own, after some rows.
Connection string: AZURE_STORAGE_CONNECTION_STRING.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from adjunct_store.spark import JoinColumns, JoinSettings, join
from adjunct_store.versions.manifest_store import read_manifest
from adjunct_store.versions.names import StoreNames
from azure_account import Location
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

TASKS = 4
PLANES, AIRPORTS, AIRLINES = "stores/planes", "stores/airports", "stores/airlines"
QUERY = "sql.streaming.queryId"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the query to the end of its input."""
    given = _parser().parse_args(arguments)
    conf = dict(setting.split("=", 1) for setting in given.conf)
    settings = {"spark.sql.shuffle.partitions": str(TASKS), "spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}
    spark = local_spark("enrichment", **{"spark.master": given.master, **settings, **conf})
    account = {"connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
    planes = Location(f"{given.container}/{PLANES}", account)
    schema = from_arrow_schema(pq.read_schema(next(given.input.glob("*.parquet"))))
    flights = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(given.input))
    enriched = enrich(flights, account, given.container, given.cache)
    traces = given.output / "traces"
    traces.mkdir(exist_ok=True)
    enriched = enriched.mapInArrow(partial(_traced, traces, frozenset(given.lose_executor)), enriched.schema)

    def write(rows: DataFrame, batch: int) -> None:
        table = rows.toArrow()
        name = f"{batch}-{os.getpid()}"
        pinned = _pinned(planes, spark.sparkContext.getLocalProperty(QUERY), batch)
        (given.output / f"{name}.json").write_text(json.dumps(pinned))
        pq.write_table(table, given.output / f".{name}")
        (given.output / f".{name}").rename(given.output / f"{name}.parquet")

    writer = enriched.writeStream.foreachBatch(write).option("checkpointLocation", str(given.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def enrich(flights: DataFrame, account: dict[str, str], container: str, cache: Path) -> DataFrame:
    """The flights with their planes (by a shuffle), both airports and the airline."""
    planes, airports, airlines = (Location(f"{container}/{name}", account) for name in (PLANES, AIRPORTS, AIRLINES))
    kept = JoinSettings(cache_dir=cache)
    found = join(
        flights.repartition(TASKS), airports, on={"faa": "origin"}, columns=JoinColumns(prefix="origin_"), settings=kept
    )
    found = join(found, airports, on={"faa": "dest"}, columns=JoinColumns(prefix="dest_"), settings=kept)
    in_memory = replace(kept, form="memory")
    found = join(found, airlines, on=["carrier"], columns=JoinColumns(prefix="airline_"), settings=in_memory)
    shuffled = replace(kept, shuffle=True)
    return join(found, planes, on=["tailnum"], columns=JoinColumns(prefix="plane_"), settings=shuffled)


def _pinned(store: Location, query: str | None, batch: int) -> dict[str, Any]:
    """The version that the batch has pinned: its number, generation, and the last batch of the fill in it."""
    assert query is not None
    container = store.open()
    pin = json.loads(container.get(StoreNames(store.path).pin(query, batch)).data)
    assert pin["confirmed"]
    manifest = read_manifest(container, store.path)
    version = None if manifest is None else manifest.version(pin["version"])
    assert manifest is not None
    assert version is not None, "a version that is pinned has left the manifest"
    assert manifest.newest is not None
    newest = manifest.newest.number
    return {"version": version.number, "generation": version.generation, "batch": version.batch, "newest": newest}


def _traced(traces: Path, losing: frozenset[int], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows. The first attempt of the first task of a batch that is to lose an executor kills it amidst them."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    batch = context.getLocalProperty("streaming.sql.batchId")
    assert batch is not None
    task, attempt = context.partitionId(), context.attemptNumber()
    executor = next((each for each in psutil.Process().parents() if each.name() == "java"), None)
    for number, rows in enumerate(batches):
        if number == 1 and int(batch) in losing and task == 0 and attempt == 0 and executor is not None:
            (traces / f"lost-{batch}.{executor.pid}").touch()
            daemons = itertools.takewhile(lambda each: each.pid != executor.pid, psutil.Process().parents())
            for each in [executor, *daemons]:
                each.kill()
            threading.Event().wait()
        yield rows
    pid = 0 if executor is None else executor.pid
    (traces / f"{batch}.{task}.{attempt}.{pid}").touch()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="enrichment_job")
    parser.add_argument("input", type=Path)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("container")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--lose-executor", type=int, action="append", default=[], help="number of a batch")
    parser.add_argument("--conf", action="append", default=[], help="Spark setting as KEY=VALUE")
    return parser


if __name__ == "__main__":
    main()
