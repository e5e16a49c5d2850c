"""The directories of a version on this host, fetched when they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.errors import ConfigurationError, CorruptError, describe

if TYPE_CHECKING:
    from pathlib import Path

    from adjunct_store.host.cache import HostCache, Lease
    from adjunct_store.versions.manifest import Version


@dataclass(frozen=True)
class PartitionDirectory:
    """A directory of RocksDB. batch: that of the position that must be in it; None if that is not known."""

    path: Path
    batch: int | None = None


class FetchedDirectories:
    """Gives the directory of a version's partition, which is fetched when it is first asked for."""

    def __init__(self, cache: HostCache, version: Version) -> None:
        self._cache, self._version = cache, version
        self._leases: dict[int, Lease] = {}
        self._closed = self._damaged = False

    def __call__(self, partition: int) -> PartitionDirectory | None:
        """None for a partition that was never written.

        After `discard` a `CorruptError`, after `close` a `ConfigurationError`: open the version again.
        """
        if self._damaged:
            raise CorruptError(self._over("a file of it was damaged, and is fetched again"))
        if self._closed:
            raise ConfigurationError(self._over("it was closed after its task"))
        checkpoint = self._version.checkpoints[partition] if partition < len(self._version.checkpoints) else ""
        if not checkpoint:
            return None
        if partition not in self._leases:
            self._leases[partition] = self._cache.open(self._version.generation, partition, checkpoint)
        return PartitionDirectory(self._leases[partition].directory, self._version.batches[partition])

    def close(self) -> None:
        """Let the host delete the directories. Close what reads them first."""
        self._closed = True
        for lease in self._leases.values():
            lease.close()
        self._leases.clear()

    def discard(self, partition: int) -> None:
        """Have a damaged one fetched again by who opens the version next, and let go of the others."""
        self._damaged = True
        damaged = self._leases.pop(partition, None)
        self.close()
        if damaged is not None:
            damaged.discard()

    def _over(self, cause: str) -> str:
        return describe("read", f"version {self._version.number}", cause, "Call view() again, in each task.")
