"""What a person should know about a job or a leader, in sentences without numbers that change with every look. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.cli.texts import plural
from coordination.cli.report import JobReport, LeaderReport
from coordination.processors.job_model import BarrierState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from coordination.cli.report import ProcessorReport, TaskReport

_SHOWN = 5
_BARRIER = "barrier"
_WHY = {
    "no row": "their processor {processor} has no row",
    "silent": "their processor {processor} is silent",
    "not confirmed": "their processor {processor} has not confirmed version {version}",
    _BARRIER: "what moves waits for END {version}",
}


def notes(report: JobReport | LeaderReport) -> list[str]:
    """The sentences about a report; at least one."""
    if isinstance(report, LeaderReport):
        return (
            [] if report.held else [_no_leader(report, "Any process that waits for it leads after its next attempt.")]
        )
    return [*_of_leader(report), *_of_model(report), *_of_processors(report), *_of_tasks(report)]


def task_state(report: JobReport, task: TaskReport) -> str:
    """What happens to a task now: it runs, or why it does not."""
    if task.runs_on == task.processor:
        return "runs"
    if task.runs_on is not None:
        return f"moves, runs on {task.runs_on}"
    obstacle = _obstacle(report, task)
    return f"waits for END {_version(report)}" if obstacle == _BARRIER else f"does not run: {obstacle}"


def listing(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    found = list(names)
    more = len(found) - _SHOWN
    return ", ".join(found) if more <= 1 else f"{', '.join(found[:_SHOWN])} and {more} more"


def _of_leader(report: JobReport) -> list[str]:
    if report.leader.held:
        return []
    if _alive(report):
        return [_no_leader(report.leader, "A processor leads after its next attempt.")]
    return [_no_leader(report.leader, "No processor is alive: start the processes of the job.")]


def _no_leader(leader: LeaderReport, then: str) -> str:
    return f"Nobody leads: the lease of {leader.blob} is not held. {then}"


def _of_model(report: JobReport) -> list[str]:
    if not report.table:
        return ["There is no processor table: no processor of this job has started."]
    if report.model is None:
        return ["There is no job model yet: the leader publishes one with its next heartbeat."]
    if report.model.barrier is BarrierState.END:
        return []
    version, late = _version(report), report.waits_for
    found = []
    if report.model.timed_out == version - 1:
        found.append(f"The barrier of version {version - 1} timed out: not all of its processors confirmed it in time.")
    if late:
        found.append(
            f"The barrier START {version} waits for {listing(late)} to confirm it. Tasks that move are paused."
        )
    else:
        found.append(
            f"Those that lose tasks have confirmed version {version}: the leader publishes END {version} next."
        )
    return found


def _of_processors(report: JobReport) -> list[str]:
    silent = [each.processor for each in report.processors if each.silent]
    waiting = [each.processor for each in _alive(report) if not each.member]
    found = []
    if silent:
        verb = "is" if len(silent) == 1 else "are"
        found.append(f"{listing(silent)} {verb} silent, without a heartbeat for {report.death:g} seconds or more.")
    found += [
        f"The leader {each.processor} is among them: another processor leads when the lease has expired."
        for each in report.processors
        if each.silent and each.leads
    ]
    found += [f"{each.processor} waits for {each.waits}." for each in report.processors if each.waits]
    if waiting and report.model is not None:
        verb = "is" if len(waiting) == 1 else "are"
        found.append(f"{listing(waiting)} {verb} not in version {_version(report)}, and can be in a later one.")
    return found


def _of_tasks(report: JobReport) -> list[str]:
    idle: dict[str, list[str]] = {}
    for task in report.tasks:
        if task.runs_on is None:
            why = _WHY[_obstacle(report, task)].format(processor=task.processor, version=_version(report))
            idle.setdefault(why, []).append(task.task)
    if not report.tasks or idle:
        return [f"Nobody runs {listing(tasks)}: {why}." for why, tasks in idle.items()]
    return ["The only task runs." if len(report.tasks) == 1 else f"All {plural(len(report.tasks), 'task')} run."]


def _obstacle(report: JobReport, task: TaskReport) -> str:
    """Why nobody runs a task: one of `_WHY`."""
    owner = next((each for each in report.processors if each.processor == task.processor), None)
    if owner is None or owner.age is None:
        return "no row"
    if owner.silent:
        return "silent"
    started = report.model is not None and report.model.barrier is BarrierState.START
    return _BARRIER if started and task.epoch == _version(report) else "not confirmed"


def _alive(report: JobReport) -> Sequence[ProcessorReport]:
    return [each for each in report.processors if each.age is not None and not each.silent]


def _version(report: JobReport) -> int:
    return 0 if report.model is None else report.model.current.version
