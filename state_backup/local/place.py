"""Put a restored directory in place: it is built beside the old one and switched in by renames.

    <directory>.restoring-…   is built: files that are there already are linked, the others downloaded
    <directory>.replaced-…    the old directory, for the moment between two renames; then it is deleted

A crash leaves the old directory, or the new one, or (between the two renames) none in place: `recover` puts the old one
back. What is deleted is called `.restoring` first, so that nothing that is half deleted is ever put in place.
"""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from state_backup.index.snapshot_index import DirIndex


def restoring(directory: Path) -> Path:
    """Where the new directory is built."""
    return directory.with_name(f"{directory.name}.restoring")


def _replaced(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.replaced")


def recover(directory: Path) -> None:
    """Finish or undo what a crash has left of an earlier restore."""
    old, new = _replaced(directory), restoring(directory)
    if _is_there(old) and not _is_there(directory):
        old.rename(directory)  # the new one may not be on disk yet: it is built again, from what is there
    remove(new)
    _discard(directory)


def _discard(directory: Path) -> None:
    """Delete the old directory."""
    if _is_there(_replaced(directory)):
        _replaced(directory).rename(restoring(directory))
        remove(restoring(directory))


def _is_there(path: Path) -> bool:
    """Whether there is anything, even a symbolic link to nothing."""
    return os.path.lexists(path)


def remove(path: Path) -> None:
    """Delete a directory, if there is one, with all that is in it, also what nobody may read or write."""
    if path.is_dir() and not path.is_symlink():
        _make_writable(path)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _make_writable(directory: Path) -> None:
    directory.chmod(stat.S_IRWXU)
    with os.scandir(directory) as found:
        below = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    for each in below:
        _make_writable(Path(each))


def make_dirs(root: Path, index: DirIndex) -> None:
    """Make the directories of an index, writable for now."""
    root.mkdir(mode=stat.S_IRWXU, parents=True)
    for below in index.sub_dirs_present:
        make_dirs(root / below.name, below)


def apply_permissions(root: Path, index: DirIndex) -> None:
    """Give files and directories the permissions of the index, and sync the directories."""
    for file in index.files_present:
        (root / file.name).chmod(mode_of(file.metadata.permissions))
    for below in index.sub_dirs_present:
        apply_permissions(root / below.name, below)
    sync(root)
    if index.permissions:
        root.chmod(mode_of(index.permissions))


def sync(path: Path) -> None:
    """Have the file or directory on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def mode_of(permissions: str) -> int:
    """`rwxr-x---` as a number. Samza's indexes have permissions too."""
    return sum(1 << (8 - place) for place, letter in enumerate(permissions) if letter != "-")


def switch(directory: Path) -> None:
    """Put the new directory in the place of the old one."""
    old, new = _replaced(directory), restoring(directory)
    if _is_there(directory):
        directory.rename(old)
    new.rename(directory)
    sync(directory.parent)
    _discard(directory)
