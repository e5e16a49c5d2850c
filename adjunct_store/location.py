"""Where a store is, as a value that can be sent to tasks, which open it there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adjunct_store.versions.names import StoreNames
from azure_account.connect import open_account
from azure_account.errors import ConfigurationError
from azure_account.memory.account import MemoryAccount
from azure_account.names import check_container

if TYPE_CHECKING:
    from typing_extensions import Self

    from azure_account.account import BlobContainer

ENDPOINT, RETRIED = "endpoint", "retryDeadlineMs"
_RETRIED_SECONDS = 120.0
_MEMORY = "memory://"
_memory_accounts: dict[str, MemoryAccount] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class StoreLocation:
    """A store: the account, the container and the path in it. Picklable; its `repr` shows no option of the account.

    account: the options of the format `azureblob` that name an account and its credentials. The endpoint
    `memory://<name>` is an account in the memory of this process, for tests and trials. `ConfigurationError` for a
    container or a path that Azure would refuse.
    """

    account: Mapping[str, str] = field(repr=False, hash=False)
    container: str
    store: str

    def __post_init__(self) -> None:
        if not isinstance(self.account, Mapping):
            text = f"account is of type {type(self.account).__name__}: give options,"
            raise ConfigurationError(f'{text} such as {{"accountName": "myaccount"}}.')
        check_container(self.container)
        StoreNames(self.store)

    def __str__(self) -> str:
        """`container/store`."""
        return f"{self.container}/{self.store}"

    def within(self, seconds: float) -> Self:
        """The same store, whose requests are repeated for so many seconds at most if there is no answer.

        By default they are repeated for two minutes, so a longer time changes nothing.
        """
        if seconds >= _RETRIED_SECONDS:
            return self
        others = {name: value for name, value in self.account.items() if name.lower() != RETRIED.lower()}
        return replace(self, account={**others, RETRIED: f"{1 + int(1000 * seconds)}"})

    def open(self) -> BlobContainer:
        """The container. Makes no request; calls after the first one are cheap. `ConfigurationError` as `connect`."""
        endpoint = self.account.get(ENDPOINT, "")
        if endpoint.startswith(_MEMORY):
            return memory_account(endpoint).container(self.container)
        return open_account(self.account).container(self.container)


def memory_account(endpoint: str) -> MemoryAccount:
    """The account `memory://<name>` of this process. Made at the first call; another process has another one."""
    with _lock:
        return _memory_accounts.setdefault(endpoint.removeprefix(_MEMORY), MemoryAccount())
