"""The durations of coordination, and the inequalities between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from azure_account.names import LEASE_SECONDS
from foundation.arguments import Range, Seconds, Wait, checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from typing import Self

STOP_SECONDS = 180.0
"""For which `stop` waits for a listener; longer than `TaskQueries` waits for a query that does not stop."""


@checked
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

    duration: Annotated[int, Range(LEASE_SECONDS[0], LEASE_SECONDS[-1])] = 30
    renew_every: Seconds = 6.0
    poll_every: Seconds = 5.0
    request: Seconds = 5.0
    margin: Seconds = 5.0

    def __post_init__(self) -> None:
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


@checked
@dataclass(frozen=True)
class CoordinatorTiming:
    """The durations of processors and barriers, in seconds. `ConfigurationError` for values that contradict each other.

    heartbeat: between two heartbeats of a processor, and between two polls. While a barrier is open a processor polls
    three times as often.
    death: a processor whose row has not changed for so long is dead. Each row states it, so processors may differ.
    margin: a processor whose heartbeat is not confirmed begins to stop its tasks so long before.
    request: the longest that one request may take.
    barrier: for the processors that lose tasks to confirm a version of the job model. A call of the listener that takes
    half of it ends the heartbeats.
    restart: a processor that stops in order keeps its tasks so long, and gets them back if it starts again under the
    same name within that time. Nobody runs them meanwhile. 0: they move at once.
    """

    heartbeat: Seconds = 3.0
    death: Seconds = 14.0
    margin: Seconds = 2.0
    request: Seconds = 5.0
    barrier: Seconds = 60.0
    restart: Wait = 0.0

    @property
    def overdue_after(self) -> float:
        """Seconds without a confirmed heartbeat after which a processor stops its tasks."""
        return self.death - self.margin

    @property
    def silent_after(self) -> float:
        """Seconds without a finished poll after which a processor sends no heartbeats: its listener hangs."""
        return self.barrier / 2

    @property
    def quick(self) -> float:
        """Seconds between two polls while a barrier is open, or there is no job model yet."""
        return self.heartbeat / 3

    @property
    def takeover(self) -> float:
        """The longest time from the death of a processor until others begin its tasks, in ordinary operation.

        It is `death` and three polls of three requests each, all as slow as they may be: the leader sees the last
        heartbeat; it sees the death, and publishes; the new owners see that. Not counted are an open barrier, failed
        requests, the time of listeners, and polls in which the leader deletes rows. If it was the leader,
        `LeaseTiming.takeover` comes on top.
        """
        return self.death + 3 * (self.heartbeat + 3 * self.request)

    def __post_init__(self) -> None:
        needed = 2 * self.heartbeat + self.request + self.margin
        if needed > self.death:
            text = (
                f"2 x heartbeat ({self.heartbeat}) + request ({self.request}) + margin ({self.margin}) is {needed} "
                f"seconds, more than death ({self.death}): one heartbeat without an answer would stop the processor's "
                "tasks. Send heartbeats more often, or declare processors dead later."
            )
            raise ConfigurationError(text)
        if self.barrier < self.death:
            text = (
                f"barrier ({self.barrier}) is less than death ({self.death}): the tasks of a processor that has not "
                "stopped them could begin elsewhere before it is dead. Give the barrier more time."
            )
            raise ConfigurationError(text)


JOB_LEASE = LeaseTiming(duration=15, renew_every=3.0, poll_every=3.0, request=5.0, margin=2.0)
"""The durations of the lease of a job, by default."""
