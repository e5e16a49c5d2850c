"""Views: tables about a stream, made of its log. Pure.

`commits` has a row for each version, `blobs` for each live blob, `schemas` for each writer schema of these, `control`
for each control message that was written to the stream.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import arrow_avro
from azureblob_source.log.entry import partitions_of
from azureblob_source.log.live import entries_in_effect
from azureblob_source.log.times import UNIX_EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from arrow_avro import AvroSchema
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.read.blobs import StreamBlob

_COUNTS = pa.map_(pa.string(), pa.int64())
_TIME = pa.timestamp("us", tz="UTC")
_WRITER = [
    ("query", pa.string()),
    ("batch", pa.int64()),
    ("task", pa.int64()),
    ("attempt", pa.int64()),
    ("durationMs", pa.int64()),
    ("metrics", _COUNTS),
]

COMMITS = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("commitInfo", pa.string()),
        pa.field("transactionId", pa.string()),
        pa.field("transactionVersion", pa.int64()),
        pa.field("epoch", pa.int64()),
        pa.field("blobs", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("uncompressed", pa.int64(), nullable=False),
        pa.field("removed", pa.int64(), nullable=False),
        pa.field("replaces", pa.int64()),
        pa.field("reverts", pa.list_(pa.int64()), nullable=False),
        pa.field("restores", pa.int64()),
        pa.field("metrics", _COUNTS, nullable=False),
        pa.field("writers", pa.list_(pa.struct(_WRITER)), nullable=False),
    ]
)
"""One row for each log entry: `bytes` as stored, `uncompressed` before compression, `metrics` of the whole batch,
`writers` of each of its tasks."""

BLOBS = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("version", pa.int64()),
        pa.field("timestamp", _TIME),
        pa.field("partition", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("uncompressed", pa.int64()),
        pa.field("blocks", pa.int64()),
        pa.field("schema", pa.string()),
        pa.field("rolledBy", pa.string()),
        pa.field("minEventTime", _TIME),
        pa.field("maxEventTime", _TIME),
    ]
)
"""One row for each blob of a snapshot, in name order. A stream without a log has names, partitions and bytes only."""

CONTROL = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("partition", pa.string()),
        pa.field("type", pa.string()),
        pa.field("taskName", pa.string()),
        pa.field("taskCount", pa.int64()),
        pa.field("generation", pa.int64()),
        pa.field("idle", pa.bool_()),
        pa.field("watermark", _TIME),
        pa.field("streamId", pa.string()),
        pa.field("transactionId", pa.string()),
        pa.field("message", pa.string(), nullable=False),
    ]
)
"""One row for each control message and partition, in the order of the log: `timestamp` is the commit's, `watermark` the
message's, `transactionId` as of the view `commits` (a streaming query's id), and `message` is the whole message as
JSON, without its partitions."""

SCHEMAS = pa.schema(
    [
        pa.field("fingerprint", pa.string(), nullable=False),
        pa.field("firstVersion", pa.int64()),
        pa.field("lastVersion", pa.int64()),
        pa.field("blobs", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("schema", pa.string(), nullable=False),
    ]
)
"""One row for each writer schema of the blobs of a snapshot, as in their headers, in order of first use. A stream
without a log has fingerprints and schemas only."""

_BATCH_ROWS = 100_000
"""The most rows in a batch of the view `control`, whose rows each have a whole message."""

VIEWS = {"commits": COMMITS, "blobs": BLOBS, "control": CONTROL, "schemas": SCHEMAS}


def commits(entries: Sequence[LogEntry]) -> pa.RecordBatch:
    """The history of a stream, oldest first."""
    return pa.RecordBatch.from_pylist([_commit(entry) for entry in entries], COMMITS)


def _commit(entry: LogEntry) -> dict[str, object]:
    transaction = entry.transaction
    return {
        "version": entry.version,
        "timestamp": datetime.fromisoformat(entry.timestamp),
        "operation": entry.operation,
        "commitInfo": entry.commit_info,
        "transactionId": transaction.id if transaction else None,
        "transactionVersion": transaction.version if transaction else None,
        "epoch": entry.epoch,
        "blobs": len(entry.blobs),
        "rows": entry.rows,
        "bytes": sum(blob.size for blob in entry.blobs),
        "uncompressed": sum(blob.uncompressed for blob in entry.blobs),
        "removed": len(entry.removed),
        "replaces": entry.replaces,
        "reverts": list(entry.reverts),
        "restores": entry.restores,
        "metrics": list(entry.metrics.items()),
        "writers": [{**writer, "metrics": list(writer.get("metrics", {}).items())} for writer in entry.writers],
    }


def blobs(added: Iterable[tuple[int, str, BlobEntry]]) -> pa.RecordBatch:
    """Blobs, each with version and timestamp of the entry that added it."""
    return pa.RecordBatch.from_pylist([_blob(*each) for each in added], BLOBS)


def blobs_without_log(found: Iterable[StreamBlob]) -> pa.RecordBatch:
    """The blobs of a stream without a log."""
    rows = [{"name": blob.name, "partition": blob.partition, "bytes": blob.size} for blob in found]
    return pa.RecordBatch.from_pylist(rows, BLOBS)


def control(entries: Iterable[LogEntry]) -> Iterator[pa.RecordBatch]:
    """The control messages of the entries, except for revoked ones, some entries at a time."""
    found: list[tuple[LogEntry, Mapping[str, Any]]] = []
    rows = 0
    for entry in entries_in_effect(entries):
        found += [(entry, message) for message in entry.control]
        rows += sum(len(partitions_of(message)) for message in entry.control)
        if rows >= _BATCH_ROWS:
            yield _control(found)
            found, rows = [], 0
    yield _control(found)


def _control(found: Sequence[tuple[LogEntry, Mapping[str, Any]]]) -> pa.RecordBatch:
    messages = pa.RecordBatch.from_pylist([_message(entry, message) for entry, message in found], CONTROL)
    partitions = [partitions_of(message) for _, message in found]
    rows = messages.take(arrow_avro.int64_array(np.repeat(np.arange(len(found)), list(map(len, partitions)))))
    levels = pa.array([level for of_message in partitions for level in of_message], pa.string())
    place = CONTROL.get_field_index("partition")
    return rows.set_column(place, CONTROL.field(place), levels)


def schemas(added: Iterable[tuple[int, str, BlobEntry]], texts: Mapping[str, str]) -> pa.RecordBatch:
    """The writer schemas of blobs, as of `blobs`, in the order of versions; `texts` is the JSON of each fingerprint."""
    rows: dict[str, dict[str, Any]] = {}
    for version, _, blob in added:
        row = rows.setdefault(
            blob.schema,
            {
                "fingerprint": blob.schema,
                "firstVersion": version,
                "blobs": 0,
                "rows": 0,
                "schema": texts[blob.schema],
            },
        )
        row["lastVersion"] = version
        row["blobs"] += 1
        row["rows"] += blob.rows
    return pa.RecordBatch.from_pylist(list(rows.values()), SCHEMAS)


def schemas_without_log(found: Iterable[AvroSchema]) -> pa.RecordBatch:
    """The writer schemas of a stream without a log."""
    rows = [{"fingerprint": avro.fingerprint, "schema": avro.json} for avro in found]
    return pa.RecordBatch.from_pylist(rows, SCHEMAS)


def _blob(version: int, timestamp: str, blob: BlobEntry) -> dict[str, object]:
    return {
        "name": blob.name,
        "version": version,
        "timestamp": datetime.fromisoformat(timestamp),
        "partition": blob.partition,
        "rows": blob.rows,
        "bytes": blob.size,
        "uncompressed": blob.uncompressed,
        "blocks": blob.blocks,
        "schema": blob.schema,
        "rolledBy": blob.rolled_by,
        "minEventTime": _moment(blob.min_event_time),
        "maxEventTime": _moment(blob.max_event_time),
    }


def _moment(microseconds: int | None) -> datetime | None:
    """The time; None for one beyond the calendar, too."""
    try:
        return None if microseconds is None else UNIX_EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def _message(entry: LogEntry, message: Mapping[str, Any]) -> dict[str, object]:
    """Fields that are missing or of another type, as in messages of Samza, are null; `message` has them anyway."""
    milliseconds = _typed(message, "timestamp", int)
    content = {name: value for name, value in message.items() if name != "partitions"}
    return {
        "version": entry.version,
        "timestamp": datetime.fromisoformat(entry.timestamp),
        "type": _typed(message, "type", str),
        "taskName": _typed(message, "taskName", str),
        "taskCount": _typed(message, "taskCount", int),
        "generation": _typed(message, "generation", int),
        "idle": _typed(message, "idle", bool),
        "watermark": None if milliseconds is None else _moment(milliseconds * 1000),
        "streamId": _typed(message, "streamId", str),
        "transactionId": entry.transaction.id if entry.transaction else None,
        "message": json.dumps(content, ensure_ascii=False),
    }


def _typed(message: Mapping[str, Any], name: str, kind: type) -> Any:
    value = message.get(name)
    return value if isinstance(value, kind) else None
