"""A writer's clock beside the service's: a version has the time of the first, its age goes by the second. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

MOST_SECONDS = 60.0
"""By which a writer's clock may differ from the service's without a warning."""


def seconds_ahead(asked: float, answered: float, service: float) -> float:
    """By how many seconds a clock is ahead of the service's; negative if it is behind, 0 if they may agree.

    asked, answered: its times before a request and after the answer. service: the time in the answer.
    """
    if asked - service > MOST_SECONDS:
        return asked - service
    return answered - service if service - answered > MOST_SECONDS else 0.0


def clock_warning(ahead: float, service: float) -> str:
    """What follows from a writer's clock. ahead: as of `seconds_ahead`. service: the service's time then."""
    own, there = (
        datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds") for time in (service + ahead, service)
    )
    return (
        f"the clock of this writer is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the service's ({own} "
        f"here, {there} there). Versions have this writer's time, or a later one if the version before has it: "
        "`timestampAsOf`, `startingTimestamp` and reads by times of writing go by it, a vacuum by the service's. Set "
        "this machine's clock."
    )
