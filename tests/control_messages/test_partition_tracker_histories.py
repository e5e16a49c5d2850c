"""Reconciliation under rescaled upstream jobs, replays, duplicates, zombies and restarts of the consumer.

The code under test must keep its promises, and each of the wrong designs must be caught: so these tests can fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from control_messages.errors import ContradictionError
from tests.control_messages.intermediate import (
    SOURCES,
    ConsumerDesign,
    OrderedByTime,
    Ours,
    Pipeline,
    Plain,
    Upstream,
)
from tests.histories.history import check_events
from tests.histories.machine import run_histories

sources = st.integers(0, SOURCES - 1)
tasks = st.integers(0, 2)


def machine(  # noqa: C901 - a class with its rules
    seen: Counter[str],
    design: Callable[[], ConsumerDesign],
    *,
    generations_rise: bool,
    idles: bool,
    upstream: dict[str, Any] | None,
) -> type[RuleBasedStateMachine]:
    far_times = st.sampled_from([False] * 5 + [True]) if upstream is not None else st.just(False)
    counts_partitions = st.booleans() if upstream is not None else st.just(True)

    class Machine(RuleBasedStateMachine):
        @initialize(
            partitions=st.integers(1, 2),
            times=st.tuples(st.integers(0, 9), st.integers(0, 9)),
            counts=counts_partitions,
        )
        def begin(self, partitions: int, times: tuple[int, int], counts: bool) -> None:
            self.pipeline = Pipeline(
                design(), partitions, generations_rise, seen=seen, counts_partitions=counts, **(upstream or {})
            )
            for source, time in enumerate(times):
                self.pipeline.add(source, time)

        @rule(
            events=st.lists(st.tuples(sources, st.integers(0, 9)), max_size=4),
            reads=st.lists(sources, min_size=1, max_size=4),
            senders=st.lists(tasks, min_size=1, max_size=4),
            closing=st.sampled_from([None] * 8 + list(range(SOURCES))),
            far=far_times,
        )
        def the_upstream_job_writes(
            self, events: list[tuple[int, int]], reads: list[int], senders: list[int], closing: int | None, far: bool
        ) -> None:
            for source, later in events:
                self.pipeline.add(source, later, far=far)
            if closing is not None:
                self.pipeline.close(closing)
            self.write(self.pipeline.upstream, reads, senders)
            self.pipeline.consume([99, 99], 0)

        @rule(
            reads=st.lists(sources, max_size=3),
            senders=st.lists(tasks, min_size=1, max_size=3),
            counts=st.lists(st.sampled_from([0, 1, 3, 99]), min_size=2, max_size=2),
            shuffle=st.integers(0, 9),
        )
        def all_write_and_the_consumer_lags(
            self, reads: list[int], senders: list[int], counts: list[int], shuffle: int
        ) -> None:
            for job in [self.pipeline.upstream, *self.pipeline.zombies]:
                seen["zombies"] += job is not self.pipeline.upstream
                self.write(job, reads, senders)
            self.pipeline.consume(counts, shuffle)

        def write(self, job: Upstream, reads: list[int], senders: list[int]) -> None:
            for source in reads:
                self.pipeline.read(job, source, 2)
            for task in senders:
                self.pipeline.send(job, task)

        @rule(task=tasks, again=st.booleans(), states=st.booleans(), back=st.booleans())
        def a_task_is_idle(self, task: int, again: bool, states: bool, back: bool) -> None:
            """A declaration, perhaps a watermark of the same task before and after it, in one batch or in several."""
            job = self.pipeline.upstream
            if not idles:
                return
            if again:
                self.pipeline.send(job, task)
            self.pipeline.declare_idle(job, task, states_watermark=states)
            if back:
                self.pipeline.send(job, task)

        @rule(partition=st.integers(0, 1), back=st.integers(1, 20), length=st.integers(1, 5))
        def a_producer_repeats_itself(self, partition: int, back: int, length: int) -> None:
            self.pipeline.duplicate(partition % self.pipeline.partitions, back, length)

        @rule(commits=st.booleans(), count=st.sampled_from([None, None, 1, 2, 3]))
        def the_upstream_job_stops(self, commits: bool, count: int | None) -> None:
            if commits:
                self.pipeline.commit_upstream()
            if count is None:
                self.pipeline.restart_upstream()
            else:
                self.pipeline.rescale(count)

        @precondition(lambda _: generations_rise)
        @rule(count=st.sampled_from([1, 2, 3]), later=st.lists(st.integers(0, 9), max_size=SOURCES))
        def a_bounded_job_ends_and_runs_again(self, count: int, later: list[int]) -> None:
            self.pipeline.run_again(count, later)

        @rule(saves=st.sampled_from([0, 1, 2]), dies=st.booleans())
        def the_consumer_saves_and_dies(self, saves: int, dies: bool) -> None:
            if saves > 0:
                self.pipeline.checkpoint()
            if saves > 1:
                self.pipeline.save_later()
            if dies:
                self.pipeline.restart_consumer()

        @precondition(lambda _: upstream is not None)
        @rule()
        def the_stream_is_vacuumed_and_a_new_consumer_begins(self) -> None:
            """When a task has ended: it sends nothing any more."""
            if self.pipeline.some_ended():
                self.pipeline.vacuum()

        def teardown(self) -> None:
            if self.pipeline.sound:
                self.pipeline.settle()
                self.pipeline.finish()

    return Machine


def explore(
    design: Callable[[], ConsumerDesign],
    *,
    generations_rise: bool = True,
    idles: bool = True,
    wide: bool = True,
    examples: int,
    phases: tuple[Phase, ...] = tuple(Phase),
    **upstream: bool,
) -> Counter[str]:
    """Run a design through random histories, the same ones every time; returns how often each event has happened.

    wide: with times far ahead, vacuumed streams, and messages without a partition count. upstream: of `Pipeline`.
    """
    seen: Counter[str] = Counter()
    made = machine(seen, design, generations_rise=generations_rise, idles=idles, upstream=upstream if wide else None)
    run_histories(made, examples, 40, phases)
    return seen


def test_no_row_comes_after_its_watermark_and_the_end_comes_once() -> None:
    check_events(explore(Ours, examples=40, wide=False), ("watermark", "endOfStream"))


def test_nor_with_far_times_vacuumed_ends_and_messages_without_a_partition_count() -> None:
    check_events(explore(Ours, examples=40), ("watermark", "endOfStream"))


def test_plain_dicts_are_right_where_no_mistake_is_turned_on() -> None:
    assert explore(Plain, examples=20, idles=False)["endOfStream"] >= 20


@pytest.mark.long
@pytest.mark.parametrize("wide", [False, True])
def test_no_row_comes_after_its_watermark_in_many_histories(wide: bool) -> None:
    check_events(explore(Ours, examples=1500, wide=wide), WIDE_EVENTS if wide else EVENTS, 50)


EVENTS = (
    "rescaled",
    "upstream replays",
    "consumer replays",
    "duplicates",
    "stale",
    "zombies",
    "idle and awake in a batch",
    "watermark",
    "settled",
    "endOfStream",
    "reopened",
)
WIDE_EVENTS = ("far times", "without partitionCount", "vacuumed ends", "watermark", "endOfStream")


def samza() -> Plain:
    """What Apache Samza does: the count is the consumer's configuration, and trackers are not checkpointed."""
    return Plain("never", configured=True, generations=False)


