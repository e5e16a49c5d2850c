"""When a failed attempt is retried: a function from attempt, time and `Retry-After` to the delay. Pure.

Azure asks for exponential backoff when it throttles (503 `ServerBusy`), and may set a delay in `Retry-After`. The SDK's
own policy waits 15 s before the first retry and ignores `Retry-After`, so it is switched off and this one is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# After 408, 500, 502 and 504 the request may have had an effect; so it may after a 503 without the code `ServerBusy`.
RETRYABLE_STATUS = frozenset({408, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class RetryPolicy:
    """Exponential backoff with jitter and a deadline for all attempts together. Times are in seconds.

    The delay after the n-th attempt is `first_delay * factor**(n-1)`, at most `max_delay`, less a random part of up to
    `jitter` times that. `Retry-After` can lengthen it, not shorten it. No attempt begins after `deadline`.
    """

    max_attempts: int = 12
    first_delay: float = 0.5
    factor: float = 2.0
    max_delay: float = 30.0
    jitter: float = 0.5
    deadline: float = 120.0

    def delay(self, attempt: int, elapsed: float, retry_after: float | None, random: float) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) has failed; None if retries are exhausted.

        elapsed: seconds since the first attempt began. random: in [0, 1).
        """
        if attempt >= self.max_attempts:
            return None
        backoff = min(self.max_delay, self.first_delay * self.factor ** (attempt - 1))
        wait = max(backoff * (1 - self.jitter * random), retry_after or 0.0)
        return wait if elapsed + wait <= self.deadline else None


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """The delay that an answer asks for, or None. `headers` has lower-case names; `now` is seconds since 1970.

    `retry-after` is seconds or an HTTP date; `x-ms-retry-after-ms` and `retry-after-ms` are milliseconds. Malformed
    headers are ignored.
    """
    for name in ("x-ms-retry-after-ms", "retry-after-ms"):
        if (count := _count(headers.get(name, ""))) is not None:
            return count / 1000
    value = headers.get("retry-after", "")
    if (count := _count(value)) is not None:
        return float(count)
    at = http_date(value)
    return None if at is None else max(0.0, at.timestamp() - now)


def _count(header: str) -> int | None:
    return int(header) if re.fullmatch(r"\s*\d{1,15}\s*", header, re.ASCII) else None


def http_date(header: str) -> datetime | None:
    """The moment that a header names, which is in UTC where it names no zone; None if it is malformed."""
    try:
        found = parsedate_to_datetime(header)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, LookupError, ArithmeticError):
        return None
