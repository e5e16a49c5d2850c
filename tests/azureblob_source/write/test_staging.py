from __future__ import annotations

import io
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arrow_avro
from arrow_avro import CODECS, decode_blob
from azure_account.memory.faults import FaultInjector, Throttle, Unreachable, on
from azureblob_source.log.entry import BlobEntry, Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.write.routing import COALESCED_ROWS, coalesce
from azureblob_source.write.staged_task import StagedTask
from foundation.errors import ConfigurationError, TransientError
from tests.azureblob_source.write.sink_rows import (
    blob_rows,
    committer,
    new_account,
    plan_of,
    stage_rows,
    visible_blobs,
    visible_rows,
)

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer
    from azure_account.memory.account import MemoryAccount

FLIGHTS = pa.schema([("origin", pa.string()), ("number", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
MIDNIGHT = datetime(2013, 1, 1, tzinfo=UTC)


def flights(origins: list[str | None], first: int = 0) -> pa.RecordBatch:
    numbers = range(first, first + len(origins))
    times = [None if n % 10 == 9 else MIDNIGHT + timedelta(hours=n) for n in numbers]
    rows = [{"origin": o, "number": n, "at": t} for o, n, t in zip(origins, numbers, times, strict=True)]
    return pa.RecordBatch.from_pylist(rows, FLIGHTS)


def microseconds(hour: int) -> int:
    return (MIDNIGHT + timedelta(hours=hour) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def container_of(account: MemoryAccount, *scripts: Any) -> BlobContainer:
    return account.restarted(FaultInjector(*scripts)).container("container")


def test_what_tasks_stage_is_invisible_until_the_driver_commits_it() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, partitionColumn="origin")
    container = account.container("container")
    batches = [[flights(["EWR", "JFK", "EWR", None])], [flights(["JFK", "LGA"], 4), flights(["LGA"], 6)]]
    staged = [stage_rows(container, plan, task, seed=n) for n, task in enumerate(batches)]
    assert {} == account.service.contents("container")
    assert 5 == len(account.service.staged("container"))
    (entry,) = committer(container, plan).commit(staged, Transaction("q", 0))
    numbers = {key: sorted(row["number"] for row in rows) for key, rows in visible_rows(account).items()}
    assert {"flights/EWR": [0, 2], "flights/JFK": [1, 4], "flights": [3], "flights/LGA": [5, 6]} == numbers
    assert entry.blobs == staged[0].blobs + staged[1].blobs
    assert {} == account.service.staged("container")


@settings(max_examples=40)
@given(
    st.lists(st.lists(st.sampled_from(["EWR", "JFK", "a/b", "", None]), max_size=8), max_size=6),
    st.sampled_from(CODECS) | st.just("gzip"),
    st.sampled_from([1, 50, 10_000]),
    st.booleans(),
)
def test_the_blobs_have_the_rows_and_the_entries_describe_the_blobs(
    parts: list[list[str | None]], how: str, block: int, drop: bool
) -> None:
    account = new_account()
    compression = {"compression__type": "gzip"} if how == "gzip" else {"codec": how}
    plan = plan_of(
        FLIGHTS, partitionColumn="origin", maxFlushThresholdSize=block, maxMessagesPerBlob=3, dropRoutingColumns=drop,
        eventTimeColumn="at", **compression,
    )  # fmt: skip
    starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
    batches = [flights(origins, first) for origins, first in zip(parts, starts, strict=True)]
    staged = stage_rows(account.container("container"), plan, batches)
    committer(account.container("container"), plan).commit([staged], None)
    rows = [row for batch in batches for row in batch.to_pylist()]
    kept = [{k: v for k, v in row.items() if not (drop and k == "origin")} for row in rows]
    found = [row for of_level in visible_rows(account).values() for row in of_level]
    assert sorted(kept, key=lambda row: row["number"]) == sorted(found, key=lambda row: row["number"])
    blobs = visible_blobs(account)
    for blob in staged.blobs:
        in_blob = blob_rows(blobs[blob.name])
        assert (blob.rows, blob.size) == (len(in_blob), len(blobs[blob.name]))
        assert plan.avro.fingerprint == blob.schema
        times = [row["at"] for row in in_blob if row["at"] is not None]
        if times and blob.min_event_time is not None and blob.max_event_time is not None:
            assert blob.min_event_time <= microseconds(0) + (min(times) - MIDNIGHT) // timedelta(microseconds=1)
            assert blob.max_event_time >= microseconds(0) + (max(times) - MIDNIGHT) // timedelta(microseconds=1)
        else:
            assert not times
    assert staged.metrics == {
        "messagesSent": len(rows),
        "bytesSent": sum(blob.uncompressed for blob in staged.blobs),
        "bytesCompressed": sum(map(len, blobs.values())),
        "blockUploads": sum(blob.blocks for blob in staged.blobs),
        "blobCommits": 0,
    } | {name: staged.metrics[name] for name in staged.metrics.keys() & {"connectionErrors", "messageErrors"}}


def test_our_own_reader_returns_the_rows_unchanged() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, codec="zstandard")
    batch = flights(["EWR", None] * 500)
    staged = stage_rows(account.container("container"), plan, [batch])
    committer(account.container("container"), plan).commit([staged], None)
    (data,) = visible_blobs(account).values()
    tables = list(decode_blob(data, blob="b", reader=plan.avro, columns=None))
    assert batch.to_pylist() == [row for table in tables for row in table.to_pylist()]


def test_event_times_are_the_range_of_each_partition_and_null_without_times() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, partitionColumn="origin", eventTimeColumn="at")
    staged = stage_rows(
        account.container("container"), plan, [flights(["EWR", "JFK", "EWR", "JFK", "EWR"]), flights(["LGA"], 9)]
    )
    assert {
        "EWR": (microseconds(0), microseconds(4)),
        "JFK": (microseconds(1), microseconds(3)),
        "LGA": (None, None),
    } == {blob.partition: (blob.min_event_time, blob.max_event_time) for blob in staged.blobs}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.timestamp("us"), [0, 5_000_000]),
        (pa.timestamp("ms", "Europe/Berlin"), [0, 5_000]),
        (pa.timestamp("ns"), [0, 5_000_000_001]),
        (pa.timestamp("s"), [5, 0]),
    ],
)
def test_event_times_of_every_unit_are_kept_in_microseconds(kind: pa.DataType, values: list[int]) -> None:
    account = new_account()
    schema = pa.schema([("value", pa.binary()), ("t", kind)])
    plan = plan_of(schema, eventTimeColumn="t", valueColumn="value", avroSchema='"bytes"', validateDatums=False)
    batch = pa.record_batch([pa.array([b"{}"] * 2), pa.array(values, pa.int64()).view(kind)], schema=schema)
    (blob,) = stage_rows(account.container("container"), plan, [batch]).blobs
    assert (0, 5_000_000) == (blob.min_event_time, blob.max_event_time)


