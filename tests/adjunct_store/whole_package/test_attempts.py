"""Tasks of a fill: what a batch costs when another process has written the one before, and attempts that come late."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.engine import rocks
from adjunct_store.versions.manifest_store import open_fill
from adjunct_store.versions.opening import FillRequirements
from azure_account.location import Location
from azure_account.memory.faults import FaultInjector
from state_backup import checkpoints
from state_backup.local import scan
from tests.adjunct_store.tasks import BatchWriter, location_of, read
from tests.state_backup.states import new_account

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer

STORE = "stores/planes"
SCHEMA = StoreSchema(pa.schema([("id", pa.int64())]), pa.schema([("seats", pa.int64())]), partitions=1)


def writer_of(container: BlobContainer, cache_dir: Path) -> BatchWriter:
    fill = open_fill(
        Location.in_container(container, STORE), SCHEMA.to_json(), FillRequirements(partitions=1, source="test")
    )
    return BatchWriter(location_of(container, STORE), fill, SCHEMA, cache_dir)


def values(*numbers: int) -> dict[int, dict[str, int] | None]:
    return {number: {"seats": number} for number in numbers}


def test_a_batch_costs_what_it_changes_whatever_the_partition_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "_SETTLED_SECONDS", -1.0)
    monkeypatch.setattr(rocks, "_SORTED_RUNS", 100)  # compactions have a time of their own
    read_files: list[int] = []
    checksums = scan.Checksums

    class Counted(checksums):  # type: ignore[misc, valid-type]
        def __post_init__(self) -> None:
            super().__post_init__()
            read_files.append(1)

    monkeypatch.setattr(scan, "Checksums", Counted)
    faults = FaultInjector()
    writer = writer_of(new_account().restarted(faults).container("box"), tmp_path)
    requests, files, tagged = [], [], []
    for batch in range(12):
        before = faults.count, len(read_files)
        writer.run(batch, values(batch))
        operations = [each.operation for each in faults.attempts[before[0] :]]
        requests.append(len(operations))
        tagged.append(operations.count("set_tags"))
        files.append(len(read_files) - before[1])
    steady = slice(5, 11)
    assert 1 == len(set(files[steady])), "only new files are read"
    assert 1 == len(set(tagged[steady])), "only new blobs are asked to have no TTL"
    assert 1 == len(set(requests[steady])) and 30 > requests[6]


def test_attempts_that_come_late_and_again_leave_what_was_published(tmp_path: Path) -> None:
    container = new_account().container("box")
    writer = writer_of(container, tmp_path / "host")
    late = replace(writer, cache_dir=tmp_path / "other")
    writer.run(0, values(1))
    base = late.fill.base
    assert base is not None
    published = writer.run(1, values(2))
    stale = replace(late, fill=_Stale(writer.fill, base))  # type: ignore[arg-type]
    for _ in range(4):
        stale.write(1, values(2))
    state = next(iter({name.name.rsplit("/", 1)[0] for name in container.list() if "checkpoint.json" in name.name}))
    assert published.checkpoints[0] in {str(each.id) for each in checkpoints(Location.in_container(container, state))}
    assert {1: {"seats": 1}, 2: {"seats": 2}} == read(writer.location, "reader", 0, tmp_path / "reader").content
    writer.run(2, values(3))
    writer.run(3, values(4))
    assert 4 >= len(checkpoints(Location.in_container(container, state))), "those of late attempts have gone"
    assert {1, 2, 3, 4} == set(read(writer.location, "reader", 1, tmp_path / "reader").content)


class _Stale:
    """The fill as a task sees it that was started before the last publication."""

    def __init__(self, fill: object, base: object) -> None:
        self._fill, self.base = fill, base

    def __getattr__(self, name: str) -> object:
        return getattr(self._fill, name)

    def in_use(self, _: int) -> frozenset[str]:
        return frozenset(self.base.checkpoints)  # type: ignore[attr-defined]
