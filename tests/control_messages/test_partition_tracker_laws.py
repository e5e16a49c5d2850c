"""Laws of a tracker that hold for all messages in any batches."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import asdict, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from control_messages import partition_tracker
from control_messages.announcements import Announcement, TrackerUpdate
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore, to_checkpoint
from control_messages.messages import EARLIEST, ControlMessage, EndOfStream, Watermark
from control_messages.partition_tracker import (
    NONE_TIMED_OUT,
    IdleTimeout,
    PartitionTracker,
    advance_time,
    computed_watermark,
    next_call,
    next_timeout,
    receive,
    resume,
)
from tests.control_messages.intermediate import STREAM, Plain
from tests.control_messages.trackers import EMPTY, TIMEOUT, after, at, end, idle
from tests.histories.history import check_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from control_messages.announcements import AnnouncementType

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


Write: TypeAlias = "list[ControlMessage]"
TASKS = [f"Partition {task}" for task in range(3)]


def written(rng: random.Random) -> list[Write]:
    """What the jobs of a stream have written, write by write: tasks that are idle and awake in turn, ends, generations.

    A write is of one generation. Some are of a job that a higher generation has replaced, some are written twice.
    """
    found: list[Write] = []
    generation = 0
    for sequence in range(rng.randint(1, 16)):
        generation = min(2, generation + (rng.random() < 0.15))
        own = max(0, generation - (rng.random() < 0.1))
        tasks = TASKS[: GENERATIONS[own]]
        chosen = tasks if rng.random() < 0.6 else [rng.choice(tasks)]
        kind = rng.choice(["watermark", "watermark", "watermark", "idle", "idle", "end", "mixed"])
        found.append([counted(rng, _message(rng, kind, task, own), sequence) for task in chosen])
        if rng.random() < 0.15:
            found.append(rng.choice(found))
    return found


def counted(rng: random.Random, message: Watermark | EndOfStream, sequence: int) -> ControlMessage:
    """A message as it is sent: a watermark has a count of its task's rows."""
    if isinstance(message, EndOfStream) or message.idle:
        return replace(message, sequence=sequence)
    return replace(message, sequence=sequence, writer=0, rows=rng.randint(0, 3))


def _message(rng: random.Random, kind: str, task: str, generation: int) -> Watermark | EndOfStream:
    count, time = GENERATIONS[generation], rng.randint(0, 20)
    kind = rng.choice(["watermark", "idle", "end"]) if kind == "mixed" else kind
    if kind == "end":
        return end(task, count, generation)
    mark = at(task, time, count, generation)
    return replace(mark, idle=True, timestamp=rng.choice([EARLIEST, time])) if kind == "idle" else mark


def compare(seed: int, seen: Counter[str]) -> None:
    """Read a history write by write, and in batches that end anywhere, with restarts: both announce the same."""
    rng = random.Random(seed)
    history = written(rng)
    cuts = sorted(rng.randint(0, len(history)) for _ in range(rng.randint(0, 4)))
    tracker = one_by_one = EMPTY
    for start, stop in pairwise([0, *cuts, len(history)]):
        before, fine = one_by_one, list[Announcement]()
        for write in history[start:stop]:
            step = receive(one_by_one, write, 1, rows=1)
            one_by_one = step.tracker
            fine += step.announced
        sent = [message for write in history[start:stop] for message in write]
        sent += rng.choices(sent, k=rng.randint(0, 3)) if sent else []
        rng.shuffle(sent)
        batch = receive(tracker, sent, 1, rows=stop - start)
        assert merged(before, fine, one_by_one.generation) == list(batch.announced), f"seed {seed}"
        assert unstale(one_by_one) == unstale(batch.tracker), f"seed {seed}"
        seen.update(each.type for each in batch.announced)
        seen["a batch with several generations"] += len({message.generation for message in sent}) > 1
        seen["the watermark is above what would hold it now"] += batch.tracker.watermark != (
            computed_watermark(batch.tracker, NONE_TIMED_OUT) or batch.tracker.watermark
        )
        seen["stale"] += batch.tracker.stale > before.stale
        restarts = rng.random() < 0.5
        seen["restarted in the midst"] += restarts and stop < len(history)
        tracker = restarted(batch.tracker) if restarts else batch.tracker


def compare_all(histories: int, seen: Counter[str]) -> None:
    for seed in range(histories):
        compare(seed, seen)


EVENTS = (
    "watermark",
    "idle",
    "active",
    "endOfStream",
    "reopened",
    "a batch with several generations",
    "the watermark is above what would hold it now",
    "stale",
    "restarted in the midst",
)


