"""The states of a task under all events: what was taken away is not started again, and no running query is lost."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from coordination.spark.task_states import (
    Due,
    Expiring,
    Fenced,
    Finished,
    Prepared,
    Preparing,
    Running,
    State,
    expired,
    failed,
    finished,
    seconds_to_wait,
    started,
)


class Query:
    """A query that runs until it is stopped, has failed, or was finished."""

    isActive = True

    def exception(self) -> Exception | None:
        return None

    def stop(self) -> None:
        self.isActive = False


def runs(state: State) -> Query | None:
    """The query that a state has."""
    query = state.query if isinstance(state, Running | Expiring) else None
    assert query is None or isinstance(query, Query)
    return query


EVENTS = ("go on", "fail", "fence", "take away", "abandon")


def test_no_running_query_is_lost_and_what_is_taken_away_stays_so() -> None:
    """Whatever happens in seven steps: a query runs, is finished, and its task is taken away meanwhile."""
    for events in itertools.product(EVENTS, repeat=7):
        follow(events)


def follow(events: tuple[str, ...]) -> None:
    state: State = Due()
    at_work: State | None = None  # since a start or finish began
    query: Query | None = None
    for now, event in enumerate(events):
        gone = isinstance(state, Expiring)
        match event, at_work or state:
            case "take away", _:
                state = expired(state)
                assert isinstance(state, Expiring | Finished)
            case "abandon", _ if isinstance(state, Expiring):
                state = replace(state, abandoned=True)
            case "go on", Due():
                state = Preparing()
            case "go on", Preparing():
                state = Prepared()
            case "go on", (Prepared() | Running()) as work if at_work is None:
                at_work = work
            case "go on", Prepared():
                query, at_work = Query(), None
                state = started(state, query, now)
            case "go on", Running():
                query, at_work = None, None
                state = finished(state)
                assert isinstance(state, Expiring if gone else Finished)
            case (("fail" | "fence"), Preparing() | Prepared() | Running()):
                query, at_work = query if gone else None, None  # a query that has failed runs no more
                state = failed(state, 1, now, fenced=event == "fence")
                assert gone or isinstance(state, Fenced if event == "fence" else Due)
        assert not gone or isinstance(state, Expiring)
        assert query is runs(state)


def test_a_query_that_is_started_too_late_is_there_to_be_stopped() -> None:
    query = Query()
    assert Expiring(query, abandoned=True) == started(Expiring(abandoned=True), query, 5.0)
    assert Expiring(query) == expired(Running(query, 5.0))
    assert Finished() == expired(Finished())


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (6, 32), (7, 60), (5000, 60)])
def test_a_task_waits_ever_longer(failures: int, seconds: float) -> None:
    assert seconds == seconds_to_wait(failures)
    assert Due(100 + seconds) == failed(Prepared(), failures, 100.0, fenced=False)
