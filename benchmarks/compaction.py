"""Compaction of many blobs of ten rows: what reads gain, what it costs beside peers, how long rows are doubled.

Everything is timed on the emulator itself. Then a smaller stream is compacted through a proxy that counts requests, and
lets each wait 30 ms: the requests of a blob are the same, and the time is as of an account that is elsewhere.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from azure_account import open_account
from benchmarks.compaction_peers import optimize, stream_read, write_again, write_delta
from benchmarks.counting_proxy import counting_proxy
from benchmarks.report import Report
from benchmarks.rounds import alternate, seconds
from benchmarks.small_blobs import CONTAINER, ROWS, compacted, write_stream
from tools.azurite import local_azurite, running_azurite
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.small_blobs import Compaction
    from tools.azurite import Azurite

    Line = dict[str, str | float]

WHOLE = 100_000
CODECS = ("null", "deflate")
DELAY = 0.03
_DELAYED = 4 * 256
"""Blobs of the stream behind the proxy."""
_DELTA = "delta"


def run(rounds: int, copies: int, rows: int = WHOLE) -> list[Report]:  # noqa: ARG001 - a blob has ten rows
    """Four tables: reads, the cost of a compaction, the same behind a proxy, and the time of doubled rows."""
    blobs = rows // ROWS
    spark = local_spark("benchmark of compaction")
    try:
        with running_azurite() as azurite:
            measured = {codec: Measured.of(spark, azurite, codec, blobs, rounds) for codec in CODECS}
            delayed, lines = _behind_proxy(spark, azurite, min(_DELAYED, blobs))
    finally:
        spark.stop()
    reads = [line for each in measured.values() for line in each.reads]
    costs = [line for each in measured.values() for line in each.costs]
    windows = [_window("0 ms a request", measured["null"].done), _window(f"{1000 * DELAY:.0f} ms a request", delayed)]
    note = (
        "OPTIMIZE up to its commit, which deltalake cannot make on the emulator. Neither peer deletes what it replaces"
    )
    return [
        Report(
            f"Reads of {blobs:,} blobs of {ROWS} rows",
            reads,
            f"Medians of {rounds}; before: once. × one blob: in the same rounds",
        ),
        Report(f"Compaction of {blobs:,} blobs of {ROWS} rows", costs, note),
        Report(f"Compaction of {min(_DELAYED, blobs):,} blobs, {1000 * DELAY:.0f} ms a request", lines, note),
        Report("Seconds in which a listing shows rows of an entry twice", windows),
    ]


@dataclass(frozen=True)
class Measured:
    """The figures of one codec."""

    reads: Sequence[Line]
    costs: Sequence[Line]
    done: Compaction

    @staticmethod
    def of(spark: SparkSession, azurite: Azurite, codec: str, blobs: int, rounds: int) -> Measured:
        """Measure reads before, the compaction and its peers, reads after."""
        small, one = f"small-{codec}", f"one-{codec}"
        write_stream(azurite, small, blobs, codec, small=True)
        write_stream(azurite, one, blobs, codec, small=False)
        size = _size(azurite, small)
        read = partial(_read, spark, azurite, codec, rows=ROWS * blobs)
        reads = read({"before": small, "one blob, then": one}, 1)
        peers = {"Spark job": partial(write_again, spark, azurite, small, f"again-{codec}")}
        if codec == CODECS[0]:
            write_delta(azurite, _DELTA, blobs)
            peers["Delta OPTIMIZE"] = partial(optimize, azurite, _DELTA)
        taken = {name: seconds(act) for name, act in peers.items()}
        done = compacted(azurite, small)
        reads += read({f"after, {done.steps} blobs": small, "one blob": one}, rounds)
        taken = {f"compact, {blobs:,} → {done.steps}": done.seconds, **taken}
        costs = [_cost(codec, name, each, blobs, size, done.seconds) for name, each in taken.items()]
        return Measured(reads, costs, done)


def _size(azurite: Azurite, stream: str) -> int:
    container = open_account({"connectionString": azurite.connection_string}).container(CONTAINER)
    return sum(blob.size for blob in container.list(f"{stream}/") if blob.name.endswith(".avro"))


def _read(
    spark: SparkSession, azurite: Azurite, codec: str, streams: Mapping[str, str], rounds: int, *, rows: int
) -> list[Line]:
    """A line for each stream, of which the last one has one blob."""
    acts: dict[str, Callable[[DataFrame], object]] = {
        "count": _counting(rows),
        "all columns": lambda found: found.write.format("noop").mode("overwrite").save(),
    }
    medians = {
        act: {
            name: statistics.median(taken)
            for name, taken in alternate(
                f"{codec}, {act}",
                {name: partial(_timed, spark, azurite, stream, acts[act]) for name, stream in streams.items()},
                rounds,
                warm_up=rounds > 1,
            ).items()
        }
        for act in acts
    }
    one = list(streams)[-1]
    return [
        {
            "codec": codec,
            "read": name,
            **{f"{act}, s": medians[act][name] for act in acts},
            **{f"{act} × one blob": medians[act][name] / medians[act][one] for act in acts},
        }
        for name in streams
    ]


def _counting(rows: int) -> Callable[[DataFrame], None]:
    def act(found: DataFrame) -> None:
        count = found.count()
        if count != rows:
            raise AssertionError(f"{count} rows were read, not {rows}.")

    return act


def _timed(spark: SparkSession, azurite: Azurite, stream: str, act: Callable[[DataFrame], object]) -> float:
    return seconds(lambda: act(stream_read(spark, azurite, stream)))


def _cost(codec: str, name: str, taken: float, blobs: int, size: int, ours: float) -> Line:
    return {
        "codec": codec,
        "by": name,
        "s": taken,
        "blobs/s": blobs / taken,
        "MB/s": size / taken / 1e6,
        "× compact": taken / ours,
    }


def _behind_proxy(spark: SparkSession, azurite: Azurite, blobs: int) -> tuple[Compaction, list[Line]]:
    """Compact a stream through the proxy; and its peers."""
    done: list[Compaction] = []
    write_stream(azurite, "late", blobs, "null", small=True)
    write_delta(azurite, "late-delta", blobs)
    with counting_proxy(azurite.blob_port, DELAY) as proxy:
        late = local_azurite(proxy.port, proxy.port)
        acts: dict[str, Callable[[], object]] = {
            "Spark job": lambda: write_again(spark, late, "late", "late-again"),
            "Delta OPTIMIZE": lambda: optimize(late, "late-delta"),
            "compact": lambda: done.append(compacted(late, "late")),
        }
        lines: list[Line] = []
        for name, act in acts.items():
            proxy.take_methods()
            taken = seconds(act)
            made = proxy.take_methods()
            methods = {method: made[method] for method in ("GET", "HEAD", "LIST", "PUT", "DELETE")}
            lines.append({"by": name, "s": taken, "requests": made.total(), **methods, "a blob": made.total() / blobs})
    return done[0], lines[::-1]


def _window(name: str, done: Compaction) -> Line:
    """The entries that replace the most blobs."""
    most = max(done.windows)[0]
    full = [taken for blobs, taken in done.windows if blobs == most]
    return {"": name, "blobs": most, "entries": len(full), "median": statistics.median(full), "longest": max(full)}
