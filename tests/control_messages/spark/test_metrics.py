"""What a consumer exports of each partition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from control_messages.partition_tracker import PartitionTracker, receive
from control_messages.spark.metrics import METERS, log_rise, measure
from tests.control_messages.trackers import EMPTY, at, end
from tests.exported import exporting

if TYPE_CHECKING:
    import pytest


def exported(tracker: PartitionTracker, now: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The gauges of partition 0 of the stream."""
    with exporting(monkeypatch, METERS) as found:
        measure(tracker, now)
        points = {name: metric.data.data_points for name, metric in found.instruments().items()}
    assert {"stream": "by-destination", "partition": "0"} == dict(points["surplusrows"][0].attributes)
    return {name: point.value for name, (point,) in points.items()}


def test_the_watermark_how_long_it_has_not_risen_and_missing_rows_are_gauges(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = replace(at("a", 70, 1), sequence=1, writer=0, rows=3)
    tracker = receive(EMPTY, [mark], 1_000, rows=2).tracker
    assert {"watermark": 70, "heldseconds": 5, "surplusrows": -1} == exported(tracker, 6_000, monkeypatch)
    over = receive(tracker, [end("a", 1)], 7_000).tracker
    assert {"watermark": 70, "heldseconds": 0, "surplusrows": -1} == exported(over, 9_000, monkeypatch)
    without = receive(EMPTY, [end("b")], 1_000).tracker
    assert {"heldseconds": 2, "surplusrows": 0} == exported(without, 3_000, monkeypatch)


def test_a_rise_is_logged_once_a_minute_for_each_stream(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "control_messages")
    first = replace(EMPTY, stream="logged", watermark=1_385_424_000_123)
    for now, tracker in ((0, first), (59_999, replace(first, watermark=2_000)), (60_000, replace(first, partition=7))):
        log_rise(tracker, now)
    log_rise(replace(first, stream="another"), 60_001)
    assert [
        "stream logged: the watermark of partition 0 is 2013-11-26T00:00:00.123Z",
        "stream logged: the watermark of partition 7 is 2013-11-26T00:00:00.123Z",
        "stream another: the watermark of partition 0 is 2013-11-26T00:00:00.123Z",
    ] == [record.getMessage() for record in caplog.records]
    log_rise(replace(first, stream="far", watermark=2**63 - 1), 0)  # beyond the calendar
