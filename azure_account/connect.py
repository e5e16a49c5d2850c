"""From settings to an account: one per process and settings, so that connections and tokens are shared."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from azure_account.retrying.account import RetryingAccount
from azure_account.retrying.retry_loop import RetryLoop

if TYPE_CHECKING:
    from azure_account.account import StorageAccount
    from azure_account.options.settings import AccountSettings
    from azure_account.service import TableService

# Keyed by process id too: connections and locks of a parent process must not be used after a fork.
_accounts: dict[tuple[int, AccountSettings], RetryingAccount] = {}
_lock = threading.Lock()
_lock_owner = os.getpid()


def connect(settings: AccountSettings) -> StorageAccount:
    """The account of these settings. Cheap after the first call of a process; makes no request. Thread-safe."""
    with _own_lock():
        key = (os.getpid(), settings)
        if key not in _accounts:
            for stale in [old for old in _accounts if old[0] != key[0]]:
                del _accounts[stale]
            _accounts[key] = _new_account(settings)
        return _accounts[key]


def _own_lock() -> threading.Lock:
    """The lock of this process: one that another thread held while this process was forked would never be free."""
    global _lock, _lock_owner
    if _lock_owner != os.getpid():
        _lock, _lock_owner = threading.Lock(), os.getpid()
    return _lock


def _new_account(settings: AccountSettings) -> RetryingAccount:
    from azure_account.sdk.blobs import AzureBlobs  # noqa: PLC0415 - half a second to import

    tables: list[TableService] = []
    tables_lock = threading.Lock()

    def table_service() -> TableService:
        with tables_lock:
            if not tables:
                from azure_account.sdk.tables import AzureTables  # noqa: PLC0415 - only some need tables

                tables.append(AzureTables(settings))
            return tables[0]

    return RetryingAccount(AzureBlobs(settings), table_service, RetryLoop(settings.retry))
