"""Locks between the processes (and threads) of one host: `flock` on a lock file, or on a directory itself.

A lock belongs to an open file description, so the kernel releases it when its process dies. A forked child would share
the description, and keep the lock of a parent that was killed: it closes its copies first of all, and holds nothing.

A lock file has the pid of its holder as its last word. It may be deleted by who holds it, and a directory renamed. Who
gets a lock compares the inode that it has locked with that of the path: if they differ, it has locked something that is
gone, and begins again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from itertools import takewhile
from typing import TYPE_CHECKING

from foundation.clock import SYSTEM_CLOCK
from foundation.disk_advice import next_step
from foundation.errors import ConfigurationError, TransientError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from foundation.clock import Clock

logger = logging.getLogger("foundation")

LOCK_TIMEOUT = 600.0
"""Seconds."""
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.2
_WAIT_REPORTED = 1.0
_FILE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


class Lock:
    """A lock that was acquired by this process. A context manager, which releases it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path: Path = path
        self._descriptor = descriptor
        _held.add(self)

    def fileno(self) -> int:
        """The descriptor of what is locked."""
        return self._descriptor

    @property
    def held(self) -> bool:
        """Whether it was not released yet. False in a forked child."""
        return self in _held

    @property
    def in_place(self) -> bool:
        """Whether the path still leads to what is locked."""
        return self.held and _leads_to(self.path, self._descriptor)

    def release(self) -> None:
        """Release it, if it is held. Other processes that have the descriptor do not keep it."""
        try:
            _held.remove(self)
        except KeyError:
            return
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


_held: set[Lock] = set()


def _close_in_child() -> None:
    for lock in list(_held):
        os.close(lock.fileno())
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


def exclusive(path: Path, timeout: float = LOCK_TIMEOUT, clock: Clock = SYSTEM_CLOCK) -> Lock:
    """The exclusive lock of a lock file, which is made with its folder if it is absent.

    `TransientError` if others hold it for longer than `timeout` seconds, `ConfigurationError` if the disk refuses it.
    """
    return _with_pid(exclusive_unmarked(path, timeout, clock))


def try_exclusive(path: Path) -> Lock | None:
    """The exclusive lock of a lock file. None if others hold it, or its folder is gone."""
    lock = _try(path, _FILE, fcntl.LOCK_EX)
    return None if lock is None else _with_pid(lock)


def try_directory(directory: Path) -> Lock | None:
    """The exclusive lock of a directory. None if others hold one, or there is no directory."""
    return _try(directory, _DIRECTORY, fcntl.LOCK_EX)


def try_shared(directory: Path) -> Lock | None:
    """A shared lock of a directory. None if somebody holds the exclusive one, or there is no directory.

    While it is held, nobody who locks directories before deleting them deletes this one.
    """
    return _try(directory, _DIRECTORY, fcntl.LOCK_SH)


def exclusive_unmarked(path: Path, timeout: float = LOCK_TIMEOUT, clock: Clock = SYSTEM_CLOCK) -> Lock:
    """The lock of a file that says more than the pid of its holder: as `exclusive`, and the file stays as it is."""
    began, wait, reported = clock.monotonic(), _FIRST_WAIT, False
    while True:
        _make_folder(path)
        lock = _try(path, _FILE, fcntl.LOCK_EX)
        if lock is not None:
            return lock
        elapsed = clock.monotonic() - began
        if elapsed >= timeout:
            step = "Run it again later; if that process hangs, end it: that releases the lock."
            raise TransientError("lock", str(path), f"{_holder(path)} has it", step, elapsed=elapsed)
        if elapsed >= _WAIT_REPORTED and not reported:
            logger.warning("waiting for %s, which has locked %s", _holder(path), path)
            reported = True
        clock.sleep(min(wait, timeout - elapsed))
        wait = min(2 * wait, _LONGEST_WAIT)


def _make_folder(path: Path) -> None:
    """Make the folder, for this user only, again if a clean-up of another process deletes it meanwhile."""
    folders = (path.parent, *path.parent.parents)
    try:
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            for missing in reversed(list(takewhile(lambda each: not each.exists(), folders))):
                missing.mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except OSError as error:
        raise _refused(path, error) from error


def _try(path: Path, flags: int, operation: int) -> Lock | None:
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise _of_another_user(path, error) from error
    except OSError as error:
        raise _refused(path, error) from error
    locked = False
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        locked = _leads_to(path, descriptor)
        return Lock(path, descriptor) if locked else None
    except BlockingIOError:
        return None
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        if not locked:
            os.close(descriptor)


def _leads_to(path: Path, descriptor: int) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _with_pid(lock: Lock) -> Lock:
    """Note it for the message of those who wait: nothing depends on it, and a full disk may refuse it."""
    with contextlib.suppress(OSError):
        os.ftruncate(lock.fileno(), 0)
        os.pwrite(lock.fileno(), b"%d\n" % os.getpid(), 0)
    return lock


def _holder(path: Path) -> str:
    try:
        pid = path.read_text("ascii").split()[-1]
    except (OSError, ValueError, IndexError):
        pid = ""
    return f"process {pid}" if pid.isdecimal() else "another process"


def _of_another_user(path: Path, error: PermissionError) -> ConfigurationError:
    try:
        owner = path.lstat().st_uid
    except OSError:
        return _refused(path, error)
    if owner == os.geteuid():
        return _refused(path, error)
    cause = f"{error}; user {owner} has made it"
    step = "Run it as that user, or delete it if no process of that user runs here."
    return ConfigurationError("lock", str(path), cause, step)


def _refused(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError("lock", str(path), str(error), next_step(error))
