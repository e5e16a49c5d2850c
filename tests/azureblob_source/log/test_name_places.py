"""Where names stand: partition and time of the names that other programs give, and what is listed for new ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from azureblob_source.log.name_places import name_place, name_prefix

EVENING = datetime(2026, 11, 28, 18, 5, tzinfo=UTC)
SIX = datetime(2026, 11, 28, 18, tzinfo=UTC)
DAY = datetime(2026, 11, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "prefix", "moment", "since"),
    [
        ("ns/hub/0/2026/11/28/18/05/00.avro", "ns/hub/0/", EVENING, "ns/hub/0/2026/11/28/17/50"),
        ("ns/hub/0_2026_11_28_18_05_00.avro", "ns/hub/0_", EVENING, "ns/hub/0_2026_11_28_17_50"),
        ("clicks/2026/11/28/18/05-09-3f2a91c0.avro", "clicks/", EVENING, "clicks/2026/11/28/17/50"),
        (
            "topics/orders/year=2026/month=11/day=28/hour=18/orders+0+0000000007.avro",
            "topics/orders/",
            SIX,
            "topics/orders/year=2026/month=11/day=28/hour=17",
        ),
        ("events/dt=2026-11-28/part-00000-1f0c.avro", "events/", DAY, "events/dt=2026-11-27"),
        ("topics/o/partition=0/o+0+0000000007.avro", "topics/o/partition=0/", None, "topics/o/partition=0/"),
        ("events/part-00000-20261128.avro", "events/", None, "events/"),
        ("events/2026/13/28/18/05/00.avro", "events/2026/13/28/18/05/", None, "events/2026/13/28/18/05/"),
        ("events/0001-01-01.avro", "events/", None, "events/"),
        ("events/dt=9999-12-31/1.avro", "events/dt=9999-12-31/", None, "events/dt=9999-12-31/"),
        ("a.avro", "", None, ""),
        ("2026/11/28/18/05/2026/13/28/x.avro", "", EVENING, "2026/11/28/17/50"),
        ("x/2025/01/01/y/2026/11/28/18/05/00.avro", "x/2025/01/01/y/", EVENING, "x/2025/01/01/y/2026/11/28/17/50"),
    ],
)
def test_names_of_other_programs_have_a_partition_and_a_time(
    name: str, prefix: str, moment: datetime | None, since: str
) -> None:
    place = name_place(name)
    assert prefix == name_prefix(name)
    assert (prefix, moment) == (place.prefix, place.moment)
    assert since == place.since(timedelta(minutes=15))


@pytest.mark.parametrize(
    ("until", "prefixes"),
    [
        (timedelta(0), ["0/2026/11/28/18"]),
        (timedelta(hours=1), ["0/2026/11/28/18", "0/2026/11/28/19"]),
        (timedelta(days=3), ["0/2026/11/28", "0/2026/11/29", "0/2026/11/30", "0/2026/12/01"]),
        (timedelta(days=40), ["0/2026/11", "0/2026/12", "0/2027/01"]),
        (timedelta(days=400), ["0/2026", "0/2027", "0/2028"]),
    ],
)
def test_hours_are_listed_or_days_months_and_years_if_they_are_many(until: timedelta, prefixes: list[str]) -> None:
    assert prefixes == name_place("0/2026/11/28/18/05/00.avro").prefixes(EVENING, EVENING + until)


def test_what_is_listed_has_every_name_between_two_times() -> None:
    for hours in range(0, 24 * 900, 7):
        end = EVENING + timedelta(hours=hours)
        prefixes = name_place("0/2026/11/28/18/05/00.avro").prefixes(EVENING, end)
        assert len(prefixes) <= 8
        for part in range(11):
            moment = EVENING + (end - EVENING) * part / 10
            assert f"0/{moment:%Y/%m/%d/%H/%M/%S}.avro".startswith(tuple(prefixes)), (end, moment)
