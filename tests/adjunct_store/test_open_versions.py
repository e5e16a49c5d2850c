"""What a worker process keeps open of the versions that its tasks have read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.host.folders import store_folder
from adjunct_store.host.locks import try_directory
from adjunct_store.location import StoreLocation
from adjunct_store.spark.task_reader import PinnedStore
from adjunct_store.versions.manifest_store import open_fill
from tests.adjunct_store.tasks import BatchWriter

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("number", pa.int64())]), partitions=1)


def test_a_worker_keeps_two_versions_of_a_store_open_however_often_it_changes(tmp_path: Path) -> None:
    location = StoreLocation({"endpoint": "memory://open-versions"}, "box", "stores/planes")
    container = location.open()
    container.create()
    fill = open_fill(container, location.store, SCHEMA.to_json(), partitions=1, source="test", threads=1)
    writer = BatchWriter(location, fill, SCHEMA, tmp_path / "writer")
    for batch in range(6):
        version = writer.run(batch, {1: {"number": batch}})
        store = PinnedStore(location, "query", batch, cache_dir=str(tmp_path / "cache"))
        assert {"number": batch} == store.view().get(1)
    folder = store_folder(container, location.store, tmp_path / "cache").partition(1, 0)
    there = sorted(path for path in folder.path.iterdir() if path.is_dir())
    is_open = [_is_open(path) for path in there]
    assert [True, True] == is_open
    assert version.checkpoints[0] == there[-1].name


def _is_open(directory: Path) -> bool:
    lock = try_directory(directory)
    if lock is not None:
        lock.release()
    return lock is None
