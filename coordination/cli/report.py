"""What `status` shows, from the lease document and the rows of the processor table. Pure.

What a processor runs is not stored anywhere. It follows from the version that the processor has confirmed:

    END n      it has confirmed n: its tasks in n; else: those that it got up to the version that it has confirmed
    START n    it has confirmed n: those of its tasks in n that it had before; else: its tasks in the model before

A silent processor counts as one that runs nothing: it stops its tasks before the others take it for dead. The leader
is not silent while the lease is held, since its renewals are its heartbeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING

from coordination.processors.job_model import BarrierState, PublishedModel, from_content

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coordination.leadership.lease_document import LeaseDocument
    from coordination.processors.coordinator_state import ListedRow
    from coordination.processors.job_model import Assignment


@dataclass(frozen=True)
class JobSnapshot:
    """What was read. leased: whether the lease is held now. changed: seconds since the document was last written.

    rows: of the processor table; None if there is no table. All times are of the service's clock.
    """

    document: LeaseDocument
    leased: bool
    changed: float
    rows: tuple[ListedRow, ...] | None = None


@dataclass(frozen=True)
class LeaderReport:
    """A leased blob. holder and epoch are those of the last term; it goes on if the lease is held."""

    blob: str
    holder: str
    epoch: int
    held: bool
    changed: float


@dataclass(frozen=True)
class ProcessorReport:
    """A processor that has a row, or that the job model names.

    age: seconds since its counter last changed; None without a row. confirmed: a version of the job model, or None.
    running: the tasks that it runs, each with its epoch. renews: it leads, and the lease stands for its heartbeats.
    waits: what it has been waiting for, for long, such as its listener; empty if nothing is.
    """

    processor: str
    member: bool
    age: float | None
    silent: bool
    leads: bool
    confirmed: int | None
    running: Mapping[str, int] = field(default_factory=dict)
    renews: bool = False
    waits: str = ""


@dataclass(frozen=True)
class TaskReport:
    """A task, and the processor that is assigned to it. runs_on: the processor that runs it now, in any epoch."""

    task: str
    processor: str
    epoch: int
    runs_on: str | None


@dataclass(frozen=True)
class JobReport:
    """A job. death: the seconds without a heartbeat after which a processor is called silent. table: whether it exists.

    model: None before the first one is published.
    """

    job: str
    leader: LeaderReport
    death: float
    table: bool
    model: PublishedModel | None
    processors: tuple[ProcessorReport, ...]
    tasks: tuple[TaskReport, ...]

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The processors that the barrier waits for: those that lose tasks, have not confirmed, and may be alive."""
        if self.model is None:
            return ()
        version, losing = self.model.current.version, self.model.losing
        waits = (each for each in self.processors if each.processor in losing and each.confirmed != version)
        return tuple(each.processor for each in waits if each.age is not None)


def leader_report(blob: str, seen: JobSnapshot) -> LeaderReport:
    """The report of a leased blob."""
    return LeaderReport(blob, seen.document.holder, seen.document.epoch, seen.leased, seen.changed)


def job_report(job: str, blob: str, seen: JobSnapshot, death: float) -> JobReport:
    """The report of a job. `CorruptError` for a damaged job model."""
    model, leader = from_content(seen.document.content), leader_report(blob, seen)
    latest: dict[str, ListedRow] = {}
    for listed in sorted(seen.rows or (), key=lambda listed: listed.row.counter):
        latest[listed.row.processor] = listed
    members = () if model is None else model.current.processors
    leads = _leader(latest.values(), leader)
    renews = {each.row.processor for each in latest.values() if leader.held and each.row.stated.leads == leader.epoch}
    processors = tuple(
        replace(
            _processor(name, latest.get(name), model, inf if name in renews else death, leads=name == leads),
            renews=name in renews,
        )
        for name in sorted({*latest, *members})
    )
    runs_on = {task: each.processor for each in processors for task in each.running}
    assigned: Mapping[str, Assignment] = {} if model is None else model.current.tasks
    tasks = tuple(TaskReport(name, to.processor, to.epoch, runs_on.get(name)) for name, to in sorted(assigned.items()))
    return JobReport(job, leader, death, seen.rows is not None, model, processors, tasks)


def _leader(rows: Iterable[ListedRow], leader: LeaderReport) -> str | None:
    """The processor of the leader: the flag of one that was killed stays in its row, so the youngest flag counts."""
    flagged = [each for each in rows if each.leads and each.row.processor.rpartition("-")[0] == leader.holder]
    return min(flagged, key=lambda each: each.age).row.processor if flagged and leader.held else None


def _processor(
    name: str, listed: ListedRow | None, model: PublishedModel | None, death: float, *, leads: bool
) -> ProcessorReport:
    member = model is not None and name in model.current.processors
    if listed is None:
        return ProcessorReport(name, member, None, silent=False, leads=False, confirmed=None)
    silent, confirmed = listed.age >= death, listed.row.version
    running = {} if silent or model is None else _running(name, confirmed, model)
    return ProcessorReport(name, member, listed.age, silent, leads, confirmed, running, waits=listed.row.stated.waits)


def _running(name: str, confirmed: int | None, model: PublishedModel) -> dict[str, int]:
    current, previous = model.current, model.previous
    if confirmed == current.version:
        started = model.barrier is BarrierState.START
        return {task: epoch for task, epoch in current.of(name).items() if not started or epoch < current.version}
    reached = previous if model.barrier is BarrierState.START else current
    if confirmed is None or reached is None or name not in current.processors:
        return {}
    return {task: epoch for task, epoch in reached.of(name).items() if epoch <= confirmed}
