"""The seven counters, for three groups, through the OpenTelemetry API.

The names are the Samza proposal's, in camelCase; the groups are its too: `aggregate` (everything), `system` (one
container) and `source` (one task of one query). A counter is raised when the thing has happened. Without an
OpenTelemetry SDK in the process this costs next to nothing and goes nowhere; the log entries carry the same counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.metrics import Counter

COUNTERS: Mapping[str, tuple[str, str]] = {
    "messagesSent": ("{row}", "rows staged"),
    "bytesSent": ("By", "bytes staged, before compression"),
    "bytesCompressed": ("By", "bytes staged, as stored"),
    "messageErrors": ("{error}", "writes that failed"),
    "blockUploads": ("{block}", "blocks staged"),
    "blobCommits": ("{blob}", "blobs published"),
    "connectionErrors": ("{error}", "requests that failed and were tried again or given up"),
}


def count(counts: Mapping[str, int], *, system: str, source: str) -> None:
    """Add `counts` (by the names of `COUNTERS`) to the three groups."""
    groups = ({"group": "aggregate"}, {"group": "system", "name": system}, {"group": "source", "name": source})
    for name, number in counts.items():
        if number:
            for group in groups:
                _counter(name).add(number, group)


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts, all seven names present."""
    sums = dict.fromkeys(COUNTERS, 0)
    for part in parts:
        for name, number in part.items():
            sums[name] += number
    return sums


@lru_cache
def _counter(name: str) -> Counter:
    unit, description = COUNTERS[name]
    return metrics.get_meter("azureblob").create_counter(f"azureblob.{name}", unit, description)
