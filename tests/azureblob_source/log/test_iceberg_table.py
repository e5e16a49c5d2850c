from __future__ import annotations

import contextlib
import io
import itertools
import logging
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, FaultInjector, LateEffect, LostAnswer, ProcessDied, on
from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.iceberg.schema import NotInIcebergError
from azureblob_source.log.checkpoint import building
from azureblob_source.log.checkpointing import make_table
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import partition_level, table_hint_name, table_name
from tests.azureblob_source.iceberg_files import ROOT, TableWriter, iceberg_table, planned
from tests.azureblob_source.write.sink_rows import new_account


class Requests(Intercept):
    """Of a process: operation and last level of the name."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def attempt(self, request: Request, send: Any) -> Any:
        self.made.append((request.operation, request.name.rpartition("/")[2]))
        return send()


@pytest.fixture
def account() -> MemoryAccount:
    return new_account()


def test_the_table_has_what_the_log_has_at_each_checkpoint(account: MemoryAccount) -> None:
    writer = TableWriter(account)
    for batch in range(3):
        writer.write(batch)
        table = iceberg_table(writer.container)
        assert batch + 1 == len(planned(table))
        assert writer.live() == planned(table)
    assert f"{ROOT}flights/_iceberg" == table.location()
    assert [1, 2, 3] == [len(planned(table, snapshot_id=version + 1)) for version in range(3)]
    assert {1: "id", 2: "origin"} == {each.field_id: each.name for each in table.schema().fields}


def test_a_process_that_knows_the_table_makes_two_requests_for_it(account: MemoryAccount) -> None:
    requests = Requests()
    writer = TableWriter(account.restarted(requests))
    for batch in range(3):
        requests.made.clear()
        writer.write(batch)
    of_table = [each for each in requests.made if each[1].startswith("v")]
    assert [("put", "v3.metadata.json"), ("put", "version-hint.text")] == of_table


def test_blobs_of_a_partition_are_planned_and_no_others(account: MemoryAccount) -> None:
    """Of more partitions than have bounds, with long names and none, by a column after the first sixteen."""
    columns = [*((f"c{number}", pa.int64()) for number in range(20)), ("origin", pa.string())]
    writer = TableWriter(account, pa.schema(columns), partitionColumn="origin")
    prefix = "a text whose first characters are those of others: "
    values = [None, "", "EWR", "a/b c=%", *(f"{prefix}{number}" for number in range(300))]
    numbers = pa.array(range(len(values)), pa.int64())
    writer.write_rows(pa.record_batch([*[numbers] * 20, pa.array(values)], schema=writer.schema), 0)
    writer.write(1)
    table = iceberg_table(writer.container)
    assert 305 == len(planned(table))
    assert 2 == len(planned(table, row_filter="origin = 'EWR'"))
    for value in ("", "a/b c=%", f"{prefix}7"):
        (name,) = planned(table, row_filter=f"origin = '{value}'")
        assert f"/{partition_level(value)}/" in name
    assert [] == planned(table, row_filter=f"origin = '{prefix}'")
    assert 1 == len(planned(table, row_filter="origin is null"))
    assert 304 == len(planned(table, row_filter="origin is not null"))
    assert 302 == len(planned(table, row_filter="origin like 'a%'") + planned(table, row_filter="origin is null"))


@pytest.mark.parametrize("seed", range(8))
def test_blobs_of_streams_whose_partition_column_changes(
    account: MemoryAccount, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those by the column of a filter are planned if they have the value, and all others, of which nothing is known."""
    monkeypatch.setattr(building, "MERGED", 4)
    draw = random.Random(seed)
    schema = pa.schema([("id", pa.int32()), ("origin", pa.string()), ("x", pa.float64())])
    partition_of: dict[str, tuple[str, str | None]] = {}
    for batch in range(12):
        column = draw.choice(["", "id", "origin", "x"])
        given = {"partitionColumn": column} if column else {}
        if column and draw.random() < 0.3:
            given["dropRoutingColumns"] = "true"
        if column and draw.random() < 0.5:
            given["partitionOverwriteMode"] = "dynamic"
        writer = TableWriter(account, schema, seed=batch, boundsColumns="none", **given)
        values: tuple[list[Any], ...] = ([None, 1, 2], [None, "a", "b"], [None, 0.5])
        arrays = [pa.array(draw.choices(of, k=3), field.type) for of, field in zip(values, schema, strict=True)]
        writer.write_rows(pa.record_batch(arrays, schema=schema), batch, overwrite=draw.random() < 0.2)
        known = column if column != "x" and "dropRoutingColumns" not in given else ""
        head = writer.log.refresh()
        assert head is not None
        partition_of |= {blob.name: (known, blob.partition) for blob in head.blobs}
        table = iceberg_table(writer.container)
        live = writer.live()
        assert live == planned(table)
        for of, value in (("id", None), ("id", 1), ("origin", None), ("origin", "a")):
            if of not in table.schema().column_names:  # it is not stored since an overwrite
                continue
            where = f"{of} is null" if value is None else f"{of} = {value!r}"
            partition = None if value is None else str(value)
            expected = [name for name in live if partition_of[name] == (of, partition) or partition_of[name][0] != of]
            assert expected == planned(table, row_filter=where)
        newest = [blob for blob in head.blobs if blob.name in live]
        assert {"id": 1, "origin": 2}.get(known, 0) == table.spec().spec_id or not newest


