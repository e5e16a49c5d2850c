"""Batch reads by Spark: the format `azureblob` beside Spark's own `avro` over hadoop-azure, of the same blobs.

The sink writes the flights once; every contender reads all rows into Spark's `noop`. *Python, giving Arrow* is a source
that has its Arrow batches already: the limit of what Spark takes from Python. The other stages, GETs and decoder, are
measured alone, in processor time of one core.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from arrow_avro import decode_blob
from azure_account import connect
from azureblob_source.read.options import source_options
from benchmarks import hadoop_azure, idle_sources
from benchmarks.flights import write_parquet
from benchmarks.report import Report
from benchmarks.rounds import alternate, rates, seconds
from tools.azurite import running_azurite
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tools.azurite import Azurite

PEER = "Spark avro"
GIVEN_ROWS = 16_384
CODECS = ("null", "snappy", "deflate")
FEW = "origin,dep_delay"


def run(rounds: int, copies: int) -> list[Report]:
    """A table for each codec, and one of the stages."""
    with hadoop_azure.session("benchmark of reads") as spark, tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder), copies)
        rows = spark.read.parquet(folder).coalesce(4)
        idle_sources.register(spark)
        given = _arrow_file(Path(folder) / "flights.arrow")
        giving = spark.read.format("giving").options(file=str(given), times=copies)
        with running_azurite() as azurite:
            hadoop_azure.connect(spark, azurite)
            for codec in CODECS:
                writer = rows.write.format("azureblob").mode("append").option("codec", codec)
                writer.option("connectionString", azurite.connection_string).save(f"reads/{codec}")
            tables = [_table(spark, azurite, codec, giving.load, rounds) for codec in CODECS]
            return [*tables, _stages(azurite)]


def _arrow_file(file: Path) -> Path:
    """The flights in Arrow's stream format, in the types and order that Spark takes."""
    table = flights().combine_chunks()
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        for batch in table.to_batches(max_chunksize=GIVEN_ROWS):
            stream.write_batch(batch)
    return file


def _table(spark: SparkSession, azurite: Azurite, codec: str, giving: Callable[[], DataFrame], rounds: int) -> Report:
    reader = spark.read.format("azureblob").option("connectionString", azurite.connection_string)
    peer = spark.read.format("avro").option("recursiveFileLookup", "true")
    url = hadoop_azure.url(azurite, "reads", codec)
    reads: dict[str, Callable[[], DataFrame]] = {
        "Python, giving Arrow": giving,
        PEER: lambda: peer.load(url),
        "azureblob": lambda: reader.load(f"reads/{codec}"),
        f"{PEER}, 2 columns": lambda: peer.load(url).select(*FEW.split(",")),
        "azureblob, 2 columns": lambda: reader.option("columns", FEW).load(f"reads/{codec}"),
    }
    expected = reads[PEER]().count()
    found = reads["azureblob"]().count()
    if found != expected:
        raise AssertionError(f"azureblob read {found} rows, Spark avro {expected}.")
    taken = alternate(f"reads, {codec}", {name: _timed(read) for name, read in reads.items()}, rounds)
    return Report(f"Batch read, {codec}, {expected:,} flights", rates(expected, taken, PEER))


def _timed(read: Callable[[], DataFrame]) -> Callable[[], float]:
    return lambda: seconds(lambda: read().write.format("noop").mode("overwrite").save())


def _stages(azurite: Azurite) -> Report:
    """Processor seconds per million rows of GETs and decoding in one process, without Spark."""
    lines: list[dict[str, str | float]] = []
    for codec in CODECS:
        options = source_options({"path": f"reads/{codec}", "connectionString": azurite.connection_string}, {})
        container = connect(options.account).container("reads")
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
