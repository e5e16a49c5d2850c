"""Where something is: an account, a container and a path in it, as one value that can be sent to other processes."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING

from azure_account.account import StorageAccount
from azure_account.address import Address, parse_address
from azure_account.connect import connect
from azure_account.container import BlobContainer
from azure_account.names import check_container
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import account_settings
from azure_account.preparation import create_if_absent
from foundation.arguments import Options, checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from azure_account.memory.account import MemoryAccount
    from azure_account.options.settings import AccountSettings

_MEMORY = "memory://"
_RETRY_DEADLINE, _RETRY_SECONDS = "retryDeadlineMs", 120.0
_memory_accounts: dict[str, MemoryAccount] = {}
_lock = threading.Lock()


@checked
@dataclass(frozen=True)
class Location:
    """A container and a path in it: the place of a stream, a state, a store, a job or a lease.

    where: `container/path`, or an https, abfss or wasbs URL, which also names the account.
    options: of the format `azureblob`, as far as they name an account and its credentials; what they leave out comes
    from `AZURE_STORAGE_*` variables. The endpoint `memory://<name>` is an account in the memory of this process.

    Picklable. Its `repr` shows no option. `ConfigurationError` for a URL with credentials or of an unknown kind, and
    for a container name that Azure refuses; for options only when the account is opened.
    """

    where: str
    options: Options = field(default_factory=dict, repr=False, hash=False)
    _account: StorageAccount | None = field(default=None, repr=False, hash=False, kw_only=True)
    _container: BlobContainer | None = field(default=None, repr=False, hash=False, kw_only=True)

    def __post_init__(self) -> None:
        """Validate."""
        check_container(self._address.container)

    @classmethod
    def in_account(cls, account: StorageAccount, where: str) -> Self:
        """A location in an account object. It cannot be pickled, so tasks of Spark cannot have it."""
        return cls(where, _account=account)

    @classmethod
    def in_container(cls, container: BlobContainer, path: str) -> Self:
        """A location in a container object. It cannot be pickled, so tasks of Spark cannot have it."""
        return cls(f"{container.name}/{path}", _container=container)

    @cached_property
    def _address(self) -> Address:
        if self._container is not None:
            return Address(self._container.name, self.where.partition("/")[2] or None)
        return parse_address(self.where)

    @property
    def container(self) -> str:
        """The name of the container."""
        return self._address.container

    @property
    def path(self) -> str:
        """The path in the container; empty if `where` names the container only."""
        return self._address.path or ""

    def __str__(self) -> str:
        """`container/path`."""
        return str(self._address)

    def within(self, seconds: float) -> Self:
        """A location as this one, whose requests are repeated for at most `seconds` if there is no answer.

        Whole ones, rounded up, as each number has an account of its own. By default requests are repeated for two
        minutes, so a longer time changes nothing.
        """
        if seconds >= _RETRY_SECONDS:
            return self
        others = {name: value for name, value in self.options.items() if name.lower() != _RETRY_DEADLINE.lower()}
        return replace(self, options={**others, _RETRY_DEADLINE: f"{1000 * max(1, ceil(seconds))}"})

    def open(self) -> BlobContainer:
        """The container. Makes no request; calls after the first one are cheap. `ConfigurationError` as `connect`."""
        return self._container or self.account().container(self.container)

    def prepare(self, container: BlobContainer | None = None) -> BlobContainer:
        """The container, created if it is absent and option `createContainer` is not false: for what writes there.

        container: a handle of it, if the caller has one. Errors as of `create_if_absent`.
        """
        opened = self.open() if container is None else container
        create_if_absent(opened, allowed=ACCOUNT_OPTIONS.parse(self.options)["createContainer"])
        return opened

    def account(
        self, change: Callable[[AccountSettings], AccountSettings] = lambda settings: settings
    ) -> StorageAccount:
        """The account; change: of its settings, such as shorter timeouts. Accounts in memory have no settings."""
        if self._account is not None:
            return self._account
        if self._container is not None:
            raise ConfigurationError(f"{self} is a location in a container object, which has no account.")
        endpoint = self.options.get("endpoint", "")
        if endpoint.startswith(_MEMORY):
            return memory_account(endpoint)
        options, address = ACCOUNT_OPTIONS.parse(self.options), self._address
        return connect(change(account_settings(options, address, os.environ)))


def memory_account(endpoint: str) -> MemoryAccount:
    """The account `memory://<name>` of this process. Made at the first call; another process has another one."""
    from azure_account.memory.account import MemoryAccount  # noqa: PLC0415 - for tests and trials only

    with _lock:
        return _memory_accounts.setdefault(endpoint.removeprefix(_MEMORY), MemoryAccount())
