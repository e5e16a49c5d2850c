"""Keeping the emulator small between measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.storage.blob import ContainerClient

if TYPE_CHECKING:
    from tools.azurite import Azurite


def empty(azurite: Azurite, container: str, folder: str) -> None:
    """Delete the blobs of a folder. The emulator frees their memory within ten minutes."""
    with ContainerClient.from_connection_string(azurite.connection_string, container) as client:
        for name in sorted(client.list_blob_names(name_starts_with=f"{folder}/"), reverse=True):
            client.delete_blob(name)
