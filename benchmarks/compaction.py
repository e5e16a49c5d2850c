"""Compaction of many blobs of ten rows: what reads gain, what it costs beside peers, how long rows are doubled.

For the reads, streams are compacted in memory and copied. Costs are of fewer blobs, and each has an emulator of its
own: one that has thousands of blobs takes up to 70 ms to delete one. Each is measured twice, the second time through a
proxy that counts requests, and lets each wait 30 ms, as an account does that is elsewhere.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.compaction_peers import optimize, stream_read, write_again, write_delta
from benchmarks.counting_proxy import counting_proxy
from benchmarks.report import Report
from benchmarks.rounds import alternate, seconds
from benchmarks.small_blobs import ROWS, compacted, container_of, copy_stream, stream_in_memory
from tools.azurite import local_azurite, running_azurite
from tools.spark_session import local_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.small_blobs import Compaction
    from tools.azurite import Azurite

    Line = dict[str, str | float]

WHOLE = 100_000
"""Rows of the streams that are read."""
CODECS = ("null", "deflate")
DELAY = 0.03
MOST = 4 * 256
"""Small blobs whose compaction is measured."""
_METHODS = ("GET", "HEAD", "LIST", "PUT", "DELETE")


def run(rounds: int, copies: int, rows: int = WHOLE) -> list[Report]:  # noqa: ARG001 - a blob has ten rows
    """Four tables: reads, the cost of a compaction, the same with a delay, and the time of doubled rows."""
    blobs = rows // ROWS
    few = min(MOST, blobs)
    spark = local_spark("benchmark of compaction")
    try:
        with running_azurite() as azurite:
            reads = [line for codec in CODECS for line in _reads(spark, azurite, codec, blobs, rounds)]
        costs, prompt = _costs(spark, few, 0)
        delayed_costs, delayed = _costs(spark, few, DELAY)
    finally:
        spark.stop()
    wait = f"{1000 * DELAY:.0f} ms a request"
    note = (
        "OPTIMIZE up to its commit, which deltalake cannot make on the emulator. Neither peer deletes what it replaces"
    )
    windows = [_window("0 ms a request", prompt), _window(wait, delayed)]
    return [
        Report(
            f"Reads of {blobs:,} blobs of {ROWS} rows",
            reads,
            f"Medians of {rounds}; before: once. × one blob: in the same rounds",
        ),
        Report(f"Compaction of {few:,} blobs of {ROWS} rows", costs, note),
        Report(f"The same, {wait}", delayed_costs, note),
        Report("Seconds in which a listing shows rows of an entry twice", windows),
    ]


def _reads(spark: SparkSession, azurite: Azurite, codec: str, blobs: int, rounds: int) -> list[Line]:
    """Four lines: before and after the compaction, each with one blob of the same rows."""
    before, after, one = (f"{each}-{codec}" for each in ("before", "after", "one"))
    copy_stream(stream_in_memory(blobs, codec, small=False), azurite, one)
    small = stream_in_memory(blobs, codec, small=True)
    copy_stream(small, azurite, before)
    done = compacted(small)
    copy_stream(small, azurite, after)
    read = partial(_read, spark, azurite, codec, rows=ROWS * blobs)
    lines = read({f"{blobs:,} blobs": before, "one blob, then": one}, 1)
    return [*lines, *read({f"→ {done.steps} blobs": after, "one blob": one}, rounds)]


def _read(
    spark: SparkSession, azurite: Azurite, codec: str, streams: Mapping[str, str], rounds: int, *, rows: int
) -> list[Line]:
    """A line for each stream, by its container, of which the last one has one blob."""
    acts: dict[str, Callable[[DataFrame], object]] = {
        "count": partial(_count, rows),
        "all columns": lambda found: found.write.format("noop").mode("overwrite").save(),
    }
    medians: dict[str, dict[str, float]] = {}
    for act, do in acts.items():
        timed = {name: partial(_timed, spark, azurite, container, do) for name, container in streams.items()}
        taken = alternate(f"{codec}, {act}", timed, rounds, warm_up=rounds > 1)
        medians[act] = {name: statistics.median(each) for name, each in taken.items()}
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


def _count(rows: int, found: DataFrame) -> None:
    count = found.count()
    if count != rows:
        raise AssertionError(f"{count} rows were read, not {rows}.")


def _timed(spark: SparkSession, azurite: Azurite, container: str, act: Callable[[DataFrame], object]) -> float:
    return seconds(lambda: act(stream_read(spark, azurite, container)))


def _costs(spark: SparkSession, blobs: int, delay: float) -> tuple[Sequence[Line], Compaction]:
    """A line for the compaction and for each peer, and the compaction. Requests are counted if they are delayed."""
    done: list[Compaction] = []
    acts: dict[str, Callable[[Azurite], object]] = {
        "compact": lambda azurite: done.append(compacted(container_of(azurite))),
        "Spark job": partial(write_again, spark),
        "Delta OPTIMIZE": optimize,
    }
    lines: list[Line] = []
    for name, act in acts.items():
        with running_azurite() as azurite:
            if act is optimize:
                write_delta(azurite, blobs)
            else:
                copy_stream(stream_in_memory(blobs, CODECS[0], small=True), azurite, container_of(azurite).name)
            size = sum(blob.size for blob in container_of(azurite).list() if blob.name.endswith((".avro", ".parquet")))
            taken, requests = _timed_requests(azurite, act, delay)
        line: Line = {"by": name, "s": taken, "blobs/s": blobs / taken, "MB/s": size / taken / 1e6}
        total = sum(requests.values())
        lines.append({**line, **({**requests, "requests a blob": total / blobs} if delay else {})})
    return [{**line, "× compact": float(line["s"]) / float(lines[0]["s"])} for line in lines], done[0]


def _timed_requests(
    azurite: Azurite, act: Callable[[Azurite], object], delay: float
) -> tuple[float, Mapping[str, int]]:
    """Seconds, and requests by method, if there is a delay."""
    if not delay:
        return seconds(partial(act, azurite)), {}
    with counting_proxy(azurite.blob_port, delay) as proxy:
        taken = seconds(partial(act, local_azurite(proxy.port, proxy.port)))
        methods = proxy.take_methods()
    return taken, {method: methods[method] for method in _METHODS}


def _window(name: str, done: Compaction) -> Line:
    """The entries that replace the most blobs."""
    most = max(done.windows)[0]
    full = [taken for blobs, taken in done.windows if blobs == most]
    return {"": name, "blobs": most, "entries": len(full), "median": statistics.median(full), "longest": max(full)}
