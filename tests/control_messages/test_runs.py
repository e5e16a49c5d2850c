"""Bounded jobs that write one stream: each row is before an end, or somebody is told; and the advice works."""

from __future__ import annotations

from collections import Counter

import pytest

from control_messages.producer import ProducerSpec
from control_messages.runs import CompleteEarlierRun, FinishRun, Job, NewestGeneration, Start, begin, finish, newest_of
from tests.control_messages.bounded_jobs import Rules, history, sent
from tests.histories.history import check_events

JOB = Job(ProducerSpec("s", 2, ["a", "b"]), "mine")


def explore(rules: Rules, histories: int = 1500) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in range(histories):
        history(seed, rules, seen)
    return seen


def test_no_row_stays_behind_the_last_end_however_the_runs_of_two_jobs_overlap() -> None:
    seen = explore(Rules())
    check_events(seen, ("same tasks", "other names", "died", "stray end", "succeeded", "refused", "took over"), 20)


@pytest.mark.long
def test_no_row_stays_behind_the_last_end_in_many_histories() -> None:
    assert explore(Rules(), 100_000)["succeeded"] > 1000


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        pytest.param(Rules(sees_others=False), "come after the last end|a contradiction", id="others are not seen"),
        pytest.param(Rules(takes_any_end=True), "come after the last end|does not end", id="any end is the own"),
        pytest.param(Rules(remembers=False), "come after the last end", id="rows of a run that died are forgotten"),
        pytest.param(Rules(names_all=True), "a contradiction", id="a run without rows names its tasks"),
    ],
)
def test_wrong_rules_are_caught(rules: Rules, found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        explore(rules, 20_000)


def test_a_task_has_ended_everywhere_once_all_partitions_that_are_stated_have_its_end() -> None:
    half = newest_of(3, [sent("0", "a", end=7, partitions=2), sent("0", "b", last=5, partitions=2)])
    assert (frozenset({"a"}), frozenset()) == (half.ended, half.ended_everywhere)
    whole = newest_of(3, [sent("0", "a", end=7, partitions=2), sent("1", "a", end=8, partitions=2)])
    assert frozenset({"a"}) == whole.ended_everywhere
    assert newest_of(3, [sent(number, "", end=1, partitions=2) for number in "01"]).over


def test_an_end_that_is_half_written_is_completed_first() -> None:
    half = NewestGeneration(3, 2, 2, frozenset({("a", "mine")}), ended=frozenset({"a"}))
    assert CompleteEarlierRun(3) == begin(JOB, half)


def test_a_generation_goes_on_or_the_next_one_begins() -> None:
    mine = frozenset({("a", "mine")})
    assert Start(3) == begin(JOB, NewestGeneration(3, 2, 2, mine))
    assert Start(4) == begin(JOB, NewestGeneration(3, 2, 3, mine)), "other tasks"
    assert Start(4) == begin(JOB, NewestGeneration(3, 2, 1, mine, ended_everywhere=frozenset({"a"})))
    assert FinishRun(3) == finish(JOB, 3, NewestGeneration(3, 2, 2, mine))
