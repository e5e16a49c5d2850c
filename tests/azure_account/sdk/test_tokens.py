"""When a token is fetched again: by the clock, after a refusal, and by one thread at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AccessTokenInfo

from azure_account.sdk.attempt_limit import AttemptTimeoutError, attempt_limit
from azure_account.sdk.token_failures import NoTokenError
from azure_account.sdk.tokens import Tokens
from foundation.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

SCOPE = "https://storage.azure.com/.default"
REFUSED: Any = {"claims": "c"}


class Source:
    """A credential that gives `t1`, `t2`, … with `life`, or fails while `fault` is set. made: how often it was made."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.life, self.made, self.given = clock, 3600.0, 0, 0
        self.refresh_in: float | None = None
        self.fault: Exception | None = None
        self.answer: Any = None
        self.waits: Callable[[], None] = lambda: None
        self.tenants: list[str | None] = []

    def make(self, note: Callable[[Any], None]) -> Source:
        self.made += 1
        self._note = note
        return self

    def get_token_info(self, *scopes: str, options: Any = None) -> AccessTokenInfo:
        assert (SCOPE,) == scopes
        self.tenants.append((options or {}).get("tenant_id"))
        self.waits()
        if self.answer is not None:
            self._note(SimpleNamespace(http_response=self.answer))
        if self.fault is not None:
            raise self.fault
        self.given += 1
        now = self.clock.now()
        refresh_on = None if self.refresh_in is None else int(now + self.refresh_in)
        return AccessTokenInfo(f"t{self.given}", int(now + self.life), refresh_on=refresh_on)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def source(clock: ManualClock) -> Source:
    return Source(clock)


@pytest.fixture
def tokens(source: Source, clock: ManualClock) -> Tokens:
    return Tokens(source.make, limit=60.0, clock=clock)  # type: ignore[arg-type]


def test_a_token_is_kept_until_five_minutes_before_its_end(tokens: Tokens, clock: ManualClock) -> None:
    seen = [tokens.get_token_info(SCOPE).token]
    for seconds in (3299, 2):
        clock.advance(seconds)
        seen.append(tokens.get_token_info(SCOPE).token)
    assert ["t1", "t1", "t2"] == seen


def test_a_token_is_replaced_when_its_service_wants_that(tokens: Tokens, source: Source, clock: ManualClock) -> None:
    source.refresh_in = 1000
    tokens.get_token_info(SCOPE)
    clock.advance(1001)
    assert "t2" == tokens.get_token(SCOPE).token


def test_a_token_that_stays_near_its_end_is_asked_for_every_half_minute(
    tokens: Tokens, source: Source, clock: ManualClock
) -> None:
    source.life = 200  # as of an IMDS that keeps its own token to the end
    for _ in range(120):
        tokens.get_token_info(SCOPE)
        clock.advance(1)
    assert 4 == source.given


def test_a_token_that_cannot_be_replaced_is_used_to_its_end(tokens: Tokens, source: Source, clock: ManualClock) -> None:
    tokens.get_token_info(SCOPE)
    source.fault = OSError("no network")
    clock.advance(3400)
    assert "t1" == tokens.get_token_info(SCOPE).token
    clock.advance(180)
    with pytest.raises(NoTokenError):
        tokens.get_token_info(SCOPE)


def test_a_refused_token_is_replaced_by_another_credential_unless_it_is_new(
    tokens: Tokens, source: Source, clock: ManualClock
) -> None:
    tokens.get_token_info(SCOPE)
    assert ("t1", 1) == (tokens.get_token_info(SCOPE, options=REFUSED).token, source.made)
    clock.advance(6)
    assert ("t2", 2) == (tokens.get_token_info(SCOPE, options=REFUSED).token, source.made)
    assert "t2" == tokens.get_token_info(SCOPE, options=REFUSED).token


def test_a_token_of_the_tenant_that_the_service_asks_for_is_fetched_at_once_and_again(
    tokens: Tokens, source: Source, clock: ManualClock
) -> None:
    """As with `az login` of a guest, whose default tenant is not that of the account."""
    elsewhere: Any = {"tenant_id": "elsewhere"}
    tokens.get_token_info(SCOPE)
    for _ in range(2):
        assert "t2" == tokens.get_token_info(SCOPE, options=elsewhere).token
    assert "t2" == tokens.get_token_info(SCOPE).token
    clock.advance(3400)
    assert "t3" == tokens.get_token_info(SCOPE).token
    assert [None, "elsewhere", "elsewhere"] == source.tenants


