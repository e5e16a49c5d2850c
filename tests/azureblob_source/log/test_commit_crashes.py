"""The commit protocol under crashes: for every n, the driver dies at its n-th request and is started again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import (
    Crash,
    Fault,
    FaultInjector,
    LateEffect,
    LostAnswer,
    ProcessDied,
    Reset,
    Throttle,
    TimeOut,
    at,
)
from tests.azureblob_source.log.committing import WEEK_AND_A_DAY
from tests.azureblob_source.log.protocol import Draw, SharedState, drive, log_first

if TYPE_CHECKING:
    from collections.abc import Callable


def draws(seed: int) -> Draw:
    return random.Random(seed).randrange


def run_until(shared: SharedState, faults: FaultInjector, seed: int) -> bool:
    """One driver process; True if it lived to the end of the input."""
    container = shared.account.restarted(faults).container("container")
    try:
        drive(shared, container, "q", draws(seed), log_first)
    except ProcessDied:
        return False
    finally:
        faults.apply_late_effects()
    return True


def attempts_of_a_run(seed: int) -> int:
    faults = FaultInjector()
    assert run_until(SharedState(), faults, seed)
    return faults.count


def for_every_attempt(seed: int, fault: Callable[[], Fault], *, expire: bool = False) -> None:
    for n in range(1, attempts_of_a_run(seed) + 1):
        shared, restarts = SharedState(), 0
        faults = FaultInjector(at(n, fault()))
        while not run_until(shared, faults, seed + 1000 * restarts):
            restarts += 1
            faults = FaultInjector()
            assert set(shared.visible_rows().values()) <= {1}
            if expire:
                shared.account.clock.sleep(WEEK_AND_A_DAY)
        assert shared.all_rows == dict(shared.visible_rows()), f"attempt {n}"
        assert shared.all_rows == dict(shared.logged_rows()), f"attempt {n}"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_driver_that_dies_at_any_request_and_is_restarted_writes_each_row_once(seed: int, after_effect: bool) -> None:
    for_every_attempt(seed, lambda: Crash(after_effect=after_effect))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("after_effect", [False, True])
def test_a_driver_restarted_after_its_staged_blocks_have_expired_writes_each_row_once(
    seed: int, after_effect: bool
) -> None:
    for_every_attempt(seed, lambda: Crash(after_effect=after_effect), expire=True)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fault", [LostAnswer(), TimeOut(), Reset(), Throttle(1.0), LateEffect(1), LateEffect(3)])
def test_a_single_fault_at_any_request_changes_nothing(seed: int, fault: Fault) -> None:
    for_every_attempt(seed, lambda: fault)


@pytest.mark.parametrize("seed", range(3))
def test_two_crashes_in_a_row_at_any_two_requests_change_nothing(seed: int) -> None:
    attempts = attempts_of_a_run(seed)
    for first in range(1, attempts + 1, 3):
        for second in range(1, attempts + 1, 4):
            shared, restarts = SharedState(), 0
            scripts = [FaultInjector(at(first, Crash(after_effect=True))), FaultInjector(at(second, Crash()))]
            while not run_until(shared, scripts.pop(0) if scripts else FaultInjector(), seed + 1000 * restarts):
                restarts += 1
            assert shared.all_rows == dict(shared.visible_rows())