HANGS, UNSAFE = "the end was never announced|the watermark is stuck", "came after"
FALLS, TWICE = "the watermark fell", "the end was announced twice|after the end|that had not ended"
MISTAKES: list[tuple[str, Callable[[], ConsumerDesign], str]] = [
    ("configured task count, no checkpoint", samza, f"{HANGS}|{UNSAFE}|{FALLS}|{TWICE}"),
    ("configured task count", lambda: Plain(configured=True, generations=False), f"{HANGS}|{UNSAFE}"),
    ("no generations", lambda: Plain(generations=False), f"{HANGS}|{UNSAFE}"),
    ("as many names as the task count", lambda: Plain(generations=False, exact=True), f"{HANGS}|{UNSAFE}"),
    ("not checkpointed", lambda: Ours("never"), f"{HANGS}|{FALLS}|{TWICE}"),
    ("saved after the offsets", lambda: Ours("after the offsets"), f"{HANGS}|{FALLS}|{TWICE}"),
    ("not clamped", lambda: Plain(clamps=False), FALLS),
    ("before all tasks have sent a message", lambda: Plain(waits=False), UNSAFE),
    ("any message reopens a stream that has ended", lambda: Plain(reopens="by any message"), f"{HANGS}|{TWICE}"),
    ("a stream that has ended stays so", lambda: Plain(reopens="never"), HANGS),
    ("a batch is ordered by time", OrderedByTime, f"{HANGS}|the highest that any message allows"),
]


