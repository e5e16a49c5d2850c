"""A store is read into memory after enough look-ups, if what is in it is small enough. Values stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.forms.adaptive import ROWS_PER_KEY, AdaptiveLookup, ArrayBudget
from adjunct_store.forms.disk import RocksDbLookup
from adjunct_store.forms.memory import InMemoryLookup
from adjunct_store.forms.partitions import PartitionDatabases
from adjunct_store.host.directories import KeyCounts, KnownDirectories
from tests.adjunct_store.changes import batch_of

ENTRIES = 1_000
VALUES = pa.schema([("text", pa.string()), ("parts", pa.list_(pa.int64()))])
SCHEMA = StoreSchema(pa.schema([("k", pa.int64())]), VALUES, 3)
PARTS = 200


@pytest.fixture
def directories(tmp_path: Path) -> KnownDirectories:
    every = pa.record_batch({"k": pa.array(range(ENTRIES), pa.int64())})
    where = partition_of(every, 3).tolist()
    for partition in range(3):
        rows: list[Any] = [
            (key, {"text": str(key), "parts": [key % 3] * PARTS}) for key in range(ENTRIES) if where[key] == partition
        ]
        with PartitionStore(tmp_path / str(partition), SCHEMA) as store:
            store.apply([batch_of(SCHEMA, rows)], PartitionProgress("s", 0))
    paths = {partition: tmp_path / str(partition) for partition in range(3)}
    return KnownDirectories(paths, KeyCounts(ENTRIES, 0))


def keys(count: int, first: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(range(first, first + count), pa.int64())})


def opened(partitions: PartitionDatabases) -> int:
    return len(partitions._open)


def test_enough_look_ups_read_all_into_memory_and_find_the_same(directories: KnownDirectories) -> None:
    partitions = PartitionDatabases(directories, 3)
    find, disk = AdaptiveLookup(partitions, SCHEMA), RocksDbLookup(PartitionDatabases(directories, 3), SCHEMA)
    few = int(ROWS_PER_KEY * ENTRIES) - 1
    for asked in (keys(few - 1), keys(1)):
        assert disk(asked).equals(find(asked))
        assert isinstance(find._find, RocksDbLookup)
    for asked in (keys(1), keys(ENTRIES, first=-7), keys(0)):
        assert disk(asked).equals(find(asked))
        assert isinstance(find._find, InMemoryLookup)
    partitions.close()


@pytest.mark.parametrize("first", [0, ENTRIES], ids=["hits", "misses"])
def test_one_look_up_of_many_rows_is_in_memory_at_once(
    directories: KnownDirectories, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("RocksDB was asked")

    monkeypatch.setattr(PartitionDatabases, "get_many", never)
    find = AdaptiveLookup(PartitionDatabases(directories, 3), SCHEMA)
    monkeypatch.setattr(find._partitions, "position", lambda _: PartitionProgress("s", 0, ENTRIES // 3))
    assert (ENTRIES if first else 0) == find(keys(ENTRIES, first)).null_count


def test_a_store_with_too_many_entries_stays_on_disk_and_is_not_fetched_for_that(directories: KnownDirectories) -> None:
    partitions = PartitionDatabases(directories, 3)
    find = AdaptiveLookup(partitions, SCHEMA, ArrayBudget(50 * ENTRIES))
    one = keys(ENTRIES).filter(pa.array(partition_of(keys(ENTRIES), 3) == 1))
    while find._asked < ENTRIES:
        assert 0 == find(one).null_count
    assert isinstance(find._find, RocksDbLookup)
    assert 1 == opened(partitions)
    partitions.close()


def test_a_store_with_large_values_stays_on_disk_by_what_they_take_before_compression(
    directories: KnownDirectories, tmp_path: Path
) -> None:
    """Lists of the same few numbers are far smaller on disk, and up to eight times as large in Arrow as in Avro."""
    stored = sum(path.stat().st_size for path in tmp_path.rglob("*.sst"))
    in_memory = InMemoryLookup(PartitionDatabases(directories, 3), SCHEMA)
    taken = in_memory(keys(ENTRIES)).nbytes
    assert stored < taken / 20
    for limit, form in ((taken, RocksDbLookup), (3 * taken, InMemoryLookup)):
        find = AdaptiveLookup(PartitionDatabases(directories, 3), SCHEMA, ArrayBudget(limit))
        for _ in range(2):
            assert 0 == find(keys(ENTRIES)).null_count
            assert isinstance(find._find, form)


def test_without_a_manifest_entries_are_counted(directories: KnownDirectories) -> None:
    known = KnownDirectories(directories.paths)
    find = AdaptiveLookup(PartitionDatabases(known, 3), SCHEMA)
    find(keys(1))
    assert isinstance(find._find, RocksDbLookup)
    find(keys(ENTRIES))
    assert isinstance(find._find, InMemoryLookup)


def test_deleted_keys_count_as_keys_to_be_read(tmp_path: Path) -> None:
    """A store of few entries and many tombstones is read into memory as late as one of as many entries."""
    ordered = StoreSchema(SCHEMA.keys, VALUES, 1, ordered=True, order_by="at bigint")
    with PartitionStore(tmp_path / "0", ordered) as store:
        rows: list[Any] = [(key, None if key % 50 else {"text": "a", "parts": []}, 1) for key in range(ENTRIES)]
        store.apply([batch_of(ordered, rows)], PartitionProgress("s", 0))
    counted = PartitionDatabases(KnownDirectories({0: tmp_path / "0"}), 1)
    assert KeyCounts(ENTRIES // 50, ENTRIES - ENTRIES // 50) == counted.keys == counted.expected_keys
    find = AdaptiveLookup(counted, ordered)
    few = int(ROWS_PER_KEY * ENTRIES) - 1
    assert few - few // 50 - 1 == find(keys(few)).null_count
    assert isinstance(find._find, RocksDbLookup)
    find(keys(1))
    assert isinstance(find._find, InMemoryLookup)
    assert ENTRIES - ENTRIES // 50 == find(keys(ENTRIES)).null_count


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["look up", "look up", "close"])), max_size=25))
def test_the_arrays_of_all_views_of_a_process_stay_within_one_budget(
    directories: KnownDirectories, steps: list[tuple[int, str]]
) -> None:
    """Room for two stores: a third one stays on disk until one of them is closed, and finds the same."""
    one = ArrayBudget(1 << 30)
    first = AdaptiveLookup(PartitionDatabases(directories, 3), SCHEMA, one)
    found = first(keys(ENTRIES))
    budget = ArrayBudget(one.taken * 5 // 2)
    views: dict[int, AdaptiveLookup] = {}
    for number, act in steps:
        if act == "close":
            views.pop(number, None)
        else:
            if number not in views:
                views[number] = AdaptiveLookup(PartitionDatabases(directories, 3), SCHEMA, budget)
            assert found.equals(views[number](keys(ENTRIES)))
        in_memory = [each for each in views.values() if isinstance(each._find, InMemoryLookup)]
        assert budget.taken <= budget.limit
        assert len(in_memory) <= 2
        assert bool(in_memory) == bool(budget.taken)
        if act == "look up":
            assert len(in_memory) == 2 or views[number] in in_memory, "there was room"
