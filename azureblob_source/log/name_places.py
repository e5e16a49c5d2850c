"""Where a blob's name stands: which partition it is of, and at which time of it. Pure.

    ns/hub/0/2026/11/28/18/05/00.avro                          partition  ns/hub/0/           Event Hubs Capture
    clicks/2026/11/28/18/05-09-3f2a.avro                                  clicks/             Samza, this package
    topics/orders/year=2026/month=11/day=28/hour=18/x+0+7.avro            topics/orders/      Kafka Connect
    events/dt=2026-11-28/part-00000-….avro                                events/             Spark
    topics/orders/partition=0/orders+0+0000000007.avro                    topics/orders/partition=0/, without a time

Names of a partition with a time are in the order of their times. Without a time, a partition is a directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_KEY = r"(?:[A-Za-z]\w*=)?"
_NEXT = rf"(?:[-_:T]|/{_KEY})"
_TIME = re.compile(
    rf"(.*[/_]|){_KEY}(\d{{4}}){_NEXT}(\d\d){_NEXT}(\d\d)(?:{_NEXT}(\d\d)(?:{_NEXT}(\d\d))?)?(?!\d)",
    re.ASCII | re.DOTALL,
)
"""The last time in a name, after what stands before it."""
_YEARS = range(1900, 9000)
"""Others are numbers, as in 0001-01-01.avro, or stand for no time, as in dt=9999-12-31."""
_DAY, _HOUR, _MINUTE = 3, 4, 5
_MOST_PREFIXES = 6
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class NamePlace:
    """The place of one name. prefix: what all names of its partition begin with.

    moment: the time in the name, to the minute; None without one. spans: where its numbers are, from the year on.
    """

    name: str
    prefix: str
    moment: datetime | None = None
    spans: tuple[Span, ...] = ()

    def at(self, moment: datetime, numbers: int) -> str:
        """The beginning of names of this partition at a time, with a number of its numbers, as this name has them."""
        values = (
            f"{moment.year:04d}",
            *(f"{getattr(moment, unit):02d}" for unit in ("month", "day", "hour", "minute")),
        )
        parts, at = [], 0
        for (start, end), value in zip(self.spans[:numbers], values, strict=False):
            parts += [self.name[at:start], value]
            at = end
        return "".join(parts)

    def since(self, earlier: timedelta) -> str:
        """A name before which those of its partition are older than this one by more than a duration."""
        return self.prefix if self.moment is None else self.at(self.moment - earlier, len(self.spans))

    def prefixes(self, start: datetime, end: datetime) -> list[str]:
        """Beginnings of all names of its partition from one time to another: hours if these are few, else days, …."""
        hours = len(self.spans) >= _HOUR
        steps = [start]
        unit = timedelta(hours=1) if hours and end - start <= timedelta(hours=_MOST_PREFIXES - 2) else timedelta(days=1)
        while steps[-1] <= end and len(steps) <= _MOST_PREFIXES:
            steps.append(steps[-1] + unit)
        if steps[-1] > end:
            numbers = _HOUR if unit < timedelta(days=1) else _DAY
            return list(dict.fromkeys(self.at(each, numbers) for each in (*steps[:-1], end)))
        years = range(start.year, end.year + 1)
        months = range(start.year * 12 + start.month - 1, end.year * 12 + end.month)
        if len(months) <= _MOST_PREFIXES:
            return [self.at(datetime(each // 12, each % 12 + 1, 1, tzinfo=UTC), 2) for each in months]
        return [self.at(datetime(year, 1, 1, tzinfo=UTC), 1) for year in years]


def name_place(name: str) -> NamePlace:
    """The place of a blob's name."""
    found = _timed(name)
    if found is None:
        return NamePlace(name, name[: name.rfind("/") + 1])
    match, moment = found
    spans = tuple(match.span(2 + place) for place in range(len(match.groups()) - 1) if match[2 + place] is not None)
    return NamePlace(name, match[1], moment, spans)


def name_prefix(name: str) -> str:
    """The prefix of a name's partition, as of `name_place`."""
    found = _timed(name)
    return name[: name.rfind("/") + 1] if found is None else found[0][1]


def _timed(name: str) -> tuple[re.Match[str], datetime] | None:
    """The time in a name, to the minute, and where it is; None if there is none."""
    match = _TIME.match(name)
    while match is not None:
        numbers = [int(each) for each in match.groups()[1:] if each is not None]
        try:
            if numbers[0] in _YEARS:
                return match, datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type, misc]
        except ValueError:
            pass
        match = _TIME.match(name, 0, match.start(2))
    return None
