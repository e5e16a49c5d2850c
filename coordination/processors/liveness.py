"""Which processors are alive: those whose counter changes, by the observer's own monotonic clock. Pure.

No clock is compared with another one. An observer that has just begun takes every processor for alive until it has
watched it for the time after which it is dead.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLED_CHANGES = 2
"""The counter of a newcomer has changed so often before it gets tasks, since a process may crash again and again."""


@dataclass(frozen=True)
class CounterObservation:
    """The last counter of a processor, when (monotonic seconds) it was first seen, and how often it has changed."""

    counter: int
    since: float
    changes: int = 0


@dataclass(frozen=True)
class FailureDetector:
    """What an observer has seen of each processor."""

    seen: Mapping[str, CounterObservation] = field(default_factory=dict)

    def alive(self, now: float, death: Mapping[str, float]) -> frozenset[str]:
        """The processors whose counter has changed within the time after which each of them is dead (s)."""
        return frozenset(
            processor for processor, each in self.seen.items() if now - each.since < death.get(processor, 0.0)
        )

    def settled(self) -> frozenset[str]:
        """The processors that have been alive for some heartbeats."""
        return frozenset(processor for processor, each in self.seen.items() if each.changes >= SETTLED_CHANGES)

    def next_death(self, now: float, death: Mapping[str, float]) -> float | None:
        """Seconds until the first processor is dead, if its counter does not change; None if none is alive."""
        due = [each.since + death.get(processor, 0.0) - now for processor, each in self.seen.items()]
        return min((seconds for seconds in due if seconds > 0), default=None)


def observe(
    liveness: FailureDetector, counters: Mapping[str, int], now: float, heartbeat: float = 0.0
) -> FailureDetector:
    """The liveness after reading the counters of all processors. Those that are gone are forgotten.

    A change less than half a `heartbeat` after the one before does not count as another one: a processor counts up
    when it confirms a version, too.
    """
    return FailureDetector(
        {processor: _watched(liveness.seen.get(processor), at, now, heartbeat) for processor, at in counters.items()}
    )


def _watched(before: CounterObservation | None, counter: int, now: float, heartbeat: float) -> CounterObservation:
    if before is None:
        return CounterObservation(counter, now)
    if before.counter == counter:
        return before
    counts = now - before.since >= heartbeat / 2
    return replace(before, counter=counter, since=now, changes=min(before.changes + counts, SETTLED_CHANGES))
