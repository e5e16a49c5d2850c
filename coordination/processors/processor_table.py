"""The processor table: a row for each processor, under the version of the job model that it has confirmed.

PartitionKey is that version, or `UNASSIGNED`; RowKey is the processor's id. Each processor writes its own rows only;
the leader deletes those that are left over.
"""

from __future__ import annotations

import logging
import math
import re
from typing import TYPE_CHECKING

from azure_account.values import Entity
from coordination.processors.coordinator_state import ListedRow, ProcessorDeclaration, ProcessorRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.table import Table
    from azure_account.values import Outcome

UNASSIGNED = "UNASSIGNED"
_VERSION = re.compile("0|[1-9][0-9]{0,18}")
_NO_VERSION = -1
logger = logging.getLogger("coordination")


class ProcessorTable:
    """The rows of a job's processors."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._reported: set[tuple[str, str]] = set()

    def create(self) -> None:
        """Create the table if it is absent."""
        self._table.create()

    def put(self, row: ProcessorRow, *, leads: bool) -> Outcome:
        """Insert or replace a processor's row: its heartbeat."""
        properties = {"liveness": row.counter, "isLeader": leads, **_to_properties(row.stated)}
        return self._table.replace(Entity(_partition(row.version), row.processor, properties))

    def delete(self, row: ProcessorRow) -> Outcome:
        """Delete a row."""
        return self._table.delete(_partition(row.version), row.processor)

    def rows(self) -> tuple[ProcessorRow, ...]:
        """All rows. Each one that is damaged is reported in the log, once.

        One without a counter keeps its place, since its processor may be alive: its next heartbeat replaces it. One
        under a key that is no version is left out.
        """
        return tuple(row for entity in self._table.query() if (row := self._row(entity)) is not None)

    def _row(self, entity: Entity) -> ProcessorRow | None:
        version, counter = _version(entity.partition_key), entity.properties.get("liveness")
        if isinstance(counter, int) and not isinstance(counter, bool) and version != _NO_VERSION:
            return ProcessorRow(entity.row_key, version, counter, _stated(entity.properties))
        key = (entity.partition_key, entity.row_key)
        if key not in self._reported:
            self._reported.add(key)
            logger.warning(
                "Row %s/%s of table %s is damaged (liveness %r). Delete it, unless it disappears by itself.",
                *key,
                self._table.name,
                counter,
            )
        return None if version == _NO_VERSION else ProcessorRow(entity.row_key, version, -1)

    def listed(self) -> tuple[ListedRow, ...]:
        """All rows with what only an observer needs."""
        return tuple(
            ListedRow(row, bool(entity.properties.get("isLeader", False)), entity.age or 0.0)
            for entity in self._table.query()
            if (row := self._row(entity)) is not None
        )


def _to_properties(stated: ProcessorDeclaration) -> dict[str, str | float]:
    """What is not stated is not stored. An older release ignores all of it."""
    epoch = None if stated.leads is None else str(stated.leads)  # an epoch may be more than 32 bits
    texts = {"leads": epoch, "name": stated.name, "tasks": stated.tasks, "waits": stated.waits}
    named = {"death": stated.death, "away": stated.away, **texts}
    return {key: value for key, value in named.items() if value is not None and value != ""}


def _stated(properties: Mapping[str, str | float | bool]) -> ProcessorDeclaration:
    """What a row states. A value that cannot be is taken for none."""
    epoch = properties.get("leads")
    return ProcessorDeclaration(
        _seconds(properties.get("death")),
        _text(properties.get("tasks")),
        _text(properties.get("name")),
        _seconds(properties.get("away")),
        int(epoch) if isinstance(epoch, str) and _VERSION.fullmatch(epoch) else None,
        _text(properties.get("waits")),
    )


def _seconds(value: object) -> float | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if number and 0 < value < math.inf else None  # type: ignore[arg-type, operator]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _partition(version: int | None) -> str:
    return UNASSIGNED if version is None else str(version)


def _version(partition: str) -> int | None:
    if partition == UNASSIGNED:
        return None
    return int(partition) if _VERSION.fullmatch(partition) else _NO_VERSION
