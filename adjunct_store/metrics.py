"""What fills and readers of stores count and measure, through the OpenTelemetry API.

Something is counted after it has happened. Without an OpenTelemetry SDK in the process, counting does nothing. Every
value has the attribute `store`: `container/store`. A fill counts in the driver; look-ups and fetches are counted in the
process that does them, which with Spark are the Python workers.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics
from opentelemetry.metrics import Observation

from azure_account.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, UpDownCounter

METER = "adjunct_store"
COUNTERS: Mapping[str, tuple[str, str]] = {
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
UP_DOWN_COUNTERS: Mapping[str, tuple[str, str]] = {
    "versionsOpen": ("{version}", "versions that a worker process has open"),
}
GAUGES: Mapping[str, tuple[str, str]] = {
    "version": ("1", "the number of the last version that the fill has published"),
    "batch": ("1", "the number of the batch that this version has"),
    "entries": ("{entry}", "keys with a value in that version"),
    "tombstones": ("{entry}", "deleted keys that this version remembers, in the partitions that the fill has written"),
    "bytes": ("By", "size of that version on disk"),
    "bootstrapped": ("1", "1 when all that the source had at the beginning is published, else 0"),
    "versionAgeSeconds": ("s", "time since the fill has published its last version"),
}
HISTOGRAMS: Mapping[str, tuple[str, str]] = {
    "fillSeconds": ("s", "a batch of a fill, from its rows to its version"),
    "publishSeconds": ("s", "publishing a version, and cleaning up after it"),
    "lookupSeconds": ("s", "looking up the keys of one batch"),
    "fetchSeconds": ("s", "fetching a partition of a version to a host"),
    "waitSeconds": ("s", "waiting for another process of the host that fetches the same partition"),
}


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
        """By gauge."""
        return {
            "version": self.version,
            "batch": self.batch,
            "entries": self.entries,
            "tombstones": self.tombstones,
            "bytes": self.bytes,
            "bootstrapped": int(self.bootstrapped),
            "versionAgeSeconds": now - self.published,
        }


class StoreMetrics:
    """The values of one store. Thread-safe."""

    def __init__(self, container: str, store: str) -> None:
        self._store = f"{container}/{store}"
        self._attributes = {"store": self._store}

    def count(self, name: str, number: int = 1) -> None:
        """Add to one of `COUNTERS`."""
        counter = _counter(name)
        if number:
            counter.add(number, self._attributes)

    def add(self, name: str, number: int) -> None:
        """Add to one of `UP_DOWN_COUNTERS`."""
        _up_down_counter(name).add(number, self._attributes)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Record the duration of the block in one of `HISTOGRAMS`, unless it fails."""
        began = SYSTEM_CLOCK.monotonic()
        yield
        _histogram(name).record(SYSTEM_CLOCK.monotonic() - began, self._attributes)

    def show(self, last: LastVersion) -> None:
        """Report the gauges of a fill from now on, at each export, until `hide`."""
        with _lock:
            _shown[self._store] = last
        for name in GAUGES:
            _gauge(name)

    def hide(self) -> None:
        """Report no gauges of this store: its fill has ended, or has been fenced."""
        with _lock:
            _shown.pop(self._store, None)


_lock = threading.Lock()
_shown: dict[str, LastVersion] = {}


@lru_cache
def _counter(name: str) -> Counter:
    unit, description = COUNTERS[name]
    return metrics.get_meter(METER).create_counter(f"{METER}.{name}", unit, description)


@lru_cache
def _up_down_counter(name: str) -> UpDownCounter:
    unit, description = UP_DOWN_COUNTERS[name]
    return metrics.get_meter(METER).create_up_down_counter(f"{METER}.{name}", unit, description)


@lru_cache
def _histogram(name: str) -> Histogram:
    unit, description = HISTOGRAMS[name]
    return metrics.get_meter(METER).create_histogram(f"{METER}.{name}", unit, description)


@lru_cache
def _gauge(name: str) -> object:
    def observe(_: CallbackOptions) -> Sequence[Observation]:
        with _lock:
            shown = dict(_shown)
        now = SYSTEM_CLOCK.monotonic()
        return [Observation(last.values(now)[name], {"store": store}) for store, last in shown.items()]

    unit, description = GAUGES[name]
    callbacks: list[Callable[[CallbackOptions], Sequence[Observation]]] = [observe]
    return metrics.get_meter(METER).create_observable_gauge(f"{METER}.{name}", callbacks, unit, description)
