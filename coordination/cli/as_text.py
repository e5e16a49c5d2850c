"""The output of `status` for people: facts, tables and sentences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from azure_account.cli.texts import NONE, count_text, new_table, shrinking
from coordination.cli.notes import listing, notes, task_state
from coordination.cli.report import LeaderReport

if TYPE_CHECKING:
    from rich.console import RenderableType

    from coordination.cli.report import JobReport, ProcessorReport

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def status_text(report: JobReport | LeaderReport) -> RenderableType:
    """What `status` prints."""
    sentences: list[RenderableType] = [Text(note) for note in notes(report)]
    said = ["", *sentences] if sentences else []
    if isinstance(report, LeaderReport):
        return Group(_facts({"blob": report.blob, **_leader(report)}), *said)
    parts = [_facts({"job": report.job, **_leader(report.leader), **_model(report)}), *said]
    parts += ["", _processors(report)] if report.processors else []
    parts += ["", _tasks(report)] if report.tasks else []
    return Group(*parts)


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


def _facts(facts: dict[str, str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


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


def _processors(report: JobReport) -> Table:
    table = new_table("processor", "role", "heartbeat>", "confirmed>", "runs>", "tasks")
    for each in report.processors:
        beat = "no row" if each.age is None else "by lease" if each.renews else f"{age_text(each.age)} ago"
        confirmed = NONE if each.confirmed is None else str(each.confirmed)
        tasks = listing(sorted(each.running)) or NONE
        table.add_row(
            each.processor, _role(report, each), beat, confirmed, count_text(len(each.running)), tasks,
            style="red" if each.silent or each.age is None else "",
        )  # fmt: skip
    return shrinking(table, 5)


def _role(report: JobReport, processor: ProcessorReport) -> str:
    if processor.silent:
        return "leader, silent" if processor.leads else "silent"
    if processor.leads:
        return "leader"
    busy = processor.running or processor.processor in {each.processor for each in report.tasks}
    return "" if busy or processor.age is None or report.model is None else "stand-by"


def _tasks(report: JobReport) -> Table:
    table = new_table("task", "processor", "epoch>", "state")
    for each in report.tasks:
        table.add_row(Text(each.task), each.processor, str(each.epoch), task_state(report, each))
    return shrinking(table, 3)


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
