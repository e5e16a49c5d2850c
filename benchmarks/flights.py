"""The input of all measurements: the flights that left New York in 2013, 336,776 rows of 19 columns, several times.

They have the types that Spark would send: nullable longs and strings, and a timestamp with a zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tools.flights import flights

if TYPE_CHECKING:
    from pathlib import Path

BATCH_ROWS = 10_000
"""Rows of an Arrow batch as Spark sends it (`spark.sql.execution.arrow.maxRecordsPerBatch`)."""

PARTITION = "part"


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
