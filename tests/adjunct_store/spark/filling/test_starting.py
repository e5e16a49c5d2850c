"""A query starts before its fill has the store: what happens to it and to the store until then. Without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from adjunct_store.spark.filling.query_checkpoint import CheckpointState
from adjunct_store.spark.filling.starting import MOST_SECONDS, BatchGate, QueryStart
from foundation.clock import SYSTEM_CLOCK, Clock, ManualClock
from foundation.errors import ConfigurationError
from tests.adjunct_store.stores import manifest_of, new_account, opened, published

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.versions.opening import TakeoverPlan
    from azure_account.container import BlobContainer


@dataclass
class Query:
    """What a fill sees of a query of Spark. then: what happens while the fill waits for its first batch."""

    id: str
    then: Callable[[Query, BatchGate], None]
    gate: BatchGate = field(default_factory=lambda: BatchGate(lambda *_: None))
    isActive: bool = True
    message: str = "Initializing sources"
    failure: Exception | None = None
    stopped: int = 0

    @property
    def status(self) -> dict[str, str]:
        self.then(self, self.gate)
        return {"message": self.message}

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.stopped += 1


def plans(_: Query, gate: BatchGate) -> None:
    gate.reached.set()


def finds_nothing(query: Query, _: BatchGate) -> None:
    query.message = "Waiting for data to arrive"


def ends(query: Query, _: BatchGate) -> None:
    query.isActive = False


def fails(query: Query, _: BatchGate) -> None:
    query.isActive, query.failure = False, ValueError("the source is gone")


def start_of(query: Query, *, tolerant: bool = False, clock: Clock = SYSTEM_CLOCK) -> tuple[QueryStart, list[int]]:
    """The start of a fill with this query, whose checkpoint is empty; and the generations that it has begun."""
    begun: list[int] = []

    def check(opening: TakeoverPlan) -> None:
        planned = -1 if opening.base is None else opening.base.batch
        misfit = CheckpointState(planned, planned, query.id).misfit(planned, opening.generation.query)
        if misfit:
            raise ConfigurationError(misfit)

    def start(opening: TakeoverPlan) -> tuple[Any, BatchGate]:
        check(opening)
        begun.append(opening.generation.number)
        return query, query.gate

    return QueryStart(check, start, lambda _: tolerant, clock), begun


@pytest.fixture
def container() -> BlobContainer:
    return new_account().container("box")


@pytest.mark.parametrize("then", [plans, finds_nothing, ends])
def test_a_store_is_taken_over_when_spark_has_the_query(container: BlobContainer, then: Any) -> None:
    query = Query("q", then)
    start, begun = start_of(query)
    fill = opened(container, before_take_over=start.before_take_over)
    assert ("q", [1], 0) == (fill.generation.query, begun, query.stopped)


def test_a_query_that_fails_at_once_takes_nothing_over_unless_the_fill_sees_to_it(container: BlobContainer) -> None:
    published(opened(container), 0)
    before = manifest_of(container)
    start, _ = start_of(Query("q", fails))
    with pytest.raises(ValueError, match="the source is gone"):
        opened(container, before_take_over=start.before_take_over)
    assert before == manifest_of(container)
    start, _ = start_of(Query("q", fails), tolerant=True)
    assert 2 == opened(container, before_take_over=start.before_take_over).epoch


def test_a_query_that_looks_for_data_for_too_long_takes_the_store_over(container: BlobContainer) -> None:
    clock = ManualClock()
    begun = clock.monotonic()
    start, _ = start_of(Query("q", lambda *_: None), clock=clock)
    assert "q" == opened(container, before_take_over=start.before_take_over).generation.query
    assert 0 <= clock.monotonic() - begun - MOST_SECONDS < 1


def test_a_query_does_not_go_on_with_what_another_one_has_begun_in_between(container: BlobContainer) -> None:
    def other_begins(query: Query, gate: BatchGate) -> None:
        opened(container, before_take_over=lambda _: "other")
        plans(query, gate)

    query = Query("q", other_begins)
    start, begun = start_of(query)
    with pytest.raises(ConfigurationError, match="is of query q, and query other fills the store"):
        opened(container, before_take_over=start.before_take_over)
    assert ("other", [1]) == (manifest_of(container).generations[0].query, begun)
    start.abandon(ConfigurationError("refused"))
    assert 1 == query.stopped


def test_a_query_of_a_generation_that_is_not_the_next_one_any_more_is_stopped(container: BlobContainer) -> None:
    published(opened(container), 0)

    def other_begins(query: Query, gate: BatchGate) -> None:
        if not gate.reached.is_set():
            opened(container, rebuild=True)
        plans(query, gate)

    query = Query("q", other_begins)
    start, begun = start_of(query)
    fill = opened(container, rebuild=True, before_take_over=start.before_take_over)
    assert ([2, 3], 1, 3) == (begun, query.stopped, fill.generation.number)


def test_a_batch_waits_for_the_store_and_fails_if_it_is_not_taken_over() -> None:
    done: list[tuple[Any, ...]] = []
    gate = BatchGate(lambda *batch: done.append(batch))
    filler: Any = object()
    gate.open(filler)
    rows: Any = object()
    gate.run(rows, 7)
    assert [(filler, rows, 7)] == done
    closed = BatchGate(lambda *batch: done.append(batch))
    closed.close(ConfigurationError("refused"))
    with pytest.raises(ConfigurationError, match="refused"):
        closed.run(rows, 8)
    assert 1 == len(done) and closed.reached.is_set()
