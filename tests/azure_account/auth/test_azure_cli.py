"""The login of the Azure CLI, with a program of that name that answers as it does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from azure_account.account import StorageAccount
from foundation.errors import ConfigurationError
from tests.azure_account.auth.token_service import TokenService

pytestmark = [pytest.mark.azurite, pytest.mark.auth(credential="azureCli", place="program in place of az")]


@pytest.fixture
def az(environment: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Puts a shell script in place of `az`."""

    def put(script: str) -> None:
        program = tmp_path / "az"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    environment.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    return put


def test_its_token_is_used(
    opened: Callable[..., StorageAccount], service: TokenService, az: Callable[[str], None], logged: Callable[[], str]
) -> None:
    token, end = service.token()
    az(f'echo \'{{"accessToken": "{token}", "expiresOn": "2099-01-01 00:00:00.000000", "expires_on": {end}}}\'')
    assert not opened(auth="azureCli").container("absent").exists()


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        ("echo \"ERROR: Please run 'az login' to setup account.\" >&2; exit 1", "az login"),
        ("exit 127", "Azure CLI not found"),
    ],
)
def test_without_a_login_the_error_says_what_it_says(
    opened: Callable[..., StorageAccount], az: Callable[[str], None], script: str, cause: str
) -> None:
    az(script)
    with pytest.raises(ConfigurationError, match=f"no token from AzureCli: .*{cause}"):
        opened(auth="azureCli").container("abc").exists()
