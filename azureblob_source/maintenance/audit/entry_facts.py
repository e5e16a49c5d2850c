"""What entries say of blobs, as Arrow tables: which they add, remove and revoke. Pure.

About 150 bytes for each blob, so that all entries of a log can be gone through. What is live by them is what
`live_blobs` finds by the entries as objects.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.log.times import microseconds
from azureblob_source.maintenance.audit.live_index import AUDITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.entry import LogEntry

_ADDED = pa.schema([LIVE.field(name) for name in AUDITED])
_REMOVED = pa.schema([("name", pa.string()), ("attempt", pa.string()), ("version", pa.int64())])


@dataclass(frozen=True)
class Origin:
    """The entry that has added a blob. undone_by: the version that revokes it or removes the blob; None: it is live."""

    name: str
    attempt: str
    version: int
    undone_by: int | None


class EntryFacts:
    """What a range of entries up to the head says, in whatever order they come. whole: none between is missing."""

    def __init__(self) -> None:
        self.whole = True
        self._added: list[pa.RecordBatch] = []
        self._removed: list[pa.RecordBatch] = []
        self._revoked_by: dict[int, int] = {}

    def add(self, entries: Sequence[LogEntry]) -> None:
        """Take in some entries."""
        added, removed = [], []
        for entry in entries:
            committed = microseconds(datetime.fromisoformat(entry.timestamp)) // 1000
            self._revoked_by |= dict.fromkeys(entry.revoked, entry.version)
            removed += [(each.name, each.attempt, entry.version) for each in entry.removed]
            added += [
                (blob.name, blob.attempt, blob.blocks, blob.rows, blob.size, entry.version, committed)
                for blob in entry.blobs
            ]
        self._added += _batches(added, _ADDED)
        self._removed += _batches(removed, _REMOVED)

    def _in_effect(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        table = pa.Table.from_batches(batches, schema)
        revoked = pa.array(self._revoked_by, pa.int64())
        return table.filter(pc.invert(pc.is_in(table["version"], value_set=revoked)))

    def live(self) -> pa.Table:
        """The live table, if all entries since the last overwrite are here."""
        added, removed = self._in_effect(self._added, _ADDED), self._in_effect(self._removed, _REMOVED)
        last = added.group_by("name").aggregate([("version", "max")])
        gone = removed.group_by("name").aggregate([("version", "max")]).rename_columns(["name", "gone"])
        found = added.join(last, ["name", "version"], ["name", "version_max"], join_type="inner").join(gone, "name")
        alive = found.filter(pc.fill_null(pc.greater_equal(found["version"], found["gone"]), fill_value=True))
        return alive.select(AUDITED).cast(_ADDED)

    def origins(self, names: Sequence[str], attempts: Sequence[str]) -> list[Origin]:
        """Where blobs of these names, or of these attempts, come from; oldest first."""
        added = pa.Table.from_batches(self._added, _ADDED)
        wanted = pc.or_(_is_in(added["name"], names), _is_in(added["attempt"], attempts))
        rows = added.filter(wanted).sort_by("version").to_pylist()
        table = self._in_effect(self._removed, _REMOVED)
        removed: dict[str, list[int]] = defaultdict(list)
        for each in table.filter(_is_in(table["name"], [row["name"] for row in rows])).to_pylist():
            removed[each["name"]].append(each["version"])
        return [
            Origin(row["name"], row["attempt"], row["version"], self._undone_by(row, removed[row["name"]]))
            for row in rows
        ]

    def _undone_by(self, row: dict[str, Any], removed: list[int]) -> int | None:
        """The version that revokes the entry of a row, or removes its blob."""
        revoked = self._revoked_by.get(row["version"])
        return min((each for each in removed if each > row["version"]), default=None) if revoked is None else revoked


def _batches(rows: list[tuple[Any, ...]], schema: pa.Schema) -> list[pa.RecordBatch]:
    if not rows:
        return []
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return [pa.RecordBatch.from_arrays(arrays, schema=schema)]


def _is_in(column: pa.ChunkedArray, values: Sequence[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))
