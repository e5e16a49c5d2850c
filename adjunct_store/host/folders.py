"""Where the host keeps what it has of stores.

    <cache dir>/                             default: <temporary folder>/adjunct-store-<uid>
      <hash of container URL and store>/
        g<generation>/p<partition>/
          lock                               who fetches or deletes directories of this partition holds it
          <checkpoint id>/                   a fetched directory, never changed; who reads it holds its shared lock
          <checkpoint id>.restoring/         is being fetched, or was left by a killed process
          <checkpoint id>.waste-<number>/    is being deleted, or is damaged and still open
          verified                           which of the fetched files need not be read again
          work/lock                          the process that writes the partition holds it
          work/store/                        the directory that it writes
          work/at                            which checkpoint that has; absent while it is written

Only the user of the process can enter the cache directory or a store's folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure_account.container import BlobContainer

LOCK, WORK, VERIFIED = "lock", "work", "verified"
_STORE = re.compile("[0-9a-f]{24}")
_GENERATION = re.compile("g(0|[1-9][0-9]{0,18})")
_PARTITION = re.compile("p(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True)
class PartitionFolder:
    """The folder of one partition of one generation."""

    path: Path
    generation: int
    partition: int

    @property
    def lock(self) -> Path:
        """The lock file of those who fetch and delete."""
        return self.path / LOCK

    @property
    def work(self) -> Path:
        """The folder of the process that writes the partition."""
        return self.path / WORK

    @property
    def verified(self) -> Path:
        """The file that says which files were verified."""
        return self.path / VERIFIED

    def checkpoint(self, checkpoint: str) -> Path:
        """The directory of a fetched checkpoint."""
        return self.path / checkpoint


@dataclass(frozen=True)
class StoreFolder:
    """The folder of one store."""

    path: Path

    def partition(self, generation: int, partition: int) -> PartitionFolder:
        """The folder of a partition, which may be absent."""
        return PartitionFolder(self.generation(generation) / f"p{partition}", generation, partition)

    def generation(self, generation: int) -> Path:
        """The folder of a generation, which may be absent."""
        return self.path / f"g{generation}"

    def generations(self) -> list[int]:
        """The numbers of the generations that are there, in order."""
        return _numbers(self.path, _GENERATION)

    @property
    def bytes(self) -> int:
        """The sizes of its files. A file that several directories share counts once."""
        sizes = {}
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    found = Path(folder, name).lstat()
                    sizes[found.st_ino] = found.st_size
        return sum(sizes.values())

    def partitions(self, generation: int) -> Iterator[PartitionFolder]:
        """The partitions of a generation that are there, in order."""
        for partition in _numbers(self.generation(generation), _PARTITION):
            yield self.partition(generation, partition)


def store_folder(container: BlobContainer, store: str, cache_dir: Path | None) -> StoreFolder:
    """The folder of a store, which is made if it is absent.

    `ConfigurationError` if the cache directory belongs to another user, others can write to it, the default one is a
    symbolic link, or the disk refuses the folder.
    """
    root = cache_directory(cache_dir)
    name = hashlib.sha256(f"{container.url}\n{store}".encode()).hexdigest()[:24]
    try:
        root.mkdir(mode=stat.S_IRWXU, parents=cache_dir is not None, exist_ok=True)
        _check(root)
        (root / name).mkdir(mode=stat.S_IRWXU, exist_ok=True)
    except OSError as error:
        step = "Give another cache directory, on a local disk with room."
        raise ConfigurationError("make", f"cache directory {root}", str(error), step) from error
    return StoreFolder(root / name)


def store_folders(root: Path) -> list[StoreFolder]:
    """The folders of all stores in a cache directory; none if it is absent. `ConfigurationError` as `store_folder`."""
    try:
        _check(root)
        return [StoreFolder(path) for path in sorted(root.iterdir()) if _STORE.fullmatch(path.name) and path.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        step = "Run this as the user whose jobs use it."
        raise ConfigurationError("list", f"cache directory {root}", str(error), step) from error


def cache_directory(cache_dir: Path | None) -> Path:
    """Where a host keeps versions, by default a folder of this user."""
    return Path(tempfile.gettempdir()) / f"adjunct-store-{os.geteuid()}" if cache_dir is None else cache_dir.resolve()


def _check(root: Path) -> None:
    """What others can write to, they can fill with data of theirs; this also holds for names in a temporary folder."""
    found = root.lstat()
    cause = ""
    if stat.S_ISLNK(found.st_mode):
        cause = "it is a symbolic link"
    elif not stat.S_ISDIR(found.st_mode):
        cause = "it is not a directory"
    elif found.st_uid != os.geteuid():
        cause = f"it belongs to user {found.st_uid}, and this process runs as user {os.geteuid()}"
    elif stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        cause = f"other users can write to it (its mode is {stat.S_IMODE(found.st_mode):o})"
    if cause:
        step = "Give a cache directory that only this user can write to, or one that does not exist yet."
        raise ConfigurationError("use", f"cache directory {root}", cause, step)


def _numbers(folder: Path, pattern: re.Pattern[str]) -> list[int]:
    """The numbers of the folders with such names; none if a clean-up of another process has just deleted it."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(found[1]) for name in names if (found := pattern.fullmatch(name)))
