"""The output of `status`: facts, sentences and tables, and JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from azure_account.cli.texts import NONE, Column, attributes, count_text, documents, facts, in_json, in_table, new_table
from coordination.cli.notes import listing, notes, task_state
from coordination.cli.report import LeaderReport

if TYPE_CHECKING:
    from rich.console import RenderableType

    from coordination.cli.report import JobReport, ProcessorReport, TaskReport

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


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


def age_text(seconds: float | None) -> str:
    """`0 s`, `59 s`, `12 min`, `3 h`, `2 days`."""
    if seconds is None:
        return NONE
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
    facts = {"job model": f"version {version}", "barrier": f"{report.model.barrier.value} {version}"}
    return {**facts, "timed out": f"version {report.model.timed_out}"} if report.model.timed_out else facts


def _processors(report: JobReport) -> list[Column[ProcessorReport]]:
    return [
        Column("processor", "processor", lambda each: each.processor),
        in_table("role", lambda each: _role(report, each), Text),  # empty for most
        in_table("heartbeat>", _heartbeat),
        *attributes("member", "silent"),
        in_json("isLeader", lambda each: each.leads),
        in_json("ageSeconds", lambda each: each.age),
        Column("confirmed>", "confirmed", lambda each: each.confirmed),
        in_json("waitsFor", lambda each: each.waits or None),
        in_table("runs>", lambda each: len(each.running), count_text),
        Column("tasks", "tasks", lambda each: dict(each.running), lambda tasks: listing(sorted(tasks))),
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


def _tasks(report: JobReport) -> list[Column[TaskReport]]:
    return [
        Column("task", "task", lambda each: each.task),
        Column("processor", "processor", lambda each: each.processor),
        Column("epoch>", "epoch", lambda each: each.epoch),
        *attributes("runsOn"),
        Column("state", "state", lambda each: task_state(report, each)),
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