def test_a_task_that_fails_midway_leaves_nothing_visible() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, maxFlushThresholdSize=1)
    faults = on("stage_block", Unreachable(), skip=3, times=1000)
    with pytest.raises(TransientError):
        stage_rows(container_of(account, faults), plan, [flights(["EWR"] * 50)])
    assert {} == account.service.contents("container")


def test_an_error_in_the_rows_leaves_nothing_visible() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, maxFlushThresholdSize=1)

    def batches() -> Any:
        yield flights(["EWR"] * (COALESCED_ROWS + 1))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stage_rows(account.container("container"), plan, batches())
    assert {} == account.service.contents("container")


def test_a_minute_of_throttling_is_waited_out() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, maxFlushThresholdSize=1, threadPoolCount=1)
    started = account.clock.now()

    def throttled_for_a_minute(attempt: Any) -> Throttle | None:
        return Throttle(retry_after=9.0) if account.clock.now() < started + 60 else None

    staged = stage_rows(container_of(account, throttled_for_a_minute), plan, [flights(["EWR"] * 5)])
    assert 60 <= account.clock.now() - started < 120
    committer(account.container("container"), plan).commit([staged], None)
    assert 5 == len(visible_rows(account)["flights"])


def test_at_least_once_publishes_each_blob_when_it_is_finished() -> None:
    account = new_account()
    plan = plan_of(FLIGHTS, deliveryGuarantee="at-least-once", maxMessagesPerBlob=2, suffixRandomStringToBlobName=False)
    container = account.container("container")
    seen = []

    def publish(blob: BlobEntry) -> None:
        Publisher(container).publish_blob(blob, plan.options.attributes)
        seen.append(len(visible_rows(account)["flights"]))

    staged = stage_rows(container, plan, [flights(["EWR"] * 5)], publish=publish)
    assert [2, 4, 5] == seen
    assert 3 == staged.metrics["blobCommits"]
    (entry,) = committer(container, plan).commit([staged], Transaction("q", 0))
    assert (staged.blobs, None) == (entry.blobs, entry.transaction)
    assert 5 == len(visible_rows(account)["flights"])


def test_a_staged_task_survives_serialization_to_the_driver() -> None:
    account, plan = new_account(), plan_of(FLIGHTS, partitionColumn="origin", eventTimeColumn="at")
    staged = stage_rows(account.container("container"), plan, [flights(["EWR", None])])
    assert staged == StagedTask.from_json(staged.to_json())
    assert StagedTask() == StagedTask.from_json(StagedTask().to_json())


# --- datums that are encoded already ----------------------------------------------------------------------------------

RECORD = '{"type":"record","name":"r","fields":[{"name":"n","type":"long"},{"name":"s","type":"string"}]}'
DATUMS = pa.schema([("key", pa.string()), ("value", pa.binary())])


def datum(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(arrow_avro.parse(RECORD).root), {"n": number, "s": "x" * number}
    )
    return out.getvalue()


def datums(values: list[bytes | None]) -> pa.RecordBatch:
    return pa.record_batch([["k"] * len(values), pa.array(values, pa.binary())], schema=DATUMS)


