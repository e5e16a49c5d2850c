"""What fills and readers of stores count and measure (`foundation.meters`).

Every value has the attribute `store`: `container/store`. A fill counts in the driver; look-ups and fetches are counted
in the process that does them, which with Spark are the Python workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.meters import Meters, Metrics, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

COUNTERS: Table = {
    "versionsPublished": ("{version}", "versions that a fill has published"),
    "upserts": ("{row}", "rows of published batches that have set a value"),
    "deletes": ("{row}", "rows of published batches that have deleted a key"),
    "olderIgnored": ("{key}", "keys of published batches whose row was older than what the store had"),
    "nullKeys": ("{row}", "rows of published batches that were left out, a key column being null"),
    "lookups": ("{key}", "keys that were looked up, each row of a batch being one"),
    "hits": ("{key}", "those of them that have a value"),
    "misses": ("{key}", "those of them that have none, or have a null in the key"),
    "fetches": ("{checkpoint}", "partitions of a version that a host has fetched"),
    "fetchedBytes": ("By", "bytes that were downloaded for that"),
    "linkedBytes": ("By", "bytes that the host had already, from an earlier version"),
}
UP_DOWN_COUNTERS: Table = {
    "versionsOpen": ("{version}", "versions that a worker process has open"),
}
GAUGES: Table = {
    "version": ("{version}", "the number of the last version that the fill has published"),
    "batch": ("{batch}", "the number of the batch that this version has"),
    "entries": ("{entry}", "keys with a value in that version"),
    "tombstones": ("{entry}", "deleted keys that this version remembers"),
    "bytes": ("By", "size of that version on disk"),
    "bootstrapped": ("{store}", "1 when all that the source had at the beginning is published, else 0"),
    "versionAgeSeconds": ("s", "time since the fill has published its last version"),
}
HISTOGRAMS: Table = {
    "fillSeconds": ("s", "a batch of a fill, from its rows to its version"),
    "publishSeconds": ("s", "publishing a version, and cleaning up after it"),
    "lookupSeconds": ("s", "looking up the keys of one batch"),
    "fetchSeconds": ("s", "fetching a partition of a version to a host"),
    "waitSeconds": ("s", "waiting for another process of the host that fetches the same partition"),
}


METERS = Meters(
    "adjunct_store",
    counter=COUNTERS,
    up_down_counter=UP_DOWN_COUNTERS,
    observable_gauge=GAUGES,
    histogram=HISTOGRAMS,
)


@dataclass(frozen=True)
class LastVersion:
    """What the gauges of a fill show. published: on the monotonic clock of this process."""

    version: int
    batch: int
    entries: int
    tombstones: int
    bytes: int
    bootstrapped: bool
    published: float

    def values(self, now: float) -> Mapping[str, float]:
        """The values of the gauges, by name."""
        return {
            "version": self.version,
            "batch": self.batch,
            "entries": self.entries,
            "tombstones": self.tombstones,
            "bytes": self.bytes,
            "bootstrapped": int(self.bootstrapped),
            "versionAgeSeconds": now - self.published,
        }


class StoreMetrics(Metrics):
    """The values of one store."""

    def __init__(self, container: str, store: str) -> None:
        super().__init__(METERS, {"store": f"{container}/{store}"}, key=f"{container}/{store}")

    def show(self, last: LastVersion, clock: Clock = SYSTEM_CLOCK) -> None:
        """Report the gauges of a fill from now on, at each export, until `close`: it has ended, or has been fenced."""
        self.observe(lambda: last.values(clock.monotonic()))
