"""Tokens that end, are revoked, or are judged by a clock that is wrong, while requests go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from azure_account.account import StorageAccount
from azure_account.sdk.tokens import REFUSED_INTERVAL_SECONDS, Tokens
from azure_account.values import IF_ABSENT, Done
from foundation.clock import Clock
from foundation.errors import ConfigurationError
from tests.azure_account.auth.certificates import Authority, Certificate
from tests.azure_account.auth.challenger import Challenger, challenger
from tests.azure_account.auth.token_service import TokenService
from tools.azurite import Azurite

pytestmark = [pytest.mark.azurite, pytest.mark.auth(credential="managedIdentity", place="gate that refuses tokens")]
THREADS = 16


@pytest.fixture
def gate(tls_azurite: Azurite, certificate: Certificate, authority: Authority) -> Iterator[Challenger]:
    with challenger(tls_azurite, certificate, str(authority.bundle)) as running:
        yield running


def in_threads(count: int, work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, number) for number in range(count)]:
            done.result()


def test_tokens_end_during_a_long_write_and_read(
    opened: Callable[..., StorageAccount],
    service: TokenService,
    gate: Challenger,
    container_name: str,
    record_property: Callable[[str, object], None],
) -> None:
    service.seconds = 2
    container = opened(endpoint=gate.endpoint).container(container_name)
    container.create()
    written: set[str] = set()
    lock = threading.Lock()

    def work(thread: int) -> None:
        number = 0
        while service.asked["given"] < 4:
            name = f"{thread}/{number}"
            assert isinstance(container.put(name, name.encode(), condition=IF_ABSENT), Done)
            assert name.encode() == container.get(name).data
            number += 1
            with lock:
                written.add(name)

    started = time.monotonic()
    in_threads(THREADS, work)
    elapsed = time.monotonic() - started
    asked = service.asked["imds"]
    assert written == {blob.name for blob in container.list()}
    assert asked <= elapsed / (service.seconds - 1) + 2, "its end is in whole seconds"
    requests = sum(gate.answers.values())
    assert requests > 10 * asked
    record_property(
        "found", f"{requests} requests of {THREADS} threads in {elapsed:.1f} s, tokens of 2 s: {asked} asked"
    )


class Ahead(Clock):
    """The system's clock, whose monotonic time a test moves on."""

    seconds = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.seconds


@pytest.fixture
def clock(environment: pytest.MonkeyPatch) -> Ahead:
    """The clock by which tokens grow old."""
    clock = Ahead()
    environment.setattr("azure_account.sdk.tokens.Tokens", partial(Tokens, clock=clock))
    return clock


def test_a_revoked_token_is_replaced_once_for_all_threads(
    opened: Callable[..., StorageAccount], service: TokenService, gate: Challenger, container_name: str, clock: Ahead
) -> None:
    container = opened(endpoint=gate.endpoint).container(container_name)
    container.create()
    clock.seconds += 2 * REFUSED_INTERVAL_SECONDS
    gate.revoked.update(service.tokens)
    barrier = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        barrier.wait()
        assert isinstance(container.put(f"{thread}", b"data", condition=IF_ABSENT), Done)

    in_threads(THREADS, work)
    assert 2 == service.asked["imds"]
    assert 1 <= gate.answers[401] <= THREADS


def test_a_token_that_is_refused_again_is_an_error_after_two_requests(
    opened: Callable[..., StorageAccount], service: TokenService, gate: Challenger, logged: Callable[[], str]
) -> None:
    gate.refuses_all = True
    container = opened(endpoint=gate.endpoint).container("abc")
    for attempt in range(1, 11):
        with pytest.raises(ConfigurationError, match="401 InvalidAuthenticationInfo.*was not revoked") as caught:
            container.exists()
        assert 2 * attempt == gate.answers[401]
        assert service.tokens[0] not in str(caught.value)
    assert 2 == service.asked["imds"], "the second one for the tenant that the answer names"


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_wrong_does_not_matter(
    opened: Callable[..., StorageAccount],
    service: TokenService,
    gate: Challenger,
    environment: pytest.MonkeyPatch,
    container_name: str,
    minutes: int,
) -> None:
    real = time.time
    service.seconds = 1200
    container = opened(endpoint=gate.endpoint, accountName="devstoreaccount1").container(container_name)
    gate.looks_at_times = False  # the gate is in this process, whose clock is wrong
    environment.setattr(time, "time", lambda: real() + minutes * 60)
    service.skew = -minutes * 60
    container.create()
    for _ in range(20):
        assert isinstance(container.put("blob", b"data"), Done)
    assert 1 == service.asked["imds"]


def test_a_clock_that_was_set_back_is_found_by_the_refusal(
    opened: Callable[..., StorageAccount], service: TokenService, gate: Challenger, container_name: str, clock: Ahead
) -> None:
    container = opened(endpoint=gate.endpoint).container(container_name)
    container.create()
    clock.seconds += 2 * REFUSED_INTERVAL_SECONDS
    gate.revoked.update(service.tokens)  # it has ended by the service's clock, and not by this one
    assert isinstance(container.put("blob", b"data"), Done)
    assert (2, 1) == (service.asked["imds"], gate.answers[401])
