"""The directories of a version on this host, fetched when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from foundation.errors import ConfigurationError, CorruptError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from adjunct_store.host.cache import HeldDirectory, HostCache
    from adjunct_store.versions.manifest import Version

PARTITIONS_AT_ONCE = 8
"""Partitions that a process fetches at once. They share the threads of the cache, so they take the memory of one."""


class KeyCounts(NamedTuple):
    """entries: keys with a value. tombstones: deleted keys."""

    entries: int
    tombstones: int


@dataclass(frozen=True)
class PartitionDirectory:
    """A directory of RocksDB. batch: that of the position that must be in it; None if that is not known."""

    path: Path
    batch: int | None = None


class PartitionDirectories(Protocol):
    """Where the partitions of a version are on this host."""

    def directory(self, partition: int) -> PartitionDirectory | None:
        """The directory of a partition; None if it was never written."""

    def fetch(self, partitions: Iterable[int]) -> None:
        """Fetch several that will be asked for, at the same time."""

    @property
    def keys(self) -> KeyCounts | None:
        """How many all partitions have, as published; None if the caller has to count them."""


@dataclass(frozen=True)
class KnownDirectories:
    """Directories that are there, by partition."""

    paths: Mapping[int, Path]
    keys: KeyCounts | None = None

    def directory(self, partition: int) -> PartitionDirectory | None:
        """The directory of a partition; None if it was never written."""
        path = self.paths.get(partition)
        return None if path is None else PartitionDirectory(path)

    def fetch(self, partitions: Iterable[int]) -> None:
        """Does nothing: the directories are there."""


class LazyDirectories:
    """The directories of a version's partitions, each fetched when it is first asked for."""

    def __init__(self, cache: HostCache, version: Version) -> None:
        self._cache, self._version = cache, version
        self._leases: dict[int, HeldDirectory] = {}
        self._closed = self._damaged = False

    def directory(self, partition: int) -> PartitionDirectory | None:
        """The directory of a partition; None if it was never written.

        After `discard` a `CorruptError`, after `close` a `ConfigurationError`: open the version again.
        """
        self._check_open()
        if not self._checkpoint(partition):
            return None
        if partition not in self._leases:
            self._open(partition)
        return PartitionDirectory(self._leases[partition].directory, self._version.batches[partition])

    def fetch(self, partitions: Iterable[int]) -> None:
        """Fetch several that will be asked for, `PARTITIONS_AT_ONCE` at a time. Errors as above."""
        self._check_open()
        missing = [each for each in partitions if each not in self._leases and self._checkpoint(each)]
        at_once = min(len(missing), PARTITIONS_AT_ONCE, self._cache.threads)
        if at_once > 1:
            fetch = partial(self._open, threads=self._cache.threads // at_once)
            concurrent_map(fetch, missing, at_once, after_error="wait")

    @property
    def keys(self) -> KeyCounts:
        """How many the version has."""
        return KeyCounts(self._version.entries, self._version.tombstones)

    def _open(self, partition: int, threads: int | None = None) -> None:
        checkpoint = self._checkpoint(partition)
        self._leases[partition] = self._cache.open(self._version.generation, partition, checkpoint, threads)

    def _checkpoint(self, partition: int) -> str:
        return self._version.checkpoints[partition] if partition < len(self._version.checkpoints) else ""

    def _check_open(self) -> None:
        version, step = f"version {self._version.number}", "Call view() again, in each task."
        if self._damaged:
            raise CorruptError("read", version, "a file of it was damaged, and is fetched again", step)
        if self._closed:
            raise ConfigurationError("read", version, "it was closed after its task", step)

    def close(self) -> None:
        """Let the host delete the directories. Close what reads them first."""
        self._closed = True
        for lease in self._leases.values():
            lease.close()
        self._leases.clear()

    def discard(self, partition: int) -> None:
        """Mark a partition as damaged, so that the next reader of the version fetches it again, and release all."""
        self._damaged = True
        damaged = self._leases.pop(partition, None)
        self.close()
        if damaged is not None:
            damaged.discard()
