"""The election under pauses, lost and late answers, slow clocks, crashes, broken leases and a deleted blob.

At most one process leads at any time, and what leaders write never goes back to an earlier epoch. Each of the wrong
designs must be caught: so these tests can fail.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import rule

from coordination.leadership.lease import Lease
from tests.coordination.leadership.contenders import (
    BeginsAtOne,
    BeginsByItsOwnClock,
    Contenders,
    CountsFromTheAnswer,
    CountsInMemory,
    Design,
    HasNoMargin,
    IsAFlag,
    IsAheadOfTheTime,
    ReusesItsId,
    TakesNoAnswerForYes,
    WritesElsewhere,
    WritesWithoutLease,
)
from tests.histories.history import check_events
from tests.histories.machine import SeededMachine, run_histories

processes = st.integers(0, 2)
seeds = st.integers(0, 2**32)


def machine(seen: Counter[str], design: Design) -> type[SeededMachine]:  # noqa: C901 - a class with its rules
    class Machine(SeededMachine):
        def __init__(self) -> None:
            super().__init__()
            self.contenders = Contenders(design, self.draw, seen)

        @rule(order=st.lists(processes, min_size=1, max_size=6), seconds=st.sampled_from([0, 1, 5, 6]), seed=seeds)
        def processes_take_steps(self, order: list[int], seconds: int, seed: int) -> None:
            self.seed += seed
            for number in order:
                self.contenders.step(self.contenders.processes[number])
                self.contenders.pass_time(seconds)

        @rule(seconds=st.sampled_from([10, 20, 25, 31]))
        def all_are_suspended(self, seconds: int) -> None:
            self.contenders.pass_time(seconds)

        @rule(number=processes, others=st.lists(processes, min_size=1, max_size=4), seed=seeds)
        def a_leader_is_suspended_while_it_writes(self, number: int, others: list[int], seed: int) -> None:
            self.seed += seed
            self.contenders.begin_write(self.contenders.processes[number])
            self.contenders.pass_time(31)
            for other in others:
                self.contenders.step(self.contenders.processes[other])
                self.contenders.begin_write(self.contenders.processes[other])

        @rule(at_once=st.booleans(), seed=seeds)
        def leaders_write(self, at_once: bool, seed: int) -> None:
            self.seed += seed
            for process in self.contenders.processes:
                self.contenders.begin_write(process)
            if at_once and self.contenders.flights:
                self.contenders.arrive(self.contenders.flights.pop())

        @rule(seed=seeds, count=st.integers(1, 4))
        def writes_arrive(self, seed: int, count: int) -> None:
            self.seed += seed
            flights = self.contenders.flights
            for _ in range(min(count, len(flights))):
                self.contenders.arrive(flights.pop(self.draw(len(flights))))

        @rule(number=processes, resigns=st.booleans())
        def a_process_ends(self, number: int, resigns: bool) -> None:
            process = self.contenders.processes[number]
            if resigns:
                seen["resigned"] += process.election.resign() is not None
            else:
                self.contenders.restart(process)

        @rule(delete=st.booleans(), chance=st.integers(0, 1))
        def somebody_breaks_the_lease(self, delete: bool, chance: int) -> None:
            if chance == 0:
                self.contenders.force(delete=delete)

        @rule(number=processes, seed=seeds)
        def the_blob_is_deleted_again_right_after_an_election(self, number: int, seed: int) -> None:
            self.seed += seed
            epochs = len(self.contenders.epochs)
            self.contenders.force(delete=True)
            for process in self.contenders.processes[number:]:
                self.contenders.step(process)
            if len(self.contenders.epochs) > epochs:
                seen["deleted right after an election"] += 1
                self.contenders.force(delete=True)

        def teardown(self) -> None:
            if self.contenders.sound:
                self.contenders.settle()

    return Machine


def explore(design: Design, examples: int, phases: tuple[Phase, ...] = tuple(Phase)) -> Counter[str]:
    seen: Counter[str] = Counter()
    run_histories(machine(seen, design), examples, 30, phases)
    return seen


EVENTS = (
    "elected",
    "lost",
    "not renewed in time",
    "second expiry",
    "woke",
    "woke after its successor",
    "no answer",
    "LostAnswer",
    "TimeOut",
    "Unreachable",
    "LateEffect",
    "restarted",
    "died leading",
    "resigned",
    "write applied",
    "write refused",
    "broken",
    "deleted",
    "deleted right after an election",
    "settled",
)


def test_at_most_one_process_leads_and_epochs_only_rise() -> None:
    assert explore(Lease, 80)["elected"] > 80


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_at_most_one_process_leads_in_many_histories() -> None:
    check_events(explore(Lease, 2000), EVENTS, 30)


@pytest.mark.parametrize(
    ("design", "found"),
    [
        (ReusesItsId, "a write of epoch|came after"),
        (CountsFromTheAnswer, "processes lead at once"),
        (HasNoMargin, "processes lead at once"),
        (TakesNoAnswerForYes, "processes lead at once"),
        (IsAFlag, "processes lead at once"),
        (WritesElsewhere, "a write of epoch"),
        (WritesWithoutLease, "a write of epoch|came after"),
        (CountsInMemory, "came after"),
        (BeginsAtOne, "came after"),
        (BeginsByItsOwnClock, "came after"),
        (IsAheadOfTheTime, "came after"),
    ],
)
def test_a_wrong_design_is_caught(design: Design, found: str) -> None:
    with pytest.raises(AssertionError, match=found):
        explore(design, 3000, (Phase.generate,))
