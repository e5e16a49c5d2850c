"""Laws of a tracker that hold for all messages in any batches."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import groupby, pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from control_messages.announcements import TrackerUpdate
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore, to_checkpoint
from control_messages.messages import ControlMessage, EndOfStream
from control_messages.partition_tracker import (
    IdleTimeout,
    PartitionTracker,
    advance_time,
    next_timeout,
    receive,
)
from tests.control_messages.intermediate import STREAM, Plain
from tests.control_messages.trackers import EMPTY, after, at, end, idle

GENERATIONS = {0: 2, 1: 3, 2: 1}


@st.composite
def messages(draw: st.DrawFn, *, may_idle: bool = False) -> ControlMessage:
    generation = draw(st.sampled_from(sorted(GENERATIONS)))
    total = GENERATIONS[generation]
    task = f"Partition {draw(st.integers(0, total - 1))}"
    kind = draw(st.sampled_from(["watermark", "watermark", "end", *(["idle"] if may_idle else [])]))
    if kind == "watermark":
        return at(task, draw(st.integers(0, 20)), total, generation)
    return end(task, total, generation) if kind == "end" else idle(task, total, generation)


def ended(generation: int, tasks: int) -> list[ControlMessage]:
    """The end of a generation, in one batch."""
    return [EndOfStream(f"Partition {task}", tasks, STREAM, generation) for task in range(tasks)]


@st.composite
def sent_in_order(draw: st.DrawFn) -> list[ControlMessage]:
    """What the two tasks of a generation have sent, in this order: they are often idle and awake in turn."""
    found: list[ControlMessage] = []
    for sequence in range(draw(st.integers(0, 8))):
        task = draw(st.sampled_from(["Partition 0", "Partition 1"]))
        mark = draw(st.sampled_from([at(task, sequence), at(task, 10), idle(task), replace(idle(task), timestamp=10)]))
        found.append(replace(mark, sequence=sequence))
    return found


@given(sent_in_order(), st.data())
def test_neither_order_nor_batches_change_what_is_known(sent: list[ControlMessage], data: st.DataObject) -> None:
    one_by_one = after_one(*([message] for message in sent), tracker=EMPTY)
    mixed = data.draw(
        st.permutations([*sent, *(data.draw(st.lists(st.sampled_from(sent), max_size=3)) if sent else [])])
    )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(mixed)), max_size=3)))
    pieces = [mixed[start:stop] for start, stop in pairwise([0, *cuts, len(mixed)])]
    tracker = after_one(*pieces, tracker=EMPTY)
    assert replace(one_by_one, watermark=None) == replace(tracker, watermark=None)


batches = st.lists(messages(), max_size=12)
idle_batches = st.lists(messages(may_idle=True), max_size=12)
moments = st.lists(st.tuples(idle_batches, st.integers(0, 150)), max_size=8)
idle_timeouts = st.none() | st.builds(IdleTimeout, st.just(100), st.sampled_from([0.0, 0.5, 1.0]))


@given(batches, batches, st.data())
def test_a_message_may_come_twice(
    before: list[ControlMessage], batch: list[ControlMessage], data: st.DataObject
) -> None:
    tracker = after(before)
    repeats = data.draw(st.lists(st.sampled_from(batch))) if batch else []
    once, twice = receive(tracker, batch, 1), receive(tracker, [*batch, *repeats], 1)
    assert once.announced == twice.announced
    assert unstale(once.tracker) == unstale(twice.tracker)


def unstale(tracker: PartitionTracker) -> PartitionTracker:
    """The tracker without its count of stale messages."""
    return replace(tracker, stale=0, stale_generation=-1)


@given(idle_batches, idle_batches)
def test_a_log_may_be_read_again_from_any_place(before: list[ControlMessage], batch: list[ControlMessage]) -> None:
    tracker = after(before)
    once = unstale(receive(tracker, batch, 1).tracker)
    assert once == unstale(receive(tracker, [*batch, *batch], 1).tracker)
    assert once == unstale(receive(once, batch, 1).tracker)


@given(batches, batches, st.data())
def test_the_order_of_messages_does_not_matter(
    before: list[ControlMessage], batch: list[ControlMessage], data: st.DataObject
) -> None:
    tracker = after(before)
    assert receive(tracker, batch, 1) == receive(tracker, data.draw(st.permutations(batch)), 1)


@given(idle_batches, st.data())
def test_the_order_of_different_tasks_does_not_matter(batch: list[ControlMessage], data: st.DataObject) -> None:
    key = lambda message: (message.generation, message.task or "")  # noqa: E731 - used twice, here only
    by_task = [list(group) for _, group in groupby(sorted(batch, key=key), key=key)]
    other = [message for group in data.draw(st.permutations(by_task)) for message in group]
    assert receive(EMPTY, batch, 1) == receive(EMPTY, other, 1)


@given(batches, batches, batches)
def test_batches_may_be_cut_anywhere(
    before: list[ControlMessage], first: list[ControlMessage], second: list[ControlMessage]
) -> None:
    tracker = after(before)
    whole, pieces = receive(tracker, [*first, *second], 1).tracker, after_one(first, second, tracker=tracker)
    alike = [replace(unstale(each), watermark=None, at_end=False) for each in (whole, pieces)]
    assert alike[0] == alike[1]
    assert pieces.at_end or (not whole.at_end and (pieces.watermark or 0) >= (whole.watermark or 0))


def after_one(*pieces: list[ControlMessage], tracker: PartitionTracker) -> PartitionTracker:
    """The tracker after the pieces of a batch, all at the moment 1."""
    for piece in pieces:
        tracker = receive(tracker, piece, 1).tracker
    return tracker


@given(moments, idle_timeouts)
def test_a_checkpoint_restores_the_tracker(
    flow: list[tuple[list[ControlMessage], int]], idle_timeout: IdleTimeout | None
) -> None:
    tracker, now = replace(EMPTY, partition=7), 0
    for batch, wait in flow:
        now += wait
        tracker = receive(tracker, batch, now, idle_timeout).tracker
    of_end, of_watermark = (json.loads(json.dumps(asdict(part))) for part in to_checkpoint(tracker))
    assert tracker == restore(EndOfStreamCheckpoint(**of_end), WatermarkCheckpoint(**of_watermark), 7)


@given(moments, idle_timeouts)
@example([(ended(0, 2), 0), ([at("Partition 0", 0, 1, 2)], 0)], None)
def test_watermarks_rise_until_the_end_which_comes_once_in_a_generation(
    flow: list[tuple[list[ControlMessage], int]], idle_timeout: IdleTimeout | None
) -> None:
    tracker, now, highest, at_end = EMPTY, 0, -1, False
    for batch, wait in flow:
        now += wait
        for step in (
            receive(tracker, batch, now, idle_timeout),
            *([] if idle_timeout is None else [advance_time(tracker, now, idle_timeout)]),
        ):
            reopened = any(each.type == "reopened" for each in step.announced)
            assert reopened == (at_end and step.tracker.generation > tracker.generation)
            assert reopened or not (at_end and (step.end or step.watermark is not None))
            assert not (step.end and step.watermark is not None)
            assert step.watermark is None or highest < step.watermark == step.tracker.watermark
        step = receive(tracker, batch, now, idle_timeout)
        tracker, at_end = step.tracker, step.tracker.at_end
        highest = highest if step.watermark is None else step.watermark


@given(moments, st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 200))
def test_nothing_is_announced_between_two_timeouts(
    flow: list[tuple[list[ControlMessage], int]], quorum: float, later: int
) -> None:
    idle_timeout, tracker, now = IdleTimeout(100, quorum), EMPTY, 0
    for batch, wait in flow:
        now += wait
        tracker = receive(tracker, batch, now, idle_timeout).tracker
    due = next_timeout(tracker, now, idle_timeout)
    assert due is None or now < due <= now + 100
    if due is None or now + later < due:
        assert TrackerUpdate(tracker) == advance_time(tracker, now + later, idle_timeout)


@given(st.lists(batches, max_size=8))
@example([ended(1, 3), ended(2, 1)])
def test_the_tracker_announces_what_plain_dicts_do(flow: list[list[ControlMessage]]) -> None:
    plain, tracker = Plain(), EMPTY
    pages = plain.empty(1)
    for batch in flow:
        step = receive(tracker, batch, 0)
        tracker = step.tracker
        expected = plain.receive(pages, [(0, message) for message in batch], 0, 0)
        assert (expected.watermark, expected.end) == (step.watermark, step.end)
