"""The directory that a process writes a partition in, which the next one on this host goes on with.

A marker says which checkpoint the directory has, and what the next backup need not do again. It is deleted before the
first write, and written when the checkpoint is committed: so whatever a killed process has left,
a marker never names a checkpoint that the directory does not have.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from adjunct_store.host.cleaning import clean_work
from adjunct_store.host.folders import LOCK
from azure_account.documents.form import sealed, unsealed
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, CorruptError
from foundation.host_locks import LOCK_TIMEOUT, exclusive
from state_backup import ChecksumCache
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.local import durable, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adjunct_store.host.folders import StoreFolder
    from foundation.clock import Clock
    from foundation.host_locks import Lock

_DIRECTORY, _MARKER, _NEW_MARKER = "store", "at", "at.new"


@dataclass(frozen=True)
class Marker:
    """What a directory has: the checkpoint of this id. settled, read_files: of the writer that has committed it."""

    checkpoint: str
    settled: bool = False
    read_files: Mapping[str, ChecksumCache] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As it is stored."""
        files = {store: each.to_json() for store, each in self.read_files.items()}
        return sealed({"checkpoint": self.checkpoint, "settled": self.settled, "read-files": files})

    @classmethod
    def from_json(cls, data: bytes) -> Marker | None:
        """The inverse; None if the marker is damaged."""
        try:
            fields = unsealed(data)
            files = {store: ChecksumCache.from_json(each) for store, each in fields["read-files"].items()}
            return cls(str(CheckpointId.parse(fields["checkpoint"])), bool(fields["settled"]), files)
        except (AttributeError, KeyError, TypeError, ValueError, CorruptError):
            return None


@dataclass(frozen=True)
class WorkingDirectory:
    """A directory that no other process of this host writes. Not for a forked child: `begin` and `done` refuse it."""

    lock: Lock
    folder: Path

    @property
    def directory(self) -> Path:
        """Where the partition is written. It may be absent. Names that begin with it are the user's too."""
        return self.folder / _DIRECTORY

    @property
    def marker(self) -> Marker | None:
        """What the directory has. None if that is not known.

        Then what is in it is of any checkpoint or of none: restore over it, or `clear` it.
        """
        try:
            found = Marker.from_json((self.folder / _MARKER).read_bytes())
        except FileNotFoundError:
            return None
        return found if self.directory.is_dir() else None

    @property
    def at(self) -> str | None:
        """The checkpoint that the directory has; None if that is not known."""
        return None if self.marker is None else self.marker.checkpoint

    def begin(self) -> None:
        """Forget which checkpoint the directory has, on disk too. To be called before the first write or restore."""
        self._check()
        with self._reported("begin"):
            (self.folder / _MARKER).unlink(missing_ok=True)
            durable.sync(self.folder)

    def clear(self) -> None:
        """Delete the directory, and all else that writes of it have left."""
        self.begin()
        with self._reported("clear"):
            # A lock is the mark by which the names beside it are known as this package's, so it goes after them.
            for path in sorted(self.folder.iterdir(), key=lambda path: (path.name.endswith(".lock"), path.name)):
                if path.name != LOCK:
                    place.remove(path)

    def done(self, marker: Marker) -> None:
        """Remember what the directory has, when all of it is on disk. Close what writes it first."""
        self._check()
        CheckpointId.parse(marker.checkpoint)
        with self._reported("complete"):
            _sync_all(self.directory)
            new = self.folder / _NEW_MARKER
            new.write_bytes(marker.to_json())
            durable.sync(new)
            new.rename(self.folder / _MARKER)
            durable.sync(self.folder)

    def _check(self) -> None:
        if not self.lock.held:
            step = "Open the working directory in the process that writes it."
            raise ConfigurationError("write", str(self.directory), "its lock is not held here", step)

    @contextmanager
    def _reported(self, operation: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            step = "Make room on that disk, or give another cache directory."
            raise ConfigurationError(operation, str(self.directory), str(error), step) from error


@contextmanager
def working_directory(
    stored: StoreFolder,
    generation: int,
    partition: int,
    *,
    lock_timeout: float = LOCK_TIMEOUT,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[WorkingDirectory]:
    """The directory to write a partition in, locked as long as the block lasts.

    stored: the folder of the store on this host.
    generation: of the partition. Directories of generations before the last one are deleted.
    partition: its number.
    lock_timeout: seconds to wait for another process of this host that has the directory; then `TransientError`.
    clock: measures the waiting.

    `ConfigurationError` if the disk refuses the directory.
    """
    folder = stored.partition(generation, partition).work
    with exclusive(folder / LOCK, lock_timeout, clock) as lock:
        clean_work(stored, generation - 1)
        yield WorkingDirectory(lock, folder)


def _sync_all(directory: Path) -> None:
    """Have a directory on disk, with all that is in it."""
    for folder, _, files in os.walk(directory, onerror=_raise):
        for name in files:
            durable.sync(Path(folder) / name)
        durable.sync(Path(folder))


def _raise(error: OSError) -> None:
    raise error
