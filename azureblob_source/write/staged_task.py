"""What a task has staged: its message to the driver. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from azureblob_source.log.entry import BlobEntry

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class StagedTask:
    """What one task attempt has staged: its message to the driver. `metrics` has names of `metrics.COUNTERS`.

    writer: the task and its batch, for the log entry; `durationMs` at least.
    control: the control messages in the blobs, as in a log entry, each with its stream.
    """

    blobs: tuple[BlobEntry, ...] = ()
    metrics: dict[str, int] = field(default_factory=dict)
    writer: dict[str, Any] = field(default_factory=dict)
    control: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> str:
        """As JSON, which the driver reads."""
        document: dict[str, Any] = {"blobs": [asdict(blob) for blob in self.blobs], "metrics": self.metrics}
        return json.dumps({**document, "writer": self.writer, "control": self.control}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> StagedTask:
        """The inverse of `to_json`."""
        document = json.loads(text)
        blobs = tuple(BlobEntry(**blob) for blob in document["blobs"])
        return StagedTask(blobs, document["metrics"], document["writer"], tuple(document["control"]))