def test_columns_keep_their_ids(account: MemoryAccount) -> None:
    TableWriter(account).write(0)
    TableWriter(account, pa.schema([("delay", pa.float64()), ("id", pa.int64()), ("origin", pa.string())])).write(1)
    table = iceberg_table(account.container("container"))
    assert {"id": 1, "origin": 2, "delay": 3} == {each.name: each.field_id for each in table.schema().fields}
    assert [each.schema_id for each in table.metadata.schemas] == [each.schema_id for each in table.snapshots()]


@pytest.mark.parametrize("interval", ["1", "2"])
def test_a_manifest_has_the_schema_of_its_blobs_by_the_id_that_the_table_gives_it(
    account: MemoryAccount, interval: str
) -> None:
    TableWriter(account, checkpointInterval=interval).write(0)
    more = pa.schema([("delay", pa.float64()), ("id", pa.int64()), ("origin", pa.string())])
    TableWriter(account, more, checkpointInterval=interval).write(1)
    table = iceberg_table(account.container("container"))
    of_table = {each.schema_id: each.model_dump(by_alias=True) for each in table.metadata.schemas}
    (manifest,) = table.inspect.manifests()["path"].to_pylist()
    file: Any = fastavro.reader(table.io.new_input(manifest).open())
    assert of_table[table.schema().schema_id] == Schema.model_validate_json(file.metadata["schema"]).model_dump(
        by_alias=True
    )
    assert str(table.schema().schema_id) == file.metadata["schema-id"]
    assert [1, 2] == [each["snapshot_id"] for each in file]


def test_a_manifest_of_blobs_that_iceberg_cannot_read_has_no_schema(account: MemoryAccount) -> None:
    writer = TableWriter(account, pa.schema([("id", pa.int64()), ("at", pa.timestamp("us"))]))
    writer.write_rows(pa.RecordBatch.from_pylist([{"id": 1, "at": 0}], writer.schema), 0)
    log = writer.log
    checkpoint = log.checkpoints.find(0)
    assert checkpoint is not None
    file: Any = fastavro.reader(io.BytesIO(writer.container.get(checkpoint.manifests[0].name).data))
    assert ("schema" in file.metadata, 1) == (False, len(list(file)))


