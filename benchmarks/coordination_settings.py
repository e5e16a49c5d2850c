"""The durations with which coordination is measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordination import CoordinatorTiming, LeaseTiming
from coordination.timing import JOB_LEASE


@dataclass(frozen=True)
class Setting:
    """A lease and its coordinator."""

    lease: LeaseTiming = JOB_LEASE
    timing: CoordinatorTiming = field(default_factory=CoordinatorTiming)

    @property
    def name(self) -> str:
        """Lease, heartbeat and death in seconds, for tables."""
        return f"{self.lease.duration} / {self.timing.heartbeat:.0f} / {self.timing.death:.0f}"


COLUMN = "lease / heartbeat / death, s"
SHORTEST = Setting(
    LeaseTiming(duration=15, renew_every=3, poll_every=2, request=2, margin=3),
    CoordinatorTiming(heartbeat=1, death=10, margin=2, request=2, barrier=10),
)
"""The shortest lease that Azure gives."""
BETWEEN = Setting(
    LeaseTiming(duration=20, renew_every=4, poll_every=3, request=4, margin=4),
    CoordinatorTiming(heartbeat=2, death=20, margin=4, request=4, barrier=40),
)
DEFAULT = Setting()
LONGEST = Setting(
    LeaseTiming(duration=60, renew_every=15, poll_every=10, request=10, margin=10),
    CoordinatorTiming(heartbeat=10, death=60, margin=10, request=10, barrier=120),
)
"""The longest lease that Azure gives."""
