"""The rules of a partition's tracker, case by case."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from control_messages.announcements import Announcement, TrackerUpdate
from control_messages.errors import ContradictionError
from control_messages.messages import EARLIEST, ControlMessage, Drain, EndOfStream, Watermark
from control_messages.partition_tracker import (
    IdleTimeout,
    PartitionTracker,
    advance_time,
    next_timeout,
    receive,
    resume,
)
from tests.control_messages.intermediate import STREAM
from tests.control_messages.trackers import EMPTY, TIMEOUT, after, announced, at, end, idle

HOUR = 3_600_000


# Watermarks


def test_the_watermark_is_the_lowest_once_all_tasks_have_sent_a_message() -> None:
    assert [None, 40] == announced([at("a", 70)], [at("b", 40)])


def test_a_watermark_is_announced_only_when_it_rises() -> None:
    assert [40, None, None, 50] == announced([at("a", 70), at("b", 40)], [at("b", 40)], [at("a", 80)], [at("b", 50)])


def test_a_lower_watermark_of_a_task_only_shows_that_the_task_is_alive() -> None:
    first = after([at("a", 70), at("b", 40)])
    again = receive(first, [at("a", 10)], now=5)
    assert replace(first, last_seen={"a": 5, "b": 0}) == again.tracker
    assert again.watermark is None


def test_a_task_that_has_ended_does_not_hold_the_watermark() -> None:
    assert [None, 40] == announced([end("b")], [at("a", 40)])


def test_a_watermark_after_the_end_of_its_task_has_no_effect() -> None:
    assert [None, None, "end"] == announced([end("a")], [at("a", 90)], [end("b")])
    assert after([end("a"), at("a", 90)]) == after([at("a", 90), end("a")])


def test_the_lowest_possible_watermark_is_not_announced() -> None:
    assert [None] == announced([at("a", EARLIEST, 1)])


def test_a_message_without_a_name_counts_for_all_tasks() -> None:
    assert [40, None, "end"] == announced([at(None, 40, 1)], [at("a", 90, 3)], [end(None, 1)])


def test_of_a_watermark_for_all_tasks_and_those_of_the_tasks_the_higher_counts() -> None:
    assert [20, 30, 50] == announced([at("a", 20), at("b", 90)], [at(None, 30, 1)], [at("a", 50)])


def test_a_drain_message_is_ignored() -> None:
    assert TrackerUpdate(EMPTY) == receive(EMPTY, [Drain("a", 7, "run", 9)], now=0)


# The end


def test_the_end_comes_once_when_all_tasks_have_ended() -> None:
    assert [None, "end", None] == announced([end("a")], [end("b")], [end("a"), end("b")])


def test_nothing_follows_the_end_but_a_new_generation_which_reopens_the_stream() -> None:
    tracker = after([at("a", 40), at("b", 50)], [end("a"), end("b")])
    assert [None, None] == announced([at("a", 90), end("a")], [at("a", 90, 3, generation=-1)], tracker=tracker)
    step = receive(tracker, [at("a", 90, 1, generation=1)], 0)
    assert (Announcement("reopened", 1), Announcement("watermark", 1, 90)) == step.announced
    assert (Announcement("endOfStream", 1),) == receive(step.tracker, [end("a", 1, generation=1)], 0).announced


def test_a_generation_that_begins_with_the_end_of_the_last_one_replaces_that_end() -> None:
    tracker = after([at("a", 40, 1)])
    step = receive(tracker, [end("a", 1), at("a", 90, 1, generation=1)], 0)
    assert (Announcement("watermark", 1, 90),) == step.announced


def test_ends_of_two_generations_are_not_added_up() -> None:
    assert [None, None, "end"] == announced([end("a")], [end("b", generation=1)], [end("a", generation=1)])


# Generations


def test_a_new_generation_begins_without_tasks_and_keeps_the_announced_watermark() -> None:
    tracker = after([at("a", 70), at("b", 40)], [at("c", 10, 3, generation=1)])
    expected = PartitionTracker(STREAM, 0, 1, 3, {"c": 10}, last_seen={"c": 1}, first_seen=1, watermark=40)
    expected = replace(expected, all_counted=False)
    assert expected == tracker
    assert [None, 60] == announced(
        [at("a", 50, 3, 1), at("b", 20, 3, 1)],
        [at("a", 90, 3, 1), at("b", 80, 3, 1), at("c", 60, 3, 1)],
        tracker=tracker,
    )


def test_messages_of_lower_generations_are_counted_and_have_no_effect() -> None:
    tracker = after([at("a", 70, 1, generation=3)])
    step = receive(tracker, [at("x", 99, 5, generation=2), end("a", 1, generation=0)], now=9)
    assert TrackerUpdate(replace(tracker, stale=2, stale_generation=2)) == step


def test_a_generation_that_begins_in_a_batch_comes_after_the_others_whatever_the_order() -> None:
    old, new = [at("a", 70), at("b", 40)], [at("a", 30, 1, generation=1)]
    step = receive(EMPTY, [*old, *new], 0)
    assert step == receive(EMPTY, [*new, *old], 0)
    assert (40, 0) == (step.watermark, step.tracker.stale), "as if each had been read in a batch of its own"


# Contradictions


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (at("a", 90, 3), "has a task count of 3, its generation has 2"),
        (end("a", 1), "has a task count of 1, its generation has 2"),
        (at("c", 90), "one task more than there are; the tasks of its generation are 'a', 'b'"),
        (end("c"), "one task more than there are; the tasks of its generation are 'a', 'b'"),
        (EndOfStream("a", 2, "by-origin"), "is of stream 'by-origin', but `reconcile` was called with 'by-destin"),
        (EndOfStream("a", 2, "by-origin", 7), "is of stream 'by-origin'"),
        (replace(at("a", 90), stream="by-origin"), "is of stream 'by-origin'"),
        (replace(at("a", 90), partition_count=0), "there is no such partition"),
        (at("a", 90, 0, generation=7), "has a task count of 0, its generation has at least one task"),
        (at(None, 90, 0), "has a task count of 0, its generation has 2"),
    ],
)
def test_a_message_that_cannot_be_true_is_rejected_and_the_others_count(message: ControlMessage, words: str) -> None:
    tracker = after([at("a", 70), at("b", 40)])
    with pytest.raises(ContradictionError, match=words) as refused:
        receive(tracker, [message], now=1)
    assert "partition 0 of stream by-destination" in str(refused.value)
    rejected: list[tuple[ControlMessage, str]] = []
    step = receive(tracker, [message, at("b", 50)], 1, None, lambda bad, error: rejected.append((bad, str(error))))
    assert [(message, str(refused.value))] == rejected
    assert receive(tracker, [at("b", 50)], now=1) == step


def test_a_contradiction_of_a_lower_generation_is_only_stale() -> None:
    tracker = after([at("a", 70, 2, generation=1)])
    assert 1 == receive(tracker, [at("a", 70, 5, generation=0)], now=1).tracker.stale


def test_a_task_count_of_0_is_rejected_by_an_empty_tracker_too() -> None:
    for message in (at("a", 1, 0), at(None, 1, 0), end(None, 0)):
        with pytest.raises(ContradictionError, match="has a task count of 0, its generation has at least one task"):
            receive(EMPTY, [message], now=0)


def test_an_end_without_a_stream_counts_for_the_tracked_one() -> None:
    assert ["end"] == announced([EndOfStream("a", 1)])


# Idle tasks


def test_a_task_that_declares_itself_idle_does_not_hold_the_watermark_until_its_next_message() -> None:
    assert [None, 70, None, 80] == announced([at("a", 70)], [idle("b")], [at("b", 20), at("a", 90)], [at("b", 80)])


def test_when_no_task_holds_the_watermark_it_is_the_highest_and_the_partition_is_idle() -> None:
    assert [40, 50, None] == announced([at("a", 40), at("b", 50)], [idle("b"), idle("a")], [idle("a")])
    tracker = after([at("a", 40), at("b", 50)])
    step = receive(tracker, [idle("b"), end("a")], 9)
    assert (Announcement("watermark", 0, 50), Announcement("idle", 0)) == step.announced
    assert (50, 9, True) == (step.tracker.watermark, step.tracker.risen_at, step.tracker.is_idle)
    assert () == receive(step.tracker, [idle("b")], 10).announced
    assert (Announcement("active", 0),) == receive(step.tracker, [at("b", 30)], 10).announced
    assert (Announcement("active", 1),) == receive(step.tracker, [at("c", 30, generation=1)], 10).announced
    assert (Announcement("endOfStream", 0),) == receive(step.tracker, [end("b")], 10).announced


def test_a_partition_whose_tasks_have_all_been_idle_from_the_start_is_idle_without_a_watermark() -> None:
    assert (Announcement("idle", 0),) == receive(after([idle("a")]), [idle("b")], 1).announced
    assert (Announcement("idle", 0),) == receive(EMPTY, [replace(idle("a"), task=None, task_count=1)], 1).announced


def test_a_task_that_wakes_holds_the_watermark_only_after_what_followed_before() -> None:
    history: list[ControlMessage] = [at("a", 100), idle("b"), at("b", 20), at("a", 120), idle("b")]
    sent = [replace(message, sequence=number) for number, message in enumerate(history)]
    assert [None, 100, None, None, 120] == announced(*([message] for message in sent))
    assert [100, 120] == announced(sent[:4], sent[4:]) == announced(sent[3::-1], sent[4:])
    assert [120] == announced(sent)


def test_a_watermark_that_has_risen_is_announced_before_the_end() -> None:
    step = receive(EMPTY, [at("a", 40), at("b", 50), end("a"), end("b")], 0)
    assert (Announcement("watermark", 0, 40), Announcement("endOfStream", 0)) == step.announced


def test_a_task_is_idle_if_its_message_with_the_highest_sequence_says_so() -> None:
    awake, declared = replace(at("a", 100), sequence=5), replace(idle("a"), timestamp=100, sequence=7)
    back = replace(at("a", 100), sequence=9)
    cases: dict[str, list[ControlMessage]] = {"": [awake, declared, back], "a": [awake, declared]}
    for expected, sent in cases.items():
        for messages in permutations(sent):
            one_by_one: list[list[ControlMessage]] = [[message] for message in messages]
            assert frozenset(expected) == after(list(messages)).idle == after(*one_by_one).idle


def test_a_repeat_of_an_earlier_message_does_not_change_whether_a_task_is_idle() -> None:
    awake, declared = replace(at("a", 100), sequence=5), replace(idle("a"), sequence=7)
    assert frozenset("a") == after([awake], [declared], [awake]).idle
    assert frozenset() == after([awake], [declared], [replace(awake, sequence=8)], [declared]).idle


def test_without_sequences_a_task_that_is_idle_and_awake_in_one_batch_is_awake() -> None:
    assert frozenset() == after([at("a", 40), idle("a")]).idle
    assert frozenset() == after([idle("a"), at("a", 40)]).idle
    assert frozenset("a") == after([at("a", 40)], [idle("a")]).idle


def test_an_idle_task_of_an_earlier_release_wakes_by_a_message_with_a_sequence_and_without() -> None:
    assert frozenset() == after([idle("a")], [replace(at("a", 1), sequence=3)]).idle
    assert frozenset() == after([replace(idle("a"), sequence=3)], [at("a", 1)]).idle


def test_without_sequences_a_task_is_awake_whatever_the_times() -> None:
    assert frozenset() == after([idle("a"), at("a", -5)]).idle
    assert frozenset() == after([replace(idle("a"), timestamp=10), at("a", 5)]).idle


@pytest.mark.parametrize("generation", [0, 1])
def test_a_stream_keeps_its_partition_count(generation: int) -> None:
    tracker = after([replace(at("a", 70), partition_count=3)])
    with pytest.raises(
        ContradictionError, match="has a partition count of 4, the stream has 3. A stream keeps the numb"
    ):
        receive(tracker, [replace(at("b", 70, generation=generation), partition_count=4)], 1)
    again = replace(at("a", 70, generation=generation), partition_count=3)
    assert 3 == after([again], tracker=tracker).partition_count


def test_a_rejected_message_leaves_no_count() -> None:
    rejected: list[ControlMessage] = []
    wrong = replace(at("a", 9, 7), stream="other", partition_count=9)
    step = receive(EMPTY, [wrong], 0, None, lambda message, _: rejected.append(message))
    assert (EMPTY, [wrong]) == (replace(step.tracker, generation=-1, first_seen=0), rejected)


@pytest.mark.parametrize(("timeout", "quorum"), [(0, 0.5), (100, -0.1), (100, 1.1)])
def test_an_idle_timeout_out_of_range_is_refused(timeout: int, quorum: float) -> None:
    with pytest.raises(
        ValueError,
        match=r"Argument (timeout_ms|quorum) of IdleTimeout is .*: give a (whole )?number (of at least 1|from 0 to 1)",
    ):
        IdleTimeout(timeout, quorum)


def test_a_task_times_out_and_counts_again_from_its_next_message() -> None:
    tracker = receive(
        receive(EMPTY, [at("a", 10), at("b", 10)], 0, TIMEOUT).tracker, [at("a", 70)], 50, TIMEOUT
    ).tracker
    assert 100 == next_timeout(tracker, 50, TIMEOUT)
    assert TrackerUpdate(tracker) == advance_time(tracker, 99, TIMEOUT)
    step = advance_time(tracker, 100, TIMEOUT)
    assert 70 == step.watermark
    back = receive(step.tracker, [at("b", 20), at("a", 90)], 120, TIMEOUT)
    assert (None, 70) == (back.watermark, back.tracker.watermark)
    assert 80 == receive(back.tracker, [at("b", 80)], 121, TIMEOUT).watermark


def test_tasks_also_time_out_when_messages_of_others_arrive() -> None:
    tracker = receive(EMPTY, [at("a", 10), at("b", 10)], 0, TIMEOUT).tracker
    assert 70 == receive(tracker, [at("a", 70)], 100, TIMEOUT).watermark


def test_tasks_without_a_message_time_out_by_the_age_of_their_generation() -> None:
    tracker = receive(EMPTY, [at("a", 10)], 1000, TIMEOUT).tracker
    assert 1100 == next_timeout(tracker, 1000, TIMEOUT)
    tracker = receive(tracker, [at("a", 20)], 1090, TIMEOUT).tracker
    assert [None, 20] == [advance_time(tracker, now, TIMEOUT).watermark for now in (1099, 1100)]


def test_without_a_quorum_no_task_times_out() -> None:
    half, quarter = IdleTimeout(100, 0.5), IdleTimeout(100, 0.25)
    tracker = receive(receive(EMPTY, [at("a", 70, 4)], 0).tracker, [at("a", 70, 4)], 90).tracker
    assert advance_time(tracker, 100, half).watermark is None
    assert 70 == advance_time(tracker, 100, quarter).watermark
    assert 70 == receive(tracker, [end("b", 4)], 100, half).watermark
    assert 70 == receive(tracker, [idle("b", 4)], 100, half).watermark


def test_messages_for_all_tasks_do_not_count_for_the_quorum() -> None:
    tracker = receive(EMPTY, [at(None, 5, 1), at("a", 10), at("b", 20)], 0).tracker
    assert 20 == receive(tracker, [at("b", 20)], 100, TIMEOUT).watermark


def test_the_end_never_follows_from_a_timeout() -> None:
    tracker = receive(EMPTY, [end("a"), at("b", 10)], 0, TIMEOUT).tracker
    assert (Announcement("idle", 0),) == advance_time(tracker, HOUR, TIMEOUT).announced


def test_no_task_times_out_while_the_consumer_is_stopped() -> None:
    tracker = receive(EMPTY, [at("a", 10), at("b", 20)], 0, TIMEOUT).tracker
    assert 30 == receive(tracker, [at("b", 30)], HOUR, TIMEOUT).watermark
    assert receive(resume(tracker, HOUR), [at("b", 30)], HOUR, TIMEOUT).watermark is None
    assert 30 == receive(resume(tracker, HOUR - 100), [at("b", 30)], HOUR, TIMEOUT).watermark, "it had been silent"


def test_no_task_without_a_message_times_out_while_the_consumer_is_stopped() -> None:
    tracker = receive(EMPTY, [at("a", 10)], 0, TIMEOUT).tracker
    assert 10 == receive(tracker, [at("a", 10)], HOUR, TIMEOUT).watermark
    assert receive(resume(tracker, HOUR), [at("a", 10)], HOUR, TIMEOUT).watermark is None


def test_only_tasks_that_can_time_out_have_a_next_timeout() -> None:
    assert next_timeout(after([end("a"), idle("b")]), 0, TIMEOUT) is None
    assert next_timeout(after([end("a"), end("b")]), 0, TIMEOUT) is None
    assert next_timeout(after([at("a", 10), end(None, 1)]), 0, TIMEOUT) is None
    tracker = after([at("a", 10, 3), idle("b", 3), end("c", 3)])
    assert [100, None] == [next_timeout(tracker, now, TIMEOUT) for now in (99, 100)]
    assert next_timeout(after([at(None, 10, 1)]), 0, TIMEOUT) is None


def test_a_wrong_clock_has_no_effect_after_the_next_message() -> None:
    tracker = receive(EMPTY, [at("a", 10), at("b", 10)], HOUR, TIMEOUT).tracker
    tracker = receive(tracker, [at("a", 20), at("b", 20)], 0, TIMEOUT).tracker
    assert 100 == next_timeout(tracker, 0, TIMEOUT)


# Counts of rows


def sent(task: str, rows: int, sequence: int, writer: int = 0, generation: int = 0) -> Watermark:
    """A watermark with a count of rows."""
    return replace(at(task, 10, generation=generation), sequence=sequence, writer=writer, rows=rows)


def surplus(*batches: tuple[int, list[ControlMessage]]) -> list[int]:
    """After each batch, which has so many rows, how many more were read than are counted."""
    tracker, found = EMPTY, list[int]()
    for rows, messages in batches:
        tracker = receive(tracker, messages, 0, rows=rows).tracker
        found.append(tracker.surplus)
    return found


def test_rows_that_are_lost_or_doubled_are_noticed() -> None:
    writes: list[tuple[int, list[ControlMessage]]] = [(5, [sent("a", 3, 1), sent("b", 2, 1)]), (4, [sent("a", 4, 2)])]
    assert [0, 0] == surplus(*writes)
    assert [-1, -1] == surplus((4, writes[0][1]), writes[1]), "lost"
    assert [0, 1] == surplus(writes[0], (5, writes[1][1])), "doubled"


def test_the_counts_of_several_spark_tasks_are_added_and_those_of_a_repeat_are_not() -> None:
    one, other = sent("a", 3, 1), sent("a", 3, 1, writer=1)
    assert [0] == surplus((6, [one, other])), "equal but for the Spark task"
    assert [0, 3] == surplus((3, [one]), (3, [one])), "Kafka repeats a batch: its rows are doubled, the count is one"
    assert [0, 0] == surplus((3, [one]), (2, [one, sent("a", 2, 2)]))


def test_rows_that_are_read_before_their_count_are_more_until_then() -> None:
    assert [0, 0] == surplus((2, []), (1, [sent("a", 3, 1)])), "nothing is known before the first count"
    assert [0, 2, 0] == surplus((1, [sent("a", 1, 1)]), (2, []), (1, [sent("a", 3, 2)]))


def test_idle_tasks_and_ends_have_no_rows_and_a_watermark_without_a_count_ends_the_comparison() -> None:
    assert [0, 0] == surplus((3, [sent("a", 3, 1), replace(idle("b"), sequence=9)]), (2, [sent("b", 2, 8), end("a")]))
    assert [-1, 0, 0] == surplus((2, [sent("a", 3, 1)]), (2, [at("b", 9)]), (0, [sent("a", 3, 2)]))


def test_rows_of_a_generation_that_was_replaced_are_not_counted() -> None:
    assert [0, 0, 2] == surplus((3, [sent("a", 3, 5)]), (1, [sent("a", 1, 2, generation=1)]), (2, [sent("b", 2, 6)])), (
        "a former job still writes"
    )
