"""The seven counters, for three groups, through the OpenTelemetry API.

The names are the Samza proposal's, in camelCase; the groups are its too: `aggregate` (everything), `system` (one
container) and `source` (one task of one query). A counter is raised when the thing has happened. Without an
OpenTelemetry SDK in the process this costs next to nothing and goes nowhere; the log entries carry the same counts.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from opentelemetry import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.metrics import Counter

    from azure_account.account import BlobContainer
    from azure_account.errors import CorruptError

logger = logging.getLogger(__name__)

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


def skip_damaged(container: BlobContainer, damage: CorruptError) -> None:
    """Report a blob, or a part of one, that is skipped: a warning that names it, and `azureblob.corruptBlobs`."""
    logger.warning("Skipped because of option ignoreCorruptBlobs: %s", damage)
    for group in ({"group": "aggregate"}, {"group": "system", "name": container.name}):
        _damaged().add(1, group)


@lru_cache
def _counter(name: str) -> Counter:
    unit, description = COUNTERS[name]
    return metrics.get_meter("azureblob").create_counter(f"azureblob.{name}", unit, description)


@lru_cache
def _damaged() -> Counter:
    description = "damaged blobs, or parts of them, that were skipped"
    return metrics.get_meter("azureblob").create_counter("azureblob.corruptBlobs", "{blob}", description)
