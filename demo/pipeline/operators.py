"""What `joined` and `days` do: both wait for watermarks, and keep state until then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from control_messages.spark import EventTimeProcessor

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUR, DAY = 3_600_000, 24 * 3_600_000
"""Milliseconds."""
_FOREVER = 2**62


class FlightsAndWeather(EventTimeProcessor):
    """Each flight with the wind at its airport in its hour, when both streams have passed that hour.

    time: the last moment of the hour, which is the event time of the next stream.
    """

    schema = "id bigint, origin string, time bigint, tailnum string, wind double"

    def init(self, handle: Any) -> None:
        """State: the flights and the wind of hours that are not over."""
        hour = "hour bigint, origin string"
        self._flights = handle.getMapState("flights", hour, "ids array<bigint>, tailnums array<string>")
        self._wind = handle.getMapState("wind", hour, "wind double")

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> None:
        """Keep them."""
        for (stream, *key), rows in messages.groupby(["stream", "hour", "origin"]):
            hour = (int(key[0]), str(key[1]))
            if stream == "weather":
                self._wind.updateValue(hour, (rows["wind_speed"].iloc[0],))
                continue
            ids, tailnums = self._flights.getValue(hour) if self._flights.containsKey(hour) else ([], [])
            tails = [None if pd.isna(each) else each for each in rows["tailnum"]]
            self._flights.updateValue(hour, ([*ids, *rows["id"].astype(int)], [*tailnums, *tails]))

    def on_watermark(self, partition: Any, watermark: int) -> Iterator[pd.DataFrame]:
        """Return the flights of the hours that are over."""
        yield self._pop(watermark - HOUR)

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        """Return all others."""
        yield self._pop(_FOREVER)

    def _pop(self, last: int) -> pd.DataFrame:
        rows: list[tuple[int, str, int, str | None, float | None]] = []
        for (hour, origin), (ids, tailnums) in list(self._flights.iterator()):
            if hour <= last:
                known = self._wind.containsKey((hour, origin))
                wind = self._wind.getValue((hour, origin))[0] if known else None
                rows += [(id_, origin, hour + HOUR - 1, tail, wind) for id_, tail in zip(ids, tailnums, strict=True)]
                self._flights.removeKey((hour, origin))
        for key in [key for key, _ in self._wind.iterator() if key[0] <= last]:
            self._wind.removeKey(key)
        return pd.DataFrame(rows, columns=["id", "origin", "time", "tailnum", "wind"])


class DailyTotals(EventTimeProcessor):
    """The flights, seats and strongest wind of each airport and day, when the watermark has passed the day."""

    schema = "origin string, day bigint, flights bigint, seats bigint, wind double"

    def init(self, handle: Any) -> None:
        """State: the days that are not over."""
        self._days = handle.getMapState(
            "days", "day bigint, origin string", "flights bigint, seats bigint, wind double"
        )

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> None:
        """Add them to their days."""
        for key, rows in messages.groupby(["day", "origin"]):
            day = (int(key[0]), str(key[1]))
            flights, seats, wind = self._days.getValue(day) if self._days.containsKey(day) else (0, 0, None)
            winds = [each for each in [wind, *rows["wind"]] if pd.notna(each)]
            added = (flights + len(rows), seats + int(rows["seats"].fillna(0).sum()), max(winds, default=None))
            self._days.updateValue(day, added)

    def on_watermark(self, partition: Any, watermark: int) -> Iterator[pd.DataFrame]:
        """Return the days that are over."""
        yield self._pop(watermark - DAY)

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        """Return all others."""
        yield self._pop(_FOREVER)

    def _pop(self, last: int) -> pd.DataFrame:
        over = [(origin, day, *totals) for (day, origin), totals in self._days.iterator() if day <= last]
        for origin, day, *_ in over:
            self._days.removeKey((day, origin))
        return pd.DataFrame(over, columns=["origin", "day", "flights", "seats", "wind"])
