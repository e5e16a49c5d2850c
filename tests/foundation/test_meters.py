"""How metrics are made, as an OpenTelemetry SDK gets them. What each package counts is tested there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from foundation.meters import Meters, Metrics
from tests.exported import Exported, exporting

if TYPE_CHECKING:
    from collections.abc import Iterator

METERS = Meters(
    "trains",
    counter={"departures": ("{train}", "trains that have left")},
    up_down_counter={"waiting": ("{train}", "trains that wait")},
    gauge={"left": ("s", "when it has left")},
    histogram={"stopSeconds": ("s", "a stop")},
    observable_gauge={"delay": ("s", "how late"), "speed": ("km/h", "how fast")},
)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    with exporting(monkeypatch, METERS) as found:
        yield found


def use(metrics: Metrics) -> None:
    metrics.count("departures", 2, track="3")
    metrics.add("waiting", 5)
    metrics.add("waiting", -1)
    metrics.record("stopSeconds", 1.5, track="3")
    with metrics.measured("stopSeconds"):
        pass
    metrics.set("left", 3)
    metrics.set("left", 4)
    metrics.observe(lambda: {"delay": 60.0})


def test_values_have_the_attributes_of_the_thing_and_those_that_are_given(exported: Exported) -> None:
    metrics = Metrics(METERS, {"train": "IC 1"})
    use(metrics)
    assert (2, 4) == (exported.of("departures", train="IC 1", track="3"), exported.of("waiting", train="IC 1"))
    assert (2, 1) == (exported.of("stopSeconds", train="IC 1"), exported.of("stopSeconds", track="3"))
    assert 4 == exported.of("left", train="IC 1")
    assert (60, []) == (exported.of("delay", train="IC 1"), exported.points("speed"))
    assert "km/h" == METERS._tables["observable_gauge"]["speed"][0]
    assert {"departures": "{train}", "waiting": "{train}", "stopseconds": "s", "left": "s", "delay": "s"} == {
        name: instrument.unit for name, instrument in exported.instruments().items()
    }
    metrics.close()
    assert [] == exported.points("delay")


def test_of_two_with_one_key_the_last_is_reported_and_each_may_close(exported: Exported) -> None:
    for delay in (1, 2):
        Metrics(METERS, {"train": "IC 1"}, key="IC 1").observe(partial(dict, delay=delay))
    assert 2 == exported.of("delay")
    Metrics(METERS, {"train": "IC 1"}, key="IC 1").close()
    assert [] == exported.points("delay")


def test_without_a_key_each_reports_until_it_is_closed(exported: Exported) -> None:
    one, two = Metrics(METERS, {"train": "IC 1"}), Metrics(METERS, {"train": "IC 2"})
    one.observe(lambda: {"delay": 1})
    two.observe(lambda: {"delay": 2})
    one.close()
    assert (0, 2) == (exported.of("delay", train="IC 1"), exported.of("delay", train="IC 2"))
    two.close()


def test_what_fails_is_not_measured(exported: Exported) -> None:
    with pytest.raises(ZeroDivisionError), Metrics(METERS, {}).measured("stopSeconds"):
        raise ZeroDivisionError
    assert 0 == exported.of("stopSeconds")


def test_a_block_is_counted_if_it_fails(exported: Exported) -> None:
    metrics = Metrics(METERS, {"train": "IC 1"})
    with metrics.count_failures("departures", track="3"):
        pass
    assert 0 == exported.of("departures")
    with pytest.raises(ZeroDivisionError), metrics.count_failures("departures", track="3"):
        raise ZeroDivisionError
    assert 1 == exported.of("departures", train="IC 1", track="3")


def test_without_an_sdk_everything_works_and_nothing_is_kept() -> None:
    metrics = Metrics(METERS, {"train": "IC 1"})
    use(metrics)
    metrics.close()
    assert {} == METERS._observed


@pytest.mark.parametrize("name", ["rows", "delay"])
def test_a_counter_that_does_not_exist_is_a_mistake_in_the_code(name: str) -> None:
    with pytest.raises(KeyError):
        Metrics(Meters("trains", counter={}), {}).count(name, 0)
