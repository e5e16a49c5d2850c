"""Enrichment by an adjunct store, beside Spark's joins with a table that changes with every batch.

A batch changes one key in a hundred; then rows are enriched into Spark's `noop`. Ours pays for the fill up to its
publication; Spark's joins pay for a rewrite of the Parquet table, and read it anew in every batch.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from adjunct_store.spark import release_pins
from benchmarks import adjunct_batches, adjunct_lookups, adjunct_micro, hadoop_azure
from benchmarks.adjunct_tables import KEY, Tables, checksum
from benchmarks.process_tree import Memory, measured_memory
from benchmarks.report import Report
from benchmarks.rounds import seconds
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

Join: TypeAlias = "Callable[[DataFrame], DataFrame]"
KEYS, ROWS = 10_000_000, 5_000_000
SMALL = 10
"""The small store, which each worker has in memory, has this many times fewer keys."""
OURS = "store"
SAMPLE = 100_000
PARTITIONS = 4
MOST_ROUNDS = 3
_SESSION = {
    "spark.driver.memory": "8g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.adaptive.enabled": "true",
}


def run(rounds: int, copies: int, keys: int = KEYS, rows: int = ROWS) -> list[Report]:  # noqa: ARG001 - no flights
    """Tables of enrichment for a small and a large table, of what a host fetches, of look-ups, and of small batches."""
    with (
        tempfile.TemporaryDirectory(prefix="adjunct-") as folder,
        running_azurite() as azurite,
        hadoop_azure.session("benchmark of adjunct stores", **_SESSION) as spark,
    ):
        hadoop_azure.connect(spark, azurite)
        reports = []
        for many in (keys // SMALL, keys):
            tables = Tables(spark, azurite, Path(folder) / str(many), many, PARTITIONS)
            tables.store.open().create()
            reports.append(_enrichment(tables, rows, min(rounds, MOST_ROUNDS), small=many != keys))
            about = adjunct_lookups.visibility(tables) if many == keys else adjunct_micro.run(tables, rounds)
            reports.append(about)
        release_pins()
    few = min(keys, adjunct_lookups.MOST_KEYS)
    return [*reports, *adjunct_lookups.run(few), adjunct_batches.run(few)]


@dataclass
class _Taken:
    """Figures of a contender: seconds of each round, and memory at most."""

    upkeep: list[float] = field(default_factory=list)
    enrichment: list[float] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)

    def line(self, name: str, peer: _Taken | None) -> dict[str, str | float]:
        upkeep, enrichment = statistics.median(self.upkeep), statistics.median(self.enrichment)
        whole = 0.0 if peer is None else statistics.median(peer.upkeep) + statistics.median(peer.enrichment)
        return {
            "path": name,
            "upkeep, s": upkeep,
            "enrichment, s": enrichment,
            "both, s": upkeep + enrichment,
            "x": (upkeep + enrichment) / (whole or upkeep + enrichment),
            "Java heap, MiB": self.memory.heap,
            "workers, MiB": "none" if name.startswith("Spark") else self.memory.workers,
        }


def _contenders(tables: Tables, *, small: bool) -> dict[str, Join]:
    ours: dict[str, Join] = {
        OURS: partial(tables.joined_by_store, cache="whole"),
    }
    if small:
        ours["store, rocksdb"] = partial(tables.joined_by_store, cache="rocksdb", form="rocksdb")
    return ours | {
        "Spark, broadcast": lambda rows: rows.join(F.broadcast(tables.parquet()), KEY, "left"),
        "Spark, sort-merge": lambda rows: rows.join(tables.parquet().hint("merge"), KEY, "left"),
    }


def _enrichment(tables: Tables, rows: int, rounds: int, *, small: bool) -> Report:
    contenders = _contenders(tables, small=small)
    first = _first_fill(tables)
    taken = {name: _Taken() for name in [*contenders, STREAM]}
    if small:
        _check(tables, contenders)
    for turn in range(rounds + 1):
        warm_up = turn == 0
        tables.batch += 1
        upkeep = {"store": seconds(tables.fill_store), "Spark": seconds(tables.rewrite_parquet)}
        print(f"{tables.keys:,} keys, round {turn}, upkeep: {upkeep}", file=sys.stderr)
        acts = {name: partial(_to_noop, tables.rows(rows), each) for name, each in contenders.items()}
        acts[STREAM] = partial(_stream, tables, rows)
        for name, act in _turned(acts, turn):
            with measured_memory(tables.spark) as memory:
                spent = seconds(act)
            print(f"{tables.keys:,} keys, round {turn}, {name}: {spent:.1f} s", file=sys.stderr)
            if not warm_up:
                taken[name].upkeep.append(upkeep[name.split(",")[0]])
                taken[name].enrichment.append(spent)
                taken[name].memory = _worse(taken[name].memory, memory)
    peer = taken[OURS]
    title = f"Enrichment of a batch of {rows:,} rows by {tables.keys:,} keys, of which 1 % change in each batch"
    note = (
        f"Medians of {rounds}; `x`: both times, to `store`. First fill {first[0]:.1f} s, its largest worker "
        f"{first[1].worker:,.0f} MiB; first Parquet {first[2]:.1f} s"
    )
    return Report(title, [each.line(name, peer) for name, each in taken.items()], note)


STREAM = "Spark, stream-static"


def _first_fill(tables: Tables) -> tuple[float, Memory, float]:
    with measured_memory(tables.spark) as memory:
        filled = seconds(tables.fill_store)
    return filled, memory, seconds(tables.rewrite_parquet)


def _turned(acts: Mapping[str, Callable[[], None]], turn: int) -> Iterator[tuple[str, Callable[[], None]]]:
    """Each round begins with another one."""
    names = list(acts)
    first = turn % len(names)
    for name in names[first:] + names[:first]:
        yield name, acts[name]


def _to_noop(rows: DataFrame, joined: Join) -> None:
    joined(rows).write.format("noop").mode("overwrite").save()


def _stream(tables: Tables, rows: int) -> None:
    """One micro-batch of a stream, which joins what it reads of the table when it begins."""
    folder = tables.folder / "stream"
    source = folder / "rows"
    if not source.exists():
        tables.rows(rows).write.parquet(str(source))
    spark: SparkSession = tables.spark
    stream = spark.readStream.schema(tables.rows(1).schema).parquet(str(source))

    def enrich(batch: DataFrame, _: int) -> None:
        _to_noop(batch, lambda found: found.join(tables.parquet(), KEY, "left"))

    writer = stream.writeStream.foreachBatch(enrich).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / f"checkpoint-{tables.batch}")).start().awaitTermination()


def _check(tables: Tables, contenders: Mapping[str, Join]) -> None:
    """All give the same rows, also after a change. `AssertionError` if not."""
    tables.batch += 1
    tables.fill_store()
    tables.rewrite_parquet()
    found = {name: checksum(each(tables.rows(SAMPLE))) for name, each in contenders.items()}
    if len(set(found.values())) != 1:
        raise AssertionError(f"The contenders give different rows: {found}")


def _worse(one: Memory, other: Memory) -> Memory:
    return Memory(max(one.heap, other.heap), max(one.workers, other.workers), max(one.worker, other.worker))
