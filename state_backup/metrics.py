"""What backups, restores and sweeps count and measure, through the OpenTelemetry API.

Something is counted after it has happened, and once, however often a request for it was repeated. Without an
OpenTelemetry SDK in the process, counting does nothing. Every value has the attribute `state`, its place in the
container; values of one store have `store` too. The names are those of Samza's metrics where it has them.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics

from azure_account.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.metrics import Counter, Histogram

COUNTERS: Mapping[str, tuple[str, str]] = {
    "filesUploaded": ("{file}", "files of a store that a backup has uploaded, whether it was committed or not"),
    "bytesUploaded": ("By", "bytes of these files"),
    "filesRetained": ("{file}", "files of a committed checkpoint that were there before, and were not uploaded"),
    "bytesRetained": ("By", "bytes of these files"),
    "checkpointsCommitted": ("{checkpoint}", "checkpoints that are committed"),
    "blobsDeleted": ("{blob}", "condemned blobs that are gone: by the clean-up of a backup, or by a sweep"),
    "filesRestored": ("{file}", "files that a restore has downloaded and verified"),
    "bytesRestored": ("By", "bytes of these files"),
    "filesKept": ("{file}", "files that a restore has found on disk and kept, and empty ones"),
    "bytesKept": ("By", "bytes of these files"),
    "blobsUndeleted": ("{blob}", "blobs that were gone and that a restore has undeleted"),
    "checkpointsPassedOver": (
        "{checkpoint}",
        "checkpoints that a restore has not used: not whole, or without a store",
    ),
}
HISTOGRAMS: Mapping[str, tuple[str, str]] = {
    "dirDiffSeconds": ("s", "reading a store's directory, and comparing it with the snapshot before"),
    "uploadSeconds": ("s", "uploading the new files of a store, and its index"),
    "cleanupSeconds": ("s", "taking TTLs off, and deleting what is condemned"),
    "getSnapshotIndexSeconds": ("s", "reading a store's snapshot index, and comparing it with the directory"),
    "restoreSeconds": ("s", "a restore of all its stores, from the record to the switch"),
}


class StateMetrics:
    """The values of one state. Thread-safe."""

    def __init__(self, state: str) -> None:
        self._attributes = {"state": state}

    def count(self, name: str, number: int = 1, **attributes: str) -> None:
        """Add to one of `COUNTERS`."""
        counter = _counter(name)
        if number:
            counter.add(number, {**self._attributes, **attributes})

    @contextmanager
    def measured(self, name: str, **attributes: str) -> Iterator[None]:
        """Record the duration of the block in one of `HISTOGRAMS`, unless it fails."""
        began = SYSTEM_CLOCK.monotonic()
        yield
        _histogram(name).record(SYSTEM_CLOCK.monotonic() - began, {**self._attributes, **attributes})


@lru_cache
def _counter(name: str) -> Counter:
    unit, description = COUNTERS[name]
    return metrics.get_meter("state_backup").create_counter(f"state_backup.{name}", unit, description)


@lru_cache
def _histogram(name: str) -> Histogram:
    unit, description = HISTOGRAMS[name]
    return metrics.get_meter("state_backup").create_histogram(f"state_backup.{name}", unit, description)
