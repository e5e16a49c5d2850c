"""What the leader publishes: which processor runs which task, and how far the processors have agreed on it. Pure.

    version 7, START ──► all that lose tasks have confirmed, or are dead ──► version 7, END
                   └───► some have not, in time ──► TIMEOUT 7, and version 8, START, without them

It is kept in the leased blob, beside the epoch, and changed by one conditional write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from coordination.processors.assignment import assign
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

T = TypeVar("T")


class BarrierState(Enum):
    """START: processors are to stop the tasks that they lose. END: all have; the model is in effect."""

    START = "START"
    END = "END"


@dataclass(frozen=True)
class Assignment:
    """The processor of a task, and the version of the model in which it got it: the epoch of the task's writes."""

    processor: str
    epoch: int


@dataclass(frozen=True)
class JobModel:
    """A distribution of all tasks to some processors. Processors without a task stand by."""

    version: int
    processors: tuple[str, ...]
    tasks: Mapping[str, Assignment] = field(default_factory=dict)

    def of(self, processor: str) -> dict[str, int]:
        """The tasks of a processor, each with its epoch."""
        return {task: to.epoch for task, to in self.tasks.items() if to.processor == processor}


@dataclass(frozen=True)
class PublishedModel:
    """The present model with its barrier, the one before it, and the last version whose barrier timed out (0: none)."""

    current: JobModel
    barrier: BarrierState
    previous: JobModel | None = None
    timed_out: int = 0

    @property
    def losing(self) -> frozenset[str]:
        """The processors that may run a task that another one gets, or nobody: the barrier waits for them, if alive.

        All others run on, or begin at END. Before the first model it is not known what runs: it waits for all.
        """
        if self.barrier is BarrierState.END:
            return frozenset()
        if self.previous is None:
            return frozenset(self.current.processors)
        kept = self.current.tasks
        return frozenset(to.processor for task, to in self.previous.tasks.items() if kept.get(task) != to)


@dataclass(frozen=True)
class Members:
    """The processors of a model to be made.

    present: those that can run tasks. away: those that have stopped for a restart; they keep the tasks that they have.
    returned: those that have restarted, with the id that each one had before: they get the tasks of that one.
    """

    present: frozenset[str]
    away: frozenset[str] = frozenset()
    returned: Mapping[str, str] = field(default_factory=dict)


def next_model(published: PublishedModel | None, tasks: Iterable[str], members: Members, first: int) -> PublishedModel:
    """The next version for these processors, at the start of its barrier. `first` is the version of the first one.

    A task that stays at its processor keeps its epoch, and runs on. A task that moves has the new version as its epoch;
    so has one that was to move in a version whose barrier was not reached, since it has not begun there.
    """
    everybody = tuple(sorted(members.present | members.away))
    if published is None:
        assigned = assign(tasks, members.present, {})
        return PublishedModel(_model(first, everybody, assigned, {}), BarrierState.START)
    current, reached = published.current, published.barrier is BarrierState.END
    successors = {before: now for now, before in members.returned.items()}
    owners = {task: successors.get(to.processor, to.processor) for task, to in current.tasks.items()}
    wanted = set(tasks)
    left = {task: owner for task, owner in owners.items() if owner in members.away and task in wanted}
    assigned = {**assign(wanted - left.keys(), members.present, owners), **left}
    begun = {task: to for task, to in current.tasks.items() if reached or to.epoch < current.version}
    model = _model(current.version + 1, everybody, assigned, begun)
    if reached:
        return PublishedModel(model, BarrierState.START, current, published.timed_out)
    return PublishedModel(model, BarrierState.START, published.previous, current.version)


def _model(
    version: int, members: tuple[str, ...], assigned: Mapping[str, str], begun: Mapping[str, Assignment]
) -> JobModel:
    tasks = {
        task: begun[task] if task in begun and begun[task].processor == processor else Assignment(processor, version)
        for task, processor in assigned.items()
    }
    return JobModel(version, members, tasks)


def to_content(published: PublishedModel) -> dict[str, Any]:
    """As fields of the lease document."""
    previous = published.previous
    return {
        "jobModel": _to_fields(published.current),
        "previousJobModel": None if previous is None else _to_fields(previous),
        "barrier": f"{published.barrier.value} {published.current.version}",
        "timedOut": published.timed_out,
    }


def from_content(content: Mapping[str, Any], blob: str = "the blob") -> PublishedModel | None:
    """The inverse; None if no model was published. `CorruptError` for other fields, which names `blob`."""
    if content.get("jobModel") is None:
        return None
    try:
        current = _from_fields(content["jobModel"])
        previous = content["previousJobModel"]
        return PublishedModel(
            current,
            BarrierState(content["barrier"].removesuffix(f" {current.version}")),
            None if previous is None else _from_fields(previous),
            typed(content["timedOut"], int),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        text = f"The job model is damaged in {blob} ({error!r}). Delete {blob}: the processors then agree on a new one."
        raise CorruptError(text) from error


def _to_fields(model: JobModel) -> dict[str, Any]:
    tasks = {task: {"processor": to.processor, "epoch": to.epoch} for task, to in sorted(model.tasks.items())}
    return {"version": model.version, "processors": list(model.processors), "tasks": tasks}


def _from_fields(fields: Mapping[str, Any]) -> JobModel:
    tasks = {
        name: Assignment(typed(to["processor"], str), typed(to["epoch"], int)) for name, to in fields["tasks"].items()
    }
    processors = tuple(typed(name, str) for name in typed(fields["processors"], list))
    return JobModel(typed(fields["version"], int), processors, tasks)


def typed(value: Any, wanted: type[T]) -> T:
    """The value, if it is of this type: JSON's true is no number. `TypeError` else."""
    if type(value) is not wanted:
        text = f"{str(value)[:40]!r} is not of type {wanted.__name__}"
        raise TypeError(text)
    return value
