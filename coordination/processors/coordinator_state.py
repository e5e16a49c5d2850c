"""What a processor does next: a pure function of its state, of what it has read, and of the time.

    worker   START n ─► stop the tasks that it loses ─► confirm n ─► END n ─► begin the tasks that it gets
             not in the model ─► stop all, and stand by          heartbeat not confirmed in time ─► stop all, join anew
    leader   all have confirmed n ─► END n       one is dead, or too late ─► TIMEOUT n and START n + 1 without it
             END n, and processors or tasks have come or gone, or nobody runs a task ─► START n + 1

A processor is a worker always, and the leader too while it holds the lease. It reads, steps, acts, and then counts up
in its row; so a processor whose counter rises knows the model of a moment ago.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import assert_never

from coordination.processors.job_model import BarrierState, PublishedModel, next_model
from coordination.processors.liveness import Liveness, observe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordination.timing import CoordinatorTiming

_GATHERING_POLLS = 2
"""So many heartbeats does a leader wait with the first model."""


@dataclass(frozen=True)
class Row:
    """A row of the processor table. version: of the model that the processor has confirmed; None for `UNASSIGNED`."""

    processor: str
    version: int | None
    counter: int


@dataclass(frozen=True)
class ListedRow:
    """A row, whether its processor led the job at that heartbeat, and its age (s) by the service's clock."""

    row: Row
    leads: bool
    age: float


@dataclass(frozen=True)
class Observation:
    """What a processor has read.

    epoch, published: of the leased blob. begun: when (s) the reading began. overdue: the others may take this processor
    for dead soon. leads: whether it holds the lease. tasks: all tasks of the job, which only the leader needs.
    """

    epoch: int
    published: PublishedModel | None
    rows: tuple[Row, ...]
    begun: float
    overdue: bool
    leads: bool
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class StopTasks:
    """Stop these tasks, each with its epoch; the next action only when they have stopped."""

    tasks: Mapping[str, int]


@dataclass(frozen=True)
class BeginTasks:
    """Begin these tasks, each with its epoch."""

    tasks: Mapping[str, int]


@dataclass(frozen=True)
class Confirm:
    """Put the processor's row under this version; None for `UNASSIGNED`. Its row under another version is deleted."""

    version: int | None


@dataclass(frozen=True)
class Publish:
    """Write this model, if the blob has not changed since it was read.

    orphans: tasks of the present model that nobody runs, and that this one assigns again.
    """

    published: PublishedModel
    orphans: int = 0


@dataclass(frozen=True)
class Forget:
    """Delete these rows: of processors that are dead, or of versions that are past. dead: of how many processors."""

    rows: tuple[Row, ...]
    dead: int


@dataclass(frozen=True)
class JoinAnew:
    """The processor may be taken for dead: delete its rows, and go on under a new id."""


Action: TypeAlias = StopTasks | BeginTasks | Confirm | Publish | Forget | JoinAnew


@dataclass(frozen=True)
class WatchedBarrier:
    """The barrier that a leader sees: of this version, in this state, since (s)."""

    version: int
    barrier: BarrierState
    since: float


@dataclass(frozen=True)
class ProcessorState:
    """What a processor knows of itself and of the others.

    running: its tasks, each with its epoch. confirmed: the version that its row has. watched: None unless it leads.
    """

    processor: str
    liveness: Liveness = field(default_factory=Liveness)
    running: Mapping[str, int] = field(default_factory=dict)
    confirmed: int | None = None
    watched: WatchedBarrier | None = None


def step(
    state: ProcessorState, seen: Observation, now: float, timing: CoordinatorTiming
) -> tuple[ProcessorState, tuple[Action, ...]]:
    """The state after reading, and what is to be done, in this order. `after` is the state when an action is done.

    If an action fails, those after it are left out; the next step finds what is left to do.
    """
    if seen.overdue:
        stop = (StopTasks(state.running),) if state.running else ()
        return state, (*stop, JoinAnew())
    counters = {row.processor: row.counter for row in sorted(seen.rows, key=lambda row: row.counter)}
    state = replace(state, liveness=observe(state.liveness, counters, now))
    actions = _work(state, seen.published)
    if not seen.leads:
        return replace(state, watched=None), actions
    state = replace(state, watched=_watch_barrier(state.watched, seen.published, now))
    return state, (*actions, *_lead(state, seen, now, timing))


