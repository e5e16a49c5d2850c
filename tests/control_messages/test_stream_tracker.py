"""The trackers of several partitions and several streams."""

from __future__ import annotations

import pytest

from control_messages import stream_tracker
from control_messages.errors import ContradictionError
from control_messages.holds import Hold
from control_messages.messages import ControlMessage
from control_messages.partition_tracker import (
    Step,
)
from control_messages.stream_tracker import StreamTracker, all_ended, input_watermark
from tests.control_messages.intermediate import STREAM
from tests.control_messages.trackers import EMPTY, TIMEOUT, after, at, end


def test_the_watermark_of_a_stream_is_the_lowest_of_its_partitions() -> None:
    tracker = StreamTracker.of(STREAM, 2)
    steps = []
    for batch in (
        [(0, at("a", 70, 1))],
        [(1, at("a", 40, 1))],
        [(0, at("a", 80, 1))],
        [(1, end("a", 1))],
        [(0, end("a", 1))],
        [(0, end("a", 1)), (1, end("a", 1, generation=1))],
    ):
        step = stream_tracker.receive(tracker, batch, 0)
        tracker = step.tracker
        steps.append("end" if step.end else step.watermark)
    assert [None, 40, None, 80, "end", None] == steps
    assert (True, None) == (tracker.at_end, tracker.watermark)


def test_a_stream_counts_stale_messages_and_passes_contradictions_on() -> None:
    tracker = stream_tracker.receive(
        StreamTracker.of(STREAM, 2), [(0, at("a", 1, 1, 1)), (1, at("a", 1, 1, 1))], 0
    ).tracker
    rejected: list[ControlMessage] = []
    bad = at("a", 9, 5, 1)
    messages = [(0, at("a", 1, 1, 0)), (1, at("a", 1, 1, 0)), (1, bad)]
    step = stream_tracker.receive(tracker, messages, 0, None, lambda message, _: rejected.append(message))
    assert (Step(tracker, stale=2), [bad]) == (step, rejected)
    with pytest.raises(ContradictionError, match="partition 1 of stream"):
        stream_tracker.receive(tracker, messages, 0)


def test_an_unknown_partition_is_an_error() -> None:
    with pytest.raises(ValueError, match="has 2 partitions, and messages came from partition 2"):
        stream_tracker.receive(StreamTracker.of(STREAM, 2), [(2, at("a", 1, 1))], 0)
    with pytest.raises(ValueError, match="has 0 partitions"):
        StreamTracker.of(STREAM, 0)


def test_time_passes_for_all_partitions_of_a_stream() -> None:
    tracker = StreamTracker.of(STREAM, 2)
    both = [(partition, message) for partition in (0, 1) for message in (at("a", 10), at("b", 10))]
    tracker = stream_tracker.receive(tracker, both, 0, TIMEOUT).tracker
    tracker = stream_tracker.receive(tracker, [(0, at("a", 30)), (1, at("a", 20))], 50, TIMEOUT).tracker
    assert 100 == stream_tracker.next_timeout(tracker, 50, TIMEOUT)
    assert 20 == stream_tracker.advance_time(tracker, 100, TIMEOUT).watermark
    assert stream_tracker.advance_time(stream_tracker.resume(tracker, 60), 100, TIMEOUT).watermark is None
    assert 20 == stream_tracker.receive(tracker, [(0, at("a", 40))], 100, TIMEOUT).watermark


def test_a_stream_names_the_partitions_that_hold_it() -> None:
    tracker = StreamTracker.of(STREAM, 4)
    tracker = stream_tracker.receive(tracker, [(0, at("a", 40, 1)), (1, at("a", 30, 1)), (2, end("a", 1))], 0).tracker
    assert [3] == partitions(stream_tracker.why_held(tracker, 0))
    tracker = stream_tracker.receive(tracker, [(3, at("a", 30, 1))], 0).tracker
    assert [1, 3] == partitions(stream_tracker.why_held(tracker, 0))


def partitions(holds: tuple[Hold, ...]) -> list[object]:
    return [hold.partition for hold in holds]


def test_the_watermark_of_several_streams_is_the_lowest_and_they_end_when_all_have_ended() -> None:
    low, high = after([at("a", 30, 1)]), StreamTracker((after([at("a", 40, 1)]),))
    ended = after([end("a", 1)])
    assert 30 == input_watermark([low, high, ended])
    assert input_watermark([low, high, EMPTY]) is None
    assert input_watermark([ended, ended]) is None
    assert [False, True] == [all_ended([high, ended]), all_ended([ended, StreamTracker((ended,))])]
