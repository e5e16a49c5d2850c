"""Job models: versions rise, tasks that stay keep their epoch, and what is stored is read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordination.processors.job_model import (
    Assignment,
    BarrierState,
    JobModel,
    Members,
    PublishedModel,
    from_content,
    next_model,
    to_content,
)
from foundation.errors import CorruptError

TASKS = ["t1", "t2", "t3", "t4"]
members = st.sets(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=6)


def of(*processors: str) -> Members:
    return Members(frozenset(processors))


def reached(published: PublishedModel) -> PublishedModel:
    return replace(published, barrier=BarrierState.END)


def test_a_task_that_stays_keeps_its_epoch() -> None:
    first = next_model(None, TASKS, of("a", "b"), 100)
    assert (100, BarrierState.START, None) == (first.current.version, first.barrier, first.previous)
    assert {("a", 100), ("b", 100)} == {(to.processor, to.epoch) for to in first.current.tasks.values()}

    second = next_model(reached(first), TASKS, of("a", "b", "c"), 100)
    assert 101 == second.current.version
    assert [101] == list(second.current.of("c").values())
    assert [100, 100, 100] == [epoch for name in "ab" for epoch in second.current.of(name).values()]
    assert first.current == second.previous


def test_after_a_barrier_that_was_not_reached_what_had_not_begun_gets_another_epoch() -> None:
    first = next_model(None, TASKS, of("a", "b"), 1)
    second = next_model(reached(first), TASKS, of("a", "b", "c"), 1)
    (moved,) = second.current.of("c")
    third = next_model(second, TASKS, of("a", "b", "c"), 1)

    assert Assignment("c", 3) == third.current.tasks[moved]
    assert {1} == {to.epoch for task, to in third.current.tasks.items() if task != moved}
    assert (2, first.current) == (third.timed_out, third.previous)


@given(st.lists(st.tuples(members, st.booleans()), min_size=1, max_size=8))
def test_no_epoch_of_a_task_is_given_to_two_processors(history: list[tuple[set[str], bool]]) -> None:
    published, owners = None, dict[tuple[str, int], str]()
    for version, (processors, reaches) in enumerate(history, 7):
        published = next_model(published, TASKS, of(*processors), 7)
        assert version == published.current.version
        for task, to in published.current.tasks.items():
            assert to.processor == owners.setdefault((task, to.epoch), to.processor)
        assert published == from_content(to_content(published))
        published = reached(published) if reaches else published


@pytest.mark.parametrize(
    "change",
    [
        {"barrier": "START 8"},
        {"barrier": "HALT 7"},
        {"barrier": None},
        {"jobModel": []},
        {"jobModel": {"version": 7}},
        {"jobModel": {"version": 7, "processors": [], "tasks": {"t": {"processor": "a"}}}},
        {"jobModel": {"version": True, "processors": [], "tasks": {}}},
        {"jobModel": {"version": 7.5, "processors": [], "tasks": {}}},
        {"jobModel": {"version": float("inf"), "processors": [], "tasks": {}}},
        {"jobModel": {"version": 7, "processors": "ab", "tasks": {}}},
        {"jobModel": {"version": 7, "processors": [1], "tasks": {}}},
        {"jobModel": {"version": 7, "processors": ["a"], "tasks": ["t"]}},
        {"jobModel": {"version": 7, "processors": ["a"], "tasks": {"t": "a"}}},
        {"jobModel": {"version": 7, "processors": ["a"], "tasks": {"t": {"processor": None, "epoch": 7}}}},
        {"jobModel": {"version": 7, "processors": ["a"], "tasks": {"t": {"processor": "a", "epoch": "7"}}}},
        {"previousJobModel": 7},
        {"timedOut": "no"},
        {"timedOut": None},
    ],
)
def test_a_damaged_model_is_an_error(change: dict[str, Any]) -> None:
    content = to_content(PublishedModel(JobModel(7, ("a",), {"t": Assignment("a", 7)}), BarrierState.START))
    with pytest.raises(CorruptError, match=r"The job model is damaged in box/job\.json .* Delete box/job\.json"):
        from_content({**content, **change}, "box/job.json")


def test_a_blob_without_a_model_has_none() -> None:
    assert from_content({}) is None
