"""The account, from which all else of the port is obtained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account import names
from azure_account.container import BlobContainer
from azure_account.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.retrying.retry_loop import RetryLoop
    from azure_account.service import BlobService, TableService


class StorageAccount:
    """One storage account, from which its containers and tables are obtained. They share one retry loop."""

    def __init__(self, blobs: BlobService, table_service: Callable[[], TableService], retry_loop: RetryLoop) -> None:
        """table_service: called by `table`, not before."""
        self._blobs = blobs
        self._table_service = table_service
        self._retry_loop = retry_loop

    @property
    def name(self) -> str:
        """The account's name."""
        return self._blobs.account

    def container(self, name: str) -> BlobContainer:
        """A handle; no request is made. An invalid name is a `ConfigurationError`."""
        names.check_container(name)
        return BlobContainer(name, self._blobs, self._retry_loop)

    def table(self, name: str) -> Table:
        """A handle; no request is made. An invalid name is a `ConfigurationError`."""
        names.check_table(name)
        return Table(name, self._table_service(), self._retry_loop)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._blobs.blob_endpoint})"
