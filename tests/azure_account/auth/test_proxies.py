"""Requests through a forward proxy, which is proxy.py: to storage and for tokens, by options and by the environment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from azure_account.account import StorageAccount
from foundation.errors import ConfigurationError, TransientError
from tests.azure_account.auth.certificates import Authority
from tests.azure_account.auth.forward_proxy import ENTRA, ForwardProxy, forward_proxy
from tests.azure_account.auth.token_service import CLIENT, TENANT, TokenService, entra_error
from tools.azurite import Azurite

pytestmark = [pytest.mark.azurite, pytest.mark.auth(credential="managedIdentity", place="proxy.py")]
USER, PASSWORD, WRONG = "someone", "p:@ss/w%rd", "wr0ng"
TOKENS = {"auth": "clientSecret", "tenantId": TENANT, "clientId": CLIENT, "clientSecret": "s3cret"}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForwardProxy]:
    """A proxy that wants no password, and one forbidden port."""
    with forward_proxy(tmp_path_factory.mktemp("proxy"), FORBIDDEN="9") as running:
        yield running


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForwardProxy]:
    """A proxy that wants a user and a password."""
    with forward_proxy(tmp_path_factory.mktemp("locked"), f"{USER}:{PASSWORD}") as running:
        yield running


@pytest.fixture
def entra(locked: ForwardProxy, service: TokenService) -> ForwardProxy:
    """The same, from which the stand-in is Entra ID."""
    locked.forget(str(urlsplit(service.entra).port))
    return locked


def host_of(azurite: Azurite) -> str:
    return urlsplit(azurite.endpoint).netloc


def test_https_goes_through_the_proxy_by_connect(
    opened: Callable[..., StorageAccount], proxy: ForwardProxy, tls_azurite: Azurite
) -> None:
    proxy.forget()
    assert not opened(**proxy.options()).container("absent").exists()
    assert [f"CONNECT {host_of(tls_azurite)}"] == proxy.connected()


@pytest.mark.auth(credential="accountKey", place="proxy.py")
def test_http_goes_through_the_proxy(
    opened: Callable[..., StorageAccount], proxy: ForwardProxy, azurite: Azurite
) -> None:
    proxy.forget()
    account = opened(
        **proxy.options(), auth="accountKey", accountKey=azurite.account_key, endpoint=azurite.endpoint,
        tableEndpoint=azurite.table_endpoint,
    )  # fmt: skip
    assert not account.container("absent").exists()
    assert [f"HEAD {host_of(azurite)}"] == [line.replace("GET", "HEAD") for line in proxy.connected()]


def test_user_and_password_are_given_to_the_proxy(
    opened: Callable[..., StorageAccount], locked: ForwardProxy, logged: Callable[[], str]
) -> None:
    options = locked.options(username=USER, password=PASSWORD)
    assert not opened(**options).container("absent").exists()
    assert PASSWORD not in logged()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("others", [{}, {"username": USER, "password": "wr0ng"}])
def test_a_proxy_that_wants_another_password_is_an_error_at_once(
    opened: Callable[..., StorageAccount],
    locked: ForwardProxy,
    azurite: Azurite,
    logged: Callable[[], str],
    scheme: str,
    others: dict[str, str],
) -> None:
    plain = {"auth": "accountKey", "accountKey": azurite.account_key, "endpoint": azurite.endpoint}
    account = opened(**locked.options(**others), **(plain if scheme == "http" else {}))
    with pytest.raises(ConfigurationError) as caught:
        account.container("abc").exists()
    assert "the proxy wants another user or password (407). Check proxy.username and proxy.password" in str(
        caught.value
    )
    assert "wr0ng" not in f"{caught.value} {logged()}"


def test_a_proxy_that_refuses_a_host_is_an_error_at_once(
    opened: Callable[..., StorageAccount], proxy: ForwardProxy
) -> None:
    account = opened(**proxy.options(), endpoint="https://127.0.0.1:9/devstoreaccount1")
    with pytest.raises(ConfigurationError, match=r"the proxy refuses the connection \(403\). Have the proxy allow"):
        account.container("abc").exists()


def test_a_host_that_the_proxy_cannot_reach_is_tried_again(
    opened: Callable[..., StorageAccount], proxy: ForwardProxy
) -> None:
    account = opened(**proxy.options(), endpoint="https://127.0.0.1:1/devstoreaccount1", retryDeadlineMs="500")
    with pytest.raises(TransientError, match=r"the proxy cannot reach the service \(502\)"):
        account.container("abc").exists()


@pytest.mark.slow
def test_what_is_written_through_a_proxy_that_dies_is_complete(
    opened: Callable[..., StorageAccount], tmp_path: Path, container_name: str
) -> None:
    with forward_proxy(tmp_path) as mortal:
        container = opened(**mortal.options()).container(container_name)
        container.create()
        written = threading.Event()

        def write() -> None:
            for number in range(60):
                container.put(f"{number:03}", b"data")
                if number == 10:
                    written.set()

        writer = threading.Thread(target=write)
        writer.start()
        assert written.wait(30)
        mortal.stop()
        mortal.start()
        writer.join()
        assert [f"{number:03}" for number in range(60)] == [blob.name for blob in container.list()]
        mortal.stop()
        with pytest.raises(TransientError, match="the proxy cannot be reached. Check proxy.hostname and proxy.port"):
            opened(**mortal.options(), retryDeadlineMs="500").container(container_name).exists()


@pytest.mark.auth(credential="clientSecret", place="proxy.py, stand-in of Entra ID")
class TestTokenRequests:
    """A client secret, whose requests for tokens go to Entra ID by its own name."""

    def test_they_go_through_auth_proxy_and_storage_does_not(
        self, opened: Callable[..., StorageAccount], entra: ForwardProxy, logged: Callable[[], str]
    ) -> None:
        options = entra.options("authProxy", username=USER, password=PASSWORD)
        assert not opened(**TOKENS, **options).container("absent").exists()
        assert {f"CONNECT {ENTRA}:443"} == set(entra.connected())
        assert [] == [secret for secret in (PASSWORD, "s3cret") if secret in logged()]

    @pytest.mark.auth(credential="clientCertificate", place="proxy.py, stand-in of Entra ID")
    def test_a_certificate_works_in_the_same_way(
        self, opened: Callable[..., StorageAccount], entra: ForwardProxy, authority: Authority, tmp_path: Path
    ) -> None:
        issued = authority.issue("application", rsa=True)
        both = tmp_path / "both.pem"
        both.write_bytes(issued.key.read_bytes() + issued.chain.read_bytes())
        options = {**TOKENS, "auth": "clientCertificate", "certificatePath": str(both)}
        options |= entra.options("authProxy", username=USER, password=PASSWORD)
        assert not opened(**options).container("absent").exists()

    def test_a_wrong_secret_is_an_error_without_it(
        self,
        opened: Callable[..., StorageAccount],
        entra: ForwardProxy,
        service: TokenService,
        logged: Callable[[], str],
    ) -> None:
        options = entra.options("authProxy", username=USER, password=PASSWORD)
        opened(**TOKENS, **options).container("absent").exists()
        service.script += [entra_error("AADSTS7000222", "The provided client secret keys are expired.")] * 3
        with pytest.raises(ConfigurationError, match="AADSTS7000222.*make a new one, and set clientSecret") as caught:
            opened(**TOKENS, **options, maxAttempts="3").container("absent").exists()
        assert [] == [secret for secret in (PASSWORD, "s3cret") if secret in f"{caught.value} {logged()}"]

    def test_they_do_not_go_through_the_proxy_of_storage(
        self, opened: Callable[..., StorageAccount], entra: ForwardProxy, service: TokenService
    ) -> None:
        options = entra.options("proxy", username=USER, password=PASSWORD)
        with pytest.raises(TransientError, match="token service cannot be reached"):
            opened(**TOKENS, **options, connectTimeoutMs="500", retryDeadlineMs="500").container("absent").exists()
        assert [] == entra.connected()

    def test_a_wrong_password_is_an_error_that_names_the_options(
        self, opened: Callable[..., StorageAccount], entra: ForwardProxy
    ) -> None:
        options = entra.options("authProxy", username=USER, password=WRONG)
        with pytest.raises(ConfigurationError, match="Check authProxy.username and authProxy.password") as caught:
            opened(**TOKENS, **options).container("absent").exists()
        assert "wr0ng" not in str(caught.value)

    def test_the_environment_counts_for_both(
        self,
        opened: Callable[..., StorageAccount],
        entra: ForwardProxy,
        environment: pytest.MonkeyPatch,
        tls_azurite: Azurite,
        logged: Callable[[], str],
    ) -> None:
        environment.setenv("HTTPS_PROXY", f"http://{USER}:p%3A%40ss%2Fw%25rd@127.0.0.1:{entra.port}")
        opened(**TOKENS).container("absent").exists()
        assert {f"CONNECT {ENTRA}:443", f"CONNECT {host_of(tls_azurite)}"} == set(entra.connected())
        assert [] == [secret for secret in (PASSWORD, "p%3A%40ss") if secret in logged()]

    def test_no_proxy_counts_against_the_environment(
        self, opened: Callable[..., StorageAccount], entra: ForwardProxy, environment: pytest.MonkeyPatch
    ) -> None:
        environment.setenv("HTTPS_PROXY", f"http://{USER}:p%3A%40ss%2Fw%25rd@127.0.0.1:{entra.port}")
        environment.setenv("NO_PROXY", "127.0.0.1")
        opened(**TOKENS).container("absent").exists()
        assert {f"CONNECT {ENTRA}:443"} == set(entra.connected())

    def test_options_count_more_than_the_environment(
        self, opened: Callable[..., StorageAccount], entra: ForwardProxy, environment: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTPS_PROXY", "HTTP_PROXY"):
            environment.setenv(name, "http://127.0.0.1:1")
        environment.setenv("NO_PROXY", "*")
        both = entra.options("proxy", username=USER, password=PASSWORD)
        both |= entra.options("authProxy", username=USER, password=PASSWORD)
        assert not opened(**TOKENS, **both).container("absent").exists()
        assert 2 <= len(set(entra.connected()))
