"""Which processors are alive: those whose counter changes, by the observer's own monotonic clock. Pure.

No clock is compared with another one. An observer that has just begun takes every processor for alive until it has
watched it for `death` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Liveness:
    """The last counter of each processor, and when (monotonic seconds) it was first seen."""

    seen: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    def alive(self, now: float, death: float) -> frozenset[str]:
        """The processors whose counter has changed in the last `death` seconds."""
        return frozenset(processor for processor, (_, since) in self.seen.items() if now - since < death)


def observe(liveness: Liveness, counters: Mapping[str, int], now: float) -> Liveness:
    """The liveness after reading the counters of all processors. Those that are gone are forgotten."""
    seen = liveness.seen
    return Liveness(
        {
            processor: seen[processor] if processor in seen and seen[processor][0] == counter else (counter, now)
            for processor, counter in counters.items()
        }
    )
