"""Connects to an account: one object per process and settings, so that connections and tokens are shared."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from azure_account.account import StorageAccount
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import account_settings
from azure_account.retrying.retry_loop import RetryLoop
from foundation.arguments import Options, checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.options.settings import AccountSettings
    from azure_account.service import TableService

# The process id is part of the key: a forked process must not use connections and locks of its parent.
_accounts: dict[tuple[int, AccountSettings], StorageAccount] = {}
_MOST_ACCOUNTS = 100
"""Those used last are kept: each has open connections, and a SAS that is renewed makes another one."""
_lock = threading.Lock()
_lock_owner = os.getpid()


@checked
def open_account(options: Options | None = None) -> StorageAccount:
    """The account of these options: those of the connector that name an account and its credentials.

    What they leave out comes from `AZURE_STORAGE_*` variables. `ConfigurationError` for options that are unknown or
    contradict each other.
    """
    return connect(settings_of(options))


def settings_of(options: Mapping[str, str] | None) -> AccountSettings:
    """The settings of these options, as `open_account` reads them."""
    return account_settings(ACCOUNT_OPTIONS.parse(options or {}), None, os.environ)


def connect(settings: AccountSettings) -> StorageAccount:
    """The account of these settings. Makes no request; calls after the first one are cheap. Thread-safe."""
    with _own_lock():
        key = (os.getpid(), settings)
        account = _accounts.pop(key, None)
        if account is None:
            account = _new_account(settings)
            own = [old for old in _accounts if old[0] == key[0]]
            for stale in _accounts.keys() - own[1 - _MOST_ACCOUNTS :]:
                del _accounts[stale]
        _accounts[key] = account
        return account


def _own_lock() -> threading.Lock:
    """The lock of this process: the parent's could have been held during the fork, and would never be released."""
    global _lock, _lock_owner
    if _lock_owner != os.getpid():
        _lock, _lock_owner = threading.Lock(), os.getpid()
    return _lock


def _new_account(settings: AccountSettings) -> StorageAccount:
    from azure_account.sdk.blobs import AzureBlobs  # noqa: PLC0415 - takes half a second to import

    tables: list[TableService] = []
    tables_lock = threading.Lock()

    def table_service() -> TableService:
        with tables_lock:
            if not tables:
                from azure_account.sdk.tables import AzureTables  # noqa: PLC0415 - few accounts need tables

                tables.append(AzureTables(settings))
            return tables[0]

    return StorageAccount(AzureBlobs(settings), table_service, RetryLoop(settings.retry))
