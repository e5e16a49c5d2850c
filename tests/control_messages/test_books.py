"""The books, one by one and of several partitions and streams: the rules, and the laws that hold for all messages."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_messages import stream_books
from control_messages.books import (
    Book,
    EndOfStreamCheckpoint,
    IdleRule,
    Step,
    WatermarkCheckpoint,
    checkpoint,
    expire,
    next_expiry,
    receive,
    restore,
    resume,
)
from control_messages.errors import ContradictionError
from control_messages.holds import Hold, why_held
from control_messages.messages import EARLIEST, ControlMessage, Drain, EndOfStream, Watermark
from control_messages.stream_books import StreamBook, all_ended, input_watermark
from tests.control_messages.intermediate import STREAM, Plain

EMPTY = Book(STREAM)
HOUR = 3_600_000


def at(task: str | None, timestamp: int, tasks: int = 2, generation: int = 0) -> Watermark:
    return Watermark(task, tasks, timestamp, generation)


def end(task: str | None, tasks: int = 2, generation: int = 0) -> EndOfStream:
    return EndOfStream(task, tasks, STREAM, generation)


def idle(task: str, tasks: int = 2, generation: int = 0) -> Watermark:
    return Watermark(task, tasks, EARLIEST, generation, idle=True)


def after(*batches: list[ControlMessage], book: Book = EMPTY, rule: IdleRule | None = None) -> Book:
    """The book after the batches, at the moments 0, 1, 2..."""
    for now, batch in enumerate(batches):
        book = receive(book, batch, now, rule).book
    return book


def announced(*batches: list[ControlMessage], book: Book = EMPTY) -> list[int | str | None]:
    """What each batch announces: a watermark, "end" or None."""
    said: list[int | str | None] = []
    for now, batch in enumerate(batches):
        step = receive(book, batch, now)
        book = step.book
        said.append("end" if step.end else step.watermark)
    return said


# Watermarks


def test_the_watermark_is_the_lowest_once_all_tasks_have_spoken() -> None:
    assert [None, 40] == announced([at("a", 70)], [at("b", 40)])


def test_nothing_is_announced_that_is_no_rise() -> None:
    assert [40, None, None, 50] == announced([at("a", 70), at("b", 40)], [at("b", 40)], [at("a", 80)], [at("b", 50)])


def test_a_lower_watermark_of_a_task_is_a_repeat_that_only_says_that_the_task_lives() -> None:
    first = after([at("a", 70), at("b", 40)])
    again = receive(first, [at("a", 10)], now=5)
    assert replace(first, heard={"a": 5, "b": 0}) == again.book
    assert again.watermark is None


def test_a_task_that_has_ended_holds_nobody_back() -> None:
    assert [None, 40] == announced([end("b")], [at("a", 40)])


def test_a_watermark_behind_the_end_of_its_task_opens_nothing() -> None:
    assert [None, None, "end"] == announced([end("a")], [at("a", 90)], [end("b")])
    assert after([end("a"), at("a", 90)]) == after([at("a", 90), end("a")])


def test_the_lowest_watermark_that_there_is_says_nothing() -> None:
    assert [None] == announced([at("a", EARLIEST, 1)])


def test_a_message_without_a_name_speaks_for_all() -> None:
    assert [40, None, "end"] == announced([at(None, 40, 1)], [at("a", 90, 3)], [end(None, 1)])


def test_of_one_who_speaks_for_all_and_the_tasks_themselves_the_higher_counts() -> None:
    assert [20, 30, 50] == announced([at("a", 20), at("b", 90)], [at(None, 30, 1)], [at("a", 50)])


def test_a_drain_message_is_no_business_of_the_book() -> None:
    assert Step(EMPTY) == receive(EMPTY, [Drain("a", 7, "run", 9)], now=0)


# The end


def test_the_end_comes_once_when_all_tasks_have_ended() -> None:
    assert [None, "end", None] == announced([end("a")], [end("b")], [end("a"), end("b")])


def test_nothing_follows_the_end_not_even_a_new_generation() -> None:
    assert ["end", None, None] == announced(
        [end("a"), end("b")], [at("a", 90, 1, generation=1)], [end("a", 1, generation=1)]
    )


def test_the_tasks_of_two_generations_make_no_end_together() -> None:
    assert [None, None, "end"] == announced([end("a")], [end("b", generation=1)], [end("a", generation=1)])


# Generations


def test_a_new_generation_begins_with_no_task_and_with_what_was_announced() -> None:
    book = after([at("a", 70), at("b", 40)], [at("c", 10, 3, generation=1)])
    expected = Book(STREAM, 0, 1, 3, {"c": 10}, heard={"c": 1}, since=1, emitted=40)
    assert expected == book
    assert [None, 60] == announced(
        [at("a", 50, 3, 1), at("b", 20, 3, 1)], [at("a", 90, 3, 1), at("b", 80, 3, 1), at("c", 60, 3, 1)], book=book
    )


def test_messages_of_older_generations_are_counted_and_change_nothing() -> None:
    book = after([at("a", 70, 1, generation=3)])
    step = receive(book, [at("x", 99, 5, generation=2), end("a", 1, generation=0)], now=9)
    assert Step(book, stale=2) == step


def test_the_newest_generation_of_a_batch_makes_the_others_stale_wherever_it_stands() -> None:
    old, new = [at("a", 70), at("b", 40)], [at("a", 30, 1, generation=1)]
    assert receive(EMPTY, [*old, *new], 0) == receive(EMPTY, [*new, *old], 0)
    assert (30, 2) == (receive(EMPTY, [*old, *new], 0).watermark, receive(EMPTY, [*old, *new], 0).stale)


# Contradictions


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (at("a", 90, 3), "tells of 3 tasks, while its generation has 2"),
        (end("a", 1), "tells of 1 tasks, while its generation has 2"),
        (at("c", 90), "one task more than there are; those of its generation are 'a', 'b'"),
        (end("c"), "one task more than there are; those of its generation are 'a', 'b'"),
        (EndOfStream("a", 2, "by-origin"), "ends another stream"),
        (EndOfStream("a", 2, "by-origin", 7), "ends another stream"),
        (at("a", 90, 0, generation=7), "tells of 0 tasks, while its generation has 2"),
        (at(None, 90, 0), "tells of 0 tasks, while its generation has 2"),
    ],
)
def test_a_message_that_cannot_be_true_is_refused_and_the_others_count(message: ControlMessage, words: str) -> None:
    book = after([at("a", 70), at("b", 40)])
    with pytest.raises(ContradictionError, match=words) as refused:
        receive(book, [message], now=1)
    assert "partition 0 of stream by-destination" in str(refused.value)
    rejected: list[tuple[ControlMessage, str]] = []
    step = receive(book, [message, at("b", 50)], 1, None, lambda bad, error: rejected.append((bad, str(error))))
    assert [(message, str(refused.value))] == rejected
    assert receive(book, [at("b", 50)], now=1) == step


def test_a_contradiction_of_an_older_generation_is_only_stale() -> None:
    book = after([at("a", 70, 2, generation=1)])
    assert 1 == receive(book, [at("a", 70, 5, generation=0)], now=1).stale


def test_a_message_of_no_tasks_is_refused_by_an_empty_book_too() -> None:
    for message in (at("a", 1, 0), at(None, 1, 0), end(None, 0)):
        with pytest.raises(ContradictionError, match="tells of 0 tasks, while its generation has one at least"):
            receive(EMPTY, [message], now=0)


def test_an_end_that_names_no_stream_is_believed() -> None:
    assert ["end"] == announced([EndOfStream("a", 1)])


# Idle tasks


def test_a_task_that_declares_itself_idle_holds_nobody_back_until_it_speaks() -> None:
    assert [None, 70, None, 80] == announced([at("a", 70)], [idle("b")], [at("b", 20), at("a", 90)], [at("b", 80)])


def test_when_all_tasks_are_idle_nothing_is_announced() -> None:
    assert [40, None, None] == announced([at("a", 40), at("b", 50)], [idle("b"), idle("a")], [idle("a")])


def test_of_an_idle_task_the_last_word_of_a_batch_counts() -> None:
    assert frozenset("a") == after([at("a", 40), idle("a")]).idle
    assert frozenset() == after([idle("a"), at("a", 40)]).idle


RULE = IdleRule(timeout_ms=100)


@pytest.mark.parametrize(("timeout", "quorum"), [(0, 0.5), (100, -0.1), (100, 1.1)])
def test_an_idle_rule_of_no_sense_is_refused(timeout: int, quorum: float) -> None:
    with pytest.raises(ValueError, match="the timeout is 1 ms at least"):
        IdleRule(timeout, quorum)


def test_a_silent_task_is_left_out_when_its_time_is_over_and_comes_back_when_it_speaks() -> None:
    book = receive(receive(EMPTY, [at("a", 10), at("b", 10)], 0, RULE).book, [at("a", 70)], 50, RULE).book
    assert 100 == next_expiry(book, 50, RULE)
    assert Step(book) == expire(book, 99, RULE)
    step = expire(book, 100, RULE)
    assert 70 == step.watermark
    back = receive(step.book, [at("b", 20), at("a", 90)], 120, RULE)
    assert (None, 70) == (back.watermark, back.book.emitted)
    assert 80 == receive(back.book, [at("b", 80)], 121, RULE).watermark


def test_messages_leave_out_the_silent_too() -> None:
    book = receive(EMPTY, [at("a", 10), at("b", 10)], 0, RULE).book
    assert 70 == receive(book, [at("a", 70)], 100, RULE).watermark


def test_tasks_that_never_spoke_are_left_out_once_their_generation_is_that_old() -> None:
    book = receive(EMPTY, [at("a", 10)], 1000, RULE).book
    assert 1100 == next_expiry(book, 1000, RULE)
    book = receive(book, [at("a", 20)], 1090, RULE).book
    assert [None, 20] == [expire(book, now, RULE).watermark for now in (1099, 1100)]


def test_too_few_known_tasks_leave_nobody_out() -> None:
    half, quarter = IdleRule(100, 0.5), IdleRule(100, 0.25)
    book = receive(receive(EMPTY, [at("a", 70, 4)], 0).book, [at("a", 70, 4)], 90).book
    assert expire(book, 100, half).watermark is None
    assert 70 == expire(book, 100, quarter).watermark
    assert 70 == receive(book, [end("b", 4)], 100, half).watermark
    assert 70 == receive(book, [idle("b", 4)], 100, half).watermark


def test_one_who_speaks_for_all_is_none_of_the_tasks_that_must_be_known() -> None:
    book = receive(EMPTY, [at(None, 5, 1), at("a", 10), at("b", 20)], 0).book
    assert 20 == receive(book, [at("b", 20)], 100, RULE).watermark


def test_no_end_comes_of_silence() -> None:
    book = receive(EMPTY, [end("a"), at("b", 10)], 0, RULE).book
    assert Step(book) == expire(book, HOUR, RULE)


def test_nobody_was_silent_while_the_consumer_was_away() -> None:
    book = receive(EMPTY, [at("a", 10), at("b", 20)], 0, RULE).book
    assert 30 == receive(book, [at("b", 30)], HOUR, RULE).watermark
    assert receive(resume(book, HOUR), [at("b", 30)], HOUR, RULE).watermark is None


def test_nobody_was_unheard_while_the_consumer_was_away() -> None:
    book = receive(EMPTY, [at("a", 10)], 0, RULE).book
    assert 10 == receive(book, [at("a", 10)], HOUR, RULE).watermark
    assert receive(resume(book, HOUR), [at("a", 10)], HOUR, RULE).watermark is None


def test_only_tasks_that_may_fall_silent_have_an_expiry() -> None:
    assert next_expiry(after([end("a"), idle("b")]), 0, RULE) is None
    assert next_expiry(after([end("a"), end("b")]), 0, RULE) is None
    assert next_expiry(after([at("a", 10), end(None, 1)]), 0, RULE) is None
    book = after([at("a", 10, 3), idle("b", 3), end("c", 3)])
    assert [100, None] == [next_expiry(book, now, RULE) for now in (99, 100)]
    assert next_expiry(after([at(None, 10, 1)]), 0, RULE) is None


def test_a_clock_that_was_wrong_is_right_again_with_the_next_message() -> None:
    book = receive(EMPTY, [at("a", 10), at("b", 10)], HOUR, RULE).book
    book = receive(book, [at("a", 20), at("b", 20)], 0, RULE).book
    assert 100 == next_expiry(book, 0, RULE)


# Why it is held


def test_it_is_told_which_tasks_never_spoke() -> None:
    hold = why_held(receive(EMPTY, [at("a", 10, 4)], 0).book, now=90_000)
    assert (3, 4, None, 0) == (hold.unheard, hold.total, hold.watermark, hold.since)
    assert (
        "Partition 0 of by-destination has no watermark yet (generation 0): 3 of 4 tasks have not spoken in the 90 s "
        "of it; lowest is 1970-01-01 00:00:00.010 UTC, of 'a' (heard 90 s ago)."
    ) == str(hold)


def test_it_is_told_which_tasks_are_lowest_and_which_are_left_out() -> None:
    rule = IdleRule(60_000, 0.5)
    first = receive(EMPTY, [at("a", 10, 5), at("b", 10, 5), idle("c", 5), end("d", 5), at("e", 5, 5)], 0, rule).book
    book = receive(first, [at("a", 40, 5), at("b", 40, 5)], 7_200_000, rule).book
    hold = why_held(book, 7_230_000, rule)
    assert [("a", 40, 7_200_000), ("b", 40, 7_200_000)] == [(t.task, t.watermark, t.heard) for t in hold.lowest]
    assert ["e"] == [task.task for task in hold.left_out]
    assert (
        "Partition 0 of by-destination stands at 1970-01-01 00:00:00.040 UTC (generation 0): lowest is "
        "1970-01-01 00:00:00.040 UTC, of 'a' (heard 30 s ago), 'b' (heard 30 s ago); left out for their silence: 'e' "
        "(heard 2 h ago); idle by their own word: 'c' (heard 2 h ago); 1 of 5 tasks have ended."
    ) == str(hold)


def test_it_is_told_whether_one_who_speaks_for_all_or_a_task_is_behind() -> None:
    tasks = [at("a", 20), at("b", 30)]
    for_all = {10: ["a"], 25: [None]}
    assert for_all == {
        watermark: [task.task for task in why_held(after([*tasks, at(None, watermark, 1)]), 0).lowest]
        for watermark in for_all
    }


def test_it_is_told_that_too_few_tasks_are_known() -> None:
    rule = IdleRule(1000, 1.0)
    hold = why_held(after([at("a", 10), at("b", 20)]), 5000, rule)
    assert ((), ["a", "b"]) == (hold.left_out, [task.task for task in hold.silent])
    silent = "fewer than 2 tasks are known to be well: 'a' (heard 5 s ago), 'b' (heard 5 s ago)"
    assert f"silent, but not left out since {silent}" in str(hold)


def test_it_is_told_that_the_unheard_are_left_out() -> None:
    hold = why_held(receive(EMPTY, [at("a", 10)], 0, RULE).book, 100, replace(RULE, quorum=0))
    assert not hold.unheard_left_out, "one task at least must be known"
    hold = why_held(receive(EMPTY, [at("a", 10), at("a", 20)], 50, RULE).book, 149, IdleRule(99, 0.5))
    assert "since nobody else is known to be well" in str(hold)
    book = receive(receive(EMPTY, [at("a", 10)], 0, RULE).book, [at("a", 10)], 90, RULE).book
    text = str(why_held(book, 100, RULE))
    assert "left out since they never spoke: 1 of 2 tasks" in text
    assert "have not spoken" not in text


def test_a_task_that_ended_while_idle_is_told_as_ended() -> None:
    hold = why_held(after([idle("a"), end("a"), at("b", 10)]), 0)
    assert ((), 1) == (hold.idle, hold.ended)


@pytest.mark.parametrize(
    ("book", "words"),
    [
        (EMPTY, "Partition 0 of by-destination has no watermark yet: no control message was read."),
        (after([end("a", 1)]), "Partition 0 of by-destination has ended."),
        (after([at(None, 10, 1)]), "of the speaker for all tasks (heard 1 s ago)"),
        (
            after([at("a", 2**62, 1)]),
            "stands at 4611686018427387904 ms (generation 0): lowest is 4611686018427387904 ms",
        ),
        (after([at(f"{n:02}", 10, 20) for n in range(20)]), "'04' (heard 1 s ago) and 15 more."),
    ],
)
def test_a_hold_is_told_for_people(book: Book, words: str) -> None:
    assert words in str(why_held(book, 1000))


# Checkpoints


def test_the_checkpoints_carry_the_fields_of_the_proposal() -> None:
    book = receive(after([at("a", 70), at("b", 40)]), [idle("b"), end("a")], 5).book
    of_end, of_watermark = checkpoint(book)
    assert EndOfStreamCheckpoint(STREAM, 2, ["a"], generation=0, ended=False) == of_end
    assert (
        WatermarkCheckpoint(
            streamId=STREAM,
            totalTasks=2,
            tasksToEventTime={"a": 70, "b": 40},
            generation=0,
            timestampOfLastEmission=40,
            idle=["b"],
            heard={"a": 5, "b": 5},
            since=0,
        )
        == of_watermark
    )


def test_two_checkpoints_of_different_moments_make_no_book() -> None:
    of_end, _ = checkpoint(after([at("a", 70)]))
    _, of_watermark = checkpoint(after([at("a", 70, generation=1)]))
    with pytest.raises(ValueError, match="They were not saved in one write"):
        restore(of_end, of_watermark)


# Several partitions, several streams


def test_the_watermark_of_a_stream_is_the_lowest_of_its_partitions() -> None:
    book = StreamBook.of(STREAM, 2)
    steps = []
    for batch in (
        [(0, at("a", 70, 1))],
        [(1, at("a", 40, 1))],
        [(0, at("a", 80, 1))],
        [(1, end("a", 1))],
        [(0, end("a", 1))],
        [(0, end("a", 1)), (1, end("a", 1, generation=1))],
    ):
        step = stream_books.receive(book, batch, 0)
        book = step.book
        steps.append("end" if step.end else step.watermark)
    assert [None, 40, None, 80, "end", None] == steps
    assert (True, None) == (book.at_end, book.emitted)


def test_a_stream_counts_stale_messages_and_hands_contradictions_on() -> None:
    book = stream_books.receive(StreamBook.of(STREAM, 2), [(0, at("a", 1, 1, 1)), (1, at("a", 1, 1, 1))], 0).book
    rejected: list[ControlMessage] = []
    bad = at("a", 9, 5, 1)
    messages = [(0, at("a", 1, 1, 0)), (1, at("a", 1, 1, 0)), (1, bad)]
    step = stream_books.receive(book, messages, 0, None, lambda message, _: rejected.append(message))
    assert (Step(book, stale=2), [bad]) == (step, rejected)
    with pytest.raises(ContradictionError, match="partition 1 of stream"):
        stream_books.receive(book, messages, 0)


def test_a_partition_that_the_stream_has_not_is_an_error() -> None:
    with pytest.raises(ValueError, match="has 2 partitions, and messages came from partition 2"):
        stream_books.receive(StreamBook.of(STREAM, 2), [(2, at("a", 1, 1))], 0)
    with pytest.raises(ValueError, match="has 0 partitions"):
        StreamBook.of(STREAM, 0)


def test_time_passes_for_all_partitions_of_a_stream() -> None:
    book = StreamBook.of(STREAM, 2)
    both = [(partition, message) for partition in (0, 1) for message in (at("a", 10), at("b", 10))]
    book = stream_books.receive(book, both, 0, RULE).book
    book = stream_books.receive(book, [(0, at("a", 30)), (1, at("a", 20))], 50, RULE).book
    assert 100 == stream_books.next_expiry(book, 50, RULE)
    assert 20 == stream_books.expire(book, 100, RULE).watermark
    assert stream_books.expire(stream_books.resume(book, 60), 100, RULE).watermark is None
    assert 20 == stream_books.receive(book, [(0, at("a", 40))], 100, RULE).watermark


def test_a_stream_tells_which_partitions_hold_it() -> None:
    book = StreamBook.of(STREAM, 4)
    book = stream_books.receive(book, [(0, at("a", 40, 1)), (1, at("a", 30, 1)), (2, end("a", 1))], 0).book
    assert [3] == partitions(stream_books.why_held(book, 0))
    book = stream_books.receive(book, [(3, at("a", 30, 1))], 0).book
    assert [1, 3] == partitions(stream_books.why_held(book, 0))


def partitions(holds: tuple[Hold, ...]) -> list[object]:
    return [hold.partition for hold in holds]


def test_the_watermark_of_several_streams_is_the_lowest_and_their_end_the_last() -> None:
    low, high = after([at("a", 30, 1)]), StreamBook((after([at("a", 40, 1)]),))
    ended = after([end("a", 1)])
    assert 30 == input_watermark([low, high, ended])
    assert input_watermark([low, high, EMPTY]) is None
    assert input_watermark([ended, ended]) is None
    assert [False, True] == [all_ended([high, ended]), all_ended([ended, StreamBook((ended,))])]


# Laws

GENERATIONS = {0: 2, 1: 3, 2: 1}


@st.composite
def told(draw: st.DrawFn, *, may_idle: bool = False) -> ControlMessage:
    generation = draw(st.sampled_from(sorted(GENERATIONS)))
    total = GENERATIONS[generation]
    task = f"Partition {draw(st.integers(0, total - 1))}"
    kind = draw(st.sampled_from(["watermark", "watermark", "end", *(["idle"] if may_idle else [])]))
    if kind == "watermark":
        return at(task, draw(st.integers(0, 20)), total, generation)
    return end(task, total, generation) if kind == "end" else idle(task, total, generation)


batches = st.lists(told(), max_size=12)
idle_batches = st.lists(told(may_idle=True), max_size=12)
moments = st.lists(st.tuples(idle_batches, st.integers(0, 150)), max_size=8)
rules = st.none() | st.builds(IdleRule, st.just(100), st.sampled_from([0.0, 0.5, 1.0]))


@given(batches, batches, st.data())
def test_a_message_may_come_twice(
    before: list[ControlMessage], batch: list[ControlMessage], data: st.DataObject
) -> None:
    book = after(before)
    repeats = data.draw(st.lists(st.sampled_from(batch))) if batch else []
    once, twice = receive(book, batch, 1), receive(book, [*batch, *repeats], 1)
    assert once == replace(twice, stale=once.stale)


@given(idle_batches, idle_batches)
def test_a_log_may_be_read_again_from_any_place(before: list[ControlMessage], batch: list[ControlMessage]) -> None:
    book = after(before)
    once = receive(book, batch, 1).book
    assert once == receive(book, [*batch, *batch], 1).book
    assert once == receive(once, batch, 1).book


@given(batches, batches, st.data())
def test_the_order_of_messages_does_not_matter(
    before: list[ControlMessage], batch: list[ControlMessage], data: st.DataObject
) -> None:
    book = after(before)
    assert receive(book, batch, 1) == receive(book, data.draw(st.permutations(batch)), 1)


@given(idle_batches, st.data())
def test_the_order_of_different_tasks_does_not_matter(batch: list[ControlMessage], data: st.DataObject) -> None:
    key = lambda message: (message.generation, message.task or "")  # noqa: E731 - used twice, here only
    by_task = [list(group) for _, group in groupby(sorted(batch, key=key), key=key)]
    other = [message for group in data.draw(st.permutations(by_task)) for message in group]
    assert receive(EMPTY, batch, 1) == receive(EMPTY, other, 1)


@given(idle_batches, idle_batches, idle_batches)
def test_batches_may_be_cut_anywhere(
    before: list[ControlMessage], first: list[ControlMessage], second: list[ControlMessage]
) -> None:
    book = after(before)
    whole, pieces = receive(book, [*first, *second], 1).book, after_one(first, second, book=book)
    assert replace(whole, emitted=None, at_end=False) == replace(pieces, emitted=None, at_end=False)
    assert pieces.at_end or (not whole.at_end and (pieces.emitted or 0) >= (whole.emitted or 0))


def after_one(*pieces: list[ControlMessage], book: Book) -> Book:
    """The book after the pieces of a batch, all at the moment 1."""
    for piece in pieces:
        book = receive(book, piece, 1).book
    return book


@given(moments, rules)
def test_a_checkpoint_restores_the_book(flow: list[tuple[list[ControlMessage], int]], rule: IdleRule | None) -> None:
    book, now = replace(EMPTY, partition=7), 0
    for batch, wait in flow:
        now += wait
        book = receive(book, batch, now, rule).book
    of_end, of_watermark = (json.loads(json.dumps(asdict(part))) for part in checkpoint(book))
    assert book == restore(EndOfStreamCheckpoint(**of_end), WatermarkCheckpoint(**of_watermark), 7)


@given(moments, rules)
def test_watermarks_rise_until_the_end_which_comes_once(
    flow: list[tuple[list[ControlMessage], int]], rule: IdleRule | None
) -> None:
    book, now, highest, ended = EMPTY, 0, -1, False
    for batch, wait in flow:
        now += wait
        for step in (receive(book, batch, now, rule), *([] if rule is None else [expire(book, now, rule)])):
            assert not (ended and (step.end or step.watermark is not None))
            assert not (step.end and step.watermark is not None)
            assert step.watermark is None or highest < step.watermark == step.book.emitted
        step = receive(book, batch, now, rule)
        book, ended = step.book, ended or step.end
        highest = highest if step.watermark is None else step.watermark


@given(moments, st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 200))
def test_nothing_is_announced_between_two_expiries(
    flow: list[tuple[list[ControlMessage], int]], quorum: float, later: int
) -> None:
    rule, book, now = IdleRule(100, quorum), EMPTY, 0
    for batch, wait in flow:
        now += wait
        book = receive(book, batch, now, rule).book
    expiry = next_expiry(book, now, rule)
    assert expiry is None or now < expiry <= now + 100
    if expiry is None or now + later < expiry:
        assert Step(book) == expire(book, now + later, rule)


@given(st.lists(batches, max_size=8))
def test_the_books_announce_what_plain_dicts_do(flow: list[list[ControlMessage]]) -> None:
    plain, book = Plain(), EMPTY
    pages = plain.empty(1)
    for batch in flow:
        step = receive(book, batch, 0)
        book = step.book
        expected = plain.receive(pages, [(0, message) for message in batch], 0, 0)
        assert (expected.watermark, expected.end) == (step.watermark, step.end)
