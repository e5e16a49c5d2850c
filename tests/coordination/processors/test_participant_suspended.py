"""A process is suspended in the middle of a poll, in the request where it matters, and the others go on.

A leader in the request that publishes a model: it arrives when another one has led for long. A processor between its
confirmation and its next request: the others may have begun its tasks by then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from coordination.processors.job_model import BarrierState
from tests.coordination.processors.mistakes import confirms_before_it_stops, publishes_elsewhere
from tests.coordination.processors.rounds import Job, Member, Runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.memory.faults import Fault, NumberedAttempt

TASKS = [f"t{number}" for number in range(12)]


class Owned(Runs):
    """Notes who has run a task in an epoch."""

    def __init__(self, name: str, owners: dict[tuple[str, int], set[str]]) -> None:
        super().__init__()
        self.name, self.owners = name, owners

    def on_new_job_model(self, tasks: Mapping[str, int]) -> None:
        for key in tasks.items():
            self.owners[key].add(self.name)
        super().on_new_job_model(tasks)


def run_in_one_epoch_by_two() -> tuple[list[tuple[str, int]], list[int]]:
    """The tasks that two processors have run in one epoch; and the epochs that have led since the suspension."""
    job, owners, leaders = Job(TASKS), defaultdict[tuple[str, int], set[str]](set), list[int]()
    armed = False

    def suspend(attempt: NumberedAttempt) -> Fault | None:
        if armed and attempt.operation == "put" and not leaders and job.model().barrier is BarrierState.START:
            for _ in range(16):
                job.round(others)
            leaders.extend(each.election.term.epoch for each in others if each.election.term is not None)
        return None

    def join(name: str) -> Member:
        return job.join(name, suspend, listener=Owned(name, owners)) if name == "one" else joined(name)

    def joined(name: str) -> Member:
        return job.join(name, listener=Owned(name, owners))

    one, others = join("one"), [join("two"), join("three")]
    job.settle(9)
    armed = True
    others.append(join("four"))
    while not leaders:
        job.round()
    one.participant.leave(0.0)
    job.members.remove(one)
    leader = job.leader  # who leads does not read what it has written: the next leader does
    leader.participant.leave(0.0)
    leader.election.resign()
    job.members.remove(leader)
    job.round([joined("five")])
    for _ in range(20):
        job.round()
    return [key for key, names in owners.items() if len(names) > 1], leaders


def test_a_model_that_arrives_late_is_refused() -> None:
    twice, leaders = run_in_one_epoch_by_two()
    assert ([], 1) == (twice, len(leaders))


def test_a_model_that_is_written_without_the_lease_gives_an_epoch_to_two(monkeypatch: pytest.MonkeyPatch) -> None:
    publishes_elsewhere(monkeypatch)
    twice, leaders = run_in_one_epoch_by_two()
    assert twice
    assert 1 == len(leaders)


def run_at_one_time_by_two() -> set[str]:
    """The tasks that run elsewhere when a processor has confirmed that it loses them, and has done nothing since."""
    job, twice, suspensions = Job(TASKS), set[str](), list[str]()

    def suspend(attempt: NumberedAttempt) -> Fault | None:
        if attempt.operation == "delete_entity" and two.running and not suspensions:  # of its row of the last version
            suspensions.append(attempt.name)
            for _ in range(2):
                job.round(others)
            assert not two.participant.overdue
            twice.update(task for each in others for task in each.running if task in two.running)
        return None

    one, two = job.join("one"), job.join("two", suspend)
    job.settle(9)
    others = [one, job.join("three")]
    job.settle(12)
    assert 1 == len(suspensions)
    return twice


def test_a_task_has_stopped_before_its_processor_confirms_that_it_loses_it() -> None:
    assert set() == run_at_one_time_by_two()


def test_who_confirms_before_it_stops_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    confirms_before_it_stops(monkeypatch)
    assert run_at_one_time_by_two()