def test_an_overwrite_leaves_no_snapshot_whose_blobs_are_gone(account: MemoryAccount) -> None:
    writer = TableWriter(account, checkpointInterval="2")
    for batch in range(4):
        writer.write(batch)
    assert [2, 4] == [each.snapshot_id for each in iceberg_table(writer.container).snapshots()]
    writer.write(4, overwrite=True)
    table = iceberg_table(writer.container)
    assert [5] == [each.snapshot_id for each in table.snapshots()], "at once, whatever the interval is"
    assert writer.live() == planned(table)


def test_an_overwrite_of_partitions_is_in_the_table_at_once_too(account: MemoryAccount) -> None:
    given: dict[str, Any] = {"partitionColumn": "origin", "partitionOverwriteMode": "dynamic"}
    writer = TableWriter(account, checkpointInterval="2", **given)
    for batch in range(4):
        rows = [pa.array([batch, batch], pa.int32()), pa.array(["EWR", "JFK"])]
        writer.write_rows(pa.RecordBatch.from_arrays(rows, schema=writer.schema), batch)
    for batch in (4, 5):
        writer.write(batch, overwrite=True)
        table = iceberg_table(writer.container)
        assert [batch + 1] == [each.snapshot_id for each in table.snapshots()]
        assert writer.live() == planned(table)
        assert (1, 4) == tuple(len(planned(table, row_filter=f"origin = '{each}'")) for each in ("EWR", "JFK"))


def test_what_iceberg_cannot_say_is_logged_once_and_the_last_table_stays(
    account: MemoryAccount, caplog: pytest.LogCaptureFixture
) -> None:
    TableWriter(account).write(0)
    as_double = TableWriter(account, pa.schema([("id", pa.float64()), ("origin", pa.string())]))
    with caplog.at_level(logging.WARNING):
        for batch in range(1, 4):
            as_double.write(batch)
    said = [record.getMessage() for record in caplog.records if "Iceberg" in record.getMessage()]
    reason = "column 'id' is int in some blobs and double in others, which Iceberg does not widen"
    assert [f"flights: its Iceberg table is not made, or stays as it is: {reason}"] == said
    assert [1] == [each.snapshot_id for each in iceberg_table(as_double.container).snapshots()]
    assert 3 == as_double.log.checkpoint_hint(), "the log has its checkpoints all the same"
    as_double.write(4, overwrite=True)
    assert [5] == [each.snapshot_id for each in iceberg_table(as_double.container).snapshots()]


def test_gzipped_blobs_are_none_of_iceberg(account: MemoryAccount) -> None:
    TableWriter(account, compression__type="gzip").write(0)
    plain = TableWriter(account)
    plain.write(1)
    head = plain.log.refresh()
    assert head is not None
    with pytest.raises(NotInIcebergError, match=r"blob flights/.*\.avro\.gz is gzipped"):
        make_table(plain.log, head, ROOT)
    assert (0, None) == newest_table(plain.log)


def test_the_newest_table_is_found_without_a_hint_and_by_an_old_one(account: MemoryAccount) -> None:
    writer = TableWriter(account)
    for batch in range(3):
        writer.write(batch)
    number, newest = newest_table(writer.log)
    assert (3, 2) == (number, newest and newest.version)
    writer.container.put(table_hint_name("flights"), b"1")
    assert (3, newest) == newest_table(writer.log)
    for hint in (b"9", b"x", b""):
        writer.container.put(table_hint_name("flights"), hint)
        assert (3, newest) == newest_table(writer.log)
    writer.container.delete(table_hint_name("flights"))
    assert (3, newest) == newest_table(writer.log)


def test_two_writers_put_one_table_after_the_other(account: MemoryAccount) -> None:
    first, second = TableWriter(account), TableWriter(account)
    first.write(0)
    second.write(1)
    first.write(2)
    table = iceberg_table(first.container)
    assert [1, 2, 3] == [each.snapshot_id for each in table.snapshots()]
    assert first.live() == planned(table)


