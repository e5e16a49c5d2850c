"""The directories of a version on this host, fetched when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from adjunct_store.host.cache import HostCache, Lease
    from adjunct_store.versions.manifest import Version


class FetchedDirectories:
    """Gives the directory of a version's partition, which is fetched when it is first asked for."""

    def __init__(self, cache: HostCache, version: Version) -> None:
        self._cache, self._version = cache, version
        self._leases: dict[int, Lease] = {}

    def __call__(self, partition: int) -> Path | None:
        """None for a partition that was never written."""
        checkpoint = self._version.checkpoints[partition] if partition < len(self._version.checkpoints) else ""
        if not checkpoint:
            return None
        if partition not in self._leases:
            self._leases[partition] = self._cache.open(self._version.generation, partition, checkpoint)
        return self._leases[partition].directory

    def close(self) -> None:
        """Let the host delete the directories."""
        for lease in self._leases.values():
            lease.close()

    def discard(self) -> None:
        """Have those that were fetched or found fetched again. Close what reads them first."""
        for lease in self._leases.values():
            lease.discard()
