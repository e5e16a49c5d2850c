"""A certificate authority, the emulator by HTTPS that takes tokens, and stand-ins of the services that give them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator

import pytest

from azure_account.account import StorageAccount
from azure_account.connect import open_account as open_by
from tests.azure_account.auth.certificates import Authority, Certificate
from tests.azure_account.auth.token_service import TokenService, token_service
from tools.azurite import Azurite, running_tls_azurite

_VARIABLES = ("AUTHORITY_HOST", "CLIENT_ID", "TENANT_ID", "FEDERATED_TOKEN_FILE", "POD_IDENTITY_AUTHORITY_HOST")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def certificate(authority: Authority) -> Certificate:
    return authority.issue()


@pytest.fixture(scope="session")
def tls_azurite(certificate: Certificate) -> Iterator[Azurite]:
    """One emulator by HTTPS for all tests of this process: a test uses a container name of its own."""
    with running_tls_azurite(certificate.chain, certificate.key) as running:
        yield running


@pytest.fixture
def service(certificate: Certificate) -> Iterator[TokenService]:
    """Stand-ins of the services that give tokens."""
    with token_service(certificate) as running:
        yield running


@pytest.fixture
def environment(authority: Authority, service: TokenService, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a machine with a managed identity, which trusts the authority; no accounts are open."""
    for name in _VARIABLES:
        monkeypatch.delenv(f"AZURE_{name}", raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "IDENTITY_ENDPOINT", "IDENTITY_HEADER"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority.bundle))
    for name, value in service.variables().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.modules["azure_account.connect"], "_accounts", {})
    return monkeypatch


@pytest.fixture
def opened(tls_azurite: Azurite, environment: pytest.MonkeyPatch) -> Callable[..., StorageAccount]:
    """Opens the emulator's account, by default by its managed identity."""

    def open_account(**options: str) -> StorageAccount:
        given = {"auth": "managedIdentity", "endpoint": tls_azurite.endpoint, "retryDeadlineMs": "20000", **options}
        if "tableEndpoint" not in given:
            given["tableEndpoint"] = tls_azurite.table_endpoint
        return open_by(given)

    return open_account


@pytest.fixture
def logged(
    caplog: pytest.LogCaptureFixture, service: TokenService, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], str]]:
    """Everything that was logged, by any library at any level. At the end it must have no token in it."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(logging.getLogger("azure.identity"), "level", logging.DEBUG)

    def all_text() -> str:
        return "\n".join(f"{record.name} {record.getMessage()} {record.exc_text or ''}" for record in caplog.records)

    yield all_text
    text = all_text()
    assert [] == [token for token in service.tokens if token in text]
