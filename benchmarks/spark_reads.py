"""Batch reads by Spark: the format `azureblob` beside Spark's own `avro` over hadoop-azure, of the same blobs.

The sink writes the flights once; every contender reads all rows into Spark's `noop`, then two of the columns. *Python,
giving Arrow* is a source that has its Arrow batches already, mapped from a file: the limit of what Spark takes from
Python. Processor seconds are those of Spark and its Python workers. A second setting has a proxy that delays each
request by 25 ms, as the way to a storage account may. The other stages, GETs and decoder, are measured alone, in
processor time of one core.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from arrow_avro import decode_blob
from arrow_avro.decoding.scanners import VARIABLE
from azure_account import connect
from azureblob_source.read.options import source_options
from benchmarks import hadoop_azure, idle_sources
from benchmarks.counting_proxy import counting_proxy
from benchmarks.flights import write_parquet
from benchmarks.process_tree import processor_seconds
from benchmarks.report import Report
from benchmarks.rounds import alternate, rates, seconds
from tools.azurite import local_azurite, running_azurite
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from tools.azurite import Azurite

PEER = "Spark avro"
GIVEN_ROWS = 16_384
CODECS = ("null", "snappy", "deflate")
FEW = ("origin", "dep_delay")
DELAY = 0.025
"""Seconds that each request waits in the second setting."""
PROMPT, LATE = "reads", "late-reads"
"""A container for each setting: Hadoop keeps one connection for each name."""


@dataclass(frozen=True)
class Sample:
    """The time of one read: seconds, and processor seconds of Spark."""

    seconds: float
    processor: float


def run(rounds: int, copies: int) -> list[Report]:
    """A table for each codec and setting, and one of the stages."""
    with hadoop_azure.session("benchmark of reads") as spark, tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder), copies)
        rows = spark.read.parquet(folder).coalesce(4)
        idle_sources.register(spark)
        given = [_arrow_file(Path(folder) / f"{len(names)}.arrow", names) for names in (flights().column_names, FEW)]
        giving = [spark.read.format("giving").options(file=str(file), times=copies) for file in given]
        with running_azurite() as azurite:
            for container, codec in [(each, codec) for each in (PROMPT, LATE) for codec in CODECS]:
                writer = rows.write.format("azureblob").mode("append").option("codec", codec)
                writer.option("connectionString", azurite.connection_string).save(f"{container}/{codec}")
            idle = {"Python, giving Arrow": giving[0].load, "Python, giving 2 columns": giving[1].load}
            tables = [_table(spark, azurite, f"{PROMPT}/{codec}", idle, rounds) for codec in CODECS]
            with counting_proxy(azurite.blob_port, DELAY) as proxy:
                late = local_azurite(proxy.port, proxy.port)
                tables += [_table(spark, late, f"{LATE}/{codec}", {}, rounds) for codec in CODECS]
            return [*tables, _stages(azurite)]


def _arrow_file(file: Path, names: Sequence[str]) -> Path:
    """The flights in Arrow's file format, in the types and order that Spark takes."""
    table = flights().select(list(names)).combine_chunks()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as stream:
        for batch in table.to_batches(max_chunksize=GIVEN_ROWS):
            stream.write_batch(batch)
    return file


def _table(
    spark: SparkSession, azurite: Azurite, path: str, idle: Mapping[str, Callable[[], DataFrame]], rounds: int
) -> Report:
    hadoop_azure.connect(spark, azurite)
    reader = spark.read.format("azureblob").option("connectionString", azurite.connection_string)
    narrow = spark.read.format("azureblob").option("connectionString", azurite.connection_string)
    peer = spark.read.format("avro").option("recursiveFileLookup", "true")
    url = hadoop_azure.url(azurite, *path.split("/"))
    reads: dict[str, Callable[[], DataFrame]] = {
        **idle,
        PEER: lambda: peer.load(url),
        "azureblob": lambda: reader.load(path),
        f"{PEER}, 2 columns": lambda: peer.load(url).select(*FEW),
        "azureblob, 2 columns": lambda: narrow.option("columns", ",".join(FEW)).load(path),
    }
    expected = reads[PEER]().count()
    found = reads["azureblob"]().count()
    if found != expected:
        raise AssertionError(f"azureblob read {found} rows, Spark avro {expected}.")
    taken = alternate(f"reads, {path}", {name: _timed(read) for name, read in reads.items()}, rounds)
    lines = rates(expected, {name: [each.seconds for each in some] for name, some in taken.items()}, PEER)
    for line in lines:
        name = str(line["path"])
        line["x 2 columns"] = _seconds(taken, f"{PEER}, 2 columns") / _seconds(taken, name)
        line["processor s / M"] = _processor(taken, name) * 1e6 / expected
        beside = f"{PEER}, 2 columns" if "2 columns" in name else PEER
        line["x processor"] = _processor(taken, name) / _processor(taken, beside)
    return Report(f"Batch read, {path}, {expected:,} flights", lines, _note(path))


def _note(path: str) -> str:
    decoder = os.environ.get(VARIABLE, "auto")
    delay = f"; each request waits {DELAY * 1000:.0f} ms" if path.startswith(LATE) else ""
    return f"{VARIABLE}={decoder}{delay}. Processor seconds of Spark and its Python workers, per million flights"


def _seconds(taken: dict[str, list[Sample]], name: str) -> float:
    return statistics.median(each.seconds for each in taken[name])


def _processor(taken: dict[str, list[Sample]], name: str) -> float:
    return statistics.median(each.processor for each in taken[name])


def _timed(read: Callable[[], DataFrame]) -> Callable[[], Sample]:
    def sample() -> Sample:
        before = processor_seconds()
        taken = seconds(lambda: read().write.format("noop").mode("overwrite").save())
        return Sample(taken, processor_seconds() - before)

    return sample


def _stages(azurite: Azurite) -> Report:
    """Processor seconds per million rows of GETs and decoding in one process, without Spark."""
    lines: list[dict[str, str | float]] = []
    for codec in CODECS:
        options = source_options({"path": f"{PROMPT}/{codec}", "connectionString": azurite.connection_string}, {})
        container = connect(options.account).container(PROMPT)
        names = [blob.name for blob in container.list(f"{codec}/") if blob.name.endswith(".avro")]
        getting, decoding, rows = [], [], 0
        for _ in range(3):
            begin = time.process_time()
            blobs = [container.get(name).data for name in names]
            getting.append(time.process_time() - begin)
            begin = time.process_time()
            rows = sum(batch.num_rows for data in blobs for batch in decode_blob(data, blob="flights"))
            decoding.append(time.process_time() - begin)
        per_million = 1e6 / rows
        lines.append(
            {
                "codec": codec,
                "GETs": statistics.median(getting) * per_million,
                "decoder": statistics.median(decoding) * per_million,
            }
        )
    return Report("The source without Spark, processor seconds per million flights", lines)
