"""How long tasks are idle in virtual time, while processes crash again and again and functions of the user block.

python -m benchmarks.coordination_idle --processes 2     every period from 1 to 120 s, alone and two at once
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import inf
from multiprocessing import Pool
from random import Random
from typing import TYPE_CHECKING

from benchmarks.coordination_simulation import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TASKS = tuple(f"t{number:02}" for number in range(24))
QUICK = 0.04
"""The longest that a request takes (s)."""
JITTER = 0.3
BLOCKED = (5.0, 60.0, 600.0, inf)
"""For how long functions block (s)."""
PERIODS = range(1, 121)
_GROUPS = (range(1, 16), range(16, 31), range(31, 61), range(61, 121))


@dataclass(frozen=True)
class CrashLoop:
    """A process that dies `alive` seconds after its start, and starts again `away` seconds later, more or less.

    leaves: it does not die, but leaves the job, as a program does that ends with an error.
    """

    alive: float
    away: float
    leaves: bool = False


@dataclass(frozen=True)
class IdleTime:
    """share: of the time of all tasks. longest, most: seconds of a task without a break, and in all."""

    share: float
    longest: int
    most: int
    crashed: int


def crash(job: Job, loop: CrashLoop) -> Callable[[], None]:
    """Act out a loop: the function is called every second."""
    due, living = job.schedule.now(), job.processors[:0]

    def act() -> None:
        nonlocal due
        if job.schedule.now() < due:
            return
        if living:
            job.seen["crashed"] += 1
            end = living.pop()
            end.leave() if loop.leaves else job.kill([end])
        else:
            job.join()
            living.append(job.processors[-1])
        seconds = loop.alive if living else loop.away
        due = job.schedule.now() + seconds * job.rng.uniform(1 - JITTER, 1 + JITTER)

    return act


def idle_time(job: Job, acts: Sequence[Callable[[], None]], seconds: int) -> IdleTime:
    """Let a job go on. The functions are called every second."""
    idle, since = Counter[str](), Counter[str]()
    longest = 0
    for _ in range(seconds):
        for act in acts:
            act()
        job.schedule.run_for(1)
        runs = {task for each in job.live for task in each.running}
        for task in job.tasks:
            since[task] = 0 if task in runs else since[task] + 1
            idle[task] += task not in runs
        longest = max(longest, *since.values())
    return IdleTime(idle.total() / seconds / len(job.tasks), longest, max(idle.values()), job.seen["crashed"])


def settled_job(seed: int, processors: int = 5) -> Job:
    """A job whose tasks run."""
    job = Job(TASKS, slowest=QUICK, seed=seed)
    job.join(processors)
    job.schedule.run(job.is_shared)
    job.schedule.run_for(30)
    return job


def idle_in_loops(loops: Sequence[CrashLoop], seed: int, seconds: int = 3600) -> IdleTime:
    """What is idle while processes crash in these loops, beside five that live."""
    job = settled_job(seed)
    return idle_time(job, [crash(job, loop) for loop in loops], seconds)


def random_loops(periods: Sequence[int], seed: int) -> tuple[CrashLoop, ...]:
    """Loops of these periods: alive for three to nine tenths of one."""
    draws = Random(seed)
    parts = [draws.uniform(0.3, 0.9) for _ in periods]
    return tuple(
        CrashLoop(period * part, period * (1 - part), leaves=draws.random() < 1 / 4)
        for period, part in zip(periods, parts, strict=True)
    )


def idle_while_tasks_block(blocked: float, seed: int, seconds: int = 1800) -> IdleTime:
    """What is idle while the function of tasks blocks for so long at each call, and processors are killed meanwhile."""
    job = settled_job(seed)
    job.listing_seconds = blocked
    return idle_time(job, [kill_now_and_then(job)], seconds)


def idle_while_a_listener_blocks(blocked: float, seed: int, seconds: int = 1800) -> IdleTime:
    """What is idle when a listener blocks for so long in each of its calls, at a processor that begins or loses tasks.

    The processor is the leader in every second history.
    """
    job = settled_job(seed)
    leaders = [each for each in job.live if each.election.leads()]
    slow = leaders[0] if seed % 2 else job.rng.choice([each for each in job.live if each not in leaders])
    slow.begin_seconds = slow.stop_seconds = blocked
    job.join(2)
    return idle_time(job, [], seconds)


def kill_now_and_then(job: Job) -> Callable[[], None]:
    """Every 300 s a processor is killed, the leader in every second case, and another one joins."""
    began, kills = job.schedule.now(), 0

    def act() -> None:
        nonlocal kills
        if job.schedule.now() - began < 300 * (kills + 1):
            return
        kills += 1
        led = [each for each in job.live if each.election.leads()]
        others = [each for each in job.live if each not in led]
        job.kill(led if kills % 2 and led else [job.rng.choice(others)])
        job.seen["crashed"] += 1
        job.join()

    return act


def _measured(call: tuple[str, Callable[[], IdleTime]]) -> tuple[str, IdleTime]:
    return call[0], call[1]()


def calls(every: int) -> list[tuple[str, Callable[[], IdleTime]]]:
    """All measurements, or those of every few periods, each with its line of the table."""
    found: list[tuple[str, Callable[[], IdleTime]]] = []
    for group in _GROUPS:
        name = f"{group[0]} to {group[-1]} s"
        for period in group[every // 2 :: every]:
            found.append((f"one, {name}", partial(idle_in_loops, random_loops([period], period), period)))
            if (period // every) % 2:
                other = Random(period).choice(PERIODS)
                loops = random_loops([period, other], 1000 + period)
                found.append((f"two, one of {name}", partial(idle_in_loops, loops, period)))
    blocking = {"the function of tasks": idle_while_tasks_block, "a listener": idle_while_a_listener_blocks}
    for blocked in BLOCKED:
        for what, measure in blocking.items():
            found += [(f"{what} blocks for {blocked:g} s", partial(measure, blocked, seed)) for seed in range(1, 5)]
    return found


def main() -> None:
    """Print a line for each kind: the number of jobs, and the worst of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="only one of so many periods")
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # processors that wait say so
    lines: dict[str, list[IdleTime]] = {}
    with Pool(given.processes) as pool:
        for name, idle in pool.imap(_measured, calls(given.every)):
            lines.setdefault(name, []).append(idle)
    print("jobs  crashes  idle, worst  longest  most in all")
    for name, found in lines.items():
        share, longest = max(each.share for each in found), max(each.longest for each in found)
        most, crashed = max(each.most for each in found), sum(each.crashed for each in found)
        print(f"{len(found):4}  {crashed:7,}  {100 * share:10.2f}%  {longest:5} s  {most:8} s  {name}")


if __name__ == "__main__":
    main()
