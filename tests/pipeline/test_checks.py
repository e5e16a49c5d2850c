"""The judge of the pipeline finds what is wrong: rows lost, doubled or changed, versions mixed, stray blobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from demo.pipeline.arrivals import SEATS_PER_REVISION, SHARES, Arrivals
from demo.pipeline.checks import Stored, check_drivers, check_planes, check_rows, states_of, unaccounted
from demo.pipeline.places import STREAMS, Places
from demo.pipeline.processes import Drivers

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS_PER_BATCH = 50


@pytest.fixture(scope="module")
def arrivals(tmp_path_factory: pytest.TempPathFactory) -> Arrivals:
    arrivals = Arrivals(tmp_path_factory.mktemp("arrivals"), count=2_000, files=10)
    for _ in range(2_000 // ROWS_PER_BATCH + 1):
        arrivals.change_planes()
    return arrivals


def right(arrivals: Arrivals) -> Stored:
    """What the pipeline must store: each batch reads the newest revision, which rises by one with each."""
    joined: list[tuple[int | None, dict[str, Any]]] = []
    numbers = arrivals.numbers
    for id_, row in arrivals.expected().items():
        version = id_ // ROWS_PER_BATCH
        known = row.seats is not None and row.tailnum is not None
        revision = _revision(version, numbers[row.tailnum or ""]) if known else None
        seats = None if row.seats is None or revision is None else row.seats + SEATS_PER_REVISION * revision
        named = {"id": id_, "origin": row.origin, "time": row.time, "tailnum": row.tailnum, "wind": row.wind}
        joined.append((version, {**named, "seats": seats, "revision": revision}))
    return Stored("by a test", joined, list(_days(joined)), arrivals.latest_seats())


def _revision(newest: int, number: int) -> int:
    """The last one, up to the newest, that has changed the plane of this number."""
    return max((each for each in range(1, newest + 1) if each % SHARES == number % SHARES), default=0)


def _days(joined: list[tuple[int | None, dict[str, Any]]]) -> list[dict[str, Any]]:
    days: dict[tuple[str, int], dict[str, Any]] = {}
    for _, row in joined:
        day = row["time"] - row["time"] % 86_400_000
        at = datetime.fromtimestamp(day / 1000, UTC)
        sums = days.setdefault(
            (row["origin"], day), {"origin": row["origin"], "day": at, "flights": 0, "seats": 0, "wind": None}
        )
        sums["flights"] += 1
        sums["seats"] += row["seats"] or 0
        sums["wind"] = max((each for each in (sums["wind"], row["wind"]) if each is not None), default=None)
    return list(days.values())


def wrong(stored: Stored, arrivals: Arrivals) -> set[str]:
    """The checks that are not passed."""
    findings = [*check_rows(stored, arrivals), *check_planes(stored, arrivals)[0]]
    return {finding.what.removesuffix(" by a test").removesuffix(",") for finding in findings if not finding.is_right}


def test_what_is_right_passes_all_checks(arrivals: Arrivals) -> None:
    assert set() == wrong(right(arrivals), arrivals)


def _lose(stored: Stored) -> None:
    stored.joined.pop(7)


def _double(stored: Stored) -> None:
    stored.joined.append(stored.joined[7])


def _invent(stored: Stored) -> None:
    stored.joined.append((0, {**stored.joined[7][1], "id": 10**6}))


def _change(name: str, value: object) -> Callable[[Stored], None]:
    def change(stored: Stored) -> None:
        at = next(
            at for at, (_, row) in enumerate(stored.joined) if row["seats"] is not None and row["wind"] is not None
        )
        version, row = stored.joined[at]
        stored.joined[at] = (version, {**row, name: value})

    return change


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (_lose, {"lost", "days"}),
        (_double, {"doubled", "days"}),
        (_invent, {"other than the batch computation", "days"}),
        (_change("wind", None), {"other than the batch computation"}),
        (_change("tailnum", "N10156"), {"other than the batch computation"}),
        (_change("tailnum", None), {"other than the batch computation", "revisions of planes that cannot be"}),
        (_change("id", None), {"lost", "other than the batch computation"}),
        (_change("revision", 10**6), {"other than the batch computation", "revisions of planes that cannot be"}),
        (_change("time", 0), {"other than the batch computation", "days"}),
        (_change("seats", 1), {"other than the batch computation", "days"}),
        (_change("origin", "BOS"), {"other than the batch computation", "days"}),
        (_change("revision", None), {"other than the batch computation"}),
    ],
)
def test_each_kind_of_wrong_row_is_found(arrivals: Arrivals, harm: Callable[[Stored], None], found: set[str]) -> None:
    stored = right(arrivals)
    harm(stored)
    assert found <= wrong(stored, arrivals)


def test_days_that_are_wrong_or_doubled_are_found(arrivals: Arrivals) -> None:
    stored = right(arrivals)
    assert {"days"} == wrong(replace(stored, days=stored.days[1:]), arrivals)
    assert {"days"} == wrong(replace(stored, days=[*stored.days, stored.days[0]]), arrivals)
    other = {**stored.days[0], "seats": stored.days[0]["seats"] + 1}
    assert {"days"} == wrong(replace(stored, days=[other, *stored.days[1:]]), arrivals)


def test_a_batch_with_two_versions_of_the_planes_is_found_and_one_that_goes_back(arrivals: Arrivals) -> None:
    stored = right(arrivals)
    read = check_planes(stored, arrivals)[1]
    assert all(revision <= version for version, revision in read.items())
    assert max(read.values()) > max(read) - SHARES
    swapped = {20: 30, 30: 20}
    back = replace(stored, joined=[(swapped.get(version or 0, version), row) for version, row in stored.joined])
    merged = replace(stored, joined=[(10 if version == 35 else version, row) for version, row in stored.joined])
    for each in (back, merged):
        assert {"one version of the planes in each batch"} == wrong(each, arrivals)


def test_planes_that_never_change_or_are_not_the_newest_are_found(arrivals: Arrivals) -> None:
    stored = right(arrivals)
    first = [(version, row) for version, row in stored.joined if row["revision"] in (None, 0)]
    assert "one version of the planes in each batch" in wrong(replace(stored, joined=first), arrivals)
    newest = dict(arrivals.latest_seats())
    for planes in (None, {**newest, "N10156": 1}, {"N10156": newest["N10156"]}):
        assert {"planes that are not the newest ones"} == wrong(replace(stored, planes=planes), arrivals)


def test_a_blob_that_nothing_needs_is_found_whatever_it_is_called(tmp_path: Path) -> None:
    places = Places("box", {"endpoint": f"memory://{tmp_path.name}"}, tmp_path, tmp_path)
    container = places.job.open()
    container.create()
    strays = {
        "streams/flights/0/2026/11/26/01/00-00-aaaaaaaa.avro",
        "checkpoints/flights/checkpoint.json",
        "stores/planes/g7/p0/checkpoint.json",
        "anything",
    }
    for name in strays:
        container.put(name, b"{}")
    assert [places.backup(stream).path for stream in STREAMS] == [state.path for state in states_of(places)]
    assert (sorted(strays), len(strays)) == (sorted(unaccounted(places, [])[0]), unaccounted(places, [])[1])
    container.put("streams/flights/_schemas/1.avsc", b"{}")
    assert sorted(strays) == sorted(unaccounted(places, [])[0])


class Life:
    """A driver that has ended."""

    def __init__(self, code: int, *epochs: int) -> None:
        self.name, self.process = "driver-1", self
        self.returncode = code
        self._begun = [{"tasks": {"days": epoch}} for epoch in epochs]

    def poll(self) -> int:
        return self.returncode

    def named(self, *_: str) -> list[dict[str, Any]]:
        return self._begun


@pytest.mark.parametrize(
    ("lives", "found"),
    [
        ([Life(-9, 7), Life(0, 8)], set()),
        ([Life(-9, 7), Life(1, 8)], {"drivers that ended by themselves"}),
        ([Life(-9, 7), Life(0, 7)], {"tasks that began twice in one epoch"}),
    ],
)
def test_a_driver_that_gives_up_is_found_and_a_task_that_two_have(lives: list[Any], found: set[str]) -> None:
    drivers = Drivers(Path(), "", {}, lives)
    assert found == {finding.what for finding in check_drivers(drivers) if not finding.is_right}
