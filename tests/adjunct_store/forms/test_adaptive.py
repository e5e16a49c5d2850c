"""A store is read into memory after enough look-ups, if what is in it is small enough. Values stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.forms import adaptive
from adjunct_store.forms.adaptive import AdaptiveLookup
from adjunct_store.forms.disk import RocksDbLookup
from adjunct_store.forms.memory import InMemoryLookup
from adjunct_store.forms.partitions import PartitionDatabases
from adjunct_store.host.directories import KnownDirectories
from tests.adjunct_store.changes import batch_of

ENTRIES = 1_000
VALUES = pa.schema([("text", pa.string()), ("parts", pa.list_(pa.int64()))])
SCHEMA = StoreSchema(pa.schema([("k", pa.int64())]), VALUES, 3)
PARTS = 200


class Published(KnownDirectories):
    """Directories of a version of the manifest, which says how many entries there are."""

    entries = ENTRIES  # type: ignore[assignment]


@pytest.fixture
def directories(tmp_path: Path) -> Published:
    every = pa.record_batch({"k": pa.array(range(ENTRIES), pa.int64())})
    where = partition_of(every, 3).tolist()
    for partition in range(3):
        rows: list[Any] = [
            (key, {"text": str(key), "parts": [key % 3] * PARTS}) for key in range(ENTRIES) if where[key] == partition
        ]
        with PartitionStore(tmp_path / str(partition), SCHEMA) as store:
            store.apply([batch_of(SCHEMA, rows)], PartitionProgress("s", 0))
    return Published({partition: tmp_path / str(partition) for partition in range(3)})


def keys(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(range(first, first + count), pa.int64())})


def opened(partitions: PartitionDatabases) -> int:
    return len(partitions._open)


def test_enough_look_ups_read_all_into_memory_and_find_the_same(directories: Published) -> None:
    partitions = PartitionDatabases(directories, 3)
    find, disk = AdaptiveLookup(partitions, SCHEMA), RocksDbLookup(PartitionDatabases(directories, 3), SCHEMA)
    few = int(adaptive.ROWS_PER_ENTRY * ENTRIES) - 1
    for asked in (keys(few - 1), keys(1)):
        assert disk(asked).equals(find(asked))
        assert isinstance(find._find, RocksDbLookup)
    for asked in (keys(1), keys(ENTRIES, first=-7), keys(0)):
        assert disk(asked).equals(find(asked))
        assert isinstance(find._find, InMemoryLookup)
    partitions.close()


@pytest.mark.parametrize("first", [0, ENTRIES], ids=["hits", "misses"])
def test_one_look_up_of_many_rows_is_in_memory_at_once(
    directories: Published, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("RocksDB was asked")

    monkeypatch.setattr(PartitionDatabases, "get_many", never)
    find = AdaptiveLookup(PartitionDatabases(directories, 3), SCHEMA)
    monkeypatch.setattr(find._partitions, "position", lambda _: PartitionProgress("s", 0, ENTRIES // 3))
    assert (ENTRIES if first else 0) == find(keys(ENTRIES, first)).null_count


def test_a_store_with_too_many_entries_stays_on_disk_and_is_not_fetched_for_that(
    directories: Published, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = PartitionDatabases(directories, 3)
    find = AdaptiveLookup(partitions, SCHEMA)
    monkeypatch.setattr(adaptive, "MEMORY_BYTES", 50 * ENTRIES)
    one = keys(ENTRIES).filter(pa.array(partition_of(keys(ENTRIES), 3) == 1))
    while find._asked < ENTRIES:
        assert 0 == find(one).null_count
    assert isinstance(find._find, RocksDbLookup)
    assert 1 == opened(partitions)
    partitions.close()


def test_a_store_with_large_values_stays_on_disk_by_what_they_take_before_compression(
    directories: Published, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Lists of the same few numbers are far smaller on disk, and up to eight times as large in Arrow as in Avro."""
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*.sst"))
    in_memory = InMemoryLookup(PartitionDatabases(directories, 3), SCHEMA)
    taken = in_memory(keys(ENTRIES)).nbytes
    assert stored < taken / 20
    for limit, form in ((taken, RocksDbLookup), (3 * taken, InMemoryLookup)):
        monkeypatch.setattr(adaptive, "MEMORY_BYTES", limit)
        find = AdaptiveLookup(PartitionDatabases(directories, 3), SCHEMA)
        for _ in range(2):
            assert 0 == find(keys(ENTRIES)).null_count
            assert isinstance(find._find, form)


def test_without_a_manifest_entries_are_counted(directories: Published) -> None:
    known = KnownDirectories(directories._paths)
    find = AdaptiveLookup(PartitionDatabases(known, 3), SCHEMA)
    find(keys(1))
    assert isinstance(find._find, RocksDbLookup)
    find(keys(ENTRIES))
    assert isinstance(find._find, InMemoryLookup)
