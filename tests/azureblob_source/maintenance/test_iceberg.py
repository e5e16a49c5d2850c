from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.values import BlobAttributes
from azureblob_source.compactions import compact_stream
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.iceberg import make_iceberg_table, refresh_table
from azureblob_source.maintenance.vacuum import plan_vacuum, vacuum
from azureblob_source.reverts import revert_batches
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from tests.azureblob_source.iceberg_files import FLIGHTS, ROOT, TableWriter, iceberg_table, planned
from tests.azureblob_source.write.sink_rows import new_account

WITHOUT: dict[str, Any] = {"icebergTable": "false", "checkpointInterval": "64"}


@pytest.fixture
def account() -> MemoryAccount:
    return new_account()


def make(log: CommitLog) -> None:
    make_iceberg_table(log, ROOT, new_draft(SYSTEM_CLOCK, None), Publisher(log.container))


def refresh(log: CommitLog) -> object:
    return refresh_table(log, new_draft(SYSTEM_CLOCK, None), Publisher(log.container))


def test_the_table_of_a_stream_that_was_written_without_one(account: MemoryAccount) -> None:
    writer = TableWriter(account, **WITHOUT)
    for batch in range(3):
        writer.write(batch)
    assert (0, None) == newest_table(writer.log)
    make(writer.log)
    table = iceberg_table(writer.container)
    assert writer.live() == planned(table)
    make(writer.log)
    assert 1 == newest_table(writer.log)[0], "it is there already"


def test_a_table_with_other_paths_takes_the_place_of_the_first(account: MemoryAccount) -> None:
    writer = TableWriter(account)
    writer.write(0)
    make_iceberg_table(
        writer.log, "wasbs://container@memory/", new_draft(SYSTEM_CLOCK, None), Publisher(writer.container)
    )
    number, table = newest_table(writer.log)
    assert table is not None
    assert (2, "wasbs://container@memory/flights/_iceberg", 1) == (number, table.location, len(table.snapshots))


def test_why_there_is_no_table_is_an_error_with_a_next_step(account: MemoryAccount) -> None:
    writer = TableWriter(account, pa.schema([("at", pa.timestamp("us"))]), **WITHOUT)
    rows = pa.record_batch([[datetime(2013, 1, 1)]], schema=writer.schema)  # noqa: DTZ001 - a local time
    writer.write_rows(rows, 0)
    reason = r"column 'at' is long local-timestamp-micros, and Iceberg's readers do not take.*another one without that"
    with pytest.raises(ConfigurationError, match=reason):
        make(writer.log)
    with pytest.raises(NotFoundError, match="there is no commit log"):
        make(CommitLog(writer.container, "nothing"))


def test_a_vacuum_is_followed_by_a_table_without_what_it_has_deleted(account: MemoryAccount) -> None:
    writer = TableWriter(account)
    for batch in range(5):
        writer.write(batch)
    log, ids = writer.log, itertools.count()
    plan = plan_vacuum(log, datetime.now(UTC) + timedelta(days=9999))
    vacuum(log.container, plan, lambda: f"vacuum {next(ids)}")
    gone = set(planned(iceberg_table(writer.container))) - {blob.name for blob in writer.container.list("flights/")}
    assert 4 == len(gone), "the table has them still"
    assert refresh(writer.log) is not None
    table = iceberg_table(writer.container)
    assert ([5], writer.live()) == ([each.snapshot_id for each in table.snapshots()], planned(table))
    assert 1 == len(planned(table))


def test_what_has_no_table_gets_none(account: MemoryAccount) -> None:
    writer = TableWriter(account, **WITHOUT)
    writer.write(0)
    assert refresh(writer.log) is None
    assert (0, None) == newest_table(writer.log)


@pytest.mark.parametrize("epoch", [None, 5])
def test_functions_that_delete_blobs_leave_a_table_without_them(account: MemoryAccount, epoch: int | None) -> None:
    writer = TableWriter(account, **({} if epoch is None else {"epoch": epoch}))
    where = Location.in_container(writer.container, "flights")
    for batch in range(6):
        writer.write(batch)
    assert 1 == compact_stream(where).made
    assert writer.live() == planned(iceberg_table(writer.container))
    assert [3, 4, 5] == revert_batches(where, "q", 2, epoch=epoch)
    assert writer.live() == planned(iceberg_table(writer.container))


@pytest.mark.parametrize("within_commits", [False, True])
def test_a_compaction_that_ends_midway_leaves_a_table_without_what_it_has_deleted(
    account: MemoryAccount, within_commits: bool
) -> None:
    writer = TableWriter(account, partitionColumn="origin", autoCompact=within_commits, checkpointInterval=8)
    for batch in range(8):
        writer.write_rows(pa.record_batch([[batch], ["ab"[batch % 2]]], schema=FLIGHTS), batch)
        if batch == 3:
            name = next(blob.name for blob in writer.container.list("flights/b/"))
            attributes = BlobAttributes(writer.container.get(name).properties.metadata)
            writer.container.put(name, b"damaged", attributes)
    if not within_commits:
        with pytest.raises(CorruptError):
            compact_stream(Location.in_container(writer.container, "flights"))
    assert 5 == len(writer.live())
    assert writer.live() == planned(iceberg_table(writer.container))
