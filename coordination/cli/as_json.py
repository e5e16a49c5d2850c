"""The output of `status` for programs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordination.cli.notes import notes, task_state
from coordination.cli.report import LeaderReport

if TYPE_CHECKING:
    from coordination.cli.report import JobReport


def status_json(report: JobReport | LeaderReport) -> dict[str, object]:
    """The document of `status`. Ages are in seconds."""
    if isinstance(report, LeaderReport):
        return {**_leader(report), "notes": notes(report)}
    model = report.model
    return {
        "job": report.job,
        **_leader(report.leader),
        "jobModel": None
        if model is None
        else {
            "version": model.current.version,
            "barrier": f"{model.barrier.value} {model.current.version}",
            "waitsFor": list(report.waits_for),
            "timedOut": model.timed_out or None,
        },
        "processors": [
            {
                "processor": each.processor,
                "member": each.member,
                "isLeader": each.leads,
                "ageSeconds": each.age,
                "silent": each.silent,
                "confirmed": each.confirmed,
                "waitsFor": each.waits or None,
                "tasks": dict(each.running),
            }
            for each in report.processors
        ],
        "tasks": [
            {
                "task": each.task,
                "processor": each.processor,
                "epoch": each.epoch,
                "runsOn": each.runs_on,
                "state": task_state(report, each),
            }
            for each in report.tasks
        ],
        "notes": notes(report),
    }


def _leader(report: LeaderReport) -> dict[str, object]:
    return {
        "blob": report.blob,
        "leader": {"holder": report.holder, "epoch": report.epoch, "leaseHeld": report.held},
        "changedSeconds": report.changed,
    }
