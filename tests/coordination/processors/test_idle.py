"""Hours in virtual time: processes that crash again and again, and functions of the user that block."""

from __future__ import annotations

from math import inf

import pytest

from benchmarks.coordination_idle import (
    PERIODS,
    CrashLoop,
    IdleTime,
    idle_in_loops,
    idle_while_a_listener_blocks,
    idle_while_tasks_block,
    random_loops,
)
from tests.coordination.processors.mistakes import trusts_newcomers_for_ever

MOST_IDLE = 0.03
TAKE_OVER = 20
"""Seconds: the longest that the guide says for a processor that was killed."""
LISTENER_HANGS = 60
"""Seconds: half of `barrier`, `death`, and polls."""
FEW = (
    (CrashLoop(9, 5),),
    (CrashLoop(40, 10),),
    (CrashLoop(7, 5), CrashLoop(20, 6, leaves=True)),
)


def check(idle: IdleTime) -> None:
    assert idle.share <= MOST_IDLE, f"tasks are idle: {idle}"
    assert idle.longest <= 2 * TAKE_OVER, f"tasks are idle: {idle}"


@pytest.mark.parametrize("loops", FEW)
def test_processes_that_crash_again_and_again_leave_hardly_a_task_idle(loops: tuple[CrashLoop, ...]) -> None:
    idle = idle_in_loops(loops, seed=1, seconds=900)
    check(idle)
    assert idle.crashed >= 15


def test_newcomers_that_are_trusted_whatever_has_happened_leave_tasks_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    trusts_newcomers_for_ever(monkeypatch)
    with pytest.raises(AssertionError, match="tasks are idle"):
        check(idle_in_loops([CrashLoop(30, 10)], seed=1, seconds=900))


def test_a_function_of_tasks_that_blocks_keeps_nothing_from_moving() -> None:
    idle = idle_while_tasks_block(inf, seed=1, seconds=700)
    check(idle)
    assert idle.crashed == 2


def test_a_listener_that_hangs_delays_only_what_moves_and_its_own_tasks() -> None:
    idle = idle_while_a_listener_blocks(inf, seed=1, seconds=600)
    assert idle.share <= MOST_IDLE
    assert idle.longest <= LISTENER_HANGS


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("first", range(PERIODS[0], PERIODS[-1], 12))
def test_all_periods_leave_hardly_a_task_idle(first: int, count: int) -> None:
    for period in range(first, first + 12):
        periods = [period, 1 + period * 37 % PERIODS[-1]][:count]
        check(idle_in_loops(random_loops(periods, period), seed=period))
