"""A claim on names beside a directory: one process at a time makes and deletes what has them, and only what is its own.

The claim is a lock file, locked (`flock`) by the process that works there. It has a text, `_MARK`, before anything is
made under the names, and is deleted by its holder when nothing has one of them any more. So

- names without a marked lock file are of another program, or of a user: they are refused, and nothing is deleted;
- a marked lock file that nobody has locked was left by a process that was killed, and what has the names with it.

Who gets the lock compares the inode that it has locked with that of the path: if they differ, the file was deleted
meanwhile, and it begins again.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from azure_account.clock import SystemClock
from azure_account.errors import ConfigurationError, TransientError, describe
from state_backup.local.durable import make_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from azure_account.clock import Clock

logger = logging.getLogger(__name__)

TIMEOUT = 600.0
"""Seconds."""
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.2
_WAIT_REPORTED = 1.0
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MARK = b"state_backup works beside this file, or was killed there. Process "


@contextmanager
def claimed(lock: Path, names: Sequence[Path], timeout: float = TIMEOUT, clock: Clock | None = None) -> Iterator[None]:
    """Hold the claim on `names` as long as the block lasts: what has them may be deleted. lock: its lock file.

    `TransientError` if another process, or thread, has it for longer than `timeout` seconds. `ConfigurationError` if
    somebody else has made what has one of the names. `OSError` if the disk refuses the lock file.
    """
    descriptor = _acquire(lock, timeout, clock or SystemClock())
    try:
        _mark(descriptor, lock, names)
        try:
            yield
        finally:
            _end(lock, names)
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a forked child may have the descriptor too
        os.close(descriptor)


def check_names(lock: Path, names: Sequence[Path]) -> None:
    """`ConfigurationError` if somebody else has made what has one of the names. Waits for nobody."""
    if not os.path.lexists(lock):
        _check(lock, names)


def _check(lock: Path, names: Sequence[Path]) -> None:
    foreign = [str(name) for name in names if os.path.lexists(name)]
    if foreign:
        cause = f"{' and '.join(foreign)} is there, and was not made by state_backup"
        step = "Move it away, or give another directory: what has this name would be deleted."
        raise ConfigurationError(describe("lock", str(lock), cause, step))


def _acquire(lock: Path, timeout: float, clock: Clock) -> int:
    began, wait, reported = clock.monotonic(), _FIRST_WAIT, False
    while (descriptor := _try(lock)) is None:
        elapsed = clock.monotonic() - began
        if elapsed >= timeout:
            step = "Run it again later; if that process hangs, end it: that releases the lock."
            raise TransientError(describe("lock", str(lock), f"{_holder(lock)} has it", step, elapsed=elapsed))
        if elapsed >= _WAIT_REPORTED and not reported:
            logger.warning("waiting for %s, which has locked %s", _holder(lock), lock)
            reported = True
        clock.sleep(min(wait, timeout - elapsed))
        wait = min(2 * wait, _LONGEST_WAIT)
    return descriptor


def _try(lock: Path) -> int | None:
    """The locked file. None if others have locked it, or have just deleted it."""
    descriptor = _open(lock)
    locked = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked = os.path.samestat(lock.lstat(), os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not locked:
            os.close(descriptor)
    return descriptor if locked else None


def _open(lock: Path) -> int:
    try:
        return os.open(lock, _FLAGS, 0o600)
    except FileNotFoundError:
        make_folders(lock.parent)
        return os.open(lock, _FLAGS, 0o600)


def _mark(descriptor: int, lock: Path, names: Sequence[Path]) -> None:
    """Mark the file, if nobody else has made what has one of the names."""
    text = os.pread(descriptor, len(_MARK), 0)
    if text and text != _MARK:
        cause, step = "it is the file of another program", "Move it away: state_backup needs this name."
        raise ConfigurationError(describe("lock", str(lock), cause, step))
    if not text:
        try:
            _check(lock, names)
        except ConfigurationError:
            _end(lock, ())
            raise
    os.ftruncate(descriptor, len(text))
    os.pwrite(descriptor, _MARK + b"%d\n" % os.getpid(), 0)
    os.fsync(descriptor)


def _end(lock: Path, names: Sequence[Path]) -> None:
    """Delete the file, unless something has one of the names still: it says that this is ours."""
    if not any(os.path.lexists(name) for name in names):
        with contextlib.suppress(OSError):
            lock.unlink()


def _holder(lock: Path) -> str:
    """For the message of those who wait."""
    try:
        pid = lock.read_bytes().removeprefix(_MARK).strip()
    except OSError:
        return "another process"
    return f"process {pid.decode('ascii')}" if pid.isdigit() else "another process"
