"""Micro-batches of 1,000 rows that are joined with a store, beside the same rows in a function that does nothing."""

from __future__ import annotations

import itertools
import statistics
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from benchmarks import micro_batches
from benchmarks.adjunct_tables import KEY
from benchmarks.report import Report
from benchmarks.rounds import alternate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from benchmarks.adjunct_tables import Tables

ROWS = 1_000
IDLE = "Python, doing nothing"


def run(tables: Tables, rounds: int) -> Report:
    """A line for each way to join."""
    micro_batches.prepare(tables.spark)
    number = F.pmod(F.xxhash64("value"), F.lit(tables.keys)).alias(KEY)
    rows = micro_batches.source(tables.spark, ROWS).select(number, F.col("value").alias("flight"))
    joins: Mapping[str, Callable[[DataFrame], DataFrame]] = {
        "no Python": lambda given: given,
        IDLE: lambda given: given.mapInArrow(_same, given.schema),
        "store": lambda given: tables.joined_by_store(given, cache="micro"),
        "Spark, static table in memory": lambda given: given.join(F.broadcast(tables.parquet().cache()), KEY, "left"),
    }
    folders = itertools.count()

    def batches(path: str) -> list[int]:
        writer = joins[path](rows).writeStream.format("noop")
        checkpoint = tables.folder / f"micro-{next(folders)}"
        return micro_batches.measured(writer.option("checkpointLocation", str(checkpoint)), ROWS)

    taken = alternate("micro-batches", {path: partial(batches, path) for path in joins}, rounds)
    medians = {name: statistics.median(itertools.chain.from_iterable(each)) for name, each in taken.items()}
    lines: list[dict[str, str | float]] = [
        {"path": name, "median": median, "x idle": median / medians[IDLE]} for name, median in medians.items()
    ]
    title = f"addBatch of micro-batches of {ROWS:,} rows, joined by {tables.keys:,} keys"
    return Report(title, lines, "Milliseconds; each batch pins a version")


def _same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
