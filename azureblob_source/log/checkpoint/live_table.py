"""The live blobs of a stream as an Arrow table, one row each, in order of versions. Pure.

Planning works on whole columns of it, so a million blobs are chosen from without an object for each.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from azureblob_source.log.entry import BlobEntry
from azureblob_source.log.times import microseconds, times_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azureblob_source.log.checkpoint.table_columns import TableColumns
    from azureblob_source.log.entry import LogEntry

_BLOB_FIELDS = {
    "name": pa.string(),
    "partition": pa.string(),
    "attempt": pa.string(),
    "blocks": pa.int64(),
    "rows": pa.int64(),
    "uncompressed": pa.int64(),
    "size": pa.int64(),
    "schema": pa.string(),
    "rolled_by": pa.string(),
    "etag": pa.string(),
    "min_event_time": pa.int64(),
    "max_event_time": pa.int64(),
}
"""Fields of `BlobEntry`, as the columns of the same names."""
BOUNDS = pa.map_(pa.int32(), pa.field("value", pa.binary(), nullable=False))
_NULLABLE = frozenset(
    (
        "partition",
        "etag",
        "min_event_time",
        "max_event_time",
        "earliest",
        "first_version",
        "moved_in",
        "partition_field",
    )
)
LIVE = pa.schema(
    [
        pa.field(name, kind, name in _NULLABLE)
        for name, kind in {
            **_BLOB_FIELDS,
            "version": pa.int64(),
            "first_version": pa.int64(),
            "moved_in": pa.int64(),
            "committed": pa.int64(),
            "earliest": pa.int64(),
            "latest": pa.int64(),
            "lower_bounds": BOUNDS,
            "upper_bounds": BOUNDS,
            "partition_field": pa.string(),
        }.items()
    ]
)
"""`lower_bounds` and `upper_bounds` are by Iceberg's field ids, and they and `partition_field` as of
`TableColumns.described`; `version` and `committed` (milliseconds since 1970 UTC) are those of the entry that added the
blob; `earliest` and `latest` as of `times_of`. Of a blob with moved rows `version` and `committed` are those of the
newest, `first_version` is that of the oldest, and `moved_in` that of the entry that moved them; of others both are
null."""


def live_table(added: Iterable[tuple[LogEntry, BlobEntry]], columns: TableColumns | None = None) -> pa.Table:
    """The rows of blobs, each with the entry that added it; without `columns` no bounds and partition fields."""
    return pa.Table.from_pylist([_row(entry, blob, columns) for entry, blob in added], LIVE)


def _row(entry: LogEntry, blob: BlobEntry, columns: TableColumns | None) -> dict[str, Any]:
    earliest, latest = times_of(entry.timestamp, blob)
    partition_field, lower, upper = (None, [], []) if columns is None else columns.described(blob)
    newest = max(blob.moved, key=lambda rows: rows.version) if blob.moved else None
    return {
        **{name: getattr(blob, name) for name in _BLOB_FIELDS},
        "version": entry.version if newest is None else newest.version,
        "first_version": blob.versions[0] if blob.moved else None,
        "moved_in": entry.version if blob.moved else None,
        "committed": microseconds(datetime.fromisoformat(entry.timestamp if newest is None else newest.committed))
        // 1000,
        "earliest": earliest,
        "latest": latest,
        "lower_bounds": lower,
        "upper_bounds": upper,
        "partition_field": partition_field,
    }


def blobs_of(table: pa.Table, stream: str) -> Iterator[tuple[int, str, BlobEntry]]:
    """The rows of a whole table as blobs of a stream, each with version and timestamp of its entry."""
    for row in table.to_pylist():
        committed = datetime.fromtimestamp(row["committed"] / 1000, UTC)
        blob = BlobEntry(stream=stream, **{name: row[name] for name in _BLOB_FIELDS})
        yield row["version"], committed.isoformat(timespec="milliseconds"), blob
