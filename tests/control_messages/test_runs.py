"""Bounded jobs that write one stream: each row is before an end, or somebody is told; and the advice works."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from control_messages.producer import ProducerSpec
from control_messages.runs import FinishRun, Job, NewestGeneration, begin, finish, newest_of
from tests.control_messages.bounded_jobs import Rules, history, sent
from tests.histories.history import check_events

EVENTS = (
    "same tasks",
    "other names",
    "died",
    "stray end",
    "began after a part of an end",
    "ran again beside the other",
    "succeeded",
    "refused",
    "took over",
)
JOB = Job(ProducerSpec("s", 2, ["a", "b"]), "mine")


def explore(rules: Rules, histories: int = 1500) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(histories):
        history(seed, rules, seen)
    return seen


def test_no_row_stays_behind_the_last_end_however_the_runs_of_two_jobs_overlap() -> None:
    seen = explore(Rules())
    check_events(seen, EVENTS, 20)


@pytest.mark.long
def test_no_row_stays_behind_the_last_end_in_many_histories() -> None:
    assert explore(Rules(), 100_000)["succeeded"] > 1000


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        pytest.param(Rules(sees_others=False), "come after the last end|a contradiction", id="others are not seen"),
        pytest.param(Rules(takes_any_end=True), "come after the last end|does not end", id="any end is the own"),
        pytest.param(Rules(remembers=False), "come after the last end", id="rows of a run that died are forgotten"),
        pytest.param(
            Rules(older_count=False), "come after the last end", id="rows of an older generation are forgotten"
        ),
        pytest.param(Rules(names_all=True), "a contradiction", id="a run without rows names its tasks"),
        pytest.param(Rules(completes_ends=True), "the end before", id="a part of an end is completed before rows"),
    ],
)
def test_wrong_rules_are_caught(rules: Rules, found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        explore(rules, 20_000)


def test_a_task_has_ended_everywhere_once_all_partitions_that_are_stated_have_its_end() -> None:
    half = newest_of([sent("0", "a", end=7, partitions=2), sent("0", "b", last=5, partitions=2)])
    assert (frozenset({"a"}), frozenset()) == (half.ended, half.ended_everywhere)
    whole = newest_of([sent("0", "a", end=7, partitions=2), sent("1", "a", end=8, partitions=2)])
    assert frozenset({"a"}) == whole.ended_everywhere
    assert newest_of([sent(number, "", end=1, partitions=2) for number in "01"]).over


def test_rows_after_the_end_of_some_tasks_get_a_generation_of_their_own_and_no_end_before_them() -> None:
    everywhere = NewestGeneration(3, 2, 2, frozenset({("a", "mine")}), frozenset({"a"}), frozenset({"a"}))
    assert 4 == begin(JOB, everywhere), "the end of one task"
    assert 4 == begin(JOB, replace(everywhere, ended_everywhere=frozenset())), "an end that is half written"


def test_a_generation_goes_on_or_the_next_one_begins() -> None:
    mine = frozenset({("a", "mine")})
    assert 3 == begin(JOB, NewestGeneration(3, 2, 2, mine))
    assert 4 == begin(JOB, NewestGeneration(3, 2, 3, mine)), "other tasks"
    assert 4 == begin(JOB, NewestGeneration(3, 2, 1, mine, ended_everywhere=frozenset({"a"})))
    assert FinishRun(3) == finish(JOB, 3, NewestGeneration(3, 2, 2, mine))
