"""Read a snapshot index from storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.documents.document import fetch_document
from state_backup.index.snapshot_index import from_json

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from state_backup.index.snapshot_index import SnapshotIndex


def read_index(container: BlobContainer, blob: str) -> SnapshotIndex:
    """The index in a blob. One that is damaged is fetched again. `NotFoundError`, and the errors of `from_json`."""
    return fetch_document(container, blob, from_json).document
