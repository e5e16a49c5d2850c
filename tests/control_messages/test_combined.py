"""The watermark and the end of several inputs: the minimum, and one end."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_messages.announcements import Announcement
from control_messages.combined import CombinedTracker, receive
from control_messages.errors import ContradictionError

if TYPE_CHECKING:
    from collections.abc import Iterable

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


@given(st.lists(st.lists(st.tuples(st.sampled_from(INPUTS), st.integers(0, 30) | st.none()), max_size=3), max_size=8))
def test_the_watermark_is_never_above_that_of_an_input_that_goes_on(
    batches: list[list[tuple[str, int | None]]],
) -> None:
    tracker, marks, over = CombinedTracker(INPUTS), dict[str, int](), set[str]()
    before: int | None = None
    ends = 0
    for batch in batches:
        given_now = []
        for name, watermark in batch:
            if name in over:
                continue
            if watermark is None:
                over.add(name)
                given_now.append(end(name))
            elif watermark > marks.get(name, -1):
                marks[name] = watermark
                given_now.append(mark(name, watermark))
        step = receive(tracker, given_now)
        tracker = step.tracker
        going_on = [marks.get(name) for name in INPUTS if name not in over]
        lowest = None if None in going_on or not going_on else min(each for each in going_on if each is not None)
        if step.watermark is not None:
            assert step.watermark == lowest
            assert before is None or step.watermark > before
            before = step.watermark
        ends += step.end
        assert ends == tracker.at_end == (over == set(INPUTS))
        assert lowest is None or before is not None


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
