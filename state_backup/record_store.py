"""Read and change the checkpoint record: a conditional write, whose lost answer is found out by its write id."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.account import IF_ABSENT, Condition, Conflict, Done, Unknown
from azure_account.errors import FencedError, NotFoundError, TransientError, describe
from azure_account.readback import request_and_read_back
from state_backup.record import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.account import BlobContainer
    from azure_account.errors import AzureBlobError
    from azure_account.readback import Doubtful
    from state_backup.names import StateNames
    from state_backup.record import CheckpointRecord


@dataclass(frozen=True)
class StoredRecord:
    """The record as it was read, and its ETag."""

    record: CheckpointRecord
    etag: str


class RecordStore:
    """The record of one state."""

    def __init__(
        self, container: BlobContainer, names: StateNames, new_id: Callable[[], str] = lambda: uuid.uuid4().hex
    ) -> None:
        self._container, self._names, self._new_id = container, names, new_id

    def read(self) -> StoredRecord | None:
        """The record; None if there is none."""
        try:
            found = self._container.get(self._names.record)
        except NotFoundError:
            return None
        return StoredRecord(from_json(found.data, self._names.record), found.properties.etag)

    def write(self, record: CheckpointRecord, before: StoredRecord | None) -> StoredRecord | None:
        """Replace the record that was read before, or create it. Gives it a write id of its own.

        None if it was changed meanwhile: read it again. `TransientError` if the outcome stays unknown.
        """
        record = replace(record, write_id=self._new_id())
        condition = IF_ABSENT if before is None else Condition(if_match=before.etag)

        def request() -> Done | Doubtful:
            return self._container.put(self._names.record, to_json(record), condition=condition)

        def read_back(answer: Doubtful) -> StoredRecord | Conflict | None:
            stored = self.read()
            if stored is not None and stored.record.write_id == record.write_id:
                return stored
            return None if isinstance(answer, Unknown) and stored == before else Conflict()

        def unresolved(answer: Doubtful) -> AzureBlobError:
            cause = f"it stays unknown whether it was written ({answer})"
            return TransientError(describe("write", f"record {self._names.record}", cause, "Try again later."))

        answer = request_and_read_back(request, read_back, unresolved)
        if isinstance(answer, Done):
            return StoredRecord(record, answer.etag)
        return answer if isinstance(answer, StoredRecord) else None

    def check_epoch(self, record: CheckpointRecord, epoch: int, writer: str | None = None) -> None:
        """`FencedError` if another writer has opened a higher epoch; if `writer` is given, or has opened any since."""
        if record.epoch > epoch or (writer is not None and record.writer != writer):
            other = "another writer of " if record.epoch <= epoch else ""
            cause = f"{other}epoch {record.epoch} has taken it over from epoch {epoch}"
            step = "Stop this writer; what is committed belongs to the other one."
            raise FencedError(describe("write", f"state {self._names.state}", cause, step))
