"""The seven counters, for three groups, through the OpenTelemetry API.

Names and groups are those of the Samza proposal: `aggregate` (everything), `system` (one container) and `source` (one
task of one query). Something is counted after it has happened. Without an OpenTelemetry SDK in the process counting
does nothing; the log entries have the same counts.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opentelemetry.metrics import Counter, Meter

    from azure_account.account import BlobContainer
    from azure_account.errors import CorruptError
    from azureblob_source.log.entry import BlobEntry

logger = logging.getLogger(__name__)

COUNTERS: Mapping[str, tuple[str, str]] = {
    "messagesSent": ("{row}", "rows staged"),
    "bytesSent": ("By", "bytes staged, before compression"),
    "bytesCompressed": ("By", "bytes staged, as stored"),
    "messageErrors": ("{error}", "writes that failed"),
    "blockUploads": ("{block}", "blocks staged"),
    "blobCommits": ("{blob}", "blobs published"),
    "connectionErrors": ("{error}", "requests that failed, whether they were retried or not"),
}


def count(counts: Mapping[str, int], *, system: str, source: str) -> None:
    """Add `counts` (by the names of `COUNTERS`) to the three groups."""
    groups = (*_groups_of(system), {"group": "source", "name": source})
    for name, number in counts.items():
        if number:
            _add(_counter(name), number, groups)


def batch_metrics(blobs: Sequence[BlobEntry]) -> dict[str, int]:
    """The counters of a batch of these blobs, all seven names present."""
    return total([blob_counts(blobs)])


def blob_counts(blobs: Sequence[BlobEntry]) -> dict[str, int]:
    """What blobs add to the counters when they are staged and published."""
    return {
        "messagesSent": sum(blob.rows for blob in blobs),
        "bytesSent": sum(blob.uncompressed for blob in blobs),
        "bytesCompressed": sum(blob.size for blob in blobs),
        "blockUploads": sum(blob.blocks for blob in blobs),
        "blobCommits": len(blobs),
    }


def total(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sums of several counts, all seven names present."""
    sums = dict.fromkeys(COUNTERS, 0)
    for part in parts:
        for name, number in part.items():
            sums[name] += number
    return sums


def skip_damaged(container: BlobContainer, damage: CorruptError) -> None:
    """Report that a blob, or a part of one, is skipped: a warning that names it, and `azureblob.corruptBlobs`."""
    logger.warning("Skipped because of option ignoreCorruptBlobs: %s", damage)
    _add(_damaged(), 1, _groups_of(container.name))


def _groups_of(system: str) -> tuple[Mapping[str, str], ...]:
    return {"group": "aggregate"}, {"group": "system", "name": system}


def _add(counter: Counter, number: int, groups: Iterable[Mapping[str, str]]) -> None:
    for group in groups:
        counter.add(number, group)


@lru_cache
def _counter(name: str) -> Counter:
    unit, description = COUNTERS[name]
    return _meter().create_counter(f"azureblob.{name}", unit, description)


@lru_cache
def _damaged() -> Counter:
    description = "damaged blobs, or parts of them, that were skipped"
    return _meter().create_counter("azureblob.corruptBlobs", "{blob}", description)


def _meter() -> Meter:
    from opentelemetry import metrics  # noqa: PLC0415 - a read counts nothing unless a blob is damaged

    return metrics.get_meter("azureblob")
