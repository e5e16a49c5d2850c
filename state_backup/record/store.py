"""Where the checkpoint record of a state is stored, and that one writer owns it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from azure_account.documents.document import DocumentBlob
from azure_account.documents.owner import OwnedDocumentBlob
from state_backup.record.record import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from state_backup.record.names import StateNames
    from state_backup.record.record import CheckpointRecord


def new_uuid() -> str:
    """A random id."""
    return uuid.uuid4().hex


def record_store(
    container: BlobContainer, names: StateNames, new_id: Callable[[], str] = new_uuid
) -> OwnedDocumentBlob[CheckpointRecord]:
    """Reads and changes the record of a state."""
    documents = DocumentBlob(container, names.record, "record", to_json, from_json)
    return OwnedDocumentBlob(documents, f"state {names.state}", "writer", new_id)
