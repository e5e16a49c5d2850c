"""Which processors are alive: those whose counter changes, by the observer's own monotonic clock. Pure.

No clock is compared with another one. An observer that has just begun takes every processor for alive until it has
watched it for the time after which it is dead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SETTLED_CHANGES = (2, 10, 50)
"""The counter of a newcomer has changed this often before it gets tasks, since a process may crash again and again:
twice by default, ten times if a newcomer has left or died young lately, and fifty times if several have died."""
_TRUSTED = SETTLED_CHANGES[-1]
_LATE = 2.5
"""Heartbeats after which a counter that has not changed is late; polls see changes that are one apart up to two apart.
"""
_REMEMBERED = 200
"""Heartbeats for which an observer remembers that a newcomer has ended young."""


@dataclass(frozen=True)
class CounterObservation:
    """The last counter of a processor, when (monotonic seconds) it was first seen, and how often it has changed."""

    counter: int
    since: float
    changes: int = 0


@dataclass(frozen=True)
class FailureDetector:
    """What an observer has seen of each processor, and when (monotonic seconds) newcomers have left or died young.

    One that leaves has stopped its tasks, so that costs far less than a death.
    """

    seen: Mapping[str, CounterObservation] = field(default_factory=dict)
    left_young: tuple[float, ...] = ()
    died_young: tuple[float, ...] = ()

    def alive(self, now: float, death: Mapping[str, float]) -> frozenset[str]:
        """The processors whose counter has changed within the time after which each of them is dead (s)."""
        return frozenset(
            processor for processor, each in self.seen.items() if now - each.since < death.get(processor, 0.0)
        )

    def settled(self, members: Collection[str], now: float, heartbeat: float) -> frozenset[str]:
        """The processors that have been alive for long enough to get tasks.

        Nobody while a member that was a newcomer lately may have crashed: the next one may be the same process.
        """
        young = (self.seen[each] for each in members if each in self.seen and self.seen[each].changes < _TRUSTED)
        if any(now - each.since > _LATE * heartbeat for each in young):
            return frozenset()
        needed = SETTLED_CHANGES[max(min(2, len(self.died_young)), min(1, len(self.left_young)))]
        return frozenset(processor for processor, each in self.seen.items() if each.changes >= needed)

    def next_death(self, now: float, death: Mapping[str, float]) -> float | None:
        """Seconds until the first processor is dead, if its counter does not change; None if none is alive."""
        due = [each.since + death.get(processor, 0.0) - now for processor, each in self.seen.items()]
        return min((seconds for seconds in due if seconds > 0), default=None)


def observe(
    liveness: FailureDetector, counters: Mapping[str, int], members: Collection[str], now: float, heartbeat: float
) -> FailureDetector:
    """The liveness after reading the counters of all processors. Those that are gone are forgotten.

    members: of the job model; those are no newcomers when this observer begins.

    A change less than half a `heartbeat` after the one before does not count as another one: a processor counts up
    when it confirms a version, too.
    """
    seen = {
        processor: _watched(liveness.seen.get(processor), counter, now, heartbeat, member=processor in members)
        for processor, counter in counters.items()
    }
    young = [each for processor, each in liveness.seen.items() if processor not in seen and each.changes < _TRUSTED]
    left = sum(now - each.since <= _LATE * heartbeat for each in young)

    def lately(ended: tuple[float, ...], more: int) -> tuple[float, ...]:
        return (*(when for when in ended if now - when < _REMEMBERED * heartbeat), *[now] * more)

    return FailureDetector(seen, lately(liveness.left_young, left), lately(liveness.died_young, len(young) - left))


def _watched(
    before: CounterObservation | None, counter: int, now: float, heartbeat: float, *, member: bool
) -> CounterObservation:
    if before is None:
        return CounterObservation(counter, now, _TRUSTED if member else 0)
    if before.counter == counter:
        return before
    counts = now - before.since >= heartbeat / 2
    return replace(before, counter=counter, since=now, changes=min(before.changes + counts, _TRUSTED))
