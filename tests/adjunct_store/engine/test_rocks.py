"""RocksDB through rocksdict: what the wrapper makes of its traps."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import pytest
from rocksdict import Rdict

from adjunct_store.engine.rocks import Database, Entry
from foundation.errors import ConfigurationError, CorruptError
from tests.limits import no_more_open_files


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with Database(tmp_path / "db", read_only=False) as database:
        for number in range(20_000):
            database.rdict[f"{number:05}".encode()] = os.urandom(50)
        database.rdict.flush()
    return tmp_path / "db"


def keys_of(lists: Iterable[list[Entry]]) -> list[list[bytes]]:
    return [[key for key, _ in some] for some in lists]


def test_keys_are_found_in_the_order_asked_and_scanned_in_their_own(filled: Path) -> None:
    with Database(filled, read_only=True) as database:
        found = database.get_many([b"00007", b"none", b"00003", b"00007"])
        assert [True, False, True, True] == [each is not None for each in found]
        assert found[0] == found[3] != found[2]
        assert [[b"00005", b"00006"], [b"00007"]] == keys_of(database.scan(b"00004a", b"00008", 2, caches_blocks=True))
        assert [[b"19999"]] == keys_of(database.scan(b"19999", None, 2, caches_blocks=True))
        assert [] == keys_of(database.scan(b"2", None, 2, caches_blocks=True))
        assert [] == database.get_many([])


def test_a_damaged_block_is_an_error_of_a_scan_and_not_its_end(filled: Path) -> None:
    path = next(filled.glob("*.sst"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    seen: list[list[Entry]] = []
    damaged = pytest.raises(CorruptError, match=r"read store .*/db failed: .*orruption")
    with Database(filled, read_only=True) as database, damaged:
        deque(map(seen.append, database.scan(b"", None, 1, caches_blocks=False)))
    assert 0 < len(seen) < 20_000


def test_a_missing_directory_or_file_is_corrupt(filled: Path, tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match="open store .*No such file"):
        Database(tmp_path / "none", read_only=True)
    next(filled.glob("*.sst")).unlink()
    with pytest.raises(CorruptError, match="open store"):
        Database(filled, read_only=True)


def test_a_second_writer_is_refused_with_the_reason(filled: Path) -> None:
    with Database(filled, read_only=False):
        with pytest.raises(ConfigurationError, match="writes the store: wait until it has closed it"):
            Database(filled, read_only=False)
        with Database(filled, read_only=True) as reader:
            assert reader.get_many([b"00001"])[0] is not None
    with Database(filled, read_only=False) as again:
        assert again.get_many([b"00001"])[0] is not None


def test_a_database_is_not_used_after_it_was_closed_nor_in_a_forked_child(filled: Path) -> None:
    with Database(filled, read_only=False) as database:
        child = os.fork()
        if not child:
            try:
                database.get_many([b"00001"])
            except ConfigurationError as error:
                database.close()  # does not close what is the parent's
                os._exit(7 if "before this process was forked" in str(error) else 8)
            os._exit(9)
        assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert database.get_many([b"00001"])[0] is not None
    with pytest.raises(ConfigurationError, match="it is closed"):
        database.get_many([b"00001"])


def test_a_database_of_pickles_is_refused(tmp_path: Path) -> None:
    """A store that was made with rocksdict's default mode has pickles; loading them would run code."""
    pickled = Rdict(str(tmp_path / "db"))
    pickled["key"] = print
    pickled.close()
    with pytest.raises(ConfigurationError, match="comparator"):
        Database(tmp_path / "db", read_only=True)


def test_too_many_open_files_are_no_fault_of_the_disk(filled: Path) -> None:
    refused = pytest.raises(ConfigurationError, match=r"Too many open files.*Raise the limit of open files \(`ulimit")
    with refused, no_more_open_files():
        Database(filled, read_only=True)
    Database(filled, read_only=True).close()
