"""The states of a task that a driver runs, and how they follow one another. Pure.

    Due ─► Preparing ─► Prepared ─ start ─► Running ─ its query ends by itself, finish ─► Finished
     ▲         │            │                  │
     └─────────┴── fails ───┴──────────────────┘    or Fenced, if the sink refuses the epoch
    each but Finished ─► Expiring, when the task is taken away

A task that is expiring is not started again: what was at work when it was taken away may still end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

_LONGEST_WAIT_SECONDS = 60.0


class TaskQuery(Protocol):
    """What runs for a task: a streaming query, or a process or thread that looks like one."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it runs. Asked only if there is something to finish."""

    def exception(self) -> Exception | None:
        """What it has failed with; None while it runs, and if it has ended without an error."""

    def stop(self) -> None:
        """Stop it. Returns when it has ended."""


@dataclass(frozen=True)
class Due:
    """The task is to be prepared at this time (monotonic seconds), and then started."""

    at: float = 0.0


@dataclass(frozen=True)
class Preparing:
    """A thread prepares it."""


@dataclass(frozen=True)
class Prepared:
    """The task may be started, or is being started."""


@dataclass(frozen=True)
class Running:
    """The task's query runs since this time, or has ended by itself and is not finished yet."""

    query: TaskQuery
    since: float


@dataclass(frozen=True)
class Fenced:
    """Since this time it waits to be taken away: another driver has the stream."""

    since: float


@dataclass(frozen=True)
class Expiring:
    """The task is taken away, and its query is to be stopped.

    abandoned: nobody waits any more for the end of its start, or of `finish`: then its query is stopped.
    """

    query: TaskQuery | None = None
    abandoned: bool = False


@dataclass(frozen=True)
class Finished:
    """The task's query has ended by itself, and was finished."""


State: TypeAlias = Due | Preparing | Prepared | Running | Fenced | Expiring | Finished


def expired(state: State) -> State:
    """The task is taken away."""
    match state:
        case Running(query):
            return Expiring(query)
        case Expiring() | Finished():
            return state
        case _:
            return Expiring()


def started(state: State, query: TaskQuery, now: float) -> State:
    """The state after the query was started, which may be too late."""
    return replace(state, query=query) if isinstance(state, Expiring) else Running(query, now)


def finished(state: State) -> State:
    """The state once nothing of the task runs any more."""
    return replace(state, query=None) if isinstance(state, Expiring) else Finished()


def failed(state: State, failures: int, now: float, *, fenced: bool) -> State:
    """The state after preparation, start, query or finish has failed, the `failures`-th time since it last ran long."""
    if isinstance(state, Expiring):
        return state
    return Fenced(now) if fenced else Due(now + seconds_to_wait(failures))


def seconds_to_wait(failures: int) -> float:
    """Seconds until the task is prepared and started again."""
    return min(2.0 ** min(failures - 1, 10), _LONGEST_WAIT_SECONDS)  # a float is less than 2 ** 1024
