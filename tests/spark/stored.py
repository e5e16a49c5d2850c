"""A container as a reader of the listing sees it: listed with the Azure SDK, decoded with fastavro."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fastavro
from azure.core.exceptions import ResourceNotFoundError

if TYPE_CHECKING:
    from pathlib import Path

    from azure.storage.blob import BlobProperties, ContainerClient


@dataclass(frozen=True)
class Stored:
    """The blobs of one container."""

    client: ContainerClient

    def names(self, prefix: str = "") -> list[str]:
        """All names, those of log and schemas too; none if there is no container."""
        try:
            return [blob.name for blob in self.client.list_blobs(name_starts_with=prefix)]
        except ResourceNotFoundError:
            return []

    def data(self, stream: str = "events") -> list[str]:
        """Names of the data blobs of a stream: none of their levels begins with `_`."""
        return [name for name in self.names(f"{stream}/") if "/_" not in name]

    def rows(self, stream: str = "events") -> list[dict[str, Any]]:
        """The rows of all data blobs of a stream, in no particular order."""
        return [row for name in self.data(stream) for row in fastavro.reader(io.BytesIO(self.bytes(name)))]

    def bytes(self, name: str) -> bytes:
        """A blob's bytes."""
        return self.client.download_blob(name).readall()

    def properties(self, name: str) -> BlobProperties:
        """A blob's properties."""
        return self.client.get_blob_client(name).get_blob_properties()

    def tags(self, name: str) -> dict[str, str]:
        """A blob's index tags."""
        return self.client.get_blob_client(name).get_blob_tags()

    def download(self, folder: Path, stream: str = "events") -> list[Path]:
        """The data blobs of a stream as files of `folder`."""
        files = []
        for number, name in enumerate(self.data(stream)):
            files.append(folder / f"{number:04d}.avro")
            files[-1].write_bytes(self.bytes(name))
        return files
