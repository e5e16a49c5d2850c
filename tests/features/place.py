"""What a feature is tried on: a container of an account, with credentials, and how it is tried.

    Feature: prepare (with all permissions) ─► run (with those that are tried) ─► see (with all permissions)

`tests/permissions` runs each feature with every SAS, `tests/live` with the account's own credentials, in memory, on
Azurite and on Azure.
"""

from __future__ import annotations

import base64
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner

import azure_account.connect  # noqa: F401 - the module, which is not the function of this name
from azure_account.cli.shell import CommandContext
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.service import MemoryService
from azure_account.options.authentication import SharedKey
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import typer

    from azure_account.account import StorageAccount
    from azure_account.container import BlobContainer
    from azure_account.options.settings import AccountSettings

IN_MEMORY = ".invalid"
"""Ends the host of an account in memory."""


@dataclass(frozen=True)
class Place:
    """A container, the options of the account with credentials, and a folder on this machine.

    undeletes: the account has soft delete, and no versioning.
    """

    container_name: str
    options: Mapping[str, str] = field(repr=False)
    folder: Path
    undeletes: bool = False

    def with_options(self, options: Mapping[str, str]) -> Place:
        """The same container with other credentials."""
        return replace(self, options=options)

    @property
    def account(self) -> StorageAccount:
        """The account."""
        return self.at("").account()

    @property
    def container(self) -> BlobContainer:
        """The container."""
        return self.account.container(self.container_name)

    @property
    def table_name(self) -> str:
        """The name of a table that nobody else has."""
        return f"t{self.container_name.replace('-', '')}"

    def at(self, path: str) -> Location:
        """A path in the container."""
        return Location(f"{self.container_name}/{path}" if path else self.container_name, dict(self.options))

    def of_stream(self, path: str = "flights", **options: object) -> dict[str, str]:
        """The options of the data source for a stream. The dots of an option's name are written as `__`."""
        given = {name.replace("__", "."): str(value) for name, value in options.items()}
        return {**self.options, "path": f"{self.container_name}/{path}", **given}

    def command(self, app: typer.Typer, *arguments: str) -> str:
        """The standard output of a command, `{}` standing for the container; its error is raised as it is printed."""
        context = CommandContext(connect=lambda _: self.account, env={"AZURE_STORAGE_ACCOUNT": "a"}, clock=SYSTEM_CLOCK)
        result = CliRunner().invoke(app, [each.format(self.container_name) for each in arguments], obj=context)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code:
            raise CommandError(f"{result.stderr}{result.stdout}")
        return result.stdout


class CommandError(ConfigurationError):
    """A command has failed. Its message is what the command has printed."""


def raise_error(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise the error that a row of a listing has in place of what it lists."""
    for row in rows:
        if "error" in row:
            raise CommandError(row["error"])


@dataclass(frozen=True)
class Feature:
    """Something that a user does.

    group: a row of the tables in docs/AZURE.md.
    prepare: what is there before, made with all permissions.
    run: the feature itself. again: what is run after it has failed, by default the same; with all permissions.
    expected: what `see` returns afterwards, or `run` if there is no `see`.
    sas_of: which SAS permits it: `container`, `account` (blobs and tables) or `table`.
    needs_undelete: only where deleted blobs can be brought back.
    """

    group: str
    name: str
    run: Callable[[Place], Any]
    expected: Any
    prepare: Callable[[Place], object] = lambda _: None
    see: Callable[[Place], Any] | None = None
    again: Callable[[Place], Any] | None = None
    sas_of: str = "container"
    needs_undelete: bool = False

    def result(self, place: Place, returned: Any) -> Any:
        """What is compared with `expected`."""
        return returned if self.see is None else self.see(place)


def _memory_account(service: MemoryService, letters: str) -> StorageAccount:
    return MemoryAccount(service)


@contextmanager
def memory_accounts(
    account_of: Callable[[MemoryService, str], StorageAccount] = _memory_account, *, soft_delete: float | None = None
) -> Iterator[Callable[[str, str], dict[str, str]]]:
    """Accounts in memory for everything that connects: yields a function from name and letters to the options of one.

    account_of: makes the account of a service for these letters, `*` for all, whenever something connects.
    """
    services: dict[str, MemoryService] = {}
    accounts: Any = sys.modules["azure_account.connect"]
    real: Callable[[AccountSettings], StorageAccount] = accounts._new_account

    def new_account(settings: AccountSettings) -> StorageAccount:
        if not settings.blob_endpoint.endswith(IN_MEMORY):
            return real(settings)
        assert isinstance(settings.auth, SharedKey)
        service = services.setdefault(settings.account, MemoryService(clock=SYSTEM_CLOCK, soft_delete=soft_delete))
        return account_of(service, base64.b64decode(settings.auth.key.reveal()).decode())

    def options(name: str, letters: str = "*") -> dict[str, str]:
        endpoint, tables = f"http://{name}.blob{IN_MEMORY}", f"http://{name}.table{IN_MEMORY}"
        key = base64.b64encode(letters.encode()).decode()
        return {"accountName": name, "endpoint": endpoint, "tableEndpoint": tables, "accountKey": key}

    accounts._new_account = new_account
    try:
        yield options
    finally:
        accounts._new_account = real
