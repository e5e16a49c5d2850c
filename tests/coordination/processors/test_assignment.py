"""Assignment: complete, balanced, sticky, and the same whatever the order of the input."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordination.processors.assignment import assign

tasks = st.sets(st.integers(0, 60).map(lambda number: f"Partition {number}"), max_size=40)
processors = st.sets(st.sampled_from([f"p{number}" for number in range(12)]), max_size=12)
previous = st.dictionaries(
    st.integers(0, 60).map(lambda number: f"Partition {number}"), st.sampled_from([f"p{n}" for n in range(12)])
)


@given(tasks, processors, previous)
def test_all_tasks_are_assigned_evenly(tasks: set[str], processors: set[str], previous: dict[str, str]) -> None:
    assigned = assign(tasks, processors, previous)
    assert (tasks if processors else set()) == assigned.keys()
    assert processors.issuperset(assigned.values())
    counts = Counter(assigned.values())
    of_each = [counts[processor] for processor in processors]
    assert not of_each or max(of_each) - min(of_each) <= 1


@given(tasks, processors, previous)
def test_nothing_moves_without_need(tasks: set[str], processors: set[str], previous: dict[str, str]) -> None:
    assigned = assign(tasks, processors, previous)
    assert assigned == assign(sorted(tasks, reverse=True), processors, assigned), "a second time changes nothing"
    kept = Counter(previous[task] for task in tasks if previous.get(task) in processors)
    least, larger = divmod(len(tasks), max(1, len(processors)))
    # The fewest moves: each processor keeps its share, and as many as there are larger shares keep one more.
    extra = sum(kept[processor] > least for processor in processors)
    most_kept = sum(min(kept[processor], least) for processor in processors) + min(extra, larger)
    assert most_kept == sum(previous.get(task) == processor for task, processor in assigned.items())


@given(tasks, processors.filter(bool), st.sampled_from(["p0", "p11", "new"]))
def test_who_joins_takes_its_share_and_nothing_else_moves(tasks: set[str], processors: set[str], joins: str) -> None:
    before = assign(tasks, processors - {joins}, {})
    after = assign(tasks, processors | {joins}, before)
    moved = {task for task in before if before[task] != after[task]}
    assert moved <= {task for task in after if after[task] == joins}
    assert len(moved) <= -(-len(tasks) // len(processors | {joins}))
