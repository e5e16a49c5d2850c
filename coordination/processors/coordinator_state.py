"""What a processor does next: a function of its state, of what it has read, and of the time. Pure.

    worker   START n ─► stop the tasks that it loses ─► confirm n ─► END n ─► begin the tasks that it gets
             not in the model ─► stop all, and stand by          heartbeat not confirmed in time ─► stop all, join again
    leader   those that lose tasks have confirmed n, or are dead ─► END n
             one of them is too late ─► TIMEOUT n and START n + 1 without it
             END n, and processors or tasks have come or gone, or nobody runs a task ─► START n + 1; END n + 1 at once
             if no living processor loses a task

A processor is a worker always, and the leader too while it holds the lease. Only the leader reads the rows. A processor
whose counter rises is alive; only its confirmation says that it has stopped a task.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, assert_never

from coordination.processors.job_model import BarrierState, Members, PublishedModel, next_model
from coordination.processors.liveness import FailureDetector, observe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordination.timing import CoordinatorTiming

_GATHERING_POLLS = 2
"""Heartbeats that a leader waits before the first model."""


@dataclass(frozen=True)
class ProcessorDeclaration:
    """What a processor states of itself in its row.

    death: seconds after which it is dead to others. tasks: a digest of its list of tasks, empty if that is a function.
    name: under which it restarts, empty if it does not. away: the seconds for which it keeps its tasks since it has
    stopped in order; 0 while it runs. leads: the epoch in which the renewals of its lease replace its heartbeats.
    waits: what it has been waiting for, for long, such as its listener; empty if nothing is.
    """

    death: float
    tasks: str = ""
    name: str = ""
    away: float = 0.0
    leads: int | None = None
    waits: str = ""


@dataclass(frozen=True)
class ProcessorRow:
    """A row of the processor table. version: of the model that the processor has confirmed; None for `UNASSIGNED`."""

    processor: str
    version: int | None
    counter: int
    stated: ProcessorDeclaration


@dataclass(frozen=True)
class ListedRow:
    """A row, whether its processor led the job at that heartbeat, and its age (s) by the service's clock."""

    row: ProcessorRow
    leads: bool
    age: float


@dataclass(frozen=True)
class Observation:
    """What a processor has read.

    epoch, published: of the leased blob. begun: when (s) the reading began. overdue: the others may take this processor
    for dead soon. leads: whether it holds the lease. rows, tasks: of the job, which only the leader reads. expired: the
    epoch of the term before that of the leader, if its lease has expired: the processor that led has stopped by then.
    """

    epoch: int
    published: PublishedModel | None
    rows: tuple[ProcessorRow, ...]
    begun: float
    overdue: bool
    leads: bool
    tasks: tuple[str, ...]
    expired: int | None = None

    @cached_property
    def newest(self) -> Mapping[str, ProcessorRow]:
        """The last row of each processor: one that was written late may be left under another version."""
        return {row.processor: row for row in sorted(self.rows, key=lambda row: row.counter)}


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

    rows: tuple[ProcessorRow, ...]
    dead: int


@dataclass(frozen=True)
class Rejoin:
    """The processor may be taken for dead: delete its rows, and go on under a new id."""


Action: TypeAlias = StopTasks | BeginTasks | Confirm | Publish | Forget | Rejoin


@dataclass(frozen=True)
class WatchedBarrier:
    """The barrier that a leader sees: of this version, in this state, since (s)."""

    version: int
    barrier: BarrierState
    since: float


@dataclass(frozen=True)
class ProcessorState:
    """What a processor knows of itself and of the others.

    running: its tasks, each with its epoch. confirmed: the version that its row has. alive: who lives, as a leader sees
    it. settled: who has lived for long enough to get tasks. watched: None unless it leads.
    """

    processor: str
    liveness: FailureDetector = field(default_factory=FailureDetector)
    running: Mapping[str, int] = field(default_factory=dict)
    confirmed: int | None = None
    alive: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    watched: WatchedBarrier | None = None


def step(
    state: ProcessorState, seen: Observation, now: float, timing: CoordinatorTiming
) -> tuple[ProcessorState, tuple[Action, ...]]:
    """The state after reading, and what is to be done, in this order. `after` is the state when an action is done.

    If an action fails, those after it are left out; the next step finds what is left to do.
    """
    if seen.overdue:
        stop = (StopTasks(state.running),) if state.running else ()
        return state, (*stop, Rejoin())
    actions = _work(state, seen.published)
    if not seen.leads:  # who reads no rows must not take what it has seen as a leader for what there is later
        unknown = frozenset[str]()
        return replace(state, liveness=FailureDetector(), alive=unknown, settled=unknown, watched=None), actions
    counters = {processor: row.counter for processor, row in seen.newest.items()}
    # Nobody is a newcomer in a job that begins.
    members = frozenset(counters) if seen.published is None else _last_members(seen.published)
    liveness = observe(state.liveness, counters, members, now, timing.heartbeat)
    # A processor that was silent until `begun` may have counted up while this one was suspended amid its reading.
    alive = liveness.alive(seen.begun, deaths(seen.newest, timing)) - _led_until(seen)
    state = replace(
        state,
        liveness=liveness,
        alive=alive | {state.processor},
        settled=liveness.settled(members - {state.processor}, seen.begun, timing.heartbeat) | {state.processor},
        watched=_watch_barrier(state.watched, seen.published, now),
    )
    return state, (*actions, *_lead(state, seen, now, timing))


