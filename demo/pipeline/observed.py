"""What storage shows while the pipeline runs: the batches of its streams, and the versions of its store.

It reads log entries and the manifest as JSON, past the proxy, so that it neither disturbs the run nor is disturbed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from demo.pipeline.places import STREAMS

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Batch:
    """An entry of a stream's log. at: seconds since 1970, by its writer. watermark: of the whole stream (ms)."""

    version: int
    at: float
    operation: str
    epoch: int | None
    rows: int
    watermark: int | None


@dataclass
class StreamSeen:
    """The batches of a stream so far."""

    name: str
    batches: list[Batch] = field(default_factory=list)
    _watermarks: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows, control messages among them, that the entries have added."""
        return sum(batch.rows for batch in self.batches)

    @property
    def watermark(self) -> int | None:
        """The lowest one of its tasks that have sent any (ms)."""
        return min(self._watermarks.values(), default=None)

    def add(self, document: dict[str, Any]) -> None:
        """One more entry."""
        for message in document.get("control", ()):
            if message["type"] == "watermark":
                task = message["taskName"]
                self._watermarks[task] = max(message["timestamp"], self._watermarks.get(task, message["timestamp"]))
        at = datetime.fromisoformat(document["timestamp"]).timestamp()
        rows = sum(blob["rows"] for blob in document.get("blobs", ()))
        self.batches.append(
            Batch(document["version"], at, document["operation"], document.get("epoch"), rows, self.watermark)
        )


@dataclass(frozen=True)
class StoreVersion:
    """A version of the store, and when it was published (seconds since 1970)."""

    number: int
    at: float


class Observed:
    """What has been seen of a container."""

    def __init__(self, connection_string: str, container: str) -> None:
        self.container = ContainerClient.from_connection_string(
            connection_string, container, retry_total=0, connection_timeout=2, read_timeout=5
        )
        self.streams = {name: StreamSeen(name) for name in STREAMS}
        self.versions: dict[int, StoreVersion] = {}

    @property
    def rows(self) -> int:
        """Of all streams."""
        return sum(stream.rows for stream in self.streams.values())

    def refresh(self) -> None:
        """Read what is new. What cannot be read now is read later."""
        try:
            for stream in self.streams.values():
                for document in self._entries(stream):
                    stream.add(document)
            self._read_versions()
        except AzureError:  # the emulator is stopped
            return

    def _entries(self, stream: StreamSeen) -> Iterable[dict[str, Any]]:
        while True:
            document = self._json(f"streams/{stream.name}/_log/{len(stream.batches):020d}.json")
            if document is None:
                return
            yield document

    def _read_versions(self) -> None:
        manifest = self._json("stores/planes/store.json")
        for each in () if manifest is None else manifest["versions"]:
            at = datetime.fromisoformat(each["published"]).timestamp()
            self.versions.setdefault(each["number"], StoreVersion(each["number"], at))

    def _json(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.container.download_blob(name).readall())
        except ResourceNotFoundError:
            return None
        return found
