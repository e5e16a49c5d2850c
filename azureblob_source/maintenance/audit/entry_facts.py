"""What entries say of blobs, as Arrow tables: which they add, remove and revoke. Pure.

About 150 bytes for each blob, so that all entries of a log can be gone through. What is live by them is what
`live_blobs` finds by the entries as objects.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.checkpoint.live_table import LIVE, live_table
from azureblob_source.maintenance.audit.live_index import AUDITED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.entry import LogEntry

_LIVE = pa.schema([LIVE.field(name) for name in AUDITED])
_ADDED = _LIVE.append(pa.field("entry", pa.int64()))
"""A live table, and the version of the entry that names the blob: rows may have been moved to it."""
_REMOVED = pa.schema([("name", pa.string()), ("entry", pa.int64())])


@dataclass(frozen=True)
class Origin:
    """The entry that has added a blob. rows_of: the newest version that it has rows of, which may have been moved.

    size: in bytes. undone_by: the version that revokes the entry, or removes the blob; None: it is live, or a vacuum
    has it.
    """

    name: str
    attempt: str
    version: int
    rows_of: int
    undone_by: int | None
    size: int


class EntryFacts:
    """What a range of entries up to the head says, in whatever order they come. whole: none between is missing."""

    def __init__(self) -> None:
        self.whole = True
        self._added: list[pa.Table] = []
        self._removed: list[pa.Table] = []
        self._revoked_by: dict[int, int] = {}

    def add(self, entries: Sequence[LogEntry]) -> None:
        """Take in some entries."""
        for entry in entries:
            self._revoked_by |= dict.fromkeys(entry.revoked, entry.version)
        added = live_table((entry, blob) for entry in entries for blob in entry.blobs).select(AUDITED)
        named = pa.array([entry.version for entry in entries for _ in entry.blobs], pa.int64())
        self._added.append(added.append_column(_ADDED.field("entry"), named))
        removed = [(each.name, entry.version) for entry in entries for each in entry.removed]
        names, by = ([row[at] for row in removed] for at in (0, 1))
        self._removed.append(pa.table([pa.array(names, pa.string()), pa.array(by, pa.int64())], schema=_REMOVED))

    def _in_effect(self, tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
        """What entries say that no other revokes."""
        table = pa.concat_tables([schema.empty_table(), *tables])
        revoked = pa.array(self._revoked_by, pa.int64())
        return table.filter(pc.invert(pc.is_in(table["entry"], value_set=revoked)))

    def live(self) -> pa.Table:
        """The live table, if all entries since the last overwrite are here. A vacuum may have removed some of it."""
        added, removed = self._in_effect(self._added, _ADDED), self._in_effect(self._removed, _REMOVED)
        last = added.group_by("name").aggregate([("entry", "max")])
        gone = removed.group_by("name").aggregate([("entry", "max")]).rename_columns(["name", "gone"])
        found = added.join(last, ["name", "entry"], ["name", "entry_max"], join_type="inner").join(gone, "name")
        alive = found.filter(pc.fill_null(pc.greater_equal(found["entry"], found["gone"]), fill_value=True))
        return alive.select(AUDITED).cast(_LIVE)

    def origins(self, names: Sequence[str], attempts: Sequence[str]) -> list[Origin]:
        """Where blobs of these names, or of these attempts, come from; oldest first."""
        added = pa.concat_tables([_ADDED.empty_table(), *self._added])
        wanted = pc.or_(_is_in(added["name"], names), _is_in(added["attempt"], attempts))
        rows = added.filter(wanted).sort_by("entry").to_pylist()
        table = self._in_effect(self._removed, _REMOVED)
        removed: dict[str, list[int]] = defaultdict(list)
        for each in table.filter(_is_in(table["name"], [row["name"] for row in rows])).to_pylist():
            removed[each["name"]].append(each["entry"])
        return [
            Origin(
                row["name"], row["attempt"], row["entry"], row["version"],
                self._undone_by(row["entry"], removed[row["name"]]), row["size"],
            )
            for row in rows
        ]  # fmt: skip

    def _undone_by(self, entry: int, removed: Sequence[int]) -> int | None:
        """The version that revokes an entry, or removes its blob."""
        revoked = self._revoked_by.get(entry)
        return min((each for each in removed if each > entry), default=None) if revoked is None else revoked


def _is_in(column: pa.ChunkedArray, values: Sequence[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(values, pa.string()))
