"""What a process has found out about a stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azure_account.values import BlobAttributes
    from azureblob_source.iceberg.metadata import IcebergTable


@dataclass(frozen=True)
class LogFacts:
    """What one process of a read has found of the log, for the next process of the same read.

    version, write_id: of the head; None and empty if there was no log. schemas: JSON of writer schemas, by fingerprint.
    checkpoint: as of `StreamNotes`.
    """

    version: int | None = None
    write_id: str = ""
    schemas: Mapping[str, str] = field(default_factory=dict)
    checkpoint: int | None = None


@dataclass
class StreamNotes:
    """What one process knows of a stream, so that it need not ask storage again. A new log has new notes.

    published_up_to: every entry up to this version is known to be published.
    schemas: fingerprints of the writer schemas that are known to be stored beside the log.
    schema_texts: JSON of writer schemas that were read, by fingerprint.
    checkpoint: the version of the newest checkpoint, as far as is known; -1 if there is none, None if nobody looked.
    table: the newest Iceberg table and its number, as far as is known; None if nobody looked.
    no_table: the last reason for which there is no newer one.
    clock_differs: a warning has said that this writer's clock differs from the service's.
    probed: attributes, and whether with deletes, that the service is known to allow (`Publisher.probe_service`).
    """

    published_up_to: int = -1
    schemas: set[str] = field(default_factory=set)
    schema_texts: dict[str, str] = field(default_factory=dict)
    checkpoint: int | None = None
    table: tuple[int, IcebergTable | None] | None = None
    no_table: str = ""
    clock_differs: bool = False
    probed: list[tuple[BlobAttributes, bool]] = field(default_factory=list)

    def published(self, version: int) -> None:
        """Every entry up to this version is published."""
        self.published_up_to = max(self.published_up_to, version)
