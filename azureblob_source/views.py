"""Views: what a stream's log tells, as tables. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log_entry import LogEntry

_COUNTS = pa.map_(pa.string(), pa.int64())

COMMITS = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("transactionId", pa.string()),
        pa.field("transactionVersion", pa.int64()),
        pa.field("epoch", pa.int64()),
        pa.field("blobs", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("uncompressed", pa.int64(), nullable=False),
        pa.field("removed", pa.int64(), nullable=False),
        pa.field("replaces", pa.int64()),
        pa.field("metrics", _COUNTS, nullable=False),
        pa.field(
            "writers",
            pa.list_(
                pa.struct(
                    [
                        ("query", pa.string()),
                        ("batch", pa.int64()),
                        ("task", pa.int64()),
                        ("attempt", pa.int64()),
                        ("durationMs", pa.int64()),
                        ("metrics", _COUNTS),
                    ]
                )
            ),
            nullable=False,
        ),
    ]
)
"""One row for each log entry: sizes are bytes as stored and before compression, `metrics` counts the whole batch,
`writers` each task of it."""


def commits(entries: Sequence[LogEntry]) -> pa.RecordBatch:
    """The history of a stream, oldest first."""
    return pa.RecordBatch.from_pylist([_commit(entry) for entry in entries], COMMITS)


def _commit(entry: LogEntry) -> dict[str, object]:
    transaction = entry.transaction
    return {
        "version": entry.version,
        "timestamp": datetime.fromisoformat(entry.timestamp),
        "operation": entry.operation,
        "transactionId": transaction.id if transaction else None,
        "transactionVersion": transaction.version if transaction else None,
        "epoch": entry.epoch,
        "blobs": len(entry.blobs),
        "rows": entry.rows,
        "bytes": sum(blob.size for blob in entry.blobs),
        "uncompressed": sum(blob.uncompressed for blob in entry.blobs),
        "removed": len(entry.removed),
        "replaces": entry.replaces,
        "metrics": list(entry.metrics.items()),
        "writers": [{**writer, "metrics": list(writer.get("metrics", {}).items())} for writer in entry.writers],
    }
