"""Time and waiting, passed as an argument: the system's clock, or one that a test moves."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

_SLEEPING: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock:
    """The machine's clock: the time, and how to wait. All values are seconds. A test passes another one."""

    def now(self) -> float:
        """Seconds since 1970 (UTC), for time stamps."""
        return time.time()

    def now_ns(self) -> int:
        """Nanoseconds since 1970 (UTC), with all digits that the machine has."""
        return time.time_ns()

    def monotonic(self) -> float:
        """Seconds that never go back, for durations and deadlines. On Linux they go on while the machine sleeps."""
        return time.monotonic() if _SLEEPING is None else time.clock_gettime(_SLEEPING)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM_CLOCK = Clock()


def utc(clock: Clock) -> datetime:
    """The time of a clock, in UTC."""
    return datetime.fromtimestamp(clock.now(), UTC)


class ManualClock(Clock):
    """A clock that only `advance` and `sleep` move. Thread-safe. Starts on 2026-01-01 by default."""

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._now = start
        self._lock = threading.Lock()

    def now(self) -> float:
        """Seconds since 1970 (UTC)."""
        return self._now

    def now_ns(self) -> int:
        """Nanoseconds since 1970 (UTC), to the microsecond."""
        return round(self._now * 1e6) * 1000

    def monotonic(self) -> float:
        """Seconds, those of `now`."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Advance the clock and return at once."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move the clock forward."""
        with self._lock:
            self._now += seconds
