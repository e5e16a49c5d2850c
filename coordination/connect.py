"""An account with short timeouts, for leases and heartbeats."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account.account import StorageAccount
from azure_account.connect import connect, settings_of
from azure_account.options.settings import Timeouts
from azure_account.retrying.policy import RetryPolicy
from foundation.arguments import Options, Seconds, checked

if TYPE_CHECKING:
    from azure_account.location import Location
    from azure_account.options.settings import AccountSettings


@checked
def open_account(options: Options | None = None, *, request: Seconds = 5.0) -> StorageAccount:
    """The account of these options: those of the connector that name an account and its credentials.

    What they leave out comes from `AZURE_STORAGE_*` variables. request: seconds, as in `LeaseTiming` and
    `CoordinatorTiming`. `ConfigurationError` for options that are unknown or contradict each other.
    """
    return connect(brief_settings(settings_of(options), request))


def brief_account(where: Location, request: float) -> StorageAccount:
    """The account of a location, as `open_account`. `ConfigurationError` if `where` is not a `Location`."""
    return where.account(lambda settings: brief_settings(settings, request))


def brief_settings(settings: AccountSettings, request: float) -> AccountSettings:
    """These settings, with `request` seconds for a request and all its repetitions.

    The last attempt begins within the first half, and no attempt lasts longer than a half, however slow the answer is.
    """
    half = request / 2
    retry = RetryPolicy(max_attempts=3, first_delay=half / 8, max_delay=half / 4, deadline=half)
    return replace(settings, timeouts=Timeouts(connect=half, request=half, lease=half, attempt=half), retry=retry)