def deaths(rows: Mapping[str, ProcessorRow], timing: CoordinatorTiming) -> dict[str, float]:
    """After how many seconds each processor is dead.

    It is what the processor states, since it stops its tasks before that; not more than the barrier may last, since
    the others wait no longer for anybody.
    """
    return {
        processor: row.stated.away or max(timing.death, min(row.stated.death, timing.barrier))
        for processor, row in rows.items()
    }


def after(state: ProcessorState, action: Action) -> ProcessorState:
    """The state when an action is done. A processor that joins again has another id: its state is a new one."""
    match action:
        case StopTasks(tasks):
            return replace(state, running={task: of for task, of in state.running.items() if task not in tasks})
        case BeginTasks(tasks):
            return replace(state, running={**state.running, **tasks})
        case Confirm(version):
            return replace(state, confirmed=version)
        case Publish() | Forget() | Rejoin():
            return state
        case _:
            assert_never(action)


def _work(state: ProcessorState, published: PublishedModel | None) -> tuple[Action, ...]:
    if published is None:
        return _run(state, {}, None)
    model = published.current
    wanted = model.of(state.processor)
    if published.barrier is BarrierState.START:  # what it gets begins at END
        kept = {task: epoch for task, epoch in state.running.items() if wanted.get(task) == epoch}
        return _run(state, kept, model.version)
    # END: who does not lose a task has not confirmed it before; nor does one know that has lost the answer.
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
    alive, published, waited = state.alive, seen.published, 0.0 if state.watched is None else now - state.watched.since
    if published is None:
        if waited < _GATHERING_POLLS * timing.heartbeat:  # processors that start together get their shares at once
            return ()
        return (Publish(next_model(None, seen.tasks, Members(alive - _away(seen)), seen.epoch)),)
    if published.barrier is BarrierState.END:
        owners = frozenset(to.processor for to in published.current.tasks.values())
        late = waiting_for(published, seen.newest, owners) - _away(seen)
        return _supervise(state, seen, late if waited >= timing.barrier else frozenset())
    late = waiting_for(published, seen.newest, published.losing) & alive - _away(seen)
    if not late:
        return (Publish(replace(published, barrier=BarrierState.END)),)
    if waited < timing.barrier:
        return ()
    model = frozenset(published.current.processors)
    if not late & model:  # they were left out before, and have had the time of another barrier
        return (Publish(replace(published, barrier=BarrierState.END)),)
    members = Members((model & alive) - late - _away(seen), (model & alive & _away(seen)) - late)
    return (Publish(next_model(published, seen.tasks, members, seen.epoch)),) if members.present else ()


def waiting_for(
    published: PublishedModel, rows: Mapping[str, ProcessorRow], processors: frozenset[str]
) -> frozenset[str]:
    """The processors that have not confirmed the model."""
    version = published.current.version
    return frozenset(each for each in processors if each not in rows or rows[each].version != version)


def _last_members(published: PublishedModel) -> frozenset[str]:
    """The processors of the present model and of the one before: the dead are in that one until they are forgotten."""
    before = () if published.previous is None else published.previous.processors
    return frozenset((*published.current.processors, *before))


def _away(seen: Observation) -> frozenset[str]:
    """The processors that have stopped in order, and are expected back."""
    return frozenset(row.processor for row in seen.newest.values() if row.stated.away)


def _led_until(seen: Observation) -> frozenset[str]:
    """The leader before this one, if its lease has expired: it has stopped its tasks before, or is suspended."""
    if seen.expired is None:
        return frozenset()
    return frozenset(row.processor for row in seen.newest.values() if row.stated.leads == seen.expired)


def _supervise(state: ProcessorState, seen: Observation, stalled: frozenset[str]) -> tuple[Publish | Forget, ...]:
    """What a leader does while a model is in effect. stalled: they have had time to run their tasks, and do not."""
    alive, published, away = state.alive, seen.published, _away(seen)
    if published is None:
        return ()
    model = published.current
    members = _members(state, seen, stalled)
    keep = members.present | members.away
    orphans = sum(to.processor not in keep for to in model.tasks.values())
    if orphans or set(model.processors) != keep or set(model.tasks) != set(seen.tasks):
        made = next_model(published, seen.tasks, members, seen.epoch)
        if not made.losing & alive - away:  # nobody has to stop anything first
            made = replace(made, barrier=BarrierState.END)
        return (Publish(made, orphans),)
    past = tuple(row for row in seen.rows if row.processor not in alive or row != seen.newest[row.processor])
    dead = len({row.processor for row in past} - alive)
    return (Forget(past, dead),) if past else ()


def _members(state: ProcessorState, seen: Observation, stalled: frozenset[str]) -> Members:
    """Who is in the next model: of the present one those that live, and newcomers that have been alive for a while.

    A newcomer under the name of a member waits until that one has stopped or is dead, and then takes its place.
    """
    alive, rows, away = state.alive, seen.newest, _away(seen)
    published = seen.published
    before = frozenset[str]() if published is None else frozenset(published.current.processors)
    version = None if published is None else published.current.version
    places = {rows[each].stated.name: each for each in sorted(before & rows.keys()) if rows[each].stated.name}
    present, returned = (before & alive) - stalled - away, dict[str, str]()
    for each in sorted((alive - before - away - stalled) & rows.keys()):
        name, knows = rows[each].stated.name, rows[each].version in (None, version)
        place = places.get(name)
        if place is not None and place in alive - away:
            continue
        if knows and (each in state.settled or place in away):
            present |= {each}
            if place is not None:
                returned[each], places[name] = place, each
    return Members(present or frozenset({state.processor}), (before & alive & away) - set(returned.values()), returned)
