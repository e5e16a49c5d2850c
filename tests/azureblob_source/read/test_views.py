from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from arrow_avro import parse
from azure_account.values import BlobAttributes
from azureblob_source.log.entry import BlobEntry, LogEntry, Removal, Transaction
from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.following import new_blobs
from azureblob_source.read.views import (
    BLOBS,
    COMMITS,
    CONTROL,
    SCHEMAS,
    blobs,
    blobs_without_log,
    commits,
    schemas,
    schemas_without_log,
)
from tests.azureblob_source.control_table import control_table

WHEN = "2013-01-31T12:00:05.250+00:00"
BLOB = BlobEntry("flights/x.avro", "flights", None, "a" * 16, 2, 10, 500, 200, "f" * 16, "end")
WRITER = {"query": "q", "batch": 3, "task": 1, "attempt": 0, "durationMs": 12, "metrics": {"messagesSent": 20}}


def test_the_history_is_one_row_for_each_entry() -> None:
    entries = [
        LogEntry("w0", WHEN, version=0, transaction=Transaction("q", 3), blobs=(BLOB, BLOB),
                 metrics={"messagesSent": 20}, writers=(WRITER,), attributes=BlobAttributes({"owner": "ops"})),
        LogEntry("w1", WHEN, version=1, operation="replace", epoch=4, replaces=0, commit_info="late rows",
                 removed=(Removal("a", "1"), Removal("b", "2"))),
    ]  # fmt: skip
    table = commits(entries)
    assert COMMITS == table.schema
    first, second = table.to_pylist()
    assert {
        "version": 0, "timestamp": datetime(2013, 1, 31, 12, 0, 5, 250_000, UTC), "operation": "append",
        "commitInfo": None, "transactionId": "q", "transactionVersion": 3, "epoch": None, "blobs": 2, "rows": 20,
        "bytes": 400, "uncompressed": 1000, "removed": 0, "replaces": None, "reverts": [], "restores": None,
        "metrics": [("messagesSent", 20)], "writers": [{**WRITER, "metrics": [("messagesSent", 20)]}],
    } == first  # fmt: skip
    assert (1, "replace", "late rows", 4, 2, 0, 0, 0) == tuple(
        second[name] for name in ("version", "operation", "commitInfo", "epoch", "removed", "replaces", "blobs", "rows")
    )
    assert ([], []) == (second["metrics"], second["writers"])


def test_a_history_without_entries_has_the_schema() -> None:
    assert pa.RecordBatch.from_pylist([], COMMITS) == commits([])


def test_writers_of_other_releases_may_report_fewer_or_more_fields() -> None:
    entry = LogEntry("w", WHEN, version=0, writers=({"task": 7, "host": "unknown here"},))
    (row,) = commits([entry]).to_pylist()
    assert [{"query": None, "batch": None, "task": 7, "attempt": None, "durationMs": None, "metrics": []}] == row[
        "writers"
    ]


def entry(version: int, *added: BlobEntry, **more: Any) -> LogEntry:
    return LogEntry("w", WHEN, version=version, blobs=added, **more)


def test_blobs_have_what_the_log_says_of_them() -> None:
    timed = replace(BLOB, name="b", partition="JFK", min_event_time=-1, max_event_time=1_359_633_605_250_000)
    found = new_blobs([entry(0, BLOB), entry(1, timed, removed=(Removal("flights/x.avro", "1"),))])
    table = blobs((of.version, of.timestamp, blob) for of, blob in found)
    assert BLOBS == table.schema
    assert [
        {
            "name": "b", "version": 1, "timestamp": datetime.fromisoformat(WHEN), "partition": "JFK", "rows": 10,
            "bytes": 200, "uncompressed": 500, "blocks": 2, "schema": "f" * 16, "rolledBy": "end",
            "minEventTime": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
            "maxEventTime": datetime.fromisoformat(WHEN),
        }
    ] == table.to_pylist()  # fmt: skip


