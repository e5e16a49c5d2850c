"""HTTPS with an authority of its own, and tokens: the suite of the account, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from azure_account.account import StorageAccount
from foundation.errors import AzureBlobError, ConfigurationError
from tests.azure_account.auth.certificates import Authority
from tests.azure_account.auth.token_service import TokenService, token_service
from tests.azure_account.contract import (
    TestBlobs,
    TestBlocks,
    TestContainer,
    TestCopies,
    TestLeases,
    TestListing,
    TestTables,
)
from tools.azurite import Azurite

__all__ = ["TestBlobs", "TestBlocks", "TestContainer", "TestCopies", "TestLeases", "TestListing", "TestTables"]

pytestmark = [pytest.mark.azurite, pytest.mark.auth(credential="managedIdentity", place="Azurite, HTTPS and tokens")]


@pytest.fixture
def account(opened: Callable[..., StorageAccount]) -> StorageAccount:
    return opened()


def error_of(account: StorageAccount) -> str:
    """The message of a request that cannot succeed. It has one sentence for the cause and one for the next step."""
    with pytest.raises(ConfigurationError) as caught:
        account.container("abc").exists()
    return str(caught.value)


def test_a_certificate_of_an_unknown_authority_is_not_trusted(
    opened: Callable[..., StorageAccount], environment: pytest.MonkeyPatch, tmp_path: Path, logged: Callable[[], str]
) -> None:
    environment.setenv("REQUESTS_CA_BUNDLE", str(Authority(tmp_path).bundle))
    error = error_of(opened())
    assert "is not trusted. Check the option endpoint, and trust the certificate by REQUESTS_CA_BUNDLE" in error


@pytest.mark.parametrize(
    ("hosts", "expired", "expected"),
    [
        ((), True, "has expired. Have the certificate renewed, and check this machine's clock."),
        (("elsewhere.example",), False, "is for another host. Check the option endpoint."),
    ],
)
def test_a_certificate_that_has_expired_or_is_of_another_host(
    opened: Callable[..., StorageAccount], authority: Authority, hosts: tuple[str, ...], expired: bool, expected: str
) -> None:
    with token_service(authority.issue(*hosts, expired=expired)) as server:
        assert expected in error_of(opened(endpoint=f"{server.entra}/devstoreaccount1"))


def test_a_token_for_another_audience_is_refused(
    opened: Callable[..., StorageAccount], service: TokenService, logged: Callable[[], str]
) -> None:
    service.audience = "https://vault.azure.net"
    error = error_of(opened())
    assert "403 AuthenticationFailed" in error
    assert "Check that the token's identity is of the account's tenant and cloud" in error
    assert service.tokens[0] not in error


@pytest.mark.parametrize("option", ["endpoint", "tableEndpoint"])
def test_no_token_is_sent_without_tls(
    opened: Callable[..., StorageAccount], service: TokenService, tls_azurite: Azurite, option: str
) -> None:
    with pytest.raises(ConfigurationError, match="sends a token and needs an https endpoint"):
        opened(**{option: tls_azurite.endpoint.replace("https", "http")})
    assert not service.asked


def test_a_bundle_that_is_not_there_is_named(
    opened: Callable[..., StorageAccount], environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("REQUESTS_CA_BUNDLE", "/nowhere/ca.pem")
    with pytest.raises(AzureBlobError, match="REQUESTS_CA_BUNDLE names /nowhere/ca.pem, which does not exist here"):
        opened()


def test_a_process_needs_one_token_for_many_requests(
    opened: Callable[..., StorageAccount], service: TokenService, logged: Callable[[], str], container_name: str
) -> None:
    container = opened().container(container_name)
    container.create()
    for number in range(50):
        container.put(f"blob{number}", b"data")
    assert 50 == len(list(container.list()))
    assert 1 == service.asked["imds"]


def test_a_command_line_uses_the_identity_of_its_machine(
    opened: Callable[..., StorageAccount], service: TokenService, tls_azurite: Azurite, container_name: str
) -> None:
    opened().container(container_name).create()
    options = ("--option", f"endpoint={tls_azurite.endpoint}", "--option", "auth=managedIdentity")
    command = [sys.executable, "-m", "azureblob_source", "ls", container_name, "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert [] == [token for token in service.tokens if token in done.stdout + done.stderr]
    assert 2 == service.asked["imds"], "one for each process"
