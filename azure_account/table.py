"""The operations on one table that this project uses: as `container.py`, over `TableService`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account import names
from azure_account.retrying.retry_loop import Request, RetryLoop
from azure_account.values import ALWAYS, Done, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.service import TableService
    from azure_account.values import Condition, Entity


class Table:
    """One table of Azure Table storage. Keys may not contain slashes, backslashes, `#`, `?` or control characters."""

    def __init__(self, name: str, service: TableService, retry_loop: RetryLoop) -> None:
        self.name = name
        self._service = service
        self._retry_loop = retry_loop

    def __repr__(self) -> str:
        return f"Table({self.name})"

    def create(self) -> bool:
        """Create the table if it is absent. True if this call created it."""
        return self._retry_loop.create(
            Request("create_table", self.name), lambda: self._service.create_table(self.name)
        )

    def insert(self, entity: Entity) -> Outcome:
        """Insert an entity. `Conflict` if its keys exist."""
        names.check_entity(entity)
        return self._retry_loop.write(
            self._request("insert_entity", entity.partition_key, entity.row_key),
            lambda: self._service.insert_entity(self.name, entity),
            conditional=True,
        )

    def replace(self, entity: Entity, *, condition: Condition = ALWAYS) -> Outcome:
        """Insert or replace; with `Condition(if_match=…)` replace that version only (`Missing` without one)."""
        if condition.if_absent:
            return self.insert(entity)
        names.check_entity(entity)
        return self._retry_loop.write(
            self._request("replace_entity", entity.partition_key, entity.row_key),
            lambda: self._service.replace_entity(self.name, entity, condition.if_match),
            conditional=condition != ALWAYS,
        )

    def get(self, partition_key: str, row_key: str) -> Entity | None:
        """One entity; None if it does not exist."""
        names.check_keys(partition_key, row_key)
        return self._retry_loop.find(
            self._request("get_entity", partition_key, row_key),
            lambda: self._service.get_entity(self.name, partition_key, row_key),
            None,
        )

    def query(self, partition_key: str | None = None) -> Iterator[Entity]:
        """All entities of a partition, or of the table, in key order."""
        request, marker = Request("query_entities", self.name, partition_key or ""), None
        while True:
            page = self._retry_loop.repeat(
                request,
                lambda marker=marker: self._service.query_page(self.name, partition_key, marker),  # type: ignore[misc]
            )
            yield from page.items
            marker = page.marker
            if marker is None:
                return

    def delete(self, partition_key: str, row_key: str, *, condition: Condition = ALWAYS) -> Outcome:
        """Delete an entity. `Missing` if it does not exist.

        condition: on the entity.
        """
        names.check_keys(partition_key, row_key)
        return self._retry_loop.write(
            self._request("delete_entity", partition_key, row_key),
            lambda: self._service.delete_entity(self.name, partition_key, row_key, condition.if_match),
            conditional=condition != ALWAYS,
            absent_is=Done(),
        )

    def _request(self, operation: str, partition_key: str, row_key: str) -> Request:
        return Request(operation, self.name, f"{partition_key}/{row_key}")
