"""The next checkpoint, from the one before and the entries since then. Pure but for the store of manifests.

manifests of the base ──┬─ nothing in them is gone ──► as they are
                        ├─ blobs in them are gone ───► written again without these
                        └─ the last, if it is small ─┐
blobs that the entries add ──────────────────────────┴► a new manifest
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.checkpoint.live_table import live_table
from azureblob_source.log.checkpoint.manifest import FIELD, without
from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
from azureblob_source.log.checkpoint.tail import added_by, is_kept, removers_from, tail_effect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.checkpoint.manifest_list import ManifestFile
    from azureblob_source.log.checkpoint.table_columns import TableColumns
    from azureblob_source.log.entry import LogEntry

OPEN_BLOBS = 2_000
"""A manifest with fewer blobs is written again with those of the next checkpoint."""
MANIFEST_BLOBS = 32_000
"""A manifest has at most as many."""
MERGED = 10
"""This number of manifests that are less than half full become one."""


class Manifests(Protocol):
    """Where manifests are kept."""

    def read(self, manifest: ManifestFile) -> pa.Table:
        """The live table of a manifest."""

    def write(self, table: pa.Table, version: int) -> ManifestFile:
        """Put a manifest of the checkpoint at `version`."""


def extended(
    base: LogCheckpoint, entries: Sequence[LogEntry], store: Manifests, columns: TableColumns, kept_from: int
) -> LogCheckpoint | None:
    """The checkpoint at the last of the entries, which follow `base`. None if `base` is no base for them.

    columns: begun with the ids of `base`. kept_from: what is below the retention boundary is left out.
    """
    effect = tail_effect(base, entries)
    if effect is None:
        return None
    last = entries[-1]
    kept: list[ManifestFile] = []
    for manifest in (each for each in base.manifests if each.last >= kept_from):
        if manifest.first >= kept_from and not effect.touches(manifest):
            kept.append(manifest)
            continue
        table = store.read(manifest)
        left = without(table, versions=effect.versions, names=effect.names, kept_from=kept_from)
        kept += [manifest] if left.num_rows == table.num_rows else _written(left, last.version, store)
    added = live_table(((entry, blob) for entry, blob in effect.added if is_kept(blob, kept_from)), columns)
    if added.num_rows and kept and kept[-1].blobs < OPEN_BLOBS:
        added = pa.concat_tables([store.read(kept.pop()), added])
    kept += _written(added, last.version, store)
    return replace(
        _of_entry(last),
        removers=(*(each for each in base.removers if each >= last.since), *removers_from(base.version + 1, entries)),
        manifests=tuple(_merged(kept, last.version, store)),
        field_ids=columns.ids,
    )


def begun(entries: Sequence[LogEntry], store: Manifests, columns: TableColumns) -> LogCheckpoint:
    """The checkpoint at the last of all entries since the last overwrite."""
    last, first = entries[-1], entries[0].version
    table = live_table(((entry, blob) for entry, blob in added_by(entries) if is_kept(blob, first)), columns)
    return replace(
        _of_entry(last),
        removers=removers_from(last.since, entries),
        manifests=tuple(_written(table, last.version, store)),
        field_ids=columns.ids,
    )


def _of_entry(entry: LogEntry) -> LogCheckpoint:
    return LogCheckpoint(entry.version, entry.log_id, entry.write_id, entry.timestamp, entry.since)


def _merged(manifests: list[ManifestFile], version: int, store: Manifests) -> list[ManifestFile]:
    """The manifests; the last ones as one, if there are too many that are less than half full."""
    small = 0
    while small < len(manifests) and manifests[-1 - small].blobs < MANIFEST_BLOBS // 2:
        small += 1
    if small < MERGED:
        return manifests
    table = pa.concat_tables(map(store.read, manifests[-small:]))
    return [*manifests[:-small], *_written(table, version, store)]


def _written(table: pa.Table, version: int, store: Manifests) -> list[ManifestFile]:
    """Manifests of a table, each of blobs with one partition field: an Iceberg manifest has one partition spec."""
    fields = pc.unique(table[FIELD]).to_pylist()
    if len(fields) > 1:
        parts = [table.filter(pc.is_in(table[FIELD], pa.array([each], pa.string()))) for each in fields]
        return [manifest for part in parts for manifest in _written(part, version, store)]
    starts = range(0, table.num_rows, MANIFEST_BLOBS)
    return [store.write(table.slice(start, MANIFEST_BLOBS), version) for start in starts]
