"""What a process that writes to a stream has found out about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from azure_account.account import BlobAttributes


@dataclass
class StreamNotes:
    """What one process knows of a stream, so that it need not ask storage again. A new log has new notes.

    published_up_to: every entry up to this version is known to be published.
    schemas: fingerprints of the writer schemas that are known to be stored beside the log.
    probed: attributes, and whether with deletes, that the service is known to allow (`Publisher.probe_service`).
    """

    published_up_to: int = -1
    schemas: set[str] = field(default_factory=set)
    probed: list[tuple[BlobAttributes, bool]] = field(default_factory=list)

    def published(self, version: int) -> None:
        """Every entry up to this version is published."""
        self.published_up_to = max(self.published_up_to, version)
