"""RocksDB stores, backed up while they are written."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import AccessType, Options, Rdict, WriteBatch

from foundation.errors import ConfigurationError
from foundation.report import ProgressCallbacks
from state_backup import TaskIdentity, open_state, restore
from state_backup.backup.rocksdb import rocksdb_checkpoint
from tests.state_backup.states import check_no_orphans, new_account, state_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEYS = 50
ROUNDS = 12
WRITER = """
import sys
from rocksdict import Options, Rdict
from state_backup.backup.rocksdb import rocksdb_checkpoint
db = Rdict(sys.argv[1], Options(raw_mode=True))
print("begun", flush=True)
for number in range(1 << 30):
    for key in range(200):
        db[b"%d" % key] = b"%d" % number
    with rocksdb_checkpoint(db):
        pass
"""


def opened(path: Path) -> Rdict:
    return Rdict(str(path), Options(raw_mode=True))


def content(path: Path) -> dict[bytes, bytes]:
    db = Rdict(str(path), Options(raw_mode=True), access_type=AccessType.read_only(False))
    try:
        rows = db.iter()
        rows.seek_to_first()
        found = {}
        while rows.valid():
            found[rows.key()] = rows.value()
            rows.next()
        rows.status()
        return found
    finally:
        del rows
        db.close()


def put(db: Rdict, rows: Mapping[bytes, bytes]) -> None:
    batch = WriteBatch(raw_mode=True)
    for key, value in rows.items():
        batch.put(key, value)
    db.write(batch)


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[tuple[Rdict, threading.Event]]:
    """A store that a thread writes: each batch sets all keys to one number. The event says that some are written."""
    db = opened(tmp_path / "live")
    begun, stop = threading.Event(), threading.Event()

    def write() -> None:
        for number in count():
            put(db, {b"%04d" % key: b"%d" % number + b"." * 500 for key in range(KEYS)})
            begun.set()
            if stop.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    yield db, begun
    stop.set()
    thread.join()
    db.close()


def test_each_backup_of_a_store_that_is_written_is_of_one_moment(
    writing: tuple[Rdict, threading.Event], tmp_path: Path
) -> None:
    db, begun = writing
    begun.wait()
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    seen = []
    for number in range(ROUNDS):
        with rocksdb_checkpoint(db) as directory:
            writer.back_up({"store": directory}, {"round": str(number)})
        assert not directory.exists()
        restore(state_in(container), {"store": tmp_path / "restored"})
        found = content(tmp_path / "restored")
        assert KEYS == len(found)
        assert 1 == len(set(found.values())), "a batch is there as a whole or not at all"
        seen.append(int(next(iter(found.values())).rstrip(b".")))
    assert sorted(seen) == seen
    assert len(set(seen)) > ROUNDS / 2, "it was written meanwhile"
    check_no_orphans(container)


def test_only_new_files_travel(tmp_path: Path) -> None:
    db = opened(tmp_path / "live")
    writer = open_state(state_in(new_account().container("box")), TaskIdentity("flights"))
    put(db, {b"%06d" % key: b"%d" % key * 20 for key in range(50_000)})
    moved: list[int] = []

    def back_up() -> int:
        moved.clear()
        with rocksdb_checkpoint(db) as directory:
            writer.back_up({"store": directory}, report=ProgressCallbacks(progress=moved.append))
        return sum(moved)

    first = back_up()
    put(db, {b"%06d" % key: b"changed" for key in range(500)})
    assert back_up() < first / 10
    db.close()


def test_a_directory_of_somebody_else_is_refused_and_stays(tmp_path: Path) -> None:
    db = opened(tmp_path / "live")
    (tmp_path / "live.checkpoint").mkdir()
    (tmp_path / "live.checkpoint" / "notes").write_text("mine")
    with (
        pytest.raises(ConfigurationError, match=r"live\.checkpoint is there, and was not made"),
        rocksdb_checkpoint(db),
    ):
        pass
    assert "mine" == (tmp_path / "live.checkpoint" / "notes").read_text()
    assert {"live", "live.checkpoint"} == {path.name for path in tmp_path.iterdir()}
    db.close()


def test_two_threads_that_make_checkpoints_take_turns(tmp_path: Path) -> None:
    db = opened(tmp_path / "live")
    put(db, {b"key": b"value"})

    def read(_: int) -> dict[bytes, bytes]:
        with rocksdb_checkpoint(db) as directory:
            return content(directory)

    with ThreadPoolExecutor(4) as threads:
        assert [{b"key": b"value"}] * 12 == list(threads.map(read, range(12)))
    assert ["live"] == [path.name for path in tmp_path.iterdir()]
    db.close()


def test_files_of_one_name_and_size_and_other_bytes_are_two_files(tmp_path: Path) -> None:
    base = opened(tmp_path / "base")
    put(base, {b"%06d" % key: b"base" for key in range(1_000)})
    base.close()
    container = new_account().container("box")
    writer = open_state(state_in(container), TaskIdentity("flights"))
    writer.back_up({"store": tmp_path / "base"})
    sizes = []
    for letter in (b"a", b"b"):
        branch = tmp_path / f"branch-{letter.decode()}"
        restore(state_in(container), {"store": branch}, checkpoint_id=str(writer.newest.id))  # type: ignore[union-attr]
        db = opened(branch)
        put(db, {b"%06d" % key: letter * 100 for key in range(2_000)})
        db.flush()
        db.close()
        sizes.append({path.name: path.stat().st_size for path in branch.glob("*.sst")})
    assert sizes[0] == sizes[1], "the same names and sizes: the trap is there"
    for letter in (b"a", b"b"):
        writer.back_up({"store": tmp_path / f"branch-{letter.decode()}"})
        restore(state_in(container), {"store": tmp_path / "restored"})
        assert {letter * 100} == set(content(tmp_path / "restored").values())


def test_what_a_killed_process_has_left_is_removed(tmp_path: Path) -> None:
    left, kills = 0, 0
    live = tmp_path / "live"
    while left < 2 or kills < 5:
        kills += 1
        assert kills <= 50, "the kills hit too few checkpoints"
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(live)], stdout=subprocess.PIPE)
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(0.15)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        assert -signal.SIGKILL == process.returncode
        leftovers = {path.name for path in tmp_path.glob("live.checkpoint*")}
        left += bool(leftovers)
        db = opened(live)
        with rocksdb_checkpoint(db) as directory:
            assert content(directory).keys() <= {b"%d" % key for key in range(200)}
        db.close()
        assert [] == list(tmp_path.glob("live.checkpoint*"))


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    db = opened(tmp_path / ("a" * 250))
    with (
        pytest.raises(
            ConfigurationError, match=r"lock .*a.checkpoint.lock failed: .*File name too long.*Check the path"
        ),
        rocksdb_checkpoint(db),
    ):
        pass
    db.close()


def test_a_checkpoint_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    db = opened(tmp_path / "db")
    for file in (tmp_path / "db").iterdir():
        file.unlink()
    with (
        pytest.raises(ConfigurationError, match=r"checkpoint RocksDB into .*db.checkpoint failed.*parent directory"),
        rocksdb_checkpoint(db),
    ):
        pass
    db.close()