def test_a_token_that_has_ended_by_a_wrong_clock_is_not_asked_for_by_each_request(
    tokens: Tokens, source: Source, clock: ManualClock
) -> None:
    source.life = -60
    for _ in range(60):
        tokens.get_token_info(SCOPE)
        clock.advance(1)
    assert 2 == source.given


def test_threads_wait_for_one_request(tokens: Tokens, source: Source) -> None:
    all_begun = threading.Barrier(17)

    def begin(number: int) -> str:
        if number:
            all_begun.wait(30)
        return tokens.get_token_info(SCOPE).token

    def wait() -> None:
        all_begun.wait(30)

    source.waits = wait
    with ThreadPoolExecutor(17) as pool:
        assert ["t1"] * 17 == list(pool.map(begin, range(17)))
    assert (1, 1) == (source.given, tokens.requested)


def held(source: Source) -> tuple[threading.Event, threading.Event]:
    """Hold the source's next answers: it has been asked, and it may answer."""
    asked, answered = threading.Event(), threading.Event()

    def wait() -> None:
        asked.set()
        assert answered.wait(30)

    source.waits = wait
    return asked, answered


def test_others_go_on_with_a_token_that_is_being_replaced(tokens: Tokens, source: Source, clock: ManualClock) -> None:
    tokens.get_token_info(SCOPE)
    clock.advance(3400)
    asked, answered = held(source)
    with ThreadPoolExecutor(1) as pool:
        replaced = pool.submit(tokens.get_token_info, SCOPE)
        assert asked.wait(30)
        assert "t1" == tokens.get_token_info(SCOPE).token
        answered.set()
        assert "t2" == replaced.result().token


def test_a_thread_that_comes_late_does_not_replace_a_new_token(
    tokens: Tokens, source: Source, clock: ManualClock
) -> None:
    tokens.get_token_info(SCOPE)
    clock.advance(3400)
    lock = tokens._lock

    class LateLock:
        """Between the look at the token and the lock another thread replaces the token."""

        def acquire(self, *, blocking: bool) -> bool:
            tokens._lock = lock
            assert "t2" == tokens.get_token_info(SCOPE).token
            return lock.acquire(blocking=blocking)

    tokens._lock = LateLock()  # type: ignore[assignment]
    assert "t2" == tokens.get_token_info(SCOPE).token
    assert 2 == source.given


def test_a_thread_waits_for_another_no_longer_than_its_attempt(tokens: Tokens, source: Source) -> None:
    asked, answered = held(source)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(tokens.get_token_info, SCOPE)
        assert asked.wait(30)
        with attempt_limit(0.05), pytest.raises(NoTokenError) as caught:
            tokens.get_token_info(SCOPE)
        answered.set()
        assert "t1" == first.result().token
    assert isinstance(caught.value.inner_exception, AttemptTimeoutError)


def answer(status: int, text: str, **headers: str) -> SimpleNamespace:
    return SimpleNamespace(status_code=status, headers=headers, text=lambda: text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"error": "e", "error_description": "AADSTS1: Wrong. Trace ID: 7\\r\\nMore"}', "AADSTS1: Wrong"),
        ('{"statusCode": 400, "message": "No identity"}', "No identity"),
        ('{"error": "invalid"}', "invalid"),
        ('{"error_description": "given eyJhbGciOiJIUzI1NiIsInR5cCI6.eyJ"}', "given ***"),
        ("<html>", ""),
        ("[]", ""),
    ],
)
def test_what_a_token_service_says_is_one_line_without_tokens(
    tokens: Tokens, source: Source, text: str, expected: str
) -> None:
    source.answer, source.fault = answer(400, text), ValueError("x")
    with pytest.raises(NoTokenError) as caught:
        tokens.get_token_info(SCOPE)
    assert caught.value.answer is not None
    assert (400, expected) == (caught.value.answer.status, caught.value.answer.text)


def test_an_answer_that_asks_to_wait_is_known_while_it_is_repeated_without_a_request(
    tokens: Tokens, source: Source
) -> None:
    source.answer, source.fault = answer(429, "{}", **{"Retry-After": "7"}), ValueError("x")
    for _ in range(2):
        with pytest.raises(NoTokenError) as caught:
            tokens.get_token_info(SCOPE)
        source.answer = None
        assert caught.value.answer is not None
        assert (429, 7.0) == (caught.value.answer.status, caught.value.answer.retry_after)


def test_another_refusal_is_forgotten_with_the_next_request(tokens: Tokens, source: Source) -> None:
    source.answer, source.fault = answer(401, "{}"), ValueError("x")
    with pytest.raises(NoTokenError):
        tokens.get_token_info(SCOPE)
    source.answer = None
    with pytest.raises(NoTokenError) as caught:
        tokens.get_token_info(SCOPE)
    assert caught.value.answer is None
