"""Peers of a compaction: a Spark job that writes a stream's rows again, and OPTIMIZE of a Delta table of the same rows.

deltalake 1.6 cannot commit on the emulator: it fails after it has read all files and written the new ones, which is
what is measured. It deletes no file: that is left to a VACUUM.
"""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from benchmarks.small_blobs import BATCH, CONTAINER, ROWS, STREAM, THREADS, container_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tools.azurite import Azurite

_TABLE = "delta"


def stream_read(spark: SparkSession, azurite: Azurite, container: str = CONTAINER) -> DataFrame:
    """All rows of the stream in a container."""
    reader = spark.read.format("azureblob").option("connectionString", azurite.connection_string)
    return reader.load(f"{container}/{STREAM}")


def write_again(spark: SparkSession, azurite: Azurite) -> None:
    """The rows of the stream as one blob of another one."""
    writer = stream_read(spark, azurite).repartition(1).write.format("azureblob").mode("append")
    writer.option("connectionString", azurite.connection_string).save(f"{CONTAINER}/again")


def write_delta(azurite: Azurite, blobs: int) -> None:
    """The rows of so many small blobs as a Delta table of as many files, committed as the stream's batches are."""
    container = container_of(azurite)
    container.create()
    rows = rows_of(blobs)
    with tempfile.TemporaryDirectory() as local, ThreadPoolExecutor(THREADS) as pool:
        table = DeltaTable.create(local, rows.schema)
        names = [f"part-{number:05d}.parquet" for number in range(blobs)]
        sizes = [_write_file(Path(local) / name, rows.slice(ROWS * at, ROWS)) for at, name in enumerate(names)]
        stats = json.dumps({"numRecords": ROWS})
        for at in range(0, blobs, BATCH):
            added = zip(names[at : at + BATCH], sizes[at : at + BATCH], strict=True)
            actions: list[AddAction | RemoveAction] = [
                AddAction(name, size, {}, 0, data_change=True, stats=stats) for name, size in added
            ]
            table.create_write_transaction(actions, "append", rows.schema)
        files = [file for file in Path(local).rglob("*") if file.is_file()]
        targets = [f"{_TABLE}/{file.relative_to(local)}" for file in files]
        list(pool.map(lambda name, file: container.put(name, file.read_bytes()), targets, files))


def _write_file(file: Path, rows: pq.Table) -> int:
    pq.write_table(rows, file)
    return file.stat().st_size


def optimize(azurite: Azurite) -> None:
    """OPTIMIZE the Delta table, up to its commit."""
    options = {
        "azure_storage_account_name": azurite.account_name,
        "azure_storage_account_key": azurite.account_key,
        "azure_storage_endpoint": azurite.endpoint,
        "allow_http": "true",
    }
    table = DeltaTable(f"az://{CONTAINER}/{_TABLE}", storage_options=options)
    try:
        table.optimize.compact()
    except DeltaError as error:
        if str(error) != f"Invalid table version: {table.version()}":
            raise
