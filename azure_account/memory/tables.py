"""`TableService` in memory."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account.service import Absent, ConditionFailed, Page
from foundation.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.values import Entity
    from foundation.clock import Clock

# The most that one answer of Azure has.
PAGE_ENTITIES = 1000


class MemoryTables:
    """Tables by name, whose case is ignored; entities by partition key and row key. Thread-safe."""

    def __init__(self, new_etag: Callable[[], str], clock: Clock) -> None:
        self._tables: dict[str, dict[tuple[str, str], Entity]] = {}
        self._written: dict[tuple[str, tuple[str, str]], float] = {}
        self._clock = clock
        self._new_etag = new_etag
        self._lock = threading.RLock()

    def create_table(self, table: str) -> None:
        with self._lock:
            if table.lower() in self._tables:
                raise ConditionFailed("TableAlreadyExists: the table exists")
            self._tables[table.lower()] = {}

    def insert_entity(self, table: str, entity: Entity) -> str:
        with self._lock:
            rows = self._rows(table)
            if _key(entity) in rows:
                raise ConditionFailed("EntityAlreadyExists: an entity with these keys exists")
            return self._write(table, entity)

    def replace_entity(self, table: str, entity: Entity, if_match: str | None) -> str:
        with self._lock:
            rows = self._rows(table)
            if if_match is not None:
                _check(rows.get(_key(entity)), if_match)
            return self._write(table, entity)

    def get_entity(self, table: str, partition_key: str, row_key: str) -> Entity:
        with self._lock:
            found = self._rows(table).get((partition_key, row_key))
            if found is None:
                raise Absent("ResourceNotFound: there is no such entity")
            return self._aged(table, found)

    def query_page(self, table: str, partition_key: str | None, marker: str | None) -> Page[Entity]:
        with self._lock:
            rows = self._rows(table)
            keys = sorted(key for key in rows if partition_key is None or key[0] == partition_key)
            after = keys if marker is None else [key for key in keys if key > _key_of(marker)]
            items = tuple(self._aged(table, rows[key]) for key in after[:PAGE_ENTITIES])
        return Page(items, "\n".join(_key(items[-1])) if len(after) > PAGE_ENTITIES else None)

    def delete_entity(self, table: str, partition_key: str, row_key: str, if_match: str | None) -> None:
        with self._lock:
            rows = self._rows(table)
            _check(rows.get((partition_key, row_key)), if_match)
            del rows[partition_key, row_key], self._written[table.lower(), (partition_key, row_key)]

    def _rows(self, table: str) -> dict[tuple[str, str], Entity]:
        if table.lower() not in self._tables:
            raise NotFoundError(f"Table {table} does not exist. Create it first.")
        return self._tables[table.lower()]

    def _write(self, table: str, entity: Entity) -> str:
        etag = self._new_etag()
        self._rows(table)[_key(entity)] = replace(entity, properties=dict(entity.properties), etag=etag)
        self._written[table.lower(), _key(entity)] = self._clock.now()
        return etag

    def _aged(self, table: str, entity: Entity) -> Entity:
        return replace(entity, age=self._clock.now() - self._written[table.lower(), _key(entity)])


def _check(found: Entity | None, if_match: str | None) -> None:
    if found is None:
        raise Absent("ResourceNotFound: there is no such entity")
    if if_match not in {None, "*", found.etag}:
        raise ConditionFailed("UpdateConditionNotSatisfied: the entity is another version")


def _key(entity: Entity) -> tuple[str, str]:
    return entity.partition_key, entity.row_key


def _key_of(marker: str) -> tuple[str, str]:
    partition_key, _, row_key = marker.partition("\n")
    return partition_key, row_key
