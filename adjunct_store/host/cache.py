"""The checkpoints of a store that are on this host: fetched once, however many processes read them.

    open   shared lock of <checkpoint id>/ ──got it──────────────────────────────► lease
              │ it is not there
              ▼
           lock of the partition, wait ─► look again ─► materialise ─► shared lock ─► delete older ones ─► lease

A fetched directory is never changed, so files of the next checkpoint that have the same content are hard links to it.
Who deletes a directory, or puts another one in its place, holds the partition's lock.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from adjunct_store.host.cleaning import clean_generations, clean_partition, fetched, make_waste
from adjunct_store.host.folders import store_folder
from adjunct_store.host.verified import forget_verified, note_verified, verified_files
from adjunct_store.metrics import StoreMetrics
from adjunct_store.versions.names import StoreNames
from azure_account.location import Location
from foundation.clock import SYSTEM_CLOCK
from foundation.disk_advice import TOO_MANY_OPEN
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError
from foundation.host_locks import LOCK_TIMEOUT, exclusive, try_shared
from state_backup import LinkSources, RestoreSettings, materialise
from state_backup.index.checkpoint_id import CheckpointId
from state_backup.local import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Self

    from adjunct_store.host.folders import PartitionFolder
    from azure_account.container import BlobContainer
    from foundation.clock import Clock
    from foundation.host_locks import Lock

logger = logging.getLogger("adjunct_store")

STORE = "store"
"""The name that the files of a partition have in its state."""
_KEPT = 2
"""Checkpoints of a partition that stay without a reader: a repeated batch reads the one before the newest."""
_SOURCES = 2


class HeldDirectory:
    """A directory that no process deletes until this is closed. A context manager.

    Only for the process that opened it: in a forked child it is closed.
    """

    def __init__(self, lock: Lock, discard: Callable[[Lock], None]) -> None:
        self._lock, self._discard = lock, discard

    @property
    def directory(self) -> Path:
        """A RocksDB directory to open read-only. `ConfigurationError` if the lease is closed, or of another process."""
        if not self._lock.held:
            cause = "the lease is closed, or was opened by another process"
            step = "Open it again; after a fork in the child."
            raise ConfigurationError("read", str(self._lock.path), cause, step)
        return self._lock.path

    def close(self) -> None:
        """Let others delete the directory. Close what reads it first."""
        self._lock.release()

    def discard(self) -> None:
        """Close the lease of a directory with a damaged file: who opens the checkpoint next fetches it again.

        The directory is renamed, and deleted when no process has it open. Other readers may miss files that they have
        not opened yet; when they discard it too, the directory that has taken its place is not touched.
        """
        self._discard(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class HostCache:
    """Opens checkpoints of one store. Thread-safe; keeps nothing open itself.

    container: of the store.
    store: its path.
    cache_dir: by default a folder of the user in the temporary folder. Give one if the host deletes old temporary
    files.
    lock_timeout: seconds to wait for a process that fetches the same partition.
    threads: of all fetches together.
    clock: measures the waiting.
    """

    def __init__(
        self,
        container: BlobContainer,
        store: str,
        cache_dir: Path | None = None,
        *,
        lock_timeout: float = LOCK_TIMEOUT,
        threads: int = 16,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._container, self._store, self._names = container, store, StoreNames(store)
        self._folder = store_folder(container, store, cache_dir)
        self._lock_timeout, self._clock = lock_timeout, clock
        self.threads: int = threads
        self._metrics = StoreMetrics(container.name, store)

    def open(self, generation: int, partition: int, checkpoint: str, threads: int | None = None) -> HeldDirectory:
        """A checkpoint of a partition; it is fetched if the host does not have it.

        threads: for the fetch; by default those of the cache.

        `NotFoundError` if it is not stored any more, `CorruptError` if what is stored is damaged, `ConfigurationError`
        if the disk is full, `TransientError` if another process fetches the partition for too long.
        """
        CheckpointId.parse(checkpoint)
        folder = self._folder.partition(generation, partition)
        lock = try_shared(folder.checkpoint(checkpoint))
        if lock is None:
            lock = self._open_locked(folder, checkpoint, threads or self.threads)
        return HeldDirectory(lock, lambda lock: self._discard(folder, lock))

    def _open_locked(self, folder: PartitionFolder, checkpoint: str, threads: int) -> Lock:
        with ExitStack() as locked:
            with self._metrics.measured("waitSeconds"):
                locked.enter_context(exclusive(folder.lock, self._lock_timeout, self._clock))
            lock = try_shared(folder.checkpoint(checkpoint))
            if lock is not None:
                return lock
            lock = self._fetched(folder, checkpoint, threads)
        with _released_on_error(lock):
            clean_generations(self._folder, folder.generation)
        return lock

    def _fetched(self, folder: PartitionFolder, checkpoint: str, threads: int) -> Lock:
        there = fetched(folder)
        begun = place.left_by_restore(folder.checkpoint(checkpoint))  # the fetch goes on with it
        # So that there is room: what killed and closed processes have left goes.
        clean_partition(folder, {*there[:_KEPT], *begun})
        self._fetch(folder, checkpoint, there[:_SOURCES], threads)
        lock = try_shared(folder.checkpoint(checkpoint))
        if lock is None:
            cause, step = "it was deleted as soon as it was fetched", "Let no other program delete files there."
            raise ConflictError("open", str(folder.checkpoint(checkpoint)), cause, step)
        with _released_on_error(lock):
            clean_partition(folder, {checkpoint, *fetched(folder)[:_KEPT]})
        return lock

    def _fetch(self, folder: PartitionFolder, checkpoint: str, sources: list[str], threads: int) -> None:
        state = Location.in_container(self._container, self._names.state(folder.generation, folder.partition))
        target = folder.checkpoint(checkpoint)
        paths = [folder.checkpoint(each) for each in sources]
        of = f"checkpoint {checkpoint} of generation {folder.generation}, partition {folder.partition}"
        what = f"{of}, of store {self._store}"
        known = verified_files(folder)
        try:
            with self._metrics.measured("fetchSeconds"):
                made = materialise(
                    state, STORE, checkpoint, target, LinkSources(paths, known), RestoreSettings(threads)
                )
        except NotFoundError as error:
            step = "Read the newest version; for old ones, keep more versions of the store, and pins for longer."
            raise NotFoundError("fetch", what, str(error), step) from error
        except ConfigurationError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno in TOO_MANY_OPEN:
                raise
            step = "See that this host has room for the store, or give another cache_dir; then run it again."
            raise ConfigurationError("fetch", what, str(error), step) from error
        except CorruptError as error:
            step = (
                "Read another version, and build the store again from its source (rebuild=True); "
                "`python -m adjunct_store verify --deep` shows which versions are whole."
            )
            raise CorruptError("fetch", what, str(error), step) from error
        note_verified(folder, known)
        counts = {"fetches": 1, "fetchedBytes": made.downloaded_bytes, "linkedBytes": made.kept_bytes}
        for name, number in counts.items():
            self._metrics.count(name, number)

    def _discard(self, folder: PartitionFolder, lock: Lock) -> None:
        with _released_on_error(lock), exclusive(folder.lock, self._lock_timeout, self._clock):
            if lock.in_place:
                logger.warning("%s is damaged, and is fetched again when it is opened", lock.path)
                forget_verified(folder)
                make_waste(lock.path)
            lock.release()
            clean_partition(folder, fetched(folder))


@contextmanager
def _released_on_error(lock: Lock) -> Iterator[None]:
    """Release the lock if the block raises, since the caller does not get it."""
    try:
        yield
    except BaseException:
        lock.release()
        raise
