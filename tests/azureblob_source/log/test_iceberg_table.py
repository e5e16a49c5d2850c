from __future__ import annotations

import contextlib
import itertools
import logging
import random
from typing import Any

import pyarrow as pa
import pytest

from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import Crash, Fault, FaultInjector, LateEffect, LostAnswer, ProcessDied, on
from azure_account.retrying.retry_loop import Intercept, Request
from azureblob_source.iceberg.schema import NotInIcebergError
from azureblob_source.log.checkpointing import make_table
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import table_hint_name, table_name
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


def test_columns_keep_their_ids(account: MemoryAccount) -> None:
    TableWriter(account).write(0)
    TableWriter(account, pa.schema([("delay", pa.float64()), ("id", pa.int64()), ("origin", pa.string())])).write(1)
    table = iceberg_table(account.container("container"))
    assert {"id": 1, "origin": 2, "delay": 3} == {each.name: each.field_id for each in table.schema().fields}
    assert [0, 1] == [each.schema_id for each in table.snapshots()]


def test_an_overwrite_leaves_no_snapshot_whose_blobs_are_gone(account: MemoryAccount) -> None:
    writer = TableWriter(account, checkpointInterval="2")
    for batch in range(4):
        writer.write(batch)
    assert [2, 4] == [each.snapshot_id for each in iceberg_table(writer.container).snapshots()]
    writer.write(4, overwrite=True)
    table = iceberg_table(writer.container)
    assert [5] == [each.snapshot_id for each in table.snapshots()], "at once, whatever the interval is"
    assert writer.live() == planned(table)


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
