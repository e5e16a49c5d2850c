"""Workload identity, client secret and certificate against a stand-in of Entra ID."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from azure_account.account import StorageAccount
from foundation.errors import ConfigurationError, TransientError
from tests.azure_account.auth.certificates import Authority
from tests.azure_account.auth.token_service import CLIENT, TENANT, ServiceAnswer, TokenService, entra_error

pytestmark = [pytest.mark.azurite, pytest.mark.auth(credential="workloadIdentity", place="stand-in of Entra ID")]
IDENTITY = {"auth": "workloadIdentity"}


@pytest.fixture
def token_file(environment: pytest.MonkeyPatch, service: TokenService, tmp_path: Path) -> Path:
    """The file that Kubernetes mounts, in the environment of a pod."""
    file = tmp_path / "azure-identity-token"
    file.write_text("assertion-1\n")
    environment.setenv("AZURE_AUTHORITY_HOST", service.entra)
    environment.setenv("AZURE_TENANT_ID", TENANT)
    environment.setenv("AZURE_CLIENT_ID", CLIENT)
    environment.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    return file


def test_the_token_file_is_read_for_each_token(
    opened: Callable[..., StorageAccount], service: TokenService, token_file: Path, logged: Callable[[], str]
) -> None:
    service.seconds = 1
    container = opened(**IDENTITY).container("absent")
    container.exists()
    token_file.write_text("assertion-2")
    while service.asked["given"] < 2:
        container.exists()
    assert ["assertion-1", "assertion-2"] == service.assertions[:2]
    assert "assertion-1" not in logged()


@pytest.mark.parametrize(
    ("code", "text", "step"),
    [
        ("AADSTS700213", "No matching federated identity record found.", "Check issuer, subject and audience of the"),
        ("AADSTS700024", "Client assertion is not within its valid time range.", "check this machine's clock"),
        ("AADSTS700016", "Application was not found in the directory.", "Check clientId and tenantId"),
        ("AADSTS90002", "Tenant not found.", "Check tenantId: there is no such tenant."),
        ("AADSTS99999", "Something new.", "Check tenantId, clientId, and the issuer"),
    ],
)
def test_an_error_of_entra_is_one_sentence_and_the_next_step(
    opened: Callable[..., StorageAccount], service: TokenService, token_file: Path, code: str, text: str, step: str
) -> None:
    service.script.append(entra_error(code, text))
    with pytest.raises(ConfigurationError) as caught:
        opened(**IDENTITY).container("abc").exists()
    message = str(caught.value)
    assert f"the token service answered 401 ({code}: {text.rstrip('.')}). " in message
    assert step in message
    assert [] == [word for word in ("Trace ID", "assertion-1") if word in message]
    assert 1 == service.asked["entra"]


def test_throttling_and_failures_of_entra_are_repeated(
    opened: Callable[..., StorageAccount], service: TokenService, token_file: Path
) -> None:
    service.script += [ServiceAnswer(429, {"error": "x"}, {"Retry-After": "1"}), ServiceAnswer(503, "")]
    assert not opened(**IDENTITY).container("absent").exists()
    assert 3 == service.asked["entra"]


def test_a_missing_token_file_is_named(
    opened: Callable[..., StorageAccount], service: TokenService, token_file: Path
) -> None:
    token_file.unlink()
    with pytest.raises(ConfigurationError, match=r"token file of the workload identity.*No such file"):
        opened(**IDENTITY).container("abc").exists()


def test_a_token_service_that_is_not_trusted_is_an_error_at_once(
    opened: Callable[..., StorageAccount], token_file: Path, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.setenv("REQUESTS_CA_BUNDLE", str(Authority(tmp_path / "other").bundle))
    with pytest.raises(ConfigurationError, match="certificate of the token service is not trusted.*REQUESTS_CA_BUNDLE"):
        opened(**IDENTITY).container("abc").exists()


def test_an_authority_without_tls_is_an_error(
    opened: Callable[..., StorageAccount], service: TokenService, token_file: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AZURE_AUTHORITY_HOST", service.imds)
    with pytest.raises(ConfigurationError, match="WorkloadIdentity is not complete: .*must be a TLS protected"):
        opened(**IDENTITY)


def test_a_pod_without_its_variables_is_an_error(
    opened: Callable[..., StorageAccount], token_file: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.delenv("AZURE_FEDERATED_TOKEN_FILE")
    with pytest.raises(ConfigurationError, match="AZURE_FEDERATED_TOKEN_FILE in the environment of driver and exec"):
        opened(**IDENTITY)


def test_a_token_service_that_is_gone_is_an_error_after_the_deadline(
    opened: Callable[..., StorageAccount], token_file: Path, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("AZURE_AUTHORITY_HOST", "https://127.0.0.1:1")
    with pytest.raises(TransientError, match="the token service cannot be reached. Check the network and authProxy"):
        opened(**IDENTITY, retryDeadlineMs="500").container("abc").exists()