def test_datums_are_written_unchanged() -> None:
    account = new_account()
    plan = plan_of(DATUMS, valueColumn="value", avroSchema=RECORD, partitionColumn="key")
    staged = stage_rows(account.container("container"), plan, [datums([datum(n) for n in range(50)])])
    committer(account.container("container"), plan).commit([staged], None)
    assert {"flights/k": [{"n": n, "s": "x" * n} for n in range(50)]} == visible_rows(account)


def test_a_blob_names_its_partition_column_if_the_rows_have_it() -> None:
    account = new_account()

    def named(batch: pa.RecordBatch, **options: Any) -> set[str | None]:
        staged = stage_rows(account.container("container"), plan_of(batch.schema, **options), [batch])
        return {blob.partition_column for blob in StagedTask.from_json(staged.to_json()).blobs}

    rows = pa.record_batch({"key": ["a", None], "n": [1, 2]})
    assert {"key"} == named(rows, partitionColumn="key")
    assert {None} == named(rows)
    assert {None} == named(rows, partitionColumn="key", dropRoutingColumns=True)
    with_key = '{"type":"record","name":"r","fields":[{"name":"key","type":"string"}]}'
    encoded = pa.record_batch([["k"], pa.array([b"\2x"])], schema=DATUMS)
    assert {None} == named(encoded, partitionColumn="key", valueColumn="value", avroSchema=with_key)


def test_a_datum_that_does_not_fit_is_an_error_unless_validation_is_off() -> None:
    bad = datums([datum(1), datum(2)[:-1]])
    account = new_account()
    with pytest.raises(ConfigurationError, match="row 1"):
        stage_rows(account.container("container"), plan_of(DATUMS, valueColumn="value", avroSchema=RECORD), [bad])
    unchecked = plan_of(DATUMS, valueColumn="value", avroSchema=RECORD, validateDatums=False)
    assert 2 == stage_rows(account.container("container"), unchecked, [bad]).metrics["messagesSent"]


def test_a_null_datum_is_an_error() -> None:
    plan = plan_of(DATUMS, valueColumn="value", avroSchema=RECORD)
    with pytest.raises(ConfigurationError, match="the valueColumn is null in row 1"):
        stage_rows(new_account().container("container"), plan, [datums([datum(1), None])])


# --- what is refused before the first row -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eventTimeColumn": "origin"}, "Option `eventTimeColumn`: column 'origin' is string, it must be a timestamp"),
        ({"eventTimeColumn": "when"}, "Option `eventTimeColumn` names column 'when'; the rows to write have origin"),
        (
            {"eventTimeColumn": "at", "partitionColumn": "at", "dropRoutingColumns": True},
            "Option `eventTimeColumn` names column 'at'; the rows to write have origin, number",
        ),
        ({"valueColumn": "origin", "avroSchema": RECORD}, "column 'origin' is string, it must be binary"),
        ({"valueColumn": "datum", "avroSchema": RECORD}, "Option `valueColumn` names column 'datum'"),
        ({"partitionColumn": "where"}, "Option `partitionColumn` names column 'where'"),
        ({"avroSchema": RECORD}, "n"),
    ],
)
def test_options_that_do_not_fit_the_rows_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_of(FLIGHTS, **options)


def test_dropping_every_column_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"No column is left to write.*`dropRoutingColumns`"):
        plan_of(pa.schema([("origin", pa.string())]), partitionColumn="origin", dropRoutingColumns=True)


# --- coalescing -------------------------------------------------------------------------------------------------------


def test_small_batches_are_coalesced_and_empty_ones_left_out() -> None:
    half = COALESCED_ROWS // 2
    parts = [flights(["EWR"] * count) for count in (0, half, half - 1, 0, 2, 1, 0)]
    coalesced = list(coalesce(parts))
    assert [2 * half + 1, 1] == [batch.num_rows for batch in coalesced]
    assert pa.Table.from_batches(parts) == pa.Table.from_batches(coalesced)
    assert [] == list(coalesce([flights([])]))
    assert coalesced[1] is parts[5]


_WORKER = """
import sys, time, datetime
import pyarrow as pa
from azure_account.memory.account import MemoryAccount
from azureblob_source.write.options import sink_options
from azureblob_source.write.planning import plan_for_rows
from azureblob_source.write.open_blobs import BlobIds
from azureblob_source.write.staging import stage

rows = pa.ipc.open_stream(sys.argv[1])
options = {"path": "box/s", "partitioncolumn": "origin", "eventtimecolumn": "at"}
plan = plan_for_rows(sink_options({**options, "connectionstring": "UseDevelopmentStorage=true"}, {}), rows.schema)
container = MemoryAccount().container("box")
container.create()
staged = stage(rows, plan, container, names=BlobIds(bytes, suffixed=True))
print(staged.metrics["messagesSent"], "pandas" in sys.modules)
"""


def test_a_worker_that_writes_does_not_import_pandas(tmp_path: Path) -> None:
    with pa.ipc.new_stream(tmp_path / "rows", FLIGHTS) as stream:
        stream.write(flights(["EWR", None, "JFK"] * 10))
    result = subprocess.run(
        [sys.executable, "-c", _WORKER, tmp_path / "rows"], capture_output=True, text=True, check=True
    )
    assert "30 False\n" == result.stdout
