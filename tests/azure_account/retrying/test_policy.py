from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.retrying.policy import RetryPolicy, retry_after_seconds

POLICY = RetryPolicy(max_attempts=6, first_delay=0.5, factor=2, max_delay=4, jitter=0.5, deadline=60)
randoms = st.floats(0, 1, exclude_max=True)


def test_delays_double_up_to_the_cap_and_end() -> None:
    delays = [POLICY.delay(attempt, 0, None, 0) for attempt in range(1, 8)]
    assert [0.5, 1.0, 2.0, 4.0, 4.0, None, None] == delays


@given(st.integers(1, 5), randoms)
def test_jitter_only_shortens_and_by_half_at_most(attempt: int, random: float) -> None:
    full = min(4, 0.5 * 2 ** (attempt - 1))
    delay = POLICY.delay(attempt, 0, None, random)
    assert delay is not None
    assert full / 2 <= delay <= full


@given(st.integers(1, 5), st.floats(0, 100), st.none() | st.floats(0, 100), randoms)
def test_no_retry_begins_after_the_deadline(
    attempt: int, elapsed: float, retry_after: float | None, random: float
) -> None:
    delay = POLICY.delay(attempt, elapsed, retry_after, random)
    assert delay is None or elapsed + delay <= POLICY.deadline


@given(st.integers(1, 5), st.floats(0, 60), randoms)
def test_retry_after_is_never_shortened(attempt: int, retry_after: float, random: float) -> None:
    delay = POLICY.delay(attempt, 0, retry_after, random)
    assert delay is None or delay >= retry_after


NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 7 "}, 7.0),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=90), usegmt=True)}, 90.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=90), usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"x-ms-retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "7"}, 7.0),
    ],
)
def test_retry_after_is_parsed_as_seconds_or_date(headers: dict[str, str], expected: float | None) -> None:
    assert expected == retry_after_seconds(headers, NOW.timestamp())


@given(
    st.sampled_from(["retry-after", "retry-after-ms", "x-ms-retry-after-ms"]),
    st.text()
    | st.from_regex(r"\\d+", fullmatch=True)
    | st.just("9" * 5000)
    | st.just("Thu, 01 Jan 99999 00:00:00 GMT"),
)
def test_no_header_that_asks_for_a_delay_is_an_error(name: str, value: str) -> None:
    found = retry_after_seconds({name: value}, NOW.timestamp())
    assert found is None or 0 <= found


def test_a_minute_of_throttling_is_retried_through_without_retry_after_and_with_the_worst_jitter() -> None:
    policy, elapsed, attempt = RetryPolicy(), 0.0, 1
    while elapsed < 60:
        delay = policy.delay(attempt, elapsed, None, 0.999)
        assert delay is not None, f"given up after {elapsed:.0f} s"
        elapsed, attempt = elapsed + delay, attempt + 1
