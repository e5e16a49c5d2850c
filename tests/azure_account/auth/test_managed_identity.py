"""Managed identity against stand-ins of IMDS and of App Service, which answer as documented."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from azure_account.account import StorageAccount
from foundation.errors import ConfigurationError, TransientError
from tests.azure_account.auth.token_service import CLIENT, HEADER, ServiceAnswer, TokenService
from tests.azure_account.sdk.slow_server import SlowServer
from tools.azurite import Azurite

pytestmark = [pytest.mark.azurite, pytest.mark.auth(credential="managedIdentity", place="stand-in of IMDS")]
JSON_ERROR = {"error": "busy", "error_description": "Try again later"}


@pytest.mark.parametrize(
    "answer",
    [
        ServiceAnswer(404, JSON_ERROR),
        ServiceAnswer(410, ""),
        ServiceAnswer(429, JSON_ERROR, {"Retry-After": "1"}),
        ServiceAnswer(500, "<html>"),
    ],
    ids=lambda answer: str(answer.status),
)
def test_an_answer_that_asks_for_patience_is_repeated(
    opened: Callable[..., StorageAccount], service: TokenService, answer: ServiceAnswer, logged: Callable[[], str]
) -> None:
    service.script.append(answer)
    started = time.monotonic()
    assert not opened().container("absent").exists()
    assert 2 == service.asked["imds"]
    assert time.monotonic() - started >= float(answer.headers.get("Retry-After", 0))


@pytest.mark.parametrize(
    "answer", [ServiceAnswer(404, JSON_ERROR), ServiceAnswer(429, JSON_ERROR), ServiceAnswer(500, "<html>")]
)
def test_it_is_repeated_no_longer_than_the_deadline(
    opened: Callable[..., StorageAccount], service: TokenService, answer: ServiceAnswer
) -> None:
    service.script += [answer] * 100
    started = time.monotonic()
    with pytest.raises(TransientError, match=rf"the token service answered {answer.status}") as caught:
        opened(retryDeadlineMs="1000").container("abc").exists()
    assert time.monotonic() - started < 5
    assert "raise retryDeadlineMs" in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (
            ServiceAnswer(400, {"error": "invalid_request", "error_description": "Identity not found"}),
            "400 (Identity not found)",
        ),
        (ServiceAnswer(403, "Forbidden by a firewall"), "403"),
    ],
)
def test_a_refusal_is_an_error_that_names_what_to_do(
    opened: Callable[..., StorageAccount], service: TokenService, answer: ServiceAnswer, cause: str
) -> None:
    service.script.append(answer)
    with pytest.raises(ConfigurationError) as caught:
        opened(clientId=CLIENT).container("abc").exists()
    assert 1 == service.asked["imds"]
    assert str(caught.value) == (
        f"Check container abc failed: no token from ManagedIdentity: the token service answered {cause}. "
        "Check that this machine has the identity, and set clientId if it has several."
    )


def test_a_slow_first_answer_is_waited_for(opened: Callable[..., StorageAccount], service: TokenService) -> None:
    service.hold = 1.5
    assert not opened().container("absent").exists()
    assert 1 == service.asked["imds"]


def test_an_answer_that_does_not_end_is_asked_for_again(
    opened: Callable[..., StorageAccount], environment: pytest.MonkeyPatch
) -> None:
    """Of an IMDS that is connected and silent, as through a firewall, a task waits for its limits and no longer."""
    with SlowServer("") as silent:
        environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", silent.endpoint)
        started = time.monotonic()
        with pytest.raises(TransientError, match="the token service cannot be reached. Check that this machine has a"):
            opened(requestTimeoutMs="300", retryDeadlineMs="1000").container("abc").exists()
        assert time.monotonic() - started < 5


def test_a_machine_without_imds_is_an_error_after_the_deadline(
    opened: Callable[..., StorageAccount], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://127.0.0.1:1")
    started = time.monotonic()
    with pytest.raises(TransientError, match="the token service cannot be reached"):
        opened(retryDeadlineMs="1000").container("abc").exists()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("options", [{}, {"authProxy.hostname": "127.0.0.1", "authProxy.port": "1"}])
def test_imds_is_never_asked_through_a_proxy(
    opened: Callable[..., StorageAccount],
    service: TokenService,
    environment: pytest.MonkeyPatch,
    options: dict[str, str],
) -> None:
    environment.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    options = {**options, "authProxy.use": "true"} if options else {}
    assert not opened(**options).container("absent").exists()
    assert 1 == service.asked["imds"]


@pytest.mark.auth(credential="managedIdentity", place="stand-in of App Service")
def test_app_service_is_asked_with_its_header(
    opened: Callable[..., StorageAccount],
    service: TokenService,
    environment: pytest.MonkeyPatch,
    logged: Callable[[], str],
) -> None:
    environment.setenv("IDENTITY_ENDPOINT", f"{service.imds}/msi/token")
    environment.setenv("IDENTITY_HEADER", HEADER)
    assert not opened(clientId=CLIENT).container("absent").exists()
    assert (1, 0) == (service.asked["app service"], service.asked["imds"])
    assert HEADER not in logged()


@pytest.mark.auth(credential="default", place="stand-in of IMDS")
def test_the_default_finds_the_managed_identity(opened: Callable[..., StorageAccount], service: TokenService) -> None:
    service.script.append(ServiceAnswer(429, JSON_ERROR))
    assert not opened(auth="default").container("absent").exists()
    assert 1 == service.asked["given"]


@pytest.mark.auth(credential="default", place="nothing that gives a token")
def test_the_default_says_what_it_has_tried(
    opened: Callable[..., StorageAccount], service: TokenService, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.setenv("PATH", str(tmp_path))  # no Azure CLI
    service.script.append(ServiceAnswer(400, {"error": "invalid_request", "error_description": "Identity not found"}))
    with pytest.raises(ConfigurationError) as caught:
        opened(auth="default").container("abc").exists()
    message = str(caught.value)
    assert [] == [
        name for name in ("EnvironmentCredential", "ManagedIdentityCredential", "AzureCli") if name not in message
    ]
    assert message.endswith("Set auth to the kind of credential to use, and its options.")


def test_sixteen_workers_that_start_at_once_are_throttled_and_get_their_tokens(
    tls_azurite: Azurite,
    service: TokenService,
    environment: pytest.MonkeyPatch,
    opened: Callable[..., StorageAccount],
    record_property: Callable[[str, object], None],
) -> None:
    """IMDS allows five requests at a time on a host. A worker is a process; here each has a client of its own."""
    service.limit, service.hold = 5, 0.05
    accounts = [opened(maxAttempts=str(20 + worker)) for worker in range(16)]
    with ThreadPoolExecutor(16) as pool:
        assert [False] * 16 == list(pool.map(lambda account: account.container("absent").exists(), accounts))
    assert 16 == service.asked["given"]
    assert service.asked["imds"] <= 16 * 4
    record_property("found", f"16 tokens, {service.asked['imds']} requests")
