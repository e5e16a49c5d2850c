"""When to try again: a pure rule from what happened to the next delay.

The service asks for exponential backoff when it throttles (503 `ServerBusy`), and may say for how long in
`Retry-After`. The SDK's own policy waits 15 s before its first retry and ignores `Retry-After`, so it is switched off
and this one stands in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# 408, 500, 502 and 504 leave open whether the request took effect; so does a 503 that is not the service's own.
RETRYABLE_STATUS = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with jitter and a deadline over all tries. Times are in seconds.

    The n-th failure waits `first_delay * factor**(n-1)`, at most `max_delay`, less a random share of up to `jitter`.
    A `Retry-After` of the service lengthens the wait, never shortens it. No retry begins after `deadline`.
    """

    max_attempts: int = 12
    first_delay: float = 0.5
    factor: float = 2.0
    max_delay: float = 30.0
    jitter: float = 0.5
    deadline: float = 120.0

    def delay(self, attempt: int, elapsed: float, retry_after: float | None, random: float) -> float | None:
        """Seconds to wait after the failure of try number `attempt` (from 1), or None to give up.

        `elapsed` counts from the first try's start; `random` is in [0, 1).
        """
        if attempt >= self.max_attempts:
            return None
        backoff = min(self.max_delay, self.first_delay * self.factor ** (attempt - 1))
        wait = max(backoff * (1 - self.jitter * random), retry_after or 0.0)
        return wait if elapsed + wait <= self.deadline else None


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that an answer asks for, or None. `headers` has lower-case names; `now` is seconds since 1970.

    `retry-after` is seconds or an HTTP date; `x-ms-retry-after-ms` and `retry-after-ms` are milliseconds. What cannot
    be read counts as absent.
    """
    for name in ("x-ms-retry-after-ms", "retry-after-ms"):
        if headers.get(name, "").strip().isdecimal():
            return int(headers[name]) / 1000
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(int(value))
    try:
        at = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    zoned = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return max(0.0, zoned.timestamp() - now)
