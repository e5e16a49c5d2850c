"""Account settings from options, for tests: the environment is empty unless it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.address import Address
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import account_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.options.settings import AccountSettings

KEY = "a2V5a2V5a2V5"
SAS = "sv=2026-02-06&sig=c2lnbmF0dXJl"
CONNECTION = f"DefaultEndpointsProtocol=https;AccountName=acc;AccountKey={KEY};EndpointSuffix=core.windows.net"


def settings_of(
    options: Mapping[str, str],
    *,
    url_account: str | None = None,
    url_endpoint: str | None = None,
    env: Mapping[str, str] | None = None,
) -> AccountSettings:
    """The settings of these options, of the account and endpoint of a URL, and of these variables."""
    if url_endpoint is None and url_account is not None:
        url_endpoint = f"https://{url_account}.blob.core.windows.net"
    return account_settings(ACCOUNT_OPTIONS.parse(options), Address("c", None, url_endpoint), env or {})
