"""Directories of a real RocksDB, which are read while newer ones are made of links to their files."""

from __future__ import annotations

from pathlib import Path

from rocksdict import AccessType, Rdict

from adjunct_store.host.folders import store_folder
from adjunct_store.host.working import Marker, working_directory
from azure_account.location import Location
from azure_account.memory.account import MemoryAccount
from azure_account.memory.faults import FaultInjector
from state_backup.backup.rocksdb import rocksdb_checkpoint
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state
from tests.adjunct_store.host.stored import STORE, downloads, opened, state
from tests.state_backup.dying import state_of

KEYS = 500


def write_version(account: MemoryAccount, cache_dir: Path, version: int) -> str:
    """Write keys of a version over those of the last one, and commit a checkpoint of it."""
    container = account.container("box")
    with working_directory(store_folder(container, STORE, cache_dir), 1, 0) as work:
        work.begin()
        db = Rdict(str(work.directory))
        for key in range(KEYS):
            db[version * KEYS + key] = version
        db.flush()
        with rocksdb_checkpoint(db) as directory:
            writer = open_state(
                Location.in_container(container, state(1, 0)), TaskIdentity("planes"), WriterSettings(keep=9, threads=1)
            )
            id_ = str(writer.back_up({"store": directory}).id)
        db.close()
        work.done(Marker(id_))
        assert id_ == work.at
    return id_


def read_only(directory: Path) -> Rdict:
    return Rdict(str(directory), access_type=AccessType.read_only())


def test_versions_are_read_side_by_side_and_reading_changes_no_file(tmp_path: Path) -> None:
    account = MemoryAccount()
    account.container("box").create()
    cache_dir = tmp_path / "cache"
    old = write_version(account, cache_dir, 0)
    cache = opened(account, cache_dir)
    first = cache.open(1, 0, old)
    before = state_of(first.directory)
    reading = read_only(first.directory)
    new = write_version(account, cache_dir, 1)
    faults = FaultInjector()
    with opened(account.restarted(faults), cache_dir).open(1, 0, new) as second:
        newer = read_only(second.directory)
        linked = [path for path in second.directory.glob("*.sst") if path.stat().st_nlink > 1]
        assert len(linked) == 1
        assert 2 * KEYS == len(list(newer.keys()))
        newer.close()
    assert KEYS == len(list(reading.keys()))
    reading.close()
    assert before == state_of(first.directory)
    first.close()
    assert 0 < downloads(faults)
