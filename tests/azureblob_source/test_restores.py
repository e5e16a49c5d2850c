"""`restore_stream`, which a program calls."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from azure_account.location import Location
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.iceberg_table import newest_table
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.iceberg import make_iceberg_table
from azureblob_source.restores import restore_stream
from foundation.errors import ConfigurationError, FencedError
from tests.azureblob_source.log.relocating.test_restore import draft, numbers, write, written


def test_a_program_restores_a_version_or_a_time() -> None:
    account = written()
    where = Location.in_container(account.container("container"), "flights")
    times = [datetime.fromisoformat(entry.timestamp) for entry in CommitLog(where.open(), "flights").history()]
    assert 5 == restore_stream(where, version=3)
    assert 6 == restore_stream(where, time=times[1])
    assert restore_stream(where, version="1") is None  # type: ignore[arg-type]
    assert [0, 1] == numbers(account)
    write(account, [5], 5)
    assert 8 == restore_stream(where, version=1, epoch=7)
    with pytest.raises(FencedError, match="the stream is at epoch 7"):
        restore_stream(where, version=0)


def test_its_iceberg_table_names_no_deleted_blob() -> None:
    account = written()
    where = Location.in_container(account.container("container"), "flights")
    log = CommitLog(where.open(), "flights")
    make_iceberg_table(log, "abfss://container@memory/", draft(), Publisher(log.container))
    assert 5 == restore_stream(where, version=3)
    _, table = newest_table(CommitLog(where.open(), "flights"))
    assert table is not None and (5, "4") == (table.version, table.snapshots[-1]["summary"]["total-records"])


@pytest.mark.parametrize("given", [{}, {"version": 1, "time": datetime(2026, 1, 1, tzinfo=UTC)}])
def test_a_version_or_a_time_is_given(given: dict[str, object]) -> None:
    where = Location.in_container(written().container("container"), "flights")
    with pytest.raises(ConfigurationError, match="A restore is to a version or to a time: give one of the two"):
        restore_stream(where, **given)  # type: ignore[arg-type]


def test_a_stream_is_named() -> None:
    with pytest.raises(ConfigurationError, match="names no stream. Give `container/stream`"):
        restore_stream(Location("container", {}), version=1)
