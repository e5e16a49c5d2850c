"""`StorageAccount` of the port: its containers and tables share one retry loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account import names
from azure_account.retrying.container import RetryingContainer
from azure_account.retrying.table import RetryingTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.retrying.retry_loop import RetryLoop
    from azure_account.service import BlobService, TableService


class RetryingAccount:
    """A `StorageAccount` whose requests are retried. `table_service` is called by `table`, not before."""

    def __init__(self, blobs: BlobService, table_service: Callable[[], TableService], retry_loop: RetryLoop) -> None:
        self._blobs = blobs
        self._table_service = table_service
        self._retry_loop = retry_loop

    @property
    def name(self) -> str:
        """The account's name."""
        return self._blobs.account

    def container(self, name: str) -> RetryingContainer:
        """A handle; no request is made."""
        names.check_container(name)
        return RetryingContainer(name, self._blobs, self._retry_loop)

    def table(self, name: str) -> RetryingTable:
        """A handle; no request is made."""
        names.check_table(name)
        return RetryingTable(name, self._table_service(), self._retry_loop)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._blobs.blob_endpoint})"
