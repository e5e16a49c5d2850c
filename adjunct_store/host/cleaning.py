"""Delete directories that the host no longer needs and no process has open.

A directory is renamed before it is deleted, so that no process opens one that is half deleted. The next clean-up
deletes what a killed process has left under such a name. Errors of the disk are logged: they do not stop readers.
"""

from __future__ import annotations

import contextlib
import logging
import os
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from adjunct_store.host.folders import LOCK, VERIFIED, WORK, store_folders
from foundation.errors import ConfigurationError, CorruptError
from foundation.host_locks import try_directory, try_exclusive
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.local import place

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from adjunct_store.host.folders import PartitionFolder, StoreFolder

logger = logging.getLogger("adjunct_store")

_ALL: Collection[str] = ("all",)
"""All checkpoints that a partition has when it is cleaned."""


@dataclass(frozen=True)
class CacheCleanupResult:
    """What cleaning a cache directory has freed, and what it has left, in bytes."""

    freed: int
    left: int


def fetched(folder: PartitionFolder) -> list[str]:
    """The checkpoints that are there, newest first."""
    found = [id_ for name in _names(folder.path) if (id_ := _parsed(name)) is not None]
    return [str(id_) for id_ in sorted(found, reverse=True)]


def make_waste(directory: Path) -> Path:
    """Rename a directory so that no process opens it. Requires the partition's lock."""
    names = (directory.with_name(f"{directory.name}.waste-{number}") for number in count())
    waste = next(name for name in names if not os.path.lexists(name))
    return directory.rename(waste)


def clean_partition(folder: PartitionFolder, kept: Collection[str]) -> int:
    """Delete what is neither kept nor open; returns the number of directories. Requires the partition's lock."""
    files = {LOCK, WORK, VERIFIED} if kept else {LOCK, WORK}
    entries = sorted(set(_names(folder.path)) - {*files, *kept})
    return sum(_logged(partial(_delete, folder.path / name)) for name in entries)


def clean_generations(store: StoreFolder, below: int) -> int:
    """Delete the generations below this one, also their working directories; returns the number of directories."""
    return _clean(store, lambda folder: () if folder.generation < below else None)


def clean_cache(root: Path) -> CacheCleanupResult:
    """Delete what a cache directory has of all stores, but for what is open, and partitions that are fetched now."""
    stores = store_folders(root)
    before = sum(each.bytes for each in stores)
    for store in stores:
        _clean(store, lambda _: ())
        with contextlib.suppress(OSError):  # it is not empty
            store.path.rmdir()
    left = sum(each.bytes for each in stores)
    return CacheCleanupResult(max(0, before - left), left)


def clean_work(store: StoreFolder, below: int) -> int:
    """Delete the directories that were written in the generations below this one. What was fetched stays."""
    return _clean(store, lambda folder: _ALL if folder.generation < below else None)


def _clean(store: StoreFolder, kept: Callable[[PartitionFolder], Collection[str] | None]) -> int:
    """Clean the partitions whose lock is free, and delete generations that are empty then.

    kept: the checkpoints of a partition that stay. If there are none, or `_ALL` of them stay, the directory to write is
    deleted. None: the partition is left alone.
    """
    deleted = 0
    for generation in store.generations():
        for folder in store.partitions(generation):
            stay = kept(folder)
            if stay is not None:
                deleted += _logged(partial(_clean_locked, folder, stay))
        with contextlib.suppress(OSError):  # it is not empty
            store.generation(generation).rmdir()
    return deleted


def _clean_locked(folder: PartitionFolder, kept: Collection[str]) -> int:
    lock = try_exclusive(folder.lock)
    if lock is None:
        return 0
    with lock:
        deleted = clean_partition(folder, fetched(folder) if kept is _ALL else kept)
        if not kept or kept is _ALL:
            deleted += _delete_work(folder)
            _delete_empty(folder)
    return deleted


def _delete(path: Path) -> int:
    """Delete a directory that no process has open, or a file that does not belong here."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return 0
    lock = try_directory(path)
    if lock is None:
        return 0
    with lock:
        place.remove(make_waste(path))
    return 1


def _delete_work(folder: PartitionFolder) -> int:
    """Delete the directory to write, unless a process holds it."""
    lock = try_exclusive(folder.work / LOCK) if folder.work.is_dir() else None
    if lock is None:
        return 0
    with lock:
        place.remove(make_waste(folder.work))
    return 1


def _delete_empty(folder: PartitionFolder) -> None:
    """Delete the folder if nothing but the lock file, whose lock is held, is in it."""
    if set(_names(folder.path)) == {LOCK}:
        folder.lock.unlink()
        with contextlib.suppress(OSError):  # another process has just made something there: it stays
            folder.path.rmdir()


def _logged(act: Callable[[], int]) -> int:
    try:
        return act()
    except (OSError, ConfigurationError) as error:
        logger.warning("A file in the cache directory was not deleted; the next clean-up tries again: %s", error)
        return 0


def _parsed(name: str) -> CheckpointId | None:
    try:
        return CheckpointId.parse(name)
    except CorruptError:
        return None


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
