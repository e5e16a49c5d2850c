"""The watermark and the end of several inputs: the minimum, and one end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Literal, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_messages.announcements import Announcement
from control_messages.combined import CombinedTracker, receive
from control_messages.errors import ContradictionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from control_messages.announcements import AnnouncementType

INPUTS = ("s", "t")


def mark(name: str, watermark: int, generation: int = 0) -> tuple[str, Announcement]:
    return name, Announcement("watermark", generation, watermark)


def end(name: str, generation: int = 0) -> tuple[str, Announcement]:
    return name, Announcement("endOfStream", generation)


def reopened(name: str, generation: int = 1) -> tuple[str, Announcement]:
    return name, Announcement("reopened", generation)


def announced(*batches: Iterable[tuple[str, Announcement]]) -> list[list[str | int | None]]:
    """What is announced in each batch: watermarks, "endOfStream" and "reopened"."""
    tracker, found = CombinedTracker(INPUTS), list[list[str | int | None]]()
    for batch in batches:
        step = receive(tracker, batch)
        tracker = step.tracker
        found.append([each.type if each.watermark is None else each.watermark for each in step.announced])
    return found


def test_the_watermark_is_the_minimum_once_all_inputs_have_one() -> None:
    assert [[], [20], [], [30]] == announced([mark("s", 50)], [mark("t", 20)], [mark("s", 70)], [mark("t", 30)])


def test_an_input_that_has_ended_does_not_hold_the_watermark() -> None:
    assert [[20], [60], ["endOfStream"], []] == announced(
        [mark("s", 60), mark("t", 20)], [end("t")], [end("s")], [mark("s", 99)]
    )
    assert [[], [50]] == announced([end("t")], [mark("s", 50)])


def test_the_end_comes_once_and_again_after_an_input_was_reopened() -> None:
    assert [["endOfStream"], ["reopened", 9], ["endOfStream"]] == announced(
        [end("s"), end("t")], [reopened("t"), mark("t", 9, 1)], [end("t", 1)]
    )
    assert [["endOfStream"], ["reopened", "endOfStream"]] == announced(
        [end("s"), end("t")], [reopened("t"), end("t", 1)]
    )


def test_an_input_that_is_reopened_before_the_others_have_ended_is_not_announced() -> None:
    assert [[5], [], [], [8]] == announced([mark("s", 5), end("t")], [reopened("t")], [mark("t", 8, 1)], [mark("s", 9)])


def test_inputs_that_are_reopened_in_one_batch_hold_the_watermark_together_in_any_order() -> None:
    before = [mark("s", 5), mark("t", 5)], [end("s"), end("t")]
    again = [[reopened("s"), mark("s", 90, 1)], [reopened("t"), mark("t", 20, 1)]]
    for order in permutations(again):
        assert ["reopened", 20] == announced(*before, [each for own in order for each in own])[-1]


def test_an_input_that_is_not_one_is_refused() -> None:
    with pytest.raises(ValueError, match="'u' is not one of the inputs, which are 's', 't'"):
        receive(CombinedTracker(INPUTS), [mark("u", 1)])


def idle(name: str) -> tuple[str, Announcement]:
    return name, Announcement("idle", 0)


def active(name: str) -> tuple[str, Announcement]:
    return name, Announcement("active", 0)


@pytest.mark.parametrize(("s", "t"), list(permutations(INPUTS)))
def test_an_input_that_is_idle_does_not_hold_the_watermark_until_it_is_active(s: str, t: str) -> None:
    assert [[20], [50], [60], [], ["endOfStream"]] == announced(
        [mark(s, 50), mark(t, 20)], [idle(t)], [mark(s, 60)], [active(t), mark(s, 70)], [end(t), end(s)]
    )
    assert [[], [50]] == announced([idle(t)], [mark(s, 50)]), "idle from its start"
    assert [[20], ["endOfStream"]] == announced([mark(s, 50), mark(t, 20), idle(s)], [end(s), end(t)])


@pytest.mark.parametrize(("s", "t"), list(permutations(INPUTS)))
def test_when_no_input_holds_the_watermark_it_is_the_highest_and_the_whole_is_idle(s: str, t: str) -> None:
    assert [[20], [50, "idle"], ["active"], [60]] == announced(
        [mark(s, 50), mark(t, 20)], [idle(t), idle(s)], [active(t)], [mark(t, 60), active(s), mark(s, 90)]
    )
    assert [[20], [50, "idle"], ["active"]] == announced([mark(s, 50), mark(t, 20)], [end(s), idle(t)], [reopened(s)])
    assert [["idle"]] == announced([idle(s), idle(t)])


@dataclass
class Input:
    """What an input has announced."""

    watermark: int | None = None
    state: Literal["active", "idle", "ended"] = "active"
    generation: int = 0

    def announce(self, name: str, event: int | str) -> tuple[str, Announcement] | None:
        """What it announces next; None if it has nothing to announce."""
        if isinstance(event, int):
            if self.state == "ended" or (self.watermark is not None and event <= self.watermark):
                return None
            self.watermark = event
            return mark(name, event, self.generation)
        if event == "reopened":
            if self.state != "ended":
                return None
            self.state, self.generation = "active", self.generation + 1
            return reopened(name, self.generation)
        if self.state in ("ended", event):
            return None
        self.state = cast("Literal['active', 'idle', 'ended']", event)
        return name, Announcement(cast("AnnouncementType", "endOfStream" if event == "ended" else event), 0)


EVENTS = ("active", "idle", "ended", "reopened")


@given(st.lists(st.lists(st.tuples(st.sampled_from(INPUTS), st.integers(0, 30) | st.sampled_from(EVENTS)), max_size=5)))
def test_what_two_inputs_announce_is_combined_whichever_is_idle(batches: list[list[tuple[str, int | str]]]) -> None:
    tracker, other = CombinedTracker(INPUTS), CombinedTracker(INPUTS)
    inputs = {name: Input() for name in INPUTS}
    for batch in batches:
        over = {name for name, each in inputs.items() if each.state == "ended"}
        given_now = [
            each
            for name, event in batch
            if event != "reopened" or name in over  # a tracker never announces it in the batch of the end
            if (each := inputs[name].announce(name, event)) is not None
        ]
        highest = tracker.watermark
        step = receive(tracker, given_now)
        swapped = receive(other, [("st"[name == "s"], announcement) for name, announcement in given_now])
        assert step.announced == swapped.announced
        tracker, other = step.tracker, swapped.tracker
        assert list(dict.fromkeys(map(type_of, step.announced))) == sorted(
            map(type_of, step.announced), key=ORDER.index
        )
        if any(announcement.type == "endOfStream" for _, announcement in given_now):
            continue  # an input holds the watermark up to its end
        holding = [each.watermark for each in inputs.values() if each.state == "active"]
        known = [each.watermark for each in inputs.values() if each.watermark is not None]
        assert tracker.at_end == all(each.state == "ended" for each in inputs.values())
        if tracker.at_end or None in holding or not known:
            assert highest == tracker.watermark
        else:
            computed = min(each for each in holding if each is not None) if holding else max(known)
            assert tracker.watermark == (computed if highest is None else max(highest, computed))
        assert tracker.is_idle == (not tracker.at_end and not holding)


ORDER = ("reopened", "active", "watermark", "idle", "endOfStream")


def type_of(announcement: Announcement) -> str:
    return announcement.type


def test_streams_with_different_numbers_of_partitions_are_an_error() -> None:
    def of(name: str, partition_count: int | None) -> tuple[str, Announcement]:
        return name, Announcement("watermark", 0, 5, partition_count)

    step = receive(CombinedTracker(INPUTS), [of("s", None), of("t", 4)])
    assert [4] == [each.partition_count for each in step.announced]
    assert step.tracker == receive(step.tracker, [of("s", 4)]).tracker
    with pytest.raises(
        ContradictionError, match=r"s has 8 partitions, another stream of s, t has 4\. Write them again"
    ):
        receive(step.tracker, [of("s", 8)])
