"""Take-overs and large jobs in memory and in virtual time."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from benchmarks.coordination_settings import BETWEEN, COLUMN, DEFAULT, LONGEST, SHORTEST, Setting
from benchmarks.coordination_simulation import Job
from benchmarks.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.coordination_simulation import Processor

PROCESSORS, TASKS = 5, 12
KILLS = 40
"""For each round: of the leader, and as many of another processor."""
QUICK, SLOW = 0.04, 1.0
"""The longest that a request takes (s). The third speed is the longest that the setting allows."""

MANY_PROCESSORS, MANY_TASKS, DYING, JOINING = 100, 1_000, 30, 50


def tables(rounds: int) -> list[Report]:
    """One table of take-overs, one of a large job."""
    return [_takeovers(KILLS * rounds), _large_job(rounds)]


# take-overs -----------------------------------------------------------------------------------------------------------


def _takeovers(kills: int) -> Report:
    lines = []
    for setting in (SHORTEST, BETWEEN, DEFAULT, LONGEST):
        for slowest in (QUICK, SLOW, setting.timing.request):
            job = _job(setting, slowest)
            elected, of_leader, of_other, left = _taken_over(job, kills)
            bound, of_tasks = setting.lease.takeover, setting.timing.takeover
            lines += [
                _line(setting, slowest, "leader: another one leads", elected, bound),
                _line(setting, slowest, "leader: its tasks have begun", of_leader, bound + of_tasks),
                _line(setting, slowest, "another: its tasks have begun", of_other, of_tasks),
                _line(setting, slowest, "none, one stops in order: its tasks have begun", left, of_tasks),
            ]
    note = (
        f"{PROCESSORS} processors, {TASKS} tasks; {kills} kills and stops of each kind. A request takes a random time "
        "of up to `request`, half of it before its effect.\n"
        "Bounds: LeaseTiming.takeover, the sum, CoordinatorTiming.takeover."
    )
    return Report("Seconds from a kill, in memory with virtual time", lines, note)


def _job(setting: Setting, slowest: float) -> Job:
    job = Job(tuple(f"t{number:02}" for number in range(TASKS)), setting.timing, setting.lease, slowest)
    job.join(PROCESSORS)
    return job


def _taken_over(job: Job, kills: int) -> tuple[list[float], list[float], list[float], list[float]]:
    """Seconds until another one leads, until the tasks of a killed leader have begun, and until those of another.

    And until those of one that stops in order have.
    """
    elected, of_leader, of_other, left = list[float](), list[float](), list[float](), list[float]()
    for _ in range(kills):
        before = job.elected
        job.kill([_settled(job)])
        waited = job.schedule.run(lambda before=before: job.elected > before)  # type: ignore[misc]
        elected.append(waited)
        of_leader.append(waited + _tasks_begin(job))
        leader = _settled(job)
        job.kill([job.rng.choice([processor for processor in job.live if processor is not leader])])
        of_other.append(_tasks_begin(job))
        leader = _settled(job)
        job.rng.choice([processor for processor in job.live if processor is not leader]).leave()
        left.append(_tasks_begin(job))
    return elected, of_leader, of_other, left


def _settled(job: Job) -> Processor:
    """The leader, at a random time after all processors run their share."""
    job.schedule.run(job.is_shared)
    job.schedule.run_for(job.rng.uniform(0, 2 * (job.timing.heartbeat + job.lease.renew_every)))
    job.schedule.run(lambda: job.is_shared() and any(processor.election.leads() for processor in job.live))
    return next(processor for processor in job.live if processor.election.leads())


def _tasks_begin(job: Job) -> float:
    """Seconds until no task is lost. Then a processor joins in place of the dead one."""
    waited = job.schedule.run(lambda: not job.lost)
    job.join()
    return waited


def _line(setting: Setting, slowest: float, what: str, waited: Sequence[float], bound: float) -> dict[str, str | float]:
    return {
        COLUMN: setting.name,
        "request, s": slowest,
        "killed": what,
        "median": statistics.median(waited),
        "99 %": statistics.quantiles(waited, n=100, method="inclusive")[-1],
        "longest": max(waited),
        "bound": float(bound),
        "later than it": sum(each > bound for each in waited),
    }


# a large job ----------------------------------------------------------------------------------------------------------


def _large_job(rounds: int) -> Report:
    polls: defaultdict[str, list[float]] = defaultdict(list)
    taken: defaultdict[str, list[float]] = defaultdict(list)
    for seed in range(rounds):
        job = Job(tuple(f"t{number:03}" for number in range(MANY_TASKS)), seed=seed)
        for name, act in _changes(job).items():
            for processor in job.processors:
                processor.polls.clear()
            act()
            waited = job.schedule.run(lambda: not job.lost and job.is_shared())  # noqa: B023 - run at once
            polls[name].append(waited / job.timing.heartbeat)
            taken[name] += [1000 * each for processor in job.live for each in processor.polls]
    lines: list[dict[str, str | float]] = [
        {
            "what happens": name,
            "polls until all run": statistics.median(polls[name]),
            "most": max(polls[name]),
            "ms/poll": statistics.median(taken[name]),
            "99 %": statistics.quantiles(taken[name], n=100, method="inclusive")[-1],
            "longest": max(taken[name]),
        }
        for name in polls
    ]
    note = (
        f"Default durations, {rounds} jobs. Until each processor runs its share; deaths are noticed after "
        f"{DEFAULT.timing.death / DEFAULT.timing.heartbeat:.0f} polls. ms: real time without any storage."
    )
    return Report(f"{MANY_PROCESSORS} processors and {MANY_TASKS:,} tasks, in memory", lines, note)


def _changes(job: Job) -> dict[str, Callable[[], None]]:
    def die() -> None:
        others = [processor for processor in job.live if not processor.election.leads()]
        job.kill(job.rng.sample(others, DYING))

    return {
        f"{MANY_PROCESSORS} start": lambda: job.join(MANY_PROCESSORS),
        f"{DYING} of them die": die,
        f"{JOINING} more join": lambda: job.join(JOINING),
        "the leader dies": lambda: job.kill([next(each for each in job.live if each.election.leads())]),
    }
