"""What a task has staged: its message to the driver. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from azureblob_source.log.entry import blob_document, blob_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureblob_source.log.entry import BlobEntry


MOST_OF_ENTRY = 4096
"""Bounds of all blobs of a log entry: with 256 blobs they have 16 columns, and are half of the entry."""


@dataclass(frozen=True)
class StagedTask:
    """What one task attempt has staged: its message to the driver. `metrics` has names of `metrics.COUNTERS`.

    rows: that it received or added, each of which is in one of the blobs.
    writer: the task and its batch, for the log entry; `durationMs` at least.
    control: the control messages in the blobs, as in a log entry, each with its stream.
    """

    rows: int = 0
    blobs: tuple[BlobEntry, ...] = ()
    metrics: dict[str, int] = field(default_factory=dict)
    writer: dict[str, Any] = field(default_factory=dict)
    control: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> str:
        """As JSON, which the driver reads."""
        document: dict[str, Any] = {"rows": self.rows, "blobs": list(map(blob_document, self.blobs))}
        more = {"metrics": self.metrics, "writer": self.writer, "control": self.control}
        return json.dumps({**document, **more}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> StagedTask:
        """The inverse of `to_json`."""
        document = json.loads(text)
        blobs = tuple(map(blob_of, document["blobs"]))
        control = tuple(document["control"])
        return StagedTask(document["rows"], blobs, document["metrics"], document["writer"], control)


def blobs_of(tasks: Iterable[StagedTask]) -> list[BlobEntry]:
    """The blobs of all tasks. If they have more bounds than an entry may have, only the first columns keep theirs."""
    blobs = [blob for task in tasks for blob in task.blobs]
    most = MOST_OF_ENTRY // max(len(blobs), 1)
    return [replace(blob, bounds=dict(islice(blob.bounds.items(), most))) for blob in blobs]
