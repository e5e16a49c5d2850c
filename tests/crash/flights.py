"""The input: the 336,776 flights that left New York in 2013, numbered, as a table and as parquet files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from tools.flights import flights as all_flights

if TYPE_CHECKING:
    from pathlib import Path

ROW_NUMBER = "row_number"
EARLIEST_FILE = 1_400_000_000
"""Time of the first file. Spark orders files by their times, which may be equal for files written at once."""


def flights(rows: int | None = None) -> pa.Table:
    """The first `rows` flights, by default all, with their row number as first column."""
    table = all_flights().slice(0, rows)
    return table.add_column(0, ROW_NUMBER, pa.array(range(table.num_rows), pa.int64()))


def write_files(table: pa.Table, folder: Path, count: int) -> None:
    """Split `table` into `count` parquet files of nearly the same number of rows, which Spark reads in their order."""
    folder.mkdir()
    for number in range(count):
        write_file(table, folder, number, count)


def write_file(table: pa.Table, folder: Path, number: int, count: int) -> None:
    """Write one of `count` files, at once: a query that reads the folder sees no half of it."""
    start, stop = table.num_rows * number // count, table.num_rows * (number + 1) // count
    hidden = folder / f".{number:04d}.parquet"
    pa.parquet.write_table(table.slice(start, stop - start), hidden)
    os.utime(hidden, (EARLIEST_FILE + number, EARLIEST_FILE + number))
    hidden.rename(folder / f"{number:04d}.parquet")
