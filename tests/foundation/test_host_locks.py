"""Locks between processes: they exclude, end with their process, and are of what is in place."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import threading
from pathlib import Path

import pytest

from foundation.clock import ManualClock
from foundation.errors import ConfigurationError, TransientError
from foundation.host_locks import exclusive, exclusive_unmarked, try_directory, try_exclusive, try_shared
from tests.adjunct_store.host import processes
from tests.limits import no_more_open_files


def test_one_holds_the_lock_of_a_file_and_the_next_gets_it_after_the_release(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "lock"
    with exclusive(path) as lock:
        assert lock.held
        assert 0o600 == path.stat().st_mode & 0o777
        assert try_exclusive(path) is None
    assert not lock.held
    again = try_exclusive(path)
    assert again is not None
    again.release()
    again.release()


def test_many_read_a_directory_or_one_deletes_it(tmp_path: Path) -> None:
    first, second = try_shared(tmp_path), try_shared(tmp_path)
    assert first is not None and second is not None
    first.release()
    assert try_directory(tmp_path) is None
    second.release()
    deleting = try_directory(tmp_path)
    assert deleting is not None
    assert try_shared(tmp_path) is None
    deleting.release()
    assert try_shared(tmp_path / "absent") is None
    assert try_directory(tmp_path / "absent") is None


def test_who_waits_too_long_learns_the_file_the_pid_and_the_time(tmp_path: Path) -> None:
    path, clock = tmp_path / "lock", ManualClock()
    began = clock.monotonic()
    expected = re.escape(f"lock {path} failed after 600.0 s: process {os.getpid()} has it. ")
    with exclusive(path), pytest.raises(TransientError, match=expected), exclusive(path, 600.0, clock):
        pass
    assert clock.monotonic() == pytest.approx(began + 600.0)


def test_who_waits_for_longer_than_a_second_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "lock"
    with exclusive(path), pytest.raises(TransientError, match=r"lock .* failed after 30\.0 s"):
        exclusive(path, 30.0, ManualClock())
    assert [f"waiting for process {os.getpid()}, which has locked {path}"] == caplog.messages


def test_a_file_that_says_more_stays_as_it_is_and_its_last_word_is_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("of a program. Process 17\n")
    with (
        exclusive_unmarked(path),
        pytest.raises(TransientError, match="process 17 has it"),
        exclusive_unmarked(path, 0.0),
    ):
        pass
    assert "of a program. Process 17\n" == path.read_text()


@pytest.mark.parametrize("text", ["", "mine", "1.5", "\u00b2"])
def test_a_holder_that_is_not_named_is_another_process(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock"
    with exclusive(path):
        path.write_text(text)
        with pytest.raises(TransientError, match="another process has it"):
            exclusive(path, 0.0)


def test_a_thread_that_waits_gets_the_lock(tmp_path: Path) -> None:
    got = threading.Event()

    def wait() -> None:
        with exclusive(tmp_path / "lock"):
            got.set()

    waiting = threading.Thread(target=wait)
    with exclusive(tmp_path / "lock"):
        waiting.start()
        assert not got.wait(0.05)
    waiting.join(60)
    assert got.is_set()


def test_a_lock_of_a_file_or_directory_that_is_gone_is_none(tmp_path: Path) -> None:
    """Its user has opened the path just before another process deleted what was there."""
    path = tmp_path / "lock"
    with exclusive(path) as lock:
        path.unlink()
        assert not lock.in_place
        with exclusive(path, 0.0) as new:
            assert new.in_place
        assert not lock.in_place
    (tmp_path / "d").mkdir()
    reading = try_shared(tmp_path / "d")
    assert reading is not None and reading.in_place
    (tmp_path / "d").rename(tmp_path / "waste")
    (tmp_path / "d").mkdir()
    assert not reading.in_place
    reading.release()


def test_whoever_gets_the_lock_has_the_file_that_is_in_place(tmp_path: Path) -> None:
    """Four threads delete the file and its folder as the last thing when they hold it: never do two hold it at once."""
    path, inside, most = tmp_path / "folder" / "lock", list[int](), list[int]()

    def run(number: int) -> None:
        for _ in range(40):
            with exclusive(path, 30.0):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)
                path.unlink()
                with contextlib.suppress(OSError):  # another thread has just made the next lock file
                    path.parent.rmdir()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [1] * 160 == most


def test_a_disk_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(
        ConfigurationError, match=r"lock .*lock failed: .*No locks.*on a local disk, which has file locks"
    ):
        try_exclusive(tmp_path / "lock")


def test_a_place_without_files_or_permissions_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigurationError, match=r"lock .*file/lock failed: .*Check the path"),
        exclusive(tmp_path / "file" / "lock"),
    ):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="symbolic links"):
        try_exclusive(tmp_path / "link")


def test_programs_that_are_started_do_not_get_the_lock(tmp_path: Path) -> None:
    with exclusive(tmp_path / "lock") as lock:
        assert not os.get_inheritable(lock._descriptor)


def test_a_lock_that_is_released_is_free_though_the_descriptor_is_open_elsewhere(tmp_path: Path) -> None:
    """As in a child that another thread has started just when the lock was acquired."""
    with exclusive(tmp_path / "lock") as lock:
        copy = os.dup(lock._descriptor)
    try:
        with exclusive(tmp_path / "lock", 0.0) as again:
            assert again.held
    finally:
        os.close(copy)


def test_a_forked_child_holds_nothing_and_releases_nothing(tmp_path: Path) -> None:
    assert "child: not held; parent: held" == processes.run(processes.fork_while_locked, tmp_path / "lock")


def test_a_lock_ends_with_its_process_though_a_child_of_it_lives(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with processes.started(processes.die_with_a_child, path, tmp_path / "pid") as process:
        process.join()
    child = int((tmp_path / "pid").read_text())
    try:
        os.kill(child, 0)
        lock = try_exclusive(path)
        assert lock is not None
        lock.release()
    finally:
        os.kill(child, 9)


def test_too_many_open_files_are_no_fault_of_the_directory(tmp_path: Path) -> None:
    refused = pytest.raises(ConfigurationError, match=r"Too many open files.*Raise the limit of open files")
    with refused, no_more_open_files():
        try_exclusive(tmp_path / "lock")
