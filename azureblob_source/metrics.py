"""The seven counters, for three groups, and the gauges of streaming reads, through the OpenTelemetry API.

Names and groups are those of the Samza proposal: `aggregate` (everything), `system` (one container) and `source` (one
task of one query). Something is counted after it has happened. Without an OpenTelemetry SDK in the process counting
does nothing (`foundation.meters`); the log entries have the same counts.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

from foundation.meters import Meters, Metrics, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import BlobEntry, Change
    from foundation.errors import AzureBlobError

logger = logging.getLogger("azureblob_source")

COUNTERS: Table = {
    "messagesSent": ("{row}", "rows staged"),
    "bytesSent": ("By", "bytes staged, before compression"),
    "bytesCompressed": ("By", "bytes staged, as stored"),
    "messageErrors": ("{error}", "writes that failed"),
    "blockUploads": ("{block}", "blocks staged"),
    "blobCommits": ("{blob}", "blobs published"),
    "connectionErrors": ("{error}", "requests that failed, whether they were retried or not"),
}
_DAMAGED: Table = {"corruptBlobs": ("{blob}", "damaged blobs, or parts of them, that were skipped")}
COMMITTED: Table = {"lastCommit": ("s", "when the last batch was committed, since 1970 UTC")}
GAUGES: Table = {
    "backlogVersions": ("{version}", "versions that a streaming read has not read yet"),
    "backlogBlobs": ("{blob}", "their blobs"),
    "backlogRows": ("{row}", "their rows"),
    "backlogBytes": ("By", "bytes of these blobs, as stored"),
}
METERS = Meters("azureblob", counter={**COUNTERS, **_DAMAGED}, gauge=COMMITTED, observable_gauge=GAUGES)


def count(counts: Mapping[str, int], *, system: str, source: str) -> None:
    """Add `counts` (by the names of `COUNTERS`) to the three groups."""
    groups = (*_groups_of(system), {"group": "source", "name": source})
    for name, number in counts.items():
        if number:
            _add(name, number, groups)


def mark_commits(entries: Iterable[Change], *, container: str, stream: str | None) -> None:
    """Set `lastCommit` of the stream of each entry. stream: of entries without blobs."""
    for entry in entries:
        name = entry.blobs[0].stream if entry.blobs else stream
        committed = datetime.fromisoformat(entry.timestamp).timestamp()
        METERS.instrument("gauge", "lastCommit").set(committed, {"stream": f"{container}/{name}"})


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


def skip_damaged(container: BlobContainer, damage: AzureBlobError) -> None:
    """Report that a blob, or a part of one, is skipped: a warning that names it, and `azureblob.corruptBlobs`."""
    logger.warning("Skipped because of option ignoreCorruptBlobs: %s", damage)
    _add("corruptBlobs", 1, _groups_of(container.name))


class ReadMetrics(Metrics):
    """The gauges of one streaming read. Their attribute is `stream`: `container/stream`."""

    def __init__(self, container: str, stream: str) -> None:
        super().__init__(METERS, {"stream": f"{container}/{stream}"})

    def show(self, backlog: Mapping[str, int]) -> None:
        """Report the backlog, by `versions`, `blobs`, `rows` and `bytes`, at each export until `close`."""
        gauges = {f"backlog{name.capitalize()}": number for name, number in backlog.items()}
        self.observe(lambda: gauges)


def _groups_of(system: str) -> tuple[Mapping[str, str], ...]:
    return {"group": "aggregate"}, {"group": "system", "name": system}


def _add(name: str, number: int, groups: Iterable[Mapping[str, str]]) -> None:
    for group in groups:
        METERS.counter(name).add(number, group)
