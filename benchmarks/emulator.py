"""Keeping the emulator small between measurements. It frees the memory of what was deleted within ten minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.storage.blob import ContainerClient

if TYPE_CHECKING:
    from tools.azurite import Azurite


def empty(azurite: Azurite, container: str, folder: str) -> None:
    """Delete the blobs of a folder."""
    with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
        # What hadoop-azure takes for a folder is a blob too, which goes last.
        for name in sorted(client.list_blob_names(name_starts_with=f"{folder}/"), reverse=True):
            client.delete_blob(name)


def drop(azurite: Azurite, container: str) -> None:
    """Delete a container with all its blobs and all blocks that were staged and not committed."""
    with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
        client.delete_container()
