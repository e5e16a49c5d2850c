"""The input of the pipeline: the flights of the first days of 2013 as files that arrive one after the other.

A file is visible when it is whole. The weather is there before the first driver starts, as that of a nightly job.
Planes change while they are read: each revision of a plane adds `SEATS_PER_REVISION` seats.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from demo.pipeline.operators import HOUR
from tools.flights import flights, planes, weather

if TYPE_CHECKING:
    from pathlib import Path

SEATS_PER_REVISION = 1_000
WEATHER_FILES = 6
SHARES = 16
"""A change has every sixteenth plane."""


@dataclass(frozen=True)
class Joined:
    """A flight as it must be in the stream `joined`, but for the revision of its plane."""

    origin: str
    time: int
    tailnum: str | None
    wind: float | None
    seats: int | None


class Arrivals:
    """The first `count` flights as so many files, and changes of planes. folder: where they arrive."""

    def __init__(self, folder: Path, *, count: int, files: int) -> None:
        self._folder, self.files, self._newest = folder, files, 0.0
        self.flights = _first_flights(count)
        self._weather = _weather_until(self.flights["time_hour"][-1])
        self._planes = planes().select(["tailnum", "seats"])
        self.revision = -1
        for name in ("flights", "weather", "planes"):
            (folder / name).mkdir(parents=True)

    def begin(self) -> None:
        """All weather, all planes, and the first flights."""
        rows = -(-self._weather.num_rows // WEATHER_FILES)
        for number in range(WEATHER_FILES):
            self._put("weather", number, self._weather.slice(number * rows, rows))
        self.change_planes()
        self.put_flights(0)

    def put_flights(self, number: int) -> None:
        """The file of this number."""
        count = self.flights.num_rows
        begin, end = (count * each // self.files for each in (number, number + 1))
        self._put("flights", number, self.flights.slice(begin, end - begin))

    def change_planes(self) -> None:
        """The next revision of some planes; the first one is of all."""
        self.revision += 1
        table = self._planes
        if self.revision:
            mine = [number % SHARES == self.revision % SHARES for number in range(table.num_rows)]
            table = table.filter(pa.array(mine))
        seats = pc.add(table["seats"], SEATS_PER_REVISION * self.revision)
        revisions = pa.array([self.revision] * table.num_rows, pa.int64())
        self._put(
            "planes", self.revision, pa.table({"tailnum": table["tailnum"], "seats": seats, "revision": revisions})
        )

    def complete(self) -> None:
        """No flights will follow."""
        (self._folder / "complete").touch()

    def expected(self) -> dict[int, Joined]:
        """The stream `joined`, computed at once, with the seats of revision 0: by the id of the flight."""
        wind = {(row["origin"], row["time_hour"]): row["wind_speed"] for row in self._weather.to_pylist()}
        seats = self._first_seats()
        return {row["id"]: _joined(row, wind, seats) for row in self.flights.to_pylist()}

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each plane, which decides which changes it has a part in."""
        return {tailnum: number for number, tailnum in enumerate(self._planes["tailnum"].to_pylist())}

    def has_revision(self, number: int, revision: int) -> bool:
        """Whether the plane of this number was changed by this revision."""
        return 0 <= revision <= self.revision and (revision == 0 or revision % SHARES == number % SHARES)

    def next_revision(self, number: int, revision: int) -> int:
        """The next revision that changes the plane of this number."""
        return revision + SHARES if revision else number % SHARES or SHARES

    def latest_seats(self) -> dict[str, int]:
        """The seats of each plane after all changes."""
        seats = self._first_seats()
        return {plane: seats[plane] + SEATS_PER_REVISION * self._last(number) for plane, number in self.numbers.items()}

    def _first_seats(self) -> dict[str, int]:
        """The seats of each plane before any change."""
        return dict(zip(*(self._planes[name].to_pylist() for name in ("tailnum", "seats")), strict=True))

    def _last(self, number: int) -> int:
        """The last revision of the plane of this number."""
        return next(each for each in range(self.revision, -1, -1) if self.has_revision(number, each))

    def _put(self, name: str, number: int, table: pa.Table) -> None:
        hidden = self._folder / name / f".{number}"
        pq.write_table(table, hidden)
        self._newest = max(time.time(), self._newest + 0.01)  # Spark reads files by the times of their last change
        os.utime(hidden, (self._newest, self._newest))
        hidden.rename(self._folder / name / f"{number:05}.parquet")


def _first_flights(count: int) -> pa.Table:
    """The first flights of 2013, by their scheduled hour, with a number from 0 on."""
    table = flights().select(["origin", "time_hour", "tailnum"])
    table = table.slice(0, count).sort_by([("time_hour", "ascending")])
    table = table.append_column("id", pa.array(range(table.num_rows), pa.int64()))
    return table.select(["id", "origin", "time_hour", "tailnum"])


def _weather_until(hour: pa.Scalar) -> pa.Table:
    table = weather().select(["origin", "time_hour", "wind_speed"])
    return table.filter(pc.less_equal(table["time_hour"], hour)).sort_by([("time_hour", "ascending")])


def _joined(row: dict[str, Any], wind: dict[Any, Any], seats: dict[str, int]) -> Joined:
    hour = int(row["time_hour"].timestamp() * 1000)
    return Joined(
        row["origin"],
        hour + HOUR - 1,
        row["tailnum"],
        wind.get((row["origin"], row["time_hour"])),
        seats.get(row["tailnum"]),
    )
