"""The directory that a partition is written in: one process at a time, and never a wrong marker."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from adjunct_store.host.folders import store_folder
from adjunct_store.host.working import Marker, WorkingDirectory, working_directory
from foundation.errors import ConfigurationError, CorruptError, TransientError
from state_backup import ChecksumCache
from tests.adjunct_store.host.stored import STORE, Stored, tree
from tests.state_backup.dying import dying
from tests.state_backup.states import write


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    yield Stored(tmp_path)


def working(
    stored: Stored, generation: int = 1, partition: int = 0, **settings: Any
) -> AbstractContextManager[WorkingDirectory]:
    folder = store_folder(stored.account.container("box"), STORE, stored.folder / "cache")
    return working_directory(folder, generation, partition, **settings)


def version_of(directory: Path) -> str:
    return (directory / "CURRENT").read_text().split()[2] + "-0"


def test_the_marker_is_of_what_was_done_last_and_is_gone_while_it_is_written(stored: Stored) -> None:
    with working(stored) as work:
        assert work.at is None
        assert not work.directory.exists()
        work.begin()
        write(work.directory, tree(1, 0, 1))
        work.done(Marker("1-0"))
        assert "1-0" == work.at
    with working(stored) as work:
        assert "1-0" == work.at
        work.begin()
        assert work.at is None
    with working(stored) as work:
        assert work.at is None
        assert "1-0" == version_of(work.directory)


def test_a_marker_has_what_the_next_backup_need_not_do_again(stored: Stored) -> None:
    known = ChecksumCache.from_json([(1, 2, 3, 4, 5, "ab")])
    with working(stored) as work:
        write(work.directory, tree(1, 0, 1))
        work.done(Marker("1-0", settled=True, read_files={"store": known}))
    with working(stored) as work:
        found = work.marker
        assert found is not None and ("1-0", True) == (found.checkpoint, found.settled)
        assert [[1, 2, 3, 4, 5, "ab"]] == found.read_files["store"].to_json()
        path = work.folder / "at"
        whole = path.read_bytes()
        for damaged in (b"", b"1-0", b"[]", whole[:-2], whole.replace(b'"ab"', b'"cd"'), b"\xff"):
            path.write_bytes(damaged)
            assert work.marker is None


def test_a_marker_without_its_directory_or_of_no_checkpoint_says_nothing(stored: Stored) -> None:
    with working(stored) as work:
        write(work.directory, tree(1, 0, 1))
        work.done(Marker("1-0"))
        shutil.rmtree(work.directory)
        assert work.at is None
        write(work.directory, tree(1, 0, 1))
        (work.folder / "at").write_bytes(b"\xff")
        assert work.at is None
        (work.folder / "at").write_text("1-")
        assert work.at is None


def test_clear_deletes_all_that_writes_have_left(stored: Stored) -> None:
    with working(stored) as work:
        for name in ("store", "store.checkpoint", "store.checkpoint.tmp", "store.restoring", "store.replaced"):
            write(work.folder / name, tree(1, 0, 1))
        work.done(Marker("1-0"))
        work.clear()
        assert work.at is None
        assert ["lock"] == [path.name for path in work.folder.iterdir()]


def test_one_process_has_a_partition_and_others_may_have_other_ones(stored: Stored) -> None:
    with (
        working(stored),
        working(stored, partition=1),
        working(stored, generation=2),
        pytest.raises(TransientError, match=r"work/lock failed.*: process \d+ has it"),
        working(stored, lock_timeout=0.0),
    ):
        pass
    with working(stored, lock_timeout=0.0):
        pass


def test_what_is_not_on_disk_or_no_checkpoint_is_not_done(stored: Stored) -> None:
    with working(stored) as work:
        with pytest.raises(ConfigurationError, match=r"complete .*store failed: .*No such file"):
            work.done(Marker("1-0"))
        with pytest.raises(CorruptError, match="is no checkpoint id"):
            work.done(Marker("1"))
        assert work.at is None


def test_without_the_lock_nothing_is_written(stored: Stored) -> None:
    with working(stored) as work:
        pass
    for act in (work.begin, work.clear, lambda: work.done(Marker("1-0"))):
        with pytest.raises(ConfigurationError, match="its lock is not held here"):
            act()


def test_what_was_written_in_generations_before_the_last_one_goes_unless_it_is_in_use(stored: Stored) -> None:
    for generation in (1, 2):
        with working(stored, generation) as work:
            write(work.directory, tree(1, 0, 1))
    stored.add(1, 0, 1)
    stored.cache().open(1, 0, stored.ids[1, 0][0]).close()
    with working(stored, 3):
        left = {path for path in stored.paths() if path.endswith("p0/work")}
        assert {"g2/p0/work", "g3/p0/work"} == left
        assert f"g1/p0/{stored.ids[1, 0][0]}" in stored.paths()
        with working(stored, 5):
            left = {path for path in stored.paths() if path.endswith("p0/work")}
            assert {"g3/p0/work", "g5/p0/work"} == left


def test_wherever_a_writer_dies_the_marker_is_none_or_right(stored: Stored) -> None:
    found = set[str | None]()
    for number in itertools.count(1):
        with working(stored) as work:
            work.clear()
            write(work.directory, tree(1, 0, 1))
            work.done(Marker("1-0"))
        with dying(stored.folder / "cache", number) as death, working(stored) as work:
            work.begin()
            for name in ("CURRENT", "000001.sst"):
                (work.directory / name).write_bytes(b"1 0 2")
            work.done(Marker("2-0"))
        with working(stored) as work:
            assert work.at in {None, version_of(work.directory)}
            found.add(work.at)
        if not death.died:
            break
    assert {None, "1-0", "2-0"} == found
    assert number > 5
