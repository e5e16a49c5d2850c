"""The account that the suite runs on, by the environment: in memory, Azurite, or one in Azure.

    LIVE_ON=memory|azurite|azure     which
    AZURE_STORAGE_TEST_CONNECTION_STRING, or AZURE_STORAGE_TEST_ACCOUNT (a name, or the URL of the blob service) with
    Entra ID as DefaultAzureCredential finds it     the one in Azure

What is created there is noted in `.live/created.txt` at once, and deleted at the end; `python -m tests.live --clean`
deletes what a killed run has left. Nothing else is ever deleted.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient

from azure_account.account import StorageAccount
from azure_account.connect import settings_of
from azure_account.options.authentication import SharedKey
from azure_account.retrying.retry_loop import RetryLoop
from azure_account.sdk.credentials import sdk_credential
from tests.features.place import memory_accounts
from tools.azurite import running_azurite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from azure_account.options.settings import AccountSettings

MEMORY, AZURITE, AZURE = "memory", "azurite", "azure"
KINDS = (MEMORY, AZURITE, AZURE)
JOURNAL = Path(".live/created.txt")
PREFIX = "azureblob-live-"


@dataclass(frozen=True)
class Tried:
    """An account. soft_delete, versioning, hierarchical: None if that is not known. key: the account's, if given."""

    kind: str
    options: dict[str, str] = field(repr=False)
    soft_delete: bool | None
    versioning: bool | None
    hierarchical: bool | None
    key: str | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """For the table."""
        return {MEMORY: "memory", AZURITE: "Azurite", AZURE: "Azure"}[self.kind]


def given_options() -> dict[str, str]:
    """The options of the account in Azure. `SystemExit` if none is given."""
    connection = os.environ.get("AZURE_STORAGE_TEST_CONNECTION_STRING")
    if connection:
        return {"connectionString": connection}
    account = os.environ.get("AZURE_STORAGE_TEST_ACCOUNT")
    if not account:
        raise SystemExit("Set AZURE_STORAGE_TEST_CONNECTION_STRING, or AZURE_STORAGE_TEST_ACCOUNT and sign in.")
    named = {"endpoint": account} if "://" in account else {"accountName": account}
    return {**named, "auth": "default"}


@contextmanager
def account_of(kind: str) -> Iterator[Tried]:
    """The account, whose containers and tables that were created meanwhile are deleted at the end."""
    if kind == MEMORY:
        with memory_accounts(soft_delete=24 * 3600.0) as options:
            yield Tried(MEMORY, options("memory", "*"), soft_delete=True, versioning=False, hierarchical=False)
    elif kind == AZURITE:
        with running_azurite() as azurite:
            own = {"connectionString": azurite.connection_string}
            with noted(settings_of(own)):
                yield Tried(AZURITE, own, False, False, hierarchical=False, key=azurite.account_key)
    else:
        own = given_options()
        settings = settings_of(own)
        with noted(settings):
            yield _described(own, settings)


def _described(options: dict[str, str], settings: AccountSettings) -> Tried:
    key = settings.auth.key.reveal() if isinstance(settings.auth, SharedKey) else None
    client = BlobServiceClient(settings.blob_endpoint, credential=sdk_credential(settings))
    soft_delete = hierarchical = None
    with suppress(AzureError):  # the identity may not ask
        soft_delete = bool(client.get_service_properties()["delete_retention_policy"].enabled)
    with suppress(AzureError):
        hierarchical = bool(client.get_account_information()["is_hns_enabled"])
    name = f"{PREFIX}{os.urandom(6).hex()}"
    _note("container", name)
    container = client.create_container(name)
    versioning = bool(container.get_blob_client("x").upload_blob(b"x").get("version_id"))
    return Tried(AZURE, options, soft_delete, versioning, hierarchical, key)


@contextmanager
def noted(settings: AccountSettings) -> Iterator[None]:
    """Note what this process creates in accounts, whatever connects to them, and delete it at the end."""
    accounts: Any = sys.modules["azure_account.connect"]
    real: Callable[[AccountSettings], StorageAccount] = accounts._new_account

    def new_account(of: AccountSettings) -> StorageAccount:
        account = real(of)
        service: Any = _Noting(account._blobs)
        tables: Any = lambda: _Noting(account._table_service())  # noqa: E731
        return StorageAccount(service, tables, RetryLoop(of.retry))

    accounts._new_account = new_account
    accounts._accounts.clear()  # what was connected before notes nothing
    try:
        yield
    finally:
        accounts._new_account = real
        accounts._accounts.clear()
        delete_noted(settings)


class _Noting:
    """A service whose new containers and tables are noted once they are created."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if name not in {"create_container", "create_table"}:
            return found

        def create(place: str) -> None:
            found(place)  # raises if it exists: then it is not ours
            _note(name.removeprefix("create_"), place)

        return create


def _note(kind: str, name: str) -> None:
    JOURNAL.parent.mkdir(exist_ok=True)
    with JOURNAL.open("a") as file:
        file.write(f"{kind} {name}\n")


def delete_noted(settings: AccountSettings) -> None:
    """Delete what the journal names. What cannot be deleted stays in it."""
    if not JOURNAL.exists():
        return
    blobs = BlobServiceClient(settings.blob_endpoint, credential=sdk_credential(settings))
    left = []
    for line in JOURNAL.read_text().splitlines():
        kind, name = line.split()
        try:
            if kind == "container":
                blobs.delete_container(name)
            else:
                credential: Any = sdk_credential(settings)
                TableServiceClient(settings.table_endpoint or "", credential=credential).delete_table(name)
        except ResourceNotFoundError:
            continue
        except AzureError as error:
            left.append(line)
            print(f"{line} was not deleted: {str(error).splitlines()[0]}", file=sys.stderr)
    JOURNAL.write_text("".join(f"{line}\n" for line in left))
