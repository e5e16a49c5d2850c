"""The durations of coordination, and the inequalities between them. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.errors import ConfigurationError
from azure_account.names import LEASE_SECONDS

if TYPE_CHECKING:
    from typing_extensions import Self

_REQUESTS = 3
"""Of a poll: the blob, the rows, the heartbeat."""


@dataclass(frozen=True)
class LeaseTiming:
    """The durations of a lease, in seconds. `ConfigurationError` for values that would lose it in normal operation.

    duration: of the lease, 15 to 60.
    renew_every: between two renewals.
    poll_every: between two attempts to acquire it.
    request: the longest that one request may take.
    margin: the holder stops acting so long before the lease can expire. It covers what a holder does between a check
    and its effect, and clocks that run at different speeds.
    """

    duration: int = 30
    renew_every: float = 6.0
    poll_every: float = 5.0
    request: float = 5.0
    margin: float = 5.0

    def __post_init__(self) -> None:
        if self.duration not in LEASE_SECONDS:
            text = f"duration: a lease lasts 15 to 60 whole seconds, not {self.duration!r}."
            raise ConfigurationError(text)
        _check_positive(self, "renew_every", "poll_every", "request", "margin")
        needed = 2 * self.renew_every + self.request + self.margin
        if needed > self.duration:
            text = (
                f"2 x renew_every ({self.renew_every}) + request ({self.request}) + margin ({self.margin}) is {needed} "
                f"seconds, more than the lease of {self.duration}: one failed renewal would lose it. Renew more often, "
                "or take a longer lease."
            )
            raise ConfigurationError(text)

    @classmethod
    def of_duration(cls, duration: int, poll_every: float) -> Self:
        """Renewals, limit of a request, and margin in the same proportion to the lease as by default."""
        return cls(duration, duration / 5, poll_every, duration / 6, duration / 6)

    @property
    def takeover(self) -> float:
        """The longest time from the death of a holder to the next term, while another process waits for it."""
        return self.duration + self.poll_every + 3 * self.request


@dataclass(frozen=True)
class CoordinatorTiming:
    """The durations of processors and barriers, in seconds. `ConfigurationError` for values that contradict each other.

    heartbeat: between two polls of a processor, each of which counts up its row.
    death: a processor whose row has not changed for so long is dead.
    margin: a processor whose heartbeat is not confirmed begins to stop its tasks so long before.
    request: the longest that one request may take. A poll makes three, and more when the job model changes.
    barrier: for all processors to confirm a version of the job model.
    """

    heartbeat: float = 5.0
    death: float = 30.0
    margin: float = 5.0
    request: float = 5.0
    barrier: float = 60.0

    @property
    def overdue_after(self) -> float:
        """Seconds without a confirmed heartbeat after which a processor stops its tasks."""
        return self.death - self.margin

    @property
    def takeover(self) -> float:
        """The longest time from the death of a processor until others begin its tasks.

        It counts five polls whose requests all take as long as they may: one that begins before the death is seen, then
        the leader publishes, the processors confirm, the leader sees that, the owners see it. What the listeners need
        comes on top, and `LeaseTiming.takeover` if it was the leader.
        """
        return self.death + 5 * (self.heartbeat + _REQUESTS * self.request)

    def __post_init__(self) -> None:
        _check_positive(self, "heartbeat", "death", "margin", "request", "barrier")
        needed = 2 * self.heartbeat + _REQUESTS * self.request + self.margin
        if needed > self.death:
            text = (
                f"2 x heartbeat ({self.heartbeat}) + 3 x request ({self.request}) + margin ({self.margin}) is {needed} "
                f"seconds, more than death ({self.death}): one poll without answers would stop the processor's tasks. "
                "Poll more often, or declare processors dead later."
            )
            raise ConfigurationError(text)
        if self.barrier < 2 * self.heartbeat:
            text = (
                f"barrier ({self.barrier}) is less than 2 x heartbeat ({self.heartbeat}): it would time out before a "
                "processor has looked. Give it more time."
            )
            raise ConfigurationError(text)


def _check_positive(timing: LeaseTiming | CoordinatorTiming, *names: str) -> None:
    for name in names:
        value = getattr(timing, name)
        if not isinstance(value, (int, float)) or not 0 < value < math.inf:
            text = f"{name} is {value!r}, it must be a number of seconds above 0."
            raise ConfigurationError(text)