def test_neither_batches_nor_restarts_nor_the_order_within_a_batch_change_what_is_announced() -> None:
    seen: Counter[str] = Counter()
    compare_all(2_500, seen)
    check_events(seen, EVENTS, 20)


@pytest.mark.long
def test_they_do_not_in_many_histories() -> None:
    seen: Counter[str] = Counter()
    compare_all(200_000, seen)
    check_events(seen, EVENTS, 1_000)


@pytest.mark.parametrize(
    ("target", "name", "mistake"),
    [
        pytest.param(
            partition_tracker, "_write", lambda message: (0, message.generation, 0), id="a batch is one write"
        ),
        pytest.param(partition_tracker._Update, "raise_watermark", lambda _: None, id="only the end of a batch counts"),
        pytest.param(partition_tracker, "_order", lambda message: message.generation, id="as Spark delivers them"),
    ],
)
def test_results_that_depend_on_batches_are_noticed(
    target: object, name: str, mistake: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, mistake)
    with pytest.raises(AssertionError, match="seed"):
        compare_all(2_500, Counter())


@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(0, 10_000)), min_size=1, max_size=12),
    st.integers(1, 40),
)
def test_a_restart_forgets_the_time_of_the_stop_and_no_silence(stops: list[tuple[int, int]], gap: int) -> None:
    """Task a sends a message every `gap` ms, b is silent; the consumer runs so long, then it is stopped so long."""
    start = receive(EMPTY, [at("a", 1), at("b", 0)], 0, TIMEOUT).tracker
    tracker, now, saved_at, ran = start, 0, 0, 0
    for runs, stopped in [*stops, (200, 0)]:
        for _ in range(runs):
            now, ran = now + 1, ran + 1
            due = next_call(tracker, saved_at, TIMEOUT)
            assert due is not None
            if now >= due or ran % gap == 0:
                heard = [at("a", 1)] if ran % gap == 0 else []
                step = receive(tracker, heard, now, TIMEOUT)
                tracker, saved_at = restarted(step.tracker), now
                if step.announced:
                    assert 100 <= ran <= 100 + gap + 5 * len(stops), "a twentieth of the timeout for each restart"
                    return
        now += stopped
        tracker = resume(tracker, now - saved_at)
        saved_at = now
    raise AssertionError("b never timed out")


def merged(before: PartitionTracker, fine: list[Announcement], generation: int) -> list[Announcement]:
    """What one batch announces in place of several: what still holds at its end, and was not so before it."""
    state = {"at_end": before.at_end, "idle": before.is_idle}
    watermark, count = None, None
    reopened = False
    for each in fine:
        count = each.partition_count
        match each.type:
            case "watermark":
                watermark = each.watermark
            case "endOfStream":
                state = {"at_end": True, "idle": False}
            case "reopened":
                state, reopened = {**state, "at_end": False}, reopened or before.at_end
            case other:
                state["idle"] = other == "idle"
    whole: dict[AnnouncementType, bool] = {
        "reopened": reopened,
        "active": before.is_idle and not state["idle"] and not state["at_end"],
        "watermark": watermark is not None,
        "idle": state["idle"] and not before.is_idle,
        "endOfStream": state["at_end"] and (reopened or not before.at_end),
    }
    return [
        Announcement(kind, generation, watermark if kind == "watermark" else None, count)
        for kind, holds in whole.items()
        if holds
    ]


def restarted(tracker: PartitionTracker) -> PartitionTracker:
    """The tracker that a restarted consumer finds in the checkpoint."""
    of_end, of_watermark = (json.loads(json.dumps(asdict(part))) for part in to_checkpoint(tracker))
    return restore(EndOfStreamCheckpoint(**of_end), WatermarkCheckpoint(**of_watermark), tracker.partition)


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


@given(moments, idle_timeouts)
def test_a_checkpoint_restores_the_tracker(
    flow: list[tuple[list[ControlMessage], int]], idle_timeout: IdleTimeout | None
) -> None:
    tracker, now = replace(EMPTY, partition=7), 0
    for batch, wait in flow:
        now += wait
        tracker = receive(tracker, batch, now, idle_timeout).tracker
    assert tracker == restarted(tracker)


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
        before = pages["pages"][0]["out"]
        expected = plain.receive(pages, [(0, message) for message in batch], 0, 0)
        out = pages["pages"][0]["out"]
        assert (out if out > before else None, expected.end) == (step.watermark, step.end)
