"""Hours in virtual time: processes that crash again and again, and functions of the user that block."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.coordination.processors.mistakes import trusts_newcomers_for_ever
from tests.coordination.processors.virtual_job import QUICK, CrashLoop, IdleTime, Job, crash, idle_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TASKS = tuple(f"t{number:02}" for number in range(24))
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


def settled_job(seed: int) -> Job:
    """A job of five processors whose tasks run."""
    job = Job(TASKS, slowest=QUICK, seed=seed)
    job.join(5)
    job.schedule.run(job.is_shared)
    job.schedule.run_for(30)
    return job


def idle_in_loops(job: Job, loops: Sequence[CrashLoop], seconds: int) -> IdleTime:
    """What is idle while processes crash in these loops, beside five that live."""
    return idle_time(job, seconds, *(crash(job, loop) for loop in loops))


def random_loops(periods: Sequence[int], seed: int) -> tuple[CrashLoop, ...]:
    """Loops of these periods: alive for three to nine tenths of one."""
    draws = Random(seed)
    parts = [draws.uniform(0.3, 0.9) for _ in periods]
    return tuple(
        CrashLoop(period * part, period * (1 - part), leaves=draws.random() < 1 / 4)
        for period, part in zip(periods, parts, strict=True)
    )


def kill_now_and_then(job: Job) -> Callable[[], None]:
    """Every 300 s a processor is killed, the leader in every second case, and another one joins."""
    began, kills = job.schedule.now(), 0

    def act() -> None:
        nonlocal kills
        if job.schedule.now() - began < 300 * (kills + 1):
            return
        kills += 1
        leaders = job.leaders()
        others = [each for each in job.live if each not in leaders]
        job.kill(leaders if kills % 2 and leaders else [job.rng.choice(others)])
        job.seen["crashed"] += 1
        job.join()

    return act


@pytest.mark.parametrize("loops", FEW)
def test_processes_that_crash_again_and_again_leave_hardly_a_task_idle(loops: tuple[CrashLoop, ...]) -> None:
    job = settled_job(1)
    check(idle_in_loops(job, loops, 900))
    assert job.seen["crashed"] >= 15


def test_newcomers_that_are_trusted_whatever_has_happened_leave_tasks_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    trusts_newcomers_for_ever(monkeypatch)
    with pytest.raises(AssertionError, match="tasks are idle"):
        check(idle_in_loops(settled_job(1), [CrashLoop(30, 10)], 900))


def test_a_function_of_tasks_that_blocks_keeps_nothing_from_moving() -> None:
    job = settled_job(1)
    job.listing_seconds = inf
    check(idle_time(job, 700, kill_now_and_then(job)))
    assert job.seen["crashed"] == 2


def test_a_listener_that_hangs_delays_only_what_moves_and_its_own_tasks() -> None:
    job = settled_job(1)
    slow = job.leaders()[0]
    slow.begin_seconds = slow.stop_seconds = inf
    job.join(2)
    idle = idle_time(job, 600)
    assert idle.share <= MOST_IDLE
    assert idle.longest <= LISTENER_HANGS


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("first", range(1, 120, 12))
def test_all_periods_leave_hardly_a_task_idle(first: int, count: int) -> None:
    for period in range(first, first + 12):
        periods = [period, 1 + period * 37 % 120][:count]
        check(idle_in_loops(settled_job(period), random_loops(periods, period), 3600))
