from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa

from azure_account.account import BlobAttributes
from azureblob_source.log_entry import BlobEntry, LogEntry, Transaction
from azureblob_source.views import COMMITS, commits

WHEN = "2013-01-31T12:00:05.250+00:00"
BLOB = BlobEntry("flights/x.avro", "flights", None, "a" * 16, 2, 10, 500, 200, "f" * 16, "end")
WRITER = {"query": "q", "batch": 3, "task": 1, "attempt": 0, "durationMs": 12, "metrics": {"messagesSent": 20}}


def test_the_history_is_one_row_for_each_entry() -> None:
    entries = [
        LogEntry(0, "w0", WHEN, transaction=Transaction("q", 3), blobs=(BLOB, BLOB), metrics={"messagesSent": 20},
                 writers=(WRITER,), attributes=BlobAttributes({"owner": "ops"})),
        LogEntry(1, "w1", WHEN, operation="replace", epoch=4, removed=("a", "b"), replaces=0),
    ]  # fmt: skip
    table = commits(entries)
    assert COMMITS == table.schema
    first, second = table.to_pylist()
    assert {
        "version": 0, "timestamp": datetime(2013, 1, 31, 12, 0, 5, 250_000, timezone.utc), "operation": "append",
        "transactionId": "q", "transactionVersion": 3, "epoch": None, "blobs": 2, "rows": 20, "bytes": 400,
        "uncompressed": 1000, "removed": 0, "replaces": None, "metrics": [("messagesSent", 20)],
        "writers": [{**WRITER, "metrics": [("messagesSent", 20)]}],
    } == first  # fmt: skip
    assert (1, "replace", 4, 2, 0, 0, 0) == tuple(
        second[name] for name in ("version", "operation", "epoch", "removed", "replaces", "blobs", "rows")
    )
    assert ([], []) == (second["metrics"], second["writers"])


def test_a_history_without_entries_has_the_schema_all_the_same() -> None:
    assert pa.RecordBatch.from_pylist([], COMMITS) == commits([])


def test_writers_of_other_releases_may_tell_less_or_more() -> None:
    entry = LogEntry(0, "w", WHEN, writers=({"task": 7, "host": "unknown here"},))
    (row,) = commits([entry]).to_pylist()
    assert [{"query": None, "batch": None, "task": 7, "attempt": None, "durationMs": None, "metrics": []}] == row[
        "writers"
    ]