@pytest.mark.parametrize(
    ("design", "found"), [pytest.param(design, found, id=name) for name, design, found in MISTAKES]
)
def test_a_wrong_design_is_caught(design: Callable[[], ConsumerDesign], found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        explore(design, examples=2000, phases=(Phase.generate,), idles=not isinstance(design(), Plain), wide=False)


@pytest.mark.parametrize(
    ("mistake", "found"),
    [("limits_times", UNSAFE), ("sends_again", HANGS)],
    ids=["a far time raises the watermark", "what a vacuum has deleted is not sent again"],
)
def test_a_wrong_upstream_job_is_caught(mistake: str, found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        explore(Ours, examples=2000, phases=(Phase.generate,), **{mistake: False})


def test_a_changed_task_count_without_a_new_generation_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match="Raise the generation"):
        explore(Ours, generations_rise=False, examples=2000, phases=(Phase.generate,))


def a_consumer_restarts_between_two_ends(pipeline: Pipeline) -> None:
    pipeline.rescale(2)
    pipeline.restart_consumer()
    for source in range(SOURCES):
        pipeline.add(source, 1)
        pipeline.close(source)
        pipeline.read(pipeline.upstream, source, 1)
    pipeline.send(pipeline.upstream, 0)
    pipeline.consume([99], 0)
    pipeline.checkpoint()
    pipeline.restart_consumer()
    pipeline.finish()


def one_of_two_tasks_is_left(pipeline: Pipeline) -> None:
    pipeline.rescale(2)
    pipeline.restart_consumer()
    for source in range(SOURCES):
        pipeline.add(source, 1)
        pipeline.read(pipeline.upstream, source, 1)
        pipeline.send(pipeline.upstream, source)
    pipeline.consume([99], 0)
    pipeline.checkpoint()
    pipeline.rescale(1)
    pipeline.finish()


def one_of_two_tasks_takes_over_an_older_source(pipeline: Pipeline) -> None:
    pipeline.rescale(2)
    pipeline.add(0, 2)
    pipeline.read(pipeline.upstream, 0, 1)
    pipeline.send(pipeline.upstream, 0)
    pipeline.rescale(1)
    for later in (0, 1):
        pipeline.add(1, later)
        pipeline.read(pipeline.upstream, 1, 1)
        pipeline.read(pipeline.upstream, 0, 1)
        pipeline.send(pipeline.upstream, 0)
        pipeline.consume([99], 0)
    pipeline.finish()


STORIES: list[tuple[str, Callable[[], ConsumerDesign], Callable[[Pipeline], None], str]] = [
    ("not checkpointed", lambda: Ours("never"), a_consumer_restarts_between_two_ends, HANGS),
    ("saved after the offsets", lambda: Ours("after the offsets"), a_consumer_restarts_between_two_ends, HANGS),
    ("configured task count, no checkpoint", samza, a_consumer_restarts_between_two_ends, HANGS),
    ("configured task count", lambda: Plain(configured=True, generations=False), one_of_two_tasks_is_left, HANGS),
    ("as many names as the task count", lambda: Plain(generations=False, exact=True), one_of_two_tasks_is_left, HANGS),
    ("no generations", lambda: Plain(generations=False), one_of_two_tasks_takes_over_an_older_source, UNSAFE),
]


@pytest.mark.parametrize(("design", "story", "found"), [pytest.param(*rest, id=name) for name, *rest in STORIES])
def test_a_history_in_which_a_wrong_design_fails(
    design: Callable[[], ConsumerDesign], story: Callable[[Pipeline], None], found: str
) -> None:
    story(Pipeline(Ours(), 1))
    with pytest.raises(AssertionError, match=found):
        story(Pipeline(design(), 1))
