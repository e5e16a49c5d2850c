"""The pieces of the benchmark of backups, on a store that is small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rocksdict import Options, Rdict

from benchmarks import backup_store
from benchmarks.backup_steps import EMPTY, FIRST, NEWER, SECOND, Stores, replays, restores, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

RECORDS = 40_000


@pytest.mark.parametrize("piece_bytes", [1, 123, 124, 125, 10_000])
def test_a_changelog_in_pieces_of_any_size_gives_its_records(tmp_path: Path, piece_bytes: int) -> None:
    changelog = tmp_path / "changelog"
    backup_store.write_changelog(changelog, 20)
    data = changelog.read_bytes()
    pieces = (data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes))
    expected = [(data[at + 4 : at + 20], data[at + 24 : at + 124]) for at in range(0, len(data), 124)]
    assert expected == list(backup_store.records_in(pieces))


def test_an_incremental_tool_moves_what_has_changed(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    backup_store.write_store(stores.old, RECORDS)
    backup_store.changed_copy(stores.old, stores.new, RECORDS)
    taken = steps(stores, "back_up", "restore", incremental=True)
    size = backup_store.size_of(stores.old)
    assert size < taken[FIRST].sent < 1.1 * size
    assert size / 100 < taken[SECOND].sent < size / 10
    assert size / 100 < taken[NEWER].received < size / 10
    assert size < taken[EMPTY].received < 1.1 * size


def test_a_store_is_restored_to_an_empty_disk_each_time(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    backup_store.write_store(stores.old, RECORDS)
    assert 2 == len({id(each) for each in restores(stores, 2) if each.seconds > 0})


@pytest.mark.parametrize("replay", [backup_store.put_singly, backup_store.put_in_batches])
def test_a_replayed_store_has_the_records_of_the_changelog(
    tmp_path: Path, replay: Callable[[Path, Iterable[tuple[bytes, bytes]]], None]
) -> None:
    changelog = tmp_path / "changelog"
    backup_store.write_changelog(changelog, 1_000)
    records = list(backup_store.records_in([changelog.read_bytes()]))
    replay(tmp_path / "store", records)
    database = Rdict(str(tmp_path / "store"), Options(raw_mode=True))
    assert dict(records) == dict(database.items())
    database.close()


def test_a_changelog_is_replayed_both_ways(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    backup_store.write_changelog(stores.changelog, 1_000)
    singly, in_batches = replays(stores)
    assert singly.seconds > 0
    assert in_batches.seconds > 0
