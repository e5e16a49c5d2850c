"""The processor table: a row for each processor, under the version of the job model that it has confirmed.

PartitionKey is that version, or `UNASSIGNED`; RowKey is the processor's id. Each processor writes its own rows only;
the leader deletes those that are left over. A row has all of its properties always.
"""

from __future__ import annotations

import logging
import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from azure_account.documents.form import check_version
from azure_account.values import Entity
from coordination.processors.coordinator_state import ListedRow, ProcessorDeclaration, ProcessorRow
from coordination.processors.job_model import typed

if TYPE_CHECKING:
    from azure_account.table import Table
    from azure_account.values import Outcome

FORMAT_VERSION = 1
UNASSIGNED = "UNASSIGNED"
_VERSION = re.compile("0|[1-9][0-9]{0,18}")
_UNREADABLE = ProcessorDeclaration(death=math.inf)
"""Of a row that is damaged: as long as a barrier lasts its processor may be alive."""
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
        return self._table.replace(_entity(row, leads=leads))

    def delete(self, row: ProcessorRow) -> Outcome:
        """Delete a row."""
        return self._table.delete(_partition(row.version), row.processor)

    def rows(self) -> tuple[ProcessorRow, ...]:
        """All rows. Each one that is damaged is reported in the log, once.

        It keeps its place, since its processor may be alive: its next heartbeat replaces it. One under a key that is no
        version is left out. `ConfigurationError` for a row that a newer release has written.
        """
        return tuple(row for entity in self._table.query() if (row := self._row(entity)) is not None)

    def listed(self) -> tuple[ListedRow, ...]:
        """All rows with what only an observer needs."""
        return tuple(
            ListedRow(row, bool(entity.properties.get("isLeader")), entity.age or 0.0)
            for entity in self._table.query()
            if (row := self._row(entity)) is not None
        )

    def _row(self, entity: Entity) -> ProcessorRow | None:
        key = (entity.partition_key, entity.row_key)
        name = "Row {}/{} of table {}".format(*key, self._table.name)
        check_version(entity.properties.get("formatVersion"), FORMAT_VERSION, name)
        try:
            return _parse(entity)
        except (KeyError, TypeError, ValueError) as error:
            if key not in self._reported:
                self._reported.add(key)
                logger.warning("%s is damaged (%r). Delete it, unless it disappears by itself.", name, error)
        with suppress(ValueError):
            return ProcessorRow(entity.row_key, _version(entity), -1, _UNREADABLE)
        return None


def _entity(row: ProcessorRow, *, leads: bool) -> Entity:
    stated = row.stated
    properties: dict[str, str | float] = {
        "formatVersion": FORMAT_VERSION,
        "liveness": row.counter,
        "isLeader": leads,
        "death": stated.death,
        "away": stated.away,
        "leads": "" if stated.leads is None else str(stated.leads),  # an epoch may be more than 32 bits
        "name": stated.name,
        "tasks": stated.tasks,
        "waits": stated.waits,
    }
    return Entity(_partition(row.version), row.processor, properties)


def _parse(entity: Entity) -> ProcessorRow:
    """`KeyError`, `TypeError` or `ValueError` if the row is damaged."""
    of = entity.properties
    typed(of["formatVersion"], int)
    typed(of["isLeader"], bool)
    leads = typed(of["leads"], str)
    stated = ProcessorDeclaration(
        death=_seconds(of["death"]),
        tasks=typed(of["tasks"], str),
        name=typed(of["name"], str),
        away=_seconds(of["away"]),
        leads=int(leads) if leads else None,
        waits=typed(of["waits"], str),
    )
    if not (stated.death > 0 and 0 <= stated.away < math.inf):
        raise ValueError(stated)
    return ProcessorRow(entity.row_key, _version(entity), typed(of["liveness"], int), stated)


def _seconds(value: object) -> float:
    return float(value) if type(value) is int else typed(value, float)  # whole ones may be stored as integers


def _partition(version: int | None) -> str:
    return UNASSIGNED if version is None else str(version)


def _version(entity: Entity) -> int | None:
    """`ValueError` for a key that is no version."""
    key = entity.partition_key
    if key == UNASSIGNED:
        return None
    if not _VERSION.fullmatch(key):
        raise ValueError(key)
    return int(key)
