"""Records which operations a feature requests of an account in memory: what `proxy` sees, without HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azure_account.account import StorageAccount
from azure_account.retrying.retry_loop import RetryLoop
from azure_account.sdk.permissions import NAMES
from foundation.errors import ConfigurationError
from tests.permissions import operations as of

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.memory.service import MemoryService
    from tests.permissions.operations import Operation

_ATTRIBUTES, _IF_MATCH = 3, 2
"""Where a request has its attributes, or its condition."""

OPERATIONS: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Operation]] = {
    "create_container": lambda *_: of.CREATE_CONTAINER,
    "container_exists": lambda *_: of.CONTAINER_PROPERTIES,
    "stage_block": lambda *_: of.BLOCK,
    "commit_block_list": lambda args, _: of.BLOCK_LIST_TAGS if args[_ATTRIBUTES].tags else of.BLOCK_LIST,
    "put": lambda args, _: of.PUT_TAGS if args[_ATTRIBUTES].tags else of.PUT,
    "get": lambda *_: of.GET,
    "properties": lambda *_: of.PROPERTIES,
    "age": lambda *_: of.PROPERTIES,
    "block_ids": lambda *_: of.GET_BLOCKS,
    "list_page": lambda _, named: of.LIST_TAGS if named["tags"] else of.LIST,
    "delete": lambda *_: of.DELETE,
    "copy": lambda *_: of.COPY,
    "undelete": lambda *_: of.UNDELETE,
    "tags": lambda *_: of.GET_TAGS,
    "set_tags": lambda *_: of.SET_TAGS,
    "acquire_lease": lambda *_: of.LEASE,
    "renew_lease": lambda *_: of.LEASE,
    "release_lease": lambda *_: of.LEASE,
    "break_lease": lambda *_: of.LEASE,
    "create_table": lambda *_: of.CREATE_TABLE,
    "insert_entity": lambda *_: of.INSERT,
    "replace_entity": lambda args, _: of.UPSERT if args[_IF_MATCH] is None else of.REPLACE,
    "get_entity": lambda *_: of.QUERY,
    "query_page": lambda *_: of.QUERY,
    "delete_entity": lambda *_: of.DELETE_ENTITY,
}
"""By the methods of `BlobService` and `TableService`."""


class Recorder:
    """Notes the requests of every account that it makes, and refuses what its letters do not permit."""

    def __init__(self) -> None:
        self.requests: list[Operation] = []

    def account_of(self, service: MemoryService, letters: str) -> StorageAccount:
        """An account over a service. letters: that are permitted; with `*` nothing is noted."""
        tables: Any = _Recorded(service.tables, self.requests, letters)
        blobs: Any = _Recorded(service, self.requests, letters)
        return StorageAccount(blobs, lambda: tables, RetryLoop())

    def take(self) -> list[Operation]:
        """The requests so far, which are forgotten."""
        taken = list(self.requests)
        self.requests.clear()
        return taken


class _Recorded:
    """A service whose requests are noted."""

    def __init__(self, service: Any, requests: list[Operation], letters: str) -> None:
        self._service, self._requests, self._letters = service, requests, letters

    def __getattr__(self, name: str) -> Any:
        found, kind = getattr(self._service, name), OPERATIONS.get(name)
        if kind is None:
            return found

        def request(*args: Any, **named: Any) -> Any:
            if self._letters == "*":
                return found(*args, **named)
            operation = kind(args, named)
            self._requests.append(operation)
            if missing := operation.missing(self._letters):
                lacking = " and ".join(f"{each} ({NAMES[each]})" for each in missing)
                raise ConfigurationError(operation.name, str(args[0]), f"sasToken lacks {lacking}", "Grant it.")
            return found(*args, **named)

        return request