def after(state: ProcessorState, action: Action) -> ProcessorState:
    """The state when an action is done. A processor that joins anew has another id: its state is a new one."""
    match action:
        case StopTasks(tasks):
            return replace(state, running={task: of for task, of in state.running.items() if task not in tasks})
        case BeginTasks(tasks):
            return replace(state, running={**state.running, **tasks})
        case Confirm(version):
            return replace(state, confirmed=version)
        case Publish() | Forget() | JoinAnew():
            return state
        case _:
            assert_never(action)


def _work(state: ProcessorState, published: PublishedModel | None) -> tuple[Action, ...]:
    if published is None or state.processor not in published.current.processors:
        return _run(state, {}, None)
    model = published.current
    wanted = model.of(state.processor)
    if published.barrier is BarrierState.START:  # what it gets begins at END
        kept = {task: epoch for task, epoch in state.running.items() if wanted.get(task) == epoch}
        return _run(state, kept, model.version)
    # END: it has confirmed this version, or the leader would not have ended it; but the answer may have been lost.
    return _run(state, wanted, model.version)


def _run(state: ProcessorState, wanted: Mapping[str, int], version: int | None) -> tuple[Action, ...]:
    """Stop what is not wanted, confirm the version, begin what is wanted."""
    stopped = {task: epoch for task, epoch in state.running.items() if wanted.get(task) != epoch}
    begun = {task: epoch for task, epoch in wanted.items() if state.running.get(task) != epoch}
    actions: list[Action] = []
    if stopped:
        actions.append(StopTasks(stopped))
    if version != state.confirmed:
        actions.append(Confirm(version))
    if begun:
        actions.append(BeginTasks(begun))
    return tuple(actions)


def _watch_barrier(
    watched: WatchedBarrier | None, published: PublishedModel | None, now: float
) -> WatchedBarrier | None:
    """What the leader sees, with the time when it first saw it. Without a model it is version 0."""
    version = 0 if published is None else published.current.version
    barrier = BarrierState.START if published is None else published.barrier
    same = watched is not None and (version, barrier) == (watched.version, watched.barrier)
    return watched if same else WatchedBarrier(version, barrier, now)


def _lead(
    state: ProcessorState, seen: Observation, now: float, timing: CoordinatorTiming
) -> tuple[Publish | Forget, ...]:
    # A processor that was silent until `begun` may have counted up while this one was suspended amidst its reading.
    alive = state.liveness.alive(seen.begun, timing.death) | {state.processor}
    published, waited = seen.published, 0.0 if state.watched is None else now - state.watched.since
    if published is None:
        if waited < _GATHERING_POLLS * timing.heartbeat:  # processors that start together get their shares at once
            return ()
        return (Publish(next_model(None, seen.tasks, alive, seen.epoch)),)
    model = published.current
    confirmed = {row.processor for row in seen.rows if row.version == model.version}
    late = frozenset(model.processors) - confirmed
    if published.barrier is BarrierState.END:
        stalled = late if waited >= timing.death else frozenset[str]()
        return _supervise(published, seen, alive, stalled)
    if not late:
        return (Publish(replace(published, barrier=BarrierState.END)),)
    too_late = late if waited >= timing.barrier else frozenset[str]()
    members = alive - too_late
    if (late <= alive and not too_late) or not members:
        return ()
    return (Publish(next_model(published, seen.tasks, members, seen.epoch)),)


def _supervise(
    published: PublishedModel, seen: Observation, alive: frozenset[str], stalled: frozenset[str]
) -> tuple[Publish | Forget, ...]:
    """What a leader does while a model is in effect. stalled: they have had time to run their tasks, and do not."""
    model = published.current
    running = (alive & frozenset(model.processors)) - stalled
    orphans = sum(to.processor not in running for to in model.tasks.values())
    if orphans or set(model.processors) != alive or set(model.tasks) != set(seen.tasks):
        return (Publish(next_model(published, seen.tasks, alive, seen.epoch), orphans),)
    past = tuple(row for row in seen.rows if row.processor not in alive or (row.version or 0) < model.version)
    dead = len({row.processor for row in past} - alive)
    return (Forget(past, dead),) if past else ()
