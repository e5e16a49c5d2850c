"""The commit protocol under two drivers at once, moved request by request: pauses, kills, lost answers, expired blocks.

`log_first` must hold; the mistakes must be caught, else these tests could not fail.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from azure_account.memory.faults import Fault, LateEffect, LostAnswer, Reset, Throttle
from tests.azureblob_source.log.committing import WEEK_AND_A_DAY
from tests.azureblob_source.log.protocol import (
    Design,
    Driver,
    Progress,
    SharedState,
    blind_retry,
    in_tasks,
    log_first,
    log_last,
    same_names,
)
from tests.histories.history import check_events
from tests.histories.machine import SeededMachine, run_histories

FAULTS: list[Fault] = [LostAnswer(), Reset(), Throttle(0.5), LateEffect(2)]


def machine(  # noqa: C901 - a class with its rules
    design: Design, queries: int, seen: Counter[str], *, expiry: bool
) -> type[RuleBasedStateMachine]:
    """Two places for drivers; with one query both are of it (a zombie and its successor), with two one each."""

    class Machine(SeededMachine):
        def __init__(self) -> None:
            super().__init__()
            self.shared = SharedState(queries={f"q{i}": Progress() for i in range(queries)}, seen=seen)
            self.drivers: dict[int, Driver] = {}

        def driver(self, place: int) -> Driver:
            return Driver(self.shared, f"q{place % queries}", self.draw, design)

        @rule(place=st.integers(0, 1), seed=st.integers(0, 10**6))
        def start(self, place: int, seed: int) -> None:
            if place not in self.drivers:
                self.seed += seed
                self.drivers[place] = self.driver(place)

        @rule(place=st.integers(0, 1), steps=st.integers(1, 12))
        def go(self, place: int, steps: int) -> None:
            driver = self.drivers.get(place)
            if driver is not None and not all(driver.step() for _ in range(steps)):
                driver.finish()
                del self.drivers[place]

        @rule(place=st.integers(0, 1))
        def kill(self, place: int) -> None:
            if place in self.drivers:
                seen["kills"] += 1
                driver = self.drivers.pop(place)
                driver.kill()
                driver.faults.apply_late_effects()

        @rule(place=st.integers(0, 1), seed=st.integers(0, 10**6))
        def disturb(self, place: int, seed: int) -> None:
            if place in self.drivers:
                self.seed += seed
                fault = FAULTS[self.draw(len(FAULTS))]
                seen[type(fault).__name__] += 1
                self.drivers[place].fault = fault

        @rule()
        def expire(self) -> None:
            if expiry:
                seen["weeks"] += 1
                self.shared.account.clock.sleep(WEEK_AND_A_DAY)

        @invariant()
        def nothing_is_visible_twice(self) -> None:
            twice = {row: n for row, n in self.shared.visible_rows().items() if n > 1}
            assert not twice, f"visible twice: {twice}"

        def teardown(self) -> None:
            for place in range(queries):
                self.driver(place).finish()
            for driver in self.drivers.values():
                driver.finish()
                driver.faults.apply_late_effects()
            for place in range(queries):
                self.driver(place).finish()
            assert self.shared.all_rows == dict(self.shared.visible_rows())
            if design is log_first:
                assert self.shared.all_rows == dict(self.shared.logged_rows())
            seen["histories"] += 1

    return Machine


def explore(
    design: Design,
    *,
    queries: int = 1,
    examples: int = 40,
    expiry: bool = False,
    phases: tuple[Phase, ...] = tuple(Phase),
) -> Counter[str]:
    seen: Counter[str] = Counter()
    run_histories(machine(design, queries, seen, expiry=expiry), examples, 30, phases)
    return seen


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("expiry", [False, True])
def test_each_row_is_visible_once_whatever_two_drivers_do(queries: int, expiry: bool) -> None:
    assert explore(log_first, queries=queries, expiry=expiry)["kills"] > 0


@pytest.mark.long
@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("expiry", [False, True])
def test_the_same_in_many_histories_and_everything_happens(queries: int, expiry: bool) -> None:
    seen = explore(log_first, queries=queries, expiry=expiry, examples=1000)
    check_events(seen, ("kills", "LostAnswer", "LateEffect", "attempts lost", "rolled forward"))
    if queries == 1:
        assert seen["zombies stopped"] > 0, dict(seen)


@pytest.mark.parametrize("mistake", [in_tasks, same_names, log_last, blind_retry])
def test_a_wrong_protocol_is_caught(mistake: Design) -> None:
    with pytest.raises(AssertionError, match=r"visible twice|=="):
        explore(mistake, examples=2000, phases=(Phase.generate,))
