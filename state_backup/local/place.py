"""Put a restored directory in place: it is built beside the old one, and the two are exchanged.

    <directory>.restore.lock   who restores the directory has locked it (`claim`): the other names are its own
    <directory>.restoring      is built: files that are there already are linked, the others downloaded
    <directory>.downloaded     what a failed or killed attempt has built and downloaded, for the next attempt
    <directory>.replaced       the old directory, between two renames, where two names cannot be exchanged at once
    <directory>.left-1         what could not be deleted: no restore's any more, but the user's

The new directory is synced before it is put in place, and the exchange before the old one is deleted. A crash leaves
the old directory or the new one. Where names cannot be exchanged it may leave none, between the two renames: `recover`
puts the old one back. What is deleted is called `.restoring` first, so that nothing that is half deleted is ever put
in place. What cannot be deleted, since it has directories of another user, gets out of the way under a name of its own.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import ConflictError
from state_backup.local.claim import claimed
from state_backup.local.durable import sync
from state_backup.local.linux import exchange

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from state_backup.index.snapshot_index import DirIndex, FileMetadata

logger = logging.getLogger("state_backup")

_LOCK, _RESTORING, _DOWNLOADED, _REPLACED = RESERVED = (".restore.lock", ".restoring", ".downloaded", ".replaced")
"""Endings of names that belong to a restore."""
_LATEST_NS = 2**63 - 2**20
_SET_ASIDE, _FORGOTTEN = "kept", "forgotten"


def claim(directory: Path, timeout: float) -> AbstractContextManager[None]:
    """The right to restore a directory, as long as the block lasts. Errors as those of `claimed`."""
    names = [restoring(directory), downloaded(directory), _replaced(directory)]
    return claimed(directory.with_name(directory.name + _LOCK), names, timeout)


def left_by_restore(directory: Path) -> set[str]:
    """The names beside a directory that a restore which was killed has left; none without its lock file."""
    if not _is_there(directory.with_name(directory.name + _LOCK)):
        return set()
    return {directory.name + ending for ending in RESERVED}


def restoring(directory: Path) -> Path:
    """Where the new directory is built."""
    return directory.with_name(directory.name + _RESTORING)


def downloaded(directory: Path) -> Path:
    """What an attempt that has failed or was killed has downloaded: some files are complete, others are not."""
    return directory.with_name(directory.name + _DOWNLOADED)


def _replaced(directory: Path) -> Path:
    return directory.with_name(directory.name + _REPLACED)


def recover(directory: Path) -> None:
    """Finish or undo what a crash has left of a restore, and set aside what it has downloaded. Under its claim.

    `ConflictError` if it was killed between two renames, and another program has created the directory again since.
    """
    _put_back(directory)
    set_aside(directory)
    discard(directory)


def undo(directory: Path) -> None:
    """Leave the directory as it was before a restore that has failed, and nothing beside it."""
    _put_back(directory)
    _delete(restoring(directory), directory)
    forget_downloaded(directory)
    discard(directory)


def _put_back(directory: Path) -> None:
    old, new = _replaced(directory), restoring(directory)
    if _is_there(old) and not _is_there(directory):
        old.rename(directory)  # the new one may not be on disk yet: it is built again, from what is there
    elif _is_there(old) and _is_there(new):
        cause = f"a restore was killed when {directory} was {old} already; another program has made {directory} since"
        step = f"Move {directory} away, and the next restore puts the old one back; or delete {old} if nobody needs it."
        raise ConflictError("restore", str(directory), cause, step)


def set_aside(directory: Path) -> None:
    """Keep what was built and downloaded until the next attempt, which verifies it.

    If an earlier attempt has set something aside that was not forgotten yet, what was built has nothing else.
    """
    new, kept = restoring(directory), downloaded(directory) / _SET_ASIDE
    if not _is_there(kept) and new.is_dir() and not new.is_symlink():
        _delete(downloaded(directory), directory)
        downloaded(directory).mkdir(mode=stat.S_IRWXU)
        _open_up(new)
        with contextlib.suppress(PermissionError):  # of an old directory that another user has made
            new.rename(kept)
    _delete(new, directory)


def forget_downloaded(directory: Path) -> None:
    """Delete what was set aside. Its name goes first, so that after a crash a part is not taken for the whole."""
    kept = downloaded(directory) / _SET_ASIDE
    if _is_there(kept):
        kept.rename(kept.with_name(_FORGOTTEN))
    _delete(downloaded(directory), directory)


def discard(directory: Path) -> None:
    """Delete the old directory."""
    if _is_there(_replaced(directory)):
        _replaced(directory).rename(restoring(directory))
    _delete(restoring(directory), directory)


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def remove(path: Path) -> None:
    """Delete a directory, if there is one, with all that is in it, also what nobody may read or write."""
    if path.is_dir() and not path.is_symlink():
        _make_writable(path)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _delete(path: Path, directory: Path) -> None:
    """Delete what a restore of the directory does not need, or leave it to the user under a name that is free."""
    try:
        remove(path)
    except OSError as error:
        left = next(each for each in _left_names(directory) if not _is_there(each))
        path.rename(left)
        text = "what a restore of %s does not need cannot be deleted (%s): it is %s now, and stays until you delete it"
        logger.warning(text, directory, error, left)


def _left_names(directory: Path) -> Iterator[Path]:
    return (directory.with_name(f"{directory.name}.left-{number}") for number in count(1))


def _make_writable(directory: Path) -> None:
    _open_up(directory)
    with os.scandir(directory) as found:
        below = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    for each in below:
        _make_writable(Path(each))


def _open_up(directory: Path) -> None:
    """Have a directory that is this user's readable and writable for it. Another's has the permissions that it has."""
    found = directory.stat(follow_symlinks=False)
    if found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        directory.chmod(stat.S_IRWXU)


def make_new(directory: Path, index: DirIndex) -> None:
    """Make the directories of an index beside the directory, writable for now.

    A directory that gives its group to what is made in it (setgid) is replaced by one that does the same.
    """
    new = restoring(directory)
    new.mkdir(mode=stat.S_IRWXU, parents=True)
    old = directory.stat() if directory.is_dir() else None
    if old is not None and old.st_mode & stat.S_ISGID:
        with contextlib.suppress(PermissionError):  # a group that this user is not in
            os.chown(new, -1, old.st_gid)
            new.chmod(stat.S_IRWXU | stat.S_ISGID)
    _make_dirs(new, index)


def _make_dirs(root: Path, index: DirIndex) -> None:
    for below in index.sub_dirs_present:
        (root / below.name).mkdir(mode=stat.S_IRWXU)
        _make_dirs(root / below.name, below)


def apply_permissions(root: Path, index: DirIndex) -> None:
    """Give files and directories the permissions of the index, and sync the directories.

    A file that has them is not touched, and a directory keeps the setgid bit that it got from the one above.
    """
    for file in index.files_present:
        path, mode = root / file.name, mode_of(file.metadata.permissions)
        if stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)
    for below in index.sub_dirs_present:
        apply_permissions(root / below.name, below)
    sync(root)
    root.chmod(mode_of(index.permissions) | root.stat().st_mode & stat.S_ISGID)


def set_time(file: int | Path, metadata: FileMetadata, clock: Clock = SYSTEM_CLOCK) -> None:
    """Give a file, or the one of a descriptor, the modification time of the index, which is in milliseconds.

    The digits below are those of the moment. `ChecksumCache` knows files by inode, size and time: a new file must not
    have all of these from an earlier one, whose inode it may have got. A time that the system does not have is left
    out.
    """
    time_ns = metadata.last_modified_time_millis * 1_000_000
    if time_ns <= _LATEST_NS:
        time_ns += clock.now_ns() % 1_000_000
        os.utime(file, ns=(time_ns, time_ns))


def mode_of(permissions: str) -> int:
    """`rwxr-x---` as a number."""
    return sum(1 << (8 - place) for place, letter in enumerate(permissions) if letter != "-")


def switch(directory: Path) -> None:
    """Put the new directory in the place of the old one, which stays beside it until `discard` or `switch_back`.

    The caller syncs the folder of both.
    """
    old, new = _replaced(directory), restoring(directory)
    if not _is_there(directory):
        new.rename(directory)
    elif not exchange(new, directory):
        directory.rename(old)
        new.rename(directory)


def switch_back(directory: Path) -> None:
    """Put the old directory back after a `switch`; where there was none, there is none again."""
    old, new = _replaced(directory), restoring(directory)
    if _is_there(old):
        directory.rename(new)
        old.rename(directory)
    elif not _is_there(new):
        directory.rename(new)
    else:
        exchange(new, directory)
    sync(directory.parent)