def test_a_table_that_another_program_has_changed_is_followed_by_a_new_one(
    account: MemoryAccount, caplog: pytest.LogCaptureFixture
) -> None:
    TableWriter(account).write(0)
    container = account.container("container")
    foreign = container.get(table_name("flights", 1)).data.replace(b'"azureblob.version":"0"', b'"engine":"Spark"')
    container.put(table_name("flights", 2), foreign)
    writer = TableWriter(account)
    with caplog.at_level(logging.WARNING):
        writer.write(1)
    assert "v2.metadata.json is not of this package" in caplog.text
    assert [2] == [each.snapshot_id for each in iceberg_table(container).snapshots()]
    assert writer.live() == planned(iceberg_table(container))


def test_a_stream_that_is_made_again_is_another_table(account: MemoryAccount) -> None:
    TableWriter(account).write(0)
    container = account.container("container")
    before = iceberg_table(container).metadata.table_uuid
    for blob in list(container.list("flights/")):
        if "_iceberg" not in blob.name:
            container.delete(blob.name)
    again = TableWriter(account, seed=1)
    again.write(7)
    table = iceberg_table(container)
    assert before != table.metadata.table_uuid
    assert [1] == [each.snapshot_id for each in table.snapshots()]
    assert again.live() == planned(table)


def test_a_failure_fails_no_batch(account: MemoryAccount, caplog: pytest.LogCaptureFixture) -> None:
    writer = TableWriter(account)
    writer.write(0)
    for number in range(2, 8):
        writer.container.put(table_name("flights", number), b"{}")
    with caplog.at_level(logging.WARNING):
        writer.write(1)
    head = writer.log.refresh()
    assert head is not None and 1 == head.version


@pytest.mark.parametrize("fault", [LostAnswer(), LateEffect()], ids=repr)
@pytest.mark.parametrize("what", ["v2.metadata.json", "version-hint.text"])
def test_a_lost_answer_leaves_one_table_for_a_version(account: MemoryAccount, fault: Fault, what: str) -> None:
    TableWriter(account).write(0)
    lost = FaultInjector(on("put", fault, name=lambda name: name.endswith(what), times=1))
    writer = TableWriter(account.restarted(lost))
    writer.write(1)
    writer.write(2)
    table = iceberg_table(account.container("container"))
    assert [1, 2, 3] == [each.snapshot_id for each in table.snapshots()]
    assert 3 == newest_table(writer.log)[0]
    assert writer.live() == planned(table)


@pytest.mark.parametrize("number", range(1, 9))
def test_a_process_that_dies_in_the_midst_is_followed_by_one_that_goes_on(account: MemoryAccount, number: int) -> None:
    """At each request to the metadata of the table."""
    TableWriter(account).write(0)
    count = itertools.count(1)
    in_metadata = FaultInjector(
        lambda each: Crash(after_effect=number % 2 == 0) if "_iceberg" in each.name and next(count) == number else None
    )
    with contextlib.suppress(ProcessDied):
        TableWriter(account.restarted(in_metadata)).write(1)
    writer = TableWriter(account)
    writer.write(2)
    table = iceberg_table(writer.container)
    assert 3 == len(planned(table))
    assert writer.live() == planned(table)


@pytest.mark.parametrize("seed", range(12))
def test_the_newest_table_has_what_was_live_at_its_version(account: MemoryAccount, seed: int) -> None:
    """Of several writers, each with a checkpoint now and then, beside others without a table."""
    draw = random.Random(seed)
    writers = [TableWriter(account, seed=each, checkpointInterval=str(draw.choice((1, 2, 3)))) for each in range(3)]
    writers.append(TableWriter(account, seed=3, icebergTable="false"))
    for batch in range(15):
        writer = draw.choice(writers)
        writer.write(batch, overwrite=draw.random() < 0.2)
        _, table = newest_table(writer.log)
        if table is not None:
            live = blobs_live_at(writer.log, table.version)
            assert sorted(blob.name for blob in live) == planned(iceberg_table(writer.container))
            assert table.snapshots == tuple(sorted(table.snapshots, key=lambda each: each["snapshot-id"]))
