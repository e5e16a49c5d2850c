"""A host fetches each checkpoint once, keeps what is read, and deletes the rest."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
from pathlib import Path

import pytest

from adjunct_store.host.cleaning import CacheCleanupResult, clean_cache
from adjunct_store.host.folders import VERIFIED
from azure_account.location import Location
from azure_account.memory.faults import FaultInjector
from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, CorruptError, NotFoundError, TransientError
from foundation.host_locks import exclusive, try_directory
from state_backup.sweeping.sweep import plan_sweep
from tests.adjunct_store.host.stored import FILES, STORE, Stored, downloads, is_whole, state, tree
from tests.limits import file_size_limit
from tests.state_backup.dying import dying


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    stored = Stored(tmp_path)
    stored.add(1, 0, 5)
    return stored


def test_a_checkpoint_is_fetched_by_the_first_and_opened_by_the_others(stored: Stored) -> None:
    (id_, *_), faults = stored.ids[1, 0], FaultInjector()
    with stored.cache(faults).open(1, 0, id_) as first:
        assert is_whole(first.directory, 1, 0, 0)
        assert FILES == downloads(faults)
        again = FaultInjector()
        with stored.cache(again).open(1, 0, id_) as second:
            assert first.directory == second.directory
        assert 0 == again.count


def test_only_what_no_older_checkpoint_of_the_host_has_is_downloaded(stored: Stored) -> None:
    ids, faults = stored.ids[1, 0], FaultInjector()
    stored.cache().open(1, 0, ids[0]).close()
    with stored.cache(faults).open(1, 0, ids[1]) as lease:
        assert is_whole(lease.directory, 1, 0, 1)
        assert (lease.directory.parent / ids[0] / "000001.sst").samefile(lease.directory / "000001.sst")
    assert 2 == downloads(faults)


def test_the_newest_two_stay_and_those_that_are_open(stored: Stored) -> None:
    ids, cache = stored.ids[1, 0], stored.cache()
    first = cache.open(1, 0, ids[0])
    for id_ in ids[1:4]:
        cache.open(1, 0, id_).close()
    folder = first.directory.parent
    assert {"lock", VERIFIED, ids[0], ids[2], ids[3]} == {path.name for path in folder.iterdir()}
    assert is_whole(first.directory, 1, 0, 0)
    first.close()
    cache.open(1, 0, ids[4]).close()
    assert {"lock", VERIFIED, ids[3], ids[4]} == {path.name for path in folder.iterdir()}
    with cache.open(1, 0, ids[0]) as lease:  # of a batch that is repeated
        assert is_whole(lease.directory, 1, 0, 0)
    assert {"lock", VERIFIED, ids[0], ids[3], ids[4]} == {path.name for path in folder.iterdir()}


def test_lower_generations_go_when_nobody_has_them_open_with_all_their_files(stored: Stored) -> None:
    (new,), cache = stored.add(3, 0, 1), stored.cache()
    old = [stored.add(2, partition, 1)[0] for partition in range(2)]
    cache.open(2, 0, old[0]).close()
    held = cache.open(2, 1, old[1])
    cache.open(1, 0, stored.ids[1, 0][0]).close()
    cache.open(3, 0, new).close()
    newest = {"g3", "g3/p0", "g3/p0/lock", f"g3/p0/{new}", f"g3/p0/{new}/CURRENT"}
    of_held = {"g2", "g2/p1", "g2/p1/lock", f"g2/p1/{old[1]}", f"g2/p1/{old[1]}/CURRENT"}
    assert newest | of_held == stored.paths()
    with cache.open(3, 0, new):
        held.close()
        assert stored.clean().left > 0
        assert newest == stored.paths()
    assert 0 == stored.clean().left
    assert set() == stored.paths()


def test_a_partition_that_is_being_fetched_is_left_alone(stored: Stored) -> None:
    id_, cache = stored.ids[1, 0][0], stored.cache()
    with cache.open(1, 0, id_) as lease:
        folder = lease.directory.parent
    with exclusive(folder / "lock"):
        assert 0 == stored.clean().freed
        assert lease._lock.path.is_dir()


def test_cleaning_frees_what_is_in_no_open_checkpoint(stored: Stored) -> None:
    ids, cache = stored.ids[1, 0], stored.cache()
    cache.open(1, 0, ids[0]).close()
    with cache.open(1, 0, ids[1]) as lease:
        files = sum(path.stat().st_size for path in lease.directory.iterdir())
        lock = (lease.directory.parent / "lock").stat().st_size
        cleaned = stored.clean()
        assert files + lock == cleaned.left
        assert 100 < cleaned.freed < files, "a file that only the older one has, and its CURRENT; others are shared"
        assert is_whole(lease.directory, 1, 0, 1)
    assert files + lock == stored.clean().freed
    assert stored.clean() == CacheCleanupResult(0, 0)
    with cache.open(1, 0, ids[1]) as lease:
        assert is_whole(lease.directory, 1, 0, 1), "the same cache goes on in a folder that was deleted"


def test_cleaning_touches_no_folder_that_is_not_of_a_store(tmp_path: Path) -> None:
    for name in ("g1/p0", "planes/g1/p0", f"{'a' * 24}/notes", f"{'A' * 24}/g1/p0"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("text")
    before = sorted(tmp_path.rglob("*"))
    assert CacheCleanupResult(0, 4) == clean_cache(tmp_path)
    assert before == sorted(tmp_path.rglob("*"))
    assert CacheCleanupResult(0, 0) == clean_cache(tmp_path / "absent")
    with pytest.raises(ConfigurationError, match="it is not a directory"):
        clean_cache(tmp_path / "g1" / "p0" / "file")


def test_what_killed_processes_have_left_goes_before_the_next_fetch(stored: Stored) -> None:
    """Else a disk that it has filled would stay full."""
    ids, cache = stored.ids[1, 0], stored.cache()
    with cache.open(1, 0, ids[0]) as lease:
        folder = lease.directory.parent
    for name in ("1-1.restoring", f"{ids[0]}.waste-0", f"{ids[0]}.waste-1"):
        (folder / name).mkdir()
        (folder / name / "half").write_bytes(b"1")
    (folder / "file").touch()
    with pytest.raises(NotFoundError):
        cache.open(1, 0, "1-1")
    assert {"lock", VERIFIED, ids[0]} == {path.name for path in folder.iterdir()}


def test_a_checkpoint_that_is_dropped_is_named_with_what_to_do(stored: Stored) -> None:
    with pytest.raises(NotFoundError, match=r"checkpoint 1-1 of generation 1, partition 0, .*newest version"):
        stored.cache().open(1, 0, "1-1")
    with pytest.raises(NotFoundError, match="checkpoint 1-1 of generation 7"):
        stored.cache().open(7, 0, "1-1")


@pytest.mark.parametrize("id_", ["", "..", "../../g2/p0/1-1", "lock", "1-1.waste-0"])
def test_what_is_no_checkpoint_id_is_refused(stored: Stored, id_: str) -> None:
    with pytest.raises(CorruptError, match="is no checkpoint id"):
        stored.cache().open(1, 0, id_)


def test_damaged_blobs_are_an_error_and_nothing_half_done_stays(stored: Stored) -> None:
    container = stored.account.container("box")
    blobs = plan_sweep(Location.in_container(container, state(1, 0))).in_use
    for blob in [name for name in blobs if "/files/" in name]:
        container.put(blob, b"x" * len(container.get(blob).data))
    with pytest.raises(CorruptError, match="another checksum"):
        stored.cache().open(1, 0, stored.ids[1, 0][0])
    assert {"g1", "g1/p0", "g1/p0/lock"} == stored.paths()


def test_a_full_disk_is_an_error_and_nothing_half_done_stays(stored: Stored) -> None:
    cache = stored.cache()
    refused = pytest.raises(ConfigurationError, match=r"fetch checkpoint .*\.sst failed: .*another cache_dir")
    with refused, file_size_limit(50):
        cache.open(1, 0, stored.ids[1, 0][0])
    assert {"g1", "g1/p0", "g1/p0/lock"} == stored.paths()
    cache.open(1, 0, stored.ids[1, 0][0]).close()


def test_what_nobody_has_open_any_more_goes_before_the_next_fetch(stored: Stored) -> None:
    """Else a disk that many open versions have filled would stay full when they are closed."""
    ids, cache = stored.add(1, 0, 3), stored.cache()
    leases = [cache.open(1, 0, id_) for id_ in ids]
    folder = leases[0].directory.parent
    assert {*ids} <= {path.name for path in folder.iterdir()}
    for lease in leases:
        lease.close()
    with pytest.raises(NotFoundError):
        cache.open(1, 0, "1-1")
    assert {"lock", VERIFIED, *ids[-2:]} == {path.name for path in folder.iterdir()}


def test_a_damaged_directory_is_discarded_and_fetched_again_from_what_is_sound(stored: Stored) -> None:
    id_, cache = stored.ids[1, 0][0], stored.cache()
    lease, other = cache.open(1, 0, id_), cache.open(1, 0, id_)
    folder = lease.directory.parent
    (lease.directory / "000002.sst").write_bytes(b"damaged")
    lease.discard()
    assert {"lock", f"{id_}.waste-0"} == {path.name for path in folder.iterdir()}
    with cache.open(1, 0, id_) as sound:
        assert is_whole(sound.directory, 1, 0, 0)
    other.discard()
    lease.discard()
    assert {"lock", VERIFIED, id_} == {path.name for path in folder.iterdir()}
    faults = FaultInjector()
    stored.cache(faults).open(1, 0, id_).close()
    assert 0 == faults.count


def test_a_file_that_was_damaged_in_an_older_directory_is_not_linked(stored: Stored) -> None:
    ids, cache = stored.ids[1, 0], stored.cache()
    with cache.open(1, 0, ids[0]) as old:
        (old.directory / "000002.sst").write_bytes(b"damaged")
    with cache.open(1, 0, ids[1]) as lease:
        assert is_whole(lease.directory, 1, 0, 1)


def test_files_that_were_verified_are_not_read_again_until_one_is_found_damaged(stored: Stored) -> None:
    ids, cache = stored.ids[1, 0], stored.cache()
    for id_ in ids[:2]:
        with cache.open(1, 0, id_) as lease:
            grow_old(lease.directory)
    with cache.open(1, 0, ids[1]) as lease:
        (lease.directory / "000002.sst").write_bytes(b"3" * 100)
        grow_old(lease.directory)
    with cache.open(1, 0, ids[2]) as lease:
        assert not is_whole(lease.directory, 1, 0, 2), "the file is linked by its size and time: it was not read"
        lease.discard()
    for version in (2, 1, 0):
        lease = cache.open(1, 0, ids[version])
        damaged = not is_whole(lease.directory, 1, 0, version)
        assert damaged == (version == 1), "those that are fetched after the discard have no damaged file"
        if damaged:
            lease.discard()
        lease.close()
    for version in (0, 1, 2, 3):
        with cache.open(1, 0, ids[version]) as lease:
            assert is_whole(lease.directory, 1, 0, version)


def grow_old(directory: Path) -> None:
    """Else files are too young to be known by their time."""
    for path in directory.iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))


@pytest.mark.parametrize("notes", [b"", b"{}", b"[]", b'{"digest": "0", "read-files": []}', b"\xff"])
def test_damaged_notes_of_what_was_verified_are_not_used(stored: Stored, notes: bytes) -> None:
    ids, cache = stored.ids[1, 0], stored.cache()
    with cache.open(1, 0, ids[0]) as lease:
        noted = lease.directory.parent / VERIFIED
    sound = noted.read_bytes()
    noted.write_bytes(notes)
    with cache.open(1, 0, ids[1]) as lease:
        assert is_whole(lease.directory, 1, 0, 1)
    assert len(sound) <= noted.stat().st_size


def test_a_lease_that_is_closed_gives_no_directory(stored: Stored) -> None:
    lease = stored.cache().open(1, 0, stored.ids[1, 0][0])
    lease.close()
    lease.close()
    with pytest.raises(ConfigurationError, match="the lease is closed"):
        lease.directory  # noqa: B018 - raises


def test_who_waits_too_long_for_a_fetch_learns_of_it(stored: Stored) -> None:
    cache = stored.cache(lock_timeout=5.0, clock=ManualClock())
    with cache.open(1, 0, stored.ids[1, 0][0]) as lease:
        folder = lease.directory.parent
    with exclusive(folder / "lock"), pytest.raises(TransientError, match=r"p0/lock failed after 5\.0 s: process \d+"):
        cache.open(1, 0, stored.ids[1, 0][1])


def test_the_files_are_for_their_owner_only(stored: Stored) -> None:
    with stored.cache().open(1, 0, stored.ids[1, 0][0]) as lease:
        assert {0o600} == {path.stat().st_mode & 0o777 for path in lease.directory.iterdir()}
        assert 0o700 == lease.directory.stat().st_mode & 0o777


def test_the_state_is_the_one_that_is_named(stored: Stored) -> None:
    assert f"{STORE}/g1/p0" == state(1, 0)
    assert FILES == len(tree(1, 0, 0))


def test_an_open_that_is_interrupted_keeps_no_lock(tmp_path: Path) -> None:
    died: set[str] = set()
    stored = Stored(tmp_path)
    (id_,) = stored.add(1, 0, 1)
    for number in itertools.count(1):
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        with dying(tmp_path / "cache", number) as death:
            stored.cache().open(1, 0, id_).close()
        if not death.died:
            break
        died.add(death.done[-1])
        for directory in (tmp_path / "cache").glob(f"*/g1/p0/{id_}"):
            lock = try_directory(directory)
            assert lock is not None, f"locked after a death at {death.done[-1]}"
            lock.release()
    assert {"open", "os.mkdir", "os.rmdir"} <= died


def test_a_cache_directory_that_was_deleted_is_made_again_for_its_owner_only(stored: Stored) -> None:
    cache, ids = stored.cache(), stored.ids[1, 0]
    cache.open(1, 0, ids[0]).close()
    shutil.rmtree(stored.folder / "cache")
    before = os.umask(0o002)
    try:
        cache.open(1, 0, ids[0]).close()
        stored.cache().open(1, 0, ids[1]).close()
    finally:
        os.umask(before)
    made = [path for path in (stored.folder / "cache", *(stored.folder / "cache").rglob("*")) if path.is_dir()]
    assert {0o700} == {stat.S_IMODE(path.stat().st_mode) for path in made}