def test_control_messages_are_columns_and_the_whole_message() -> None:
    watermark = {
        "partitions": ["3"],
        "type": "watermark",
        "taskName": "t",
        "taskCount": 4,
        "timestamp": 1500,
        "later": [1],
    }
    strange = {"type": 7, "timestamp": 2**62, "taskName": None}
    end = {"type": "endOfStream", "streamId": "flights", "taskName": "t", "taskCount": 4}
    table = control_table([entry(0), entry(5, control=(watermark, end)), entry(6, control=(strange,))])
    assert CONTROL == table.schema
    first, second, third = table.to_pylist()
    common = {"version": 5, "timestamp": datetime.fromisoformat(WHEN), "taskName": "t", "taskCount": 4} | {
        "generation": None,
        "idle": None,
        "transactionId": None,
    }
    moment = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert {**common, "partition": "3", "type": "watermark", "watermark": moment, "streamId": None} == without(first)
    assert {**common, "partition": None, "type": "endOfStream", "watermark": None, "streamId": "flights"} == without(
        second
    )
    assert (6, None, None, None) == (third["version"], third["type"], third["watermark"], third["taskName"])
    del watermark["partitions"]
    assert [watermark, end, strange] == [json.loads(row["message"]) for row in (first, second, third)]


def test_a_control_message_names_the_query_that_wrote_it() -> None:
    end = {"type": "endOfStream", "taskName": "t", "taskCount": 1}
    table = control_table([entry(1, control=(end,), transaction=Transaction("query", 7)), entry(2, control=(end,))])
    assert ["query", None] == [row["transactionId"] for row in table.to_pylist()]


def test_a_control_message_is_a_row_for_each_of_its_partitions() -> None:
    end = {"type": "endOfStream", "version": 1, "taskName": "ß", "taskCount": 2, "generation": 3, "streamId": None}
    table = control_table([entry(1, control=({**end, "partitions": ["0", "2", "10"]}, end))])
    rows = table.to_pylist()
    assert ["0", "2", "10", None] == [row["partition"] for row in rows]
    assert [end] * 4 == [json.loads(row["message"]) for row in rows]
    of_all = {**end, "partitionCount": 3, "partitions": "all"}
    assert ["0", "1", "2"] == control_table([entry(1, control=(of_all,))])["partition"].to_pylist()
    fields = ("type", "taskName", "taskCount", "generation")
    assert {("endOfStream", "ß", 2, 3)} == {tuple(row[field] for field in fields) for row in rows}


def test_control_messages_of_revoked_entries_are_left_out() -> None:
    def saying(version: int, time: int, **more: Any) -> LogEntry:
        message = {"type": "watermark", "taskName": "t", "timestamp": time, "partitions": ["0"]}
        return entry(version, control=(message,), **more)

    entries = [
        saying(0, 1000),
        saying(1, 2000),
        entry(2, operation="void", replaces=1),
        saying(3, 3000, operation="replace", replaces=1),
    ]
    assert [(0, 1), (3, 3)] == [(row["version"], row["watermark"].second) for row in control_table(entries).to_pylist()]


def test_an_idle_task_has_no_time() -> None:
    idle = {"type": "watermark", "taskName": "t", "timestamp": -(2**63), "idle": True, "partitions": ["0"]}
    (row,) = control_table([entry(0, control=(idle,))]).to_pylist()
    assert (None, True) == (row["watermark"], json.loads(row["message"])["idle"])


def without(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "message"}


def test_schemas_have_the_versions_that_used_them() -> None:
    other = replace(BLOB, name="c", schema="e" * 16, rows=7)
    found = new_blobs([entry(2, BLOB, other), entry(4, replace(BLOB, name="d"))])
    added = [(of.version, of.timestamp, blob) for of, blob in found]
    table = schemas(added, {"f" * 16: '"long"', "e" * 16: '"int"'})
    assert SCHEMAS == table.schema
    assert [
        {"fingerprint": "f" * 16, "firstVersion": 2, "lastVersion": 4, "blobs": 2, "rows": 20, "schema": '"long"'},
        {"fingerprint": "e" * 16, "firstVersion": 2, "lastVersion": 2, "blobs": 1, "rows": 7, "schema": '"int"'},
    ] == table.to_pylist()


def test_a_folder_without_a_log_has_the_columns_of_its_listing() -> None:
    found = StreamBlob("capture/0/x.avro", 17, None, "0", None, None)
    (row,) = blobs_without_log([found]).to_pylist()
    assert ("capture/0/x.avro", "0", 17, None, None) == tuple(
        row[name] for name in ("name", "partition", "bytes", "version", "rows")
    )
    avro = parse('{"type": "record", "name": "r", "fields": []}')
    (row,) = schemas_without_log([avro]).to_pylist()
    assert (avro.fingerprint, avro.json, None) == (row["fingerprint"], row["schema"], row["blobs"])
