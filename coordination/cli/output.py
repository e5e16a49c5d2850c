"""The output of `status`: facts, sentences and tables, and JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from azure_account.cli.texts import (
    NONE,
    TableColumn,
    attributes,
    count_text,
    documents,
    facts,
    in_json,
    in_table,
    new_table,
    plural,
)
from coordination.cli.report import LeaderReport
from coordination.processors.job_model import BarrierState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from coordination.cli.report import JobReport, ProcessorReport, TaskReport

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_SHOWN = 5
_BARRIER = "barrier"
_WHY = {
    "no row": "their processor {processor} has no row",
    "silent": "their processor {processor} is silent",
    "not confirmed": "their processor {processor} has not confirmed version {version}",
    _BARRIER: "what moves waits for END {version}",
}


def status_text(report: JobReport | LeaderReport) -> RenderableType:
    """What `status` prints."""
    sentences: list[RenderableType] = [Text(note) for note in notes(report)]
    said = ["", *sentences] if sentences else []
    if isinstance(report, LeaderReport):
        return Group(facts({"blob": report.blob, **_leader(report)}), *said)
    parts = [facts({"job": report.job, **_leader(report.leader), **_model(report)}), *said]
    if report.processors:
        style = lambda each: "red" if each.silent or each.age is None else ""  # noqa: E731
        parts += ["", new_table(_processors(report), report.processors, shrinks=5, style=style)]
    if report.tasks:
        parts += ["", new_table(_tasks(report), report.tasks, shrinks=3)]
    return Group(*parts)


def status_json(report: JobReport | LeaderReport) -> dict[str, object]:
    """The document of `status`. Ages are in seconds."""
    leader = report if isinstance(report, LeaderReport) else report.leader
    led = {
        "blob": leader.blob,
        "leader": {"holder": leader.holder, "epoch": leader.epoch, "leaseHeld": leader.held},
        "changedSeconds": leader.changed,
    }
    if isinstance(report, LeaderReport):
        return {**led, "notes": notes(report)}
    model = report.model and {
        "version": report.model.current.version,
        "barrier": f"{report.model.barrier.value} {report.model.current.version}",
        "waitsFor": list(report.waits_for),
        "timedOut": report.model.timed_out or None,
    }
    return {
        "job": report.job,
        **led,
        "jobModel": model,
        "processors": documents(_processors(report), report.processors),
        "tasks": documents(_tasks(report), report.tasks),
        "notes": notes(report),
    }


def changes(before: JobReport | LeaderReport | None, now: JobReport | LeaderReport) -> list[str]:
    """What is new since the last look, a line for each; at the first look all of it."""
    known = set() if before is None else set(_lines(before))
    gone = [] if before is None or isinstance(before, LeaderReport) else _gone(before, now)
    return [*gone, *(line for line in _lines(now) if line not in known)]


def age_text(seconds: float) -> str:
    """`0 s`, `59 s`, `12 min`, `3 h`, `2 days`."""
    for unit, name in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _leader(report: LeaderReport) -> dict[str, str]:
    who = report.holder or NONE
    return {
        "leader": f"{who}, epoch {report.epoch}"
        if report.held
        else f"nobody (the last one: {who}, epoch {report.epoch})",
        "changed": f"{age_text(report.changed)} ago",
    }


def _model(report: JobReport) -> dict[str, str]:
    if report.model is None:
        return {"job model": NONE}
    version = report.model.current.version
    timed_out = {"timed out": f"version {report.model.timed_out}"} if report.model.timed_out else {}
    return {"job model": f"version {version}", "barrier": f"{report.model.barrier.value} {version}", **timed_out}


def _processors(report: JobReport) -> list[TableColumn[ProcessorReport]]:
    return [
        TableColumn("processor", "processor", lambda each: each.processor),
        in_table("role", lambda each: _role(report, each), Text),  # empty for most
        in_table("heartbeat>", _heartbeat),
        *attributes("member", "silent"),
        in_json("isLeader", lambda each: each.leads),
        in_json("ageSeconds", lambda each: each.age),
        TableColumn("confirmed>", "confirmed", lambda each: each.confirmed),
        in_json("waitsFor", lambda each: each.waits or None),
        in_table("runs>", lambda each: len(each.running), count_text),
        TableColumn("tasks", "tasks", lambda each: dict(each.running), lambda tasks: listing(sorted(tasks))),
    ]


def _heartbeat(processor: ProcessorReport) -> str:
    if processor.age is None:
        return "no row"
    return "by lease" if processor.renews else f"{age_text(processor.age)} ago"


def _role(report: JobReport, processor: ProcessorReport) -> str:
    if processor.silent:
        return "leader, silent" if processor.leads else "silent"
    if processor.leads:
        return "leader"
    busy = processor.running or processor.processor in {each.processor for each in report.tasks}
    return "" if busy or processor.age is None or report.model is None else "stand-by"


def _tasks(report: JobReport) -> list[TableColumn[TaskReport]]:
    return [
        TableColumn("task", "task", lambda each: each.task),
        TableColumn("processor", "processor", lambda each: each.processor),
        TableColumn("epoch>", "epoch", lambda each: each.epoch),
        *attributes("runsOn"),
        TableColumn("state", "state", lambda each: task_state(report, each)),
    ]


def _lines(report: JobReport | LeaderReport) -> list[str]:
    """The facts without ages."""
    if isinstance(report, LeaderReport):
        return [f"{report.blob}: leader {_leader(report)['leader']}", *notes(report)]
    model = [f"{name} {value}" for name, value in _model(report).items() if name == "barrier"]
    processors = [
        f"{each.processor}: {_role(report, each) or 'worker'}, runs {listing(sorted(each.running)) or 'nothing'}"
        for each in report.processors
        if each.age is not None
    ]
    return [f"leader {_leader(report.leader)['leader']}", *model, *processors, *notes(report)]


def _gone(before: JobReport, now: JobReport | LeaderReport) -> list[str]:
    left = set() if isinstance(now, LeaderReport) else {each.processor for each in now.processors}
    return [f"{each.processor}: gone" for each in before.processors if each.processor not in left]


def notes(report: JobReport | LeaderReport) -> list[str]:
    """What a person should know about a job or a leader, in sentences without numbers that change with every look."""
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
