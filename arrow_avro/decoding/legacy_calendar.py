"""Dates and timestamps of Spark's legacy calendar, which is the Julian one before 1582-10-15. Pure.

Spark wrote files by it until 2.4, and later with `datetimeRebaseModeInWrite=LEGACY`; the header says so. Hive writes
by it by default, in UTC, and says so by a key of its own. A day becomes the day that has the same year, month and
number in the Gregorian calendar, which all others count by, and 29 February the first of March where that has none. A
timestamp becomes the one with the same date and time of day in the session's time zone. Java had other offsets before
1900 than time zones have now, so of zones without a fixed offset those timestamps are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from arrow_avro.decoding.value_errors import UnrepresentableValueError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arrow_avro.arrow_values import I64

_VERSION = "org.apache.spark.version"
_LEGACY = "org.apache.spark.legacyDateTime"
_ZONE = "org.apache.spark.timeZone"
_PROLEPTIC = "writer.date.proleptic"  # of Hive
_FIRST_GREGORIAN_VERSION = b"3.0.0"
_FIRST_GREGORIAN_DAY = -141_427  # 1582-10-15
_YEAR_1900 = -2_208_988_800_000_000  # in microseconds: since then all zones are as they were
_DAY = 24 * 60 * 60 * 10**6
_SECOND = 10**6
_JULIAN_DAY_1970 = 2_440_588
_UTC = frozenset({"UTC", "GMT", "UT", "Z", "UCT", "Zulu", "Universal", "Greenwich", "Etc/UTC", "Etc/GMT", "Etc/UCT"})
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d\d))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """The calendar of one file, and the time zone of the session that wrote it; None if that is not known."""

    zone: str | None

    @classmethod
    def of(cls, metadata: Mapping[str, bytes]) -> LegacyCalendar | None:
        """The calendar of a file with this metadata in its header; None if the file is of the Gregorian calendar."""
        if metadata.get(_PROLEPTIC, b"").lower() == b"false":
            return cls("UTC")
        if _LEGACY not in metadata and metadata.get(_VERSION, _FIRST_GREGORIAN_VERSION) >= _FIRST_GREGORIAN_VERSION:
            return None
        zone = metadata.get(_ZONE)
        return cls(None if zone is None else zone.decode(errors="replace"))

    def days(self, days: I64) -> I64:
        """Days since 1970 of the Gregorian calendar."""
        old = days < _FIRST_GREGORIAN_DAY
        return np.where(old, _gregorian(np.minimum(days, _FIRST_GREGORIAN_DAY)), days) if old.any() else days

    def microseconds(self, micros: I64) -> I64:
        """Microseconds since 1970 UTC. `UnrepresentableValueError` before 1900 for a zone without a fixed offset."""
        if not (micros < _YEAR_1900).any():
            return micros
        offset = None if self.zone is None else _offset(self.zone)
        if offset is None:
            where = "a time zone that it does not name" if self.zone is None else f"time zone {self.zone!r}"
            cause = f"a timestamp before 1900, which Spark wrote by its legacy calendar in {where}, cannot be converted"
            raise UnrepresentableValueError(cause, "long")
        local = micros // _SECOND + offset  # in seconds, which do not overflow
        days = local // (_DAY // _SECOND)
        return micros + (self.days(days) - days) * _DAY


def _offset(zone: str) -> int | None:
    """The seconds by which a zone is always ahead of UTC; None if they change."""
    if zone in _UTC:
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    sign, hours, minutes = found.groups()
    return (3600 * int(hours) + 60 * int(minutes or 0)) * (1 if sign == "+" else -1)


def _gregorian(days: I64) -> I64:
    """Days since 1970 of the Gregorian calendar from those of the Julian one.

    Years begin in March, so that the day that leap years have more is their last one.
    """
    shifted = days.astype(np.int64) + _JULIAN_DAY_1970 + 32_082
    year = (4 * shifted + 3) // 1461
    of_year = shifted - 1461 * year // 4
    month = (5 * of_year + 2) // 153
    of_month = of_year - (153 * month + 2) // 5
    # January and February belong to the year before, so a 29 February is reached from the first of its month.
    first = (153 * month + 2) // 5 + 365 * year + year // 4 - year // 100 + year // 400
    found: I64 = first + of_month - 32_044 - _JULIAN_DAY_1970
    return found
