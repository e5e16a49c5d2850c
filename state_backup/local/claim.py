"""A lock for the temporary files beside a directory: one process at a time creates and deletes them.

The claim is a lock file, locked (`flock`) by the process that works there. It has a text, `_MARK`, before anything is
made under the names, and is deleted by its holder when nothing has one of them any more. So

- names without a marked lock file are of another program, or of a user: they are refused, and nothing is deleted;
- a marked lock file that nobody has locked was left by a process that was killed, and what has the names with it.
"""

from __future__ import annotations

import contextlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError
from foundation.host_locks import LOCK_TIMEOUT, exclusive_unmarked
from state_backup.local.durable import make_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from foundation.clock import Clock

_MARK = b"state_backup works beside this file, or was killed there. Process "


@contextmanager
def claimed(
    lock: Path, names: Sequence[Path], timeout: float = LOCK_TIMEOUT, clock: Clock = SYSTEM_CLOCK
) -> Iterator[None]:
    """Hold the claim on `names` as long as the block lasts: what has them may be deleted. lock: its lock file.

    `TransientError` if another process, or thread, has it for longer than `timeout` seconds. `ConfigurationError` if
    somebody else has made what has one of the names; that, or `OSError`, if the disk refuses the lock file.
    """
    if not lock.parent.exists():
        make_folders(lock.parent)
    with exclusive_unmarked(lock, timeout, clock) as held:
        _mark(held.fileno(), lock, names)
        try:
            yield
        finally:
            if held.held:  # not in a forked child
                _end(lock, names)


def check_names(lock: Path, names: Sequence[Path]) -> None:
    """`ConfigurationError` if somebody else has made what has one of the names. Waits for nobody."""
    if not os.path.lexists(lock):
        _check(lock, names)


def _check(lock: Path, names: Sequence[Path]) -> None:
    foreign = [str(name) for name in names if os.path.lexists(name)]
    if foreign:
        cause = f"{' and '.join(foreign)} is there, and was not made by state_backup"
        step = "Move it away, or give another directory: what has this name would be deleted."
        raise ConfigurationError("lock", str(lock), cause, step)


def _mark(descriptor: int, lock: Path, names: Sequence[Path]) -> None:
    """Mark the file, if nobody else has made what has one of the names."""
    text = os.pread(descriptor, len(_MARK), 0)
    if text and text != _MARK:
        cause, step = "it is the file of another program", "Move it away: state_backup needs this name."
        raise ConfigurationError("lock", str(lock), cause, step)
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
