"""Which tasks hold a watermark, as values and as a text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from control_messages.holds import why_held
from control_messages.partition_tracker import (
    IdleTimeout,
    PartitionTracker,
    receive,
)
from tests.control_messages.trackers import EMPTY, TIMEOUT, after, at, end, idle


def test_a_hold_counts_the_tasks_without_a_message() -> None:
    hold = why_held(receive(EMPTY, [at("a", 10, 4)], 0).tracker, now=90_000)
    assert (3, 4, None, 0) == (hold.unseen, hold.task_count, hold.watermark, hold.first_seen)
    assert (
        "Partition 0 of by-destination has no watermark yet (generation 0): 3 of 4 tasks have sent no message "
        "since it began 90 s ago (these have: 'a') (if they have ended, and retention or a vacuum has deleted that, "
        "append it again: `control_envelopes(spark, producer, producer.end_of_stream([...]))`); "
        "lowest is 1970-01-01 00:00:00.010 UTC, of 'a' (last message 90 s ago)."
    ) == str(hold)


def test_a_hold_names_the_lowest_tasks_and_those_that_have_timed_out() -> None:
    idle_timeout = IdleTimeout(60_000, 0.5)
    first = receive(
        EMPTY, [at("a", 10, 5), at("b", 10, 5), idle("c", 5), end("d", 5), at("e", 5, 5)], 0, idle_timeout
    ).tracker
    tracker = receive(first, [at("a", 40, 5), at("b", 40, 5)], 7_200_000, idle_timeout).tracker
    hold = why_held(tracker, 7_230_000, idle_timeout)
    assert [("a", 40, 7_200_000), ("b", 40, 7_200_000)] == [(t.task, t.watermark, t.last_seen) for t in hold.lowest]
    assert ["e"] == [task.task for task in hold.timed_out]
    assert (
        "Partition 0 of by-destination is at 1970-01-01 00:00:00.040 UTC (generation 0): lowest is "
        "1970-01-01 00:00:00.040 UTC, of 'a' (last message 30 s ago), 'b' (last message 30 s ago); timed out: 'e' "
        "(last message 2 h ago); idle as declared: 'c' (last message 2 h ago); 1 of 5 tasks have ended."
    ) == str(hold)


def test_a_hold_names_the_sender_for_all_tasks_or_the_task_that_is_lowest() -> None:
    tasks = [at("a", 20), at("b", 30)]
    for_all = {10: ["a"], 25: [None]}
    assert for_all == {
        watermark: [task.task for task in why_held(after([*tasks, at(None, watermark, 1)]), 0).lowest]
        for watermark in for_all
    }


def test_a_hold_shows_that_too_few_tasks_are_active_for_a_timeout() -> None:
    idle_timeout = IdleTimeout(1000, 1.0)
    hold = why_held(after([at("a", 10), at("b", 20)]), 5000, idle_timeout)
    assert ((), ["a", "b"]) == (hold.timed_out, [task.task for task in hold.silent])
    silent = "fewer than 2 tasks are active, ended or idle: 'a' (last message 5 s ago), 'b' (last message 5 s ago)"
    assert f"silent, but not timed out since {silent}" in str(hold)


def test_a_hold_shows_that_tasks_without_a_message_have_timed_out() -> None:
    hold = why_held(receive(EMPTY, [at("a", 10)], 0, TIMEOUT).tracker, 100, replace(TIMEOUT, quorum=0))
    assert not hold.unseen_timed_out, "at least one task must be active, ended or idle"
    hold = why_held(receive(EMPTY, [at("a", 10), at("a", 20)], 50, TIMEOUT).tracker, 149, IdleTimeout(99, 0.5))
    assert "not timed out since no task is active, ended or idle" in str(hold)
    tracker = receive(receive(EMPTY, [at("a", 10)], 0, TIMEOUT).tracker, [at("a", 10)], 90, TIMEOUT).tracker
    text = str(why_held(tracker, 100, TIMEOUT))
    assert "timed out without a message: 1 of 2 tasks" in text
    assert "have sent no message" not in text


def test_a_task_that_ended_while_idle_counts_as_ended() -> None:
    hold = why_held(after([idle("a"), end("a"), at("b", 10)]), 0)
    assert ((), 1) == (hold.idle, hold.ended)


@pytest.mark.parametrize(
    ("tracker", "words"),
    [
        (EMPTY, "Partition 0 of by-destination has no watermark yet: no control message was read."),
        (after([end("a", 1)]), "Partition 0 of by-destination has ended."),
        (after([at(None, 10, 1)]), "of the sender for all tasks (last message 1 s ago)"),
        (
            after([at("a", 2**62, 1)]),
            "is at 4611686018427387904 ms (generation 0): lowest is 4611686018427387904 ms",
        ),
        (after([at(f"{n:02}", 10, 20) for n in range(20)]), "'04' (last message 1 s ago) and 15 more."),
    ],
)
def test_a_hold_as_a_text(tracker: PartitionTracker, words: str) -> None:
    assert words in str(why_held(tracker, 1000))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (3, ""),
        (2, "; 1 of the 3 rows that its tasks count were not read: they are lost."),
        (5, "; 2 rows more were read than the 3 that its tasks count: they are doubled, or written without `emit`"),
    ],
)
@pytest.mark.parametrize("over", [False, True])
def test_a_hold_says_how_many_rows_are_lost_or_doubled(rows: int, words: str, over: bool) -> None:
    mark = replace(at("a", 10, 1), sequence=1, writer=0, rows=3)
    hold = why_held(receive(EMPTY, [mark, *([end("a", 1)] if over else [])], 0, rows=rows).tracker, 0)
    assert (words in str(hold), bool(words)) == (True, "rows" in str(hold))
