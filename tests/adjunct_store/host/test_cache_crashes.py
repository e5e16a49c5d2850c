"""Processes of a host that are killed anywhere, and race: nobody ever reads a directory that is not whole."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pytest

from azure_account.memory.faults import Crash, FaultInjector, ProcessDied, at
from tests.adjunct_store.host import processes
from tests.adjunct_store.host.stored import FILES, Stored, is_whole
from tests.state_backup.dying import dying


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def test_eight_processes_that_open_a_checkpoint_at_once_fetch_it_once(stored: Stored) -> None:
    (id_,) = stored.add(1, 0, 1)
    barrier = processes.CONTEXT.Barrier(8)
    call = (processes.open_at_once, stored.blobs(), stored.folder / "cache", barrier, 1, 0, id_)
    results = processes.run_all([call] * 8)
    assert [True] * 8 == [whole for _, whole in results]
    assert [0] * 7 + [FILES] == sorted(files for files, _ in results)


def test_who_waits_for_a_process_that_is_killed_amid_its_fetch_fetches_itself(stored: Stored) -> None:
    (id_,) = stored.add(1, 0, 1)
    reached, go_on = processes.CONTEXT.Event(), processes.CONTEXT.Event()
    args = (stored.blobs(), stored.folder / "cache", id_, reached, go_on)
    with processes.started(processes.open_and_die_in_a_download, *args) as killed:
        assert reached.wait(60)
        assert any(path.endswith(".restoring") for path in stored.paths())
        go_on.set()
        faults = FaultInjector()
        with stored.cache(faults).open(1, 0, id_) as lease:
            assert is_whole(lease.directory, 1, 0, 0)
        killed.join()
        assert -9 == killed.exitcode
    assert {"g1", "g1/p0", "g1/p0/lock", f"g1/p0/{id_}", f"g1/p0/{id_}/CURRENT"} == stored.paths()


def test_a_process_that_is_killed_at_any_file_operation_of_fetch_and_clean_up_harms_nobody(stored: Stored) -> None:
    stored.add(1, 0, 1)
    stored.add(2, 0, 5)
    times, wrong = processes.run(
        processes.die_at_each_file_operation, stored.blobs(), stored.folder / "caches", stored.ids
    )
    assert [] == wrong
    assert times > 40


def test_processes_that_open_and_clean_up_at_once_read_whole_directories_only(stored: Stored) -> None:
    for generation, partition in ((1, 0), (1, 1), (2, 0)):
        stored.add(generation, partition, 4)
    blobs, cache = stored.blobs(), stored.folder / "cache"
    results = processes.run_all([(processes.race, blobs, cache, stored.ids, seed, 25) for seed in range(4)])
    assert [[]] * 4 == results
    assert 0 == stored.clean().left
    assert [] == list((stored.folder / "cache").iterdir())


@pytest.mark.parametrize("after_effect", [False, True])
def test_an_open_that_dies_at_any_storage_call_is_done_by_the_next_one(stored: Stored, after_effect: bool) -> None:
    ids = stored.add(1, 0, 2)
    stored.cache().open(1, 0, ids[0]).close()
    for number in itertools.count(1):
        faults = FaultInjector(at(number, Crash(after_effect=after_effect)))
        with contextlib.suppress(ProcessDied):
            stored.cache(faults).open(1, 0, ids[1]).close()
        if not faults.died:
            break
        assert not any(ids[1] in path for path in stored.paths())
    assert number > 3
    with stored.cache().open(1, 0, ids[1]) as lease:
        assert is_whole(lease.directory, 1, 0, 1)


def test_a_discard_that_dies_at_any_file_operation_leaves_no_damaged_directory_for_good(stored: Stored) -> None:
    (id_,) = stored.add(1, 0, 1)
    cache = stored.cache()
    for number in itertools.count(1):
        lease = cache.open(1, 0, id_)
        (lease.directory / "CURRENT").write_bytes(b"damaged")
        with dying(stored.folder / "cache", number) as death:
            lease.discard()
        lease.close()
        again = cache.open(1, 0, id_)
        if not is_whole(again.directory, 1, 0, 0):
            again.discard()
        again.close()
        with cache.open(1, 0, id_) as sound:
            assert is_whole(sound.directory, 1, 0, 0)
        if not death.died:
            break
    assert number > 5
    with cache.open(1, 0, id_):
        stored.clean()
    assert {"g1", "g1/p0", "g1/p0/lock", f"g1/p0/{id_}", f"g1/p0/{id_}/CURRENT"} == stored.paths()
