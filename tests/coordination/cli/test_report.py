"""Reports of jobs whose document and rows are written here: what runs where, and which sentences are said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from azure_account.cli.json_lines import json_line
from coordination.cli.output import age_text, changes, listing, notes, status_json, status_text, task_state
from coordination.cli.report import JobReport, JobSnapshot, LeaderReport, job_report, leader_report
from coordination.leadership.lease_document import LeaseDocument
from coordination.processors.coordinator_state import ListedRow, ProcessorDeclaration, ProcessorRow
from coordination.processors.job_model import Assignment, BarrierState, JobModel, PublishedModel, to_content
from foundation.errors import CorruptError

A, B, C = "a-00000001", "b-00000002", "c-00000003"
BLOB = "box/coordination/flights/job.json"
SEVEN = JobModel(7, (A, B), {"t1": Assignment(A, 5), "t2": Assignment(A, 7), "t3": Assignment(B, 7)})
EIGHT = JobModel(8, (A, B, C), {"t1": Assignment(A, 5), "t2": Assignment(C, 8), "t3": Assignment(B, 7)})
RUN_BY_SEVEN = PublishedModel(SEVEN, BarrierState.END)
MOVING = PublishedModel(EIGHT, BarrierState.START, SEVEN)
MOVED = PublishedModel(EIGHT, BarrierState.END, SEVEN)


def row(
    processor: str, version: int | None, age: float = 1.0, *, leads: bool = False, counter: int = 1, waits: str = ""
) -> ListedRow:
    return ListedRow(ProcessorRow(processor, version, counter, ProcessorDeclaration(14.0, waits=waits)), leads, age)


def report_of(
    model: PublishedModel | None, *rows: ListedRow, held: bool = True, holder: str = "a", table: bool = True
) -> JobReport:
    content = {} if model is None else to_content(model)
    seen = JobSnapshot(LeaseDocument(6, holder, "id", content), held, 12.0, rows if table else None)
    return job_report("flights", BLOB, seen, death=30)


def running(report: JobReport) -> dict[str, list[str]]:
    return {each.processor: sorted(each.running) for each in report.processors}


def states(report: JobReport) -> list[str]:
    return [task_state(report, task) for task in report.tasks]


def text_of(report: JobReport | LeaderReport, width: int = 100) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(status_text(report))
    return captured.get()


# --- what runs where --------------------------------------------------------------------------------------------------


def test_after_a_barrier_the_tasks_run_where_they_are_assigned() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7, leads=True), row(B, 7))
    assert {A: ["t1", "t2"], B: ["t3"]} == running(report)
    assert ["runs"] * 3 == states(report)
    assert ["All 3 tasks run."] == notes(report)
    assert [True, False] == [each.leads for each in report.processors]


def test_at_a_barrier_tasks_run_on_until_their_processor_confirms() -> None:
    report = report_of(MOVING, row(A, 7), row(B, 7), row(C, None))
    assert {A: ["t1", "t2"], B: ["t3"], C: []} == running(report)
    assert ["runs", f"moves, runs on {A}", "runs"] == states(report)
    assert (A,) == report.waits_for
    assert f"The barrier START 8 waits for {A} to confirm it. Tasks that move are paused." == notes(report)[0]

    report = report_of(MOVING, row(A, 8), row(B, 8), row(C, None))
    assert {A: ["t1"], B: ["t3"], C: []} == running(report)
    assert ["runs", "waits for END 8", "runs"] == states(report)
    assert [
        "Those that lose tasks have confirmed version 8: the leader publishes END 8 next.",
        "Nobody runs t2: what moves waits for END 8.",
    ] == notes(report)


def test_when_all_have_confirmed_the_leader_is_next() -> None:
    report = report_of(MOVING, row(A, 8), row(B, 8), row(C, 8))
    assert {A: ["t1"], B: ["t3"], C: []} == running(report)
    assert "Those that lose tasks have confirmed version 8: the leader publishes END 8 next." == notes(report)[0]
    assert {A: ["t1"], B: ["t3"], C: ["t2"]} == running(report_of(MOVED, row(A, 8), row(B, 8), row(C, 8)))


def test_a_processor_that_has_not_confirmed_the_model_before_runs_nothing_at_the_barrier() -> None:
    report = report_of(MOVING, row(A, 7), row(B, 6), row(C, None))
    assert {A: ["t1", "t2"], B: [], C: []} == running(report)


def test_a_barrier_that_timed_out_is_reported() -> None:
    report = report_of(PublishedModel(EIGHT, BarrierState.START, SEVEN, 7), row(A, 8), row(B, 8), row(C, None))
    assert "The barrier of version 7 timed out: not all of its processors confirmed it in time." == notes(report)[0]
    assert "timed out  version 7" in text_of(report)
    report = report_of(PublishedModel(EIGHT, BarrierState.END, SEVEN, 7), row(A, 8), row(B, 8), row(C, 8))
    assert ["All 3 tasks run."] == notes(report)


def test_of_two_rows_of_a_processor_the_later_one_counts() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7, counter=9), row(A, None, counter=8), row(B, 7))
    assert [(A, 7), (B, 7)] == [(each.processor, each.confirmed) for each in report.processors]


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_a_silent_processor_runs_nothing() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7, leads=True), row(B, 7, age=30.0))
    assert ["runs", "runs", "does not run: silent"] == states(report)
    assert [
        f"{B} is silent, without a heartbeat for 30 seconds or more.",
        f"Nobody runs t3: their processor {B} is silent.",
    ] == notes(report)
    assert not report_of(RUN_BY_SEVEN, row(B, 7, age=29.9)).processors[1].silent


def test_what_a_processor_waits_for_is_said() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7, age=1), row(B, 7, age=2, waits="its listener to stop t3"))
    assert f"{B} waits for its listener to stop t3." in notes(report)
    assert [None, "its listener to stop t3"] == [each["waitsFor"] for each in status_json(report)["processors"]]  # type: ignore[attr-defined]


def test_a_leader_that_is_silent_is_named() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7, age=31, leads=True), row(B, 7, age=40))
    assert [
        f"{A}, {B} are silent, without a heartbeat for 30 seconds or more.",
        f"The leader {A} is among them: another processor leads when the lease has expired.",
    ] == notes(report)[:2]
    assert "leader, silent" in text_of(report)


def test_a_processor_without_a_row_runs_nothing() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7))
    assert ["runs", "runs", "does not run: no row"] == states(report)
    assert [f"Nobody runs t3: their processor {B} has no row."] == notes(report)
    assert "no row" in text_of(report)


def test_a_processor_that_has_not_confirmed_runs_nothing() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7), row(B, None))
    assert [f"Nobody runs t3: their processor {B} has not confirmed version 7."] == notes(report)
    assert "does not run: not confirmed" == states(report)[2]


def test_a_processor_that_joins_is_named() -> None:
    report = report_of(RUN_BY_SEVEN, row(A, 7), row(B, 7), row(C, None))
    assert [f"{C} is not in version 7, and can be in a later one.", "All 3 tasks run."] == notes(report)
    assert "stand-by" in text_of(report)


def test_a_job_without_a_leader_says_whether_one_can_come() -> None:
    alone = report_of(RUN_BY_SEVEN, row(A, 7, leads=True), row(B, 7), held=False)
    assert (
        f"Nobody leads: the lease of {BLOB} is not held. A processor leads after its next attempt." == notes(alone)[0]
    )
    assert not any(each.leads for each in alone.processors)
    assert "nobody (the last one: a, epoch 6)" in text_of(alone)
    dead = report_of(RUN_BY_SEVEN, row(A, 7, age=99), row(B, 7, age=99), held=False)
    assert notes(dead)[0].endswith("No processor is alive: start the processes of the job.")


def test_the_leader_is_the_holder_whatever_flags_are_left_in_rows() -> None:
    rows = [row(A, 7, age=20, leads=True), row(B, 7, leads=True), row("b-c-00000004", None, age=0, leads=True)]
    report = report_of(RUN_BY_SEVEN, *rows, holder="b")
    assert [B] == [each.processor for each in report.processors if each.leads]


def test_a_job_that_has_just_begun_has_no_model() -> None:
    report = report_of(None, row(A, None))
    assert ["There is no job model yet: the leader publishes one with its next heartbeat."] == notes(report)
    assert status_json(report)["jobModel"] is None
    assert "job model  –" in text_of(report)
    assert ["There is no processor table: no processor of this job has started."] == notes(report_of(None, table=False))


def test_a_damaged_job_model_is_an_error() -> None:
    seen = JobSnapshot(LeaseDocument(6, "a", "id", {"jobModel": {"version": "x"}}), leased=True, changed=0)
    with pytest.raises(CorruptError, match="The job model is damaged"):
        job_report("flights", BLOB, seen, 30)


def test_one_task_and_none() -> None:
    one = PublishedModel(JobModel(7, (A,), {"t": Assignment(A, 7)}), BarrierState.END)
    assert ["The only task runs."] == notes(report_of(one, row(A, 7)))
    assert [] == notes(report_of(PublishedModel(JobModel(7, (A,)), BarrierState.END), row(A, 7)))


def test_long_lists_are_cut() -> None:
    assert "a, b, c, d, e, f" == listing("abcdef")
    assert "a, b, c, d, e and 2 more" == listing("abcdefg")


# --- output -----------------------------------------------------------------------------------------------------------


def test_the_text_has_facts_sentences_processors_and_tasks() -> None:
    report = report_of(MOVING, row(A, 8, leads=True), row(B, 8, age=3), row(C, None, age=75))
    assert [
        "job        flights",
        "leader     a, epoch 6",
        "changed    12 s ago",
        "job model  version 8",
        "barrier    START 8",
        "",
        "Those that lose tasks have confirmed version 8: the leader publishes END 8 next.",
        f"{C} is silent, without a heartbeat for 30 seconds or more.",
        f"Nobody runs t2: their processor {C} is silent.",
        "",
        "processor   role    heartbeat  confirmed  runs  tasks",
        "─" * 54,
        "a-00000001  leader    1 s ago          8     1  t1",
        "b-00000002            3 s ago          8     1  t3",
        "c-00000003  silent   75 s ago          –     0  –",
        "",
        "task  processor   epoch  state",
        "─" * 46,
        "t1    a-00000001      5  runs",
        "t2    c-00000003      8  does not run: silent",
        "t3    b-00000002      7  runs",
    ] == [line.rstrip() for line in text_of(report).splitlines()]


def test_the_json_has_all_of_it() -> None:
    document: dict[str, Any] = json.loads(
        json_line(status_json(report_of(MOVING, row(A, 8, leads=True), row(B, 8), row(C, None, age=75.5))))
    )
    assert ("flights", BLOB, 12.0) == (document["job"], document["blob"], document["changedSeconds"])
    assert {"holder": "a", "epoch": 6, "leaseHeld": True} == document["leader"]
    assert {"version": 8, "barrier": "START 8", "waitsFor": [], "timedOut": None} == document["jobModel"]
    assert {
        "processor": A, "member": True, "isLeader": True, "ageSeconds": 1.0, "silent": False, "confirmed": 8,
        "waitsFor": None, "tasks": {"t1": 5},
    } == document["processors"][0]  # fmt: skip
    assert {"task": "t2", "processor": C, "epoch": 8, "runsOn": None, "state": "does not run: silent"} == (
        document["tasks"][1]
    )
    assert 3 == len(document["notes"])


def test_only_changes_are_lines() -> None:
    before = report_of(MOVING, row(A, 8, leads=True), row(B, 8), row(C, None))
    assert "leader a, epoch 6" == changes(None, before)[0]
    older = report_of(MOVING, row(A, 8, age=4, leads=True), row(B, 8, age=2), row(C, None, age=3))
    assert [] == changes(before, older), "an age alone is no change"
    after = report_of(MOVED, row(A, 8, leads=True), row(C, 8))
    assert {f"{C}: worker, runs t2", f"Nobody runs t3: their processor {B} has no row.", "barrier END 8"} == set(
        changes(before, after)
    )
    gone = report_of(PublishedModel(JobModel(9, (A,)), BarrierState.END), row(A, 9, leads=True))
    assert {f"{B}: gone", f"{C}: gone"} <= set(changes(before, gone))


def test_a_leader_without_a_job() -> None:
    held = leader_report("box/leaders/report", JobSnapshot(LeaseDocument(6, "one"), leased=True, changed=90))
    free = leader_report("box/leaders/report", JobSnapshot(LeaseDocument(6, "one"), leased=False, changed=180))
    assert ["blob     box/leaders/report", "leader   one, epoch 6", "changed  90 s ago"] == [
        line.rstrip() for line in text_of(held).splitlines()
    ]
    note = (
        "Nobody leads: the lease of box/leaders/report is not held. "
        "Any process that waits for it leads after its next attempt."
    )
    assert ([], [note]) == (notes(held), notes(free))
    assert {
        "blob": "box/leaders/report", "leader": {"holder": "one", "epoch": 6, "leaseHeld": False},
        "changedSeconds": 180, "notes": [note],
    } == status_json(free)  # fmt: skip
    assert ["box/leaders/report: leader nobody (the last one: one, epoch 6)", note] == changes(held, free)


def test_ages_have_a_unit_that_fits() -> None:
    assert ["0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"] == [
        age_text(seconds) for seconds in (0.4, 119, 120, 7150, 7200, 169_000, 172_800)
    ]
