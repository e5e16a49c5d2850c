"""Read and change the checkpoint record: a conditional write, whose lost answer is found out by its write id."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.document_store import DocumentStore
from azure_account.errors import FencedError, describe
from state_backup.record.record import from_json, to_json
from state_backup.sealed_json import readable

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.account import BlobContainer
    from azure_account.document_store import Stored
    from state_backup.record.names import StateNames
    from state_backup.record.record import CheckpointRecord


@dataclass(frozen=True)
class StoredRecord:
    """The record as it was read, and its ETag."""

    record: CheckpointRecord
    etag: str


def new_uuid() -> str:
    """A random id."""
    return uuid.uuid4().hex


class RecordStore:
    """The record of one state."""

    def __init__(self, container: BlobContainer, names: StateNames, new_id: Callable[[], str] = new_uuid) -> None:
        self._names, self._new_id = names, new_id
        self._documents = DocumentStore(container, names.record, "record", to_json, from_json)

    def read(self) -> StoredRecord | None:
        """The record; None if there is none."""
        return _stored(self._documents.read())

    def write(self, record: CheckpointRecord, before: StoredRecord | None) -> StoredRecord | None:
        """Replace the record that was read before, or create it. Gives it a write id of its own.

        None if it was changed meanwhile: read it again. `TransientError` if the outcome stays unknown;
        `ConfigurationError` if the record could not be read again.
        """
        record = replace(record, write_id=self._new_id())
        self.check_readable(record)
        return _stored(self._documents.write(record, None if before is None else before.etag))

    def check_readable(self, record: CheckpointRecord) -> None:
        """`ConfigurationError` if the record, as it would be stored, could not be read again."""
        readable(record, self._names.record, to_json, from_json)

    def check_epoch(self, record: CheckpointRecord, epoch: int, writer: str | None = None) -> None:
        """`FencedError` if another writer has opened a higher epoch; if `writer` is given, or has opened any since."""
        if record.epoch > epoch or (writer is not None and record.writer != writer):
            other = "another writer of " if record.epoch <= epoch else ""
            cause = f"{other}epoch {record.epoch} has taken it over from epoch {epoch}"
            step = "Stop this writer; what is committed belongs to the other one."
            raise FencedError(describe("write", f"state {self._names.state}", cause, step))


def _stored(found: Stored[CheckpointRecord] | None) -> StoredRecord | None:
    return None if found is None else StoredRecord(found.document, found.etag)
