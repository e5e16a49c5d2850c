"""Where the writer of a state finds it: its record, and the blobs that there are."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.undelete import undelete
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConflictError, CorruptError, NotFoundError
from state_backup.record.listing import listed
from state_backup.record.store import new_uuid, record_store
from state_backup.record.stored_index import read_index
from state_backup.record.ttl import TAG

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure_account.container import BlobContainer
    from azure_account.documents.document import Stored
    from azure_account.documents.owner import OwnedDocumentBlob
    from foundation.clock import Clock
    from state_backup.index.snapshot_index import SnapshotIndex
    from state_backup.record.names import StateNames
    from state_backup.record.record import CheckpointRecord

logger = logging.getLogger("state_backup")


@dataclass(frozen=True)
class StateStorage:
    """Where a state is, and how it is reached."""

    container: BlobContainer
    names: StateNames
    threads: int = 16
    clock: Clock = SYSTEM_CLOCK
    new_id: Callable[[], str] = new_uuid

    @property
    def state(self) -> str:
        """The name of the state."""
        return self.names.state

    @property
    def records(self) -> OwnedDocumentBlob[CheckpointRecord]:
        """Reads and changes the record."""
        return record_store(self.container, self.names, self.new_id)

    def listed(self) -> tuple[dict[str, int], frozenset[str] | None]:
        """The blobs of the state, without the record, and their bytes; those that have the TTL's tag.

        None for these if the service does not show tags to this identity.
        """
        blobs, refused = listed(self.container, self.names.prefixes)
        with_ttl = None if refused else frozenset(blob.name for blob in blobs if TAG in blob.tags)
        return {blob.name: blob.size for blob in blobs}, with_ttl

    def record(self) -> Stored[CheckpointRecord] | None:
        """None for a new state. A record that was deleted is undeleted; `ConflictError` if that cannot be done."""
        return self.records.read() or self._undeleted_record()

    def _undeleted_record(self) -> Stored[CheckpointRecord] | None:
        """A state that has blobs and no record was not made by a writer: its record was deleted."""
        if not any(True for prefix in self.names.prefixes for _ in self.container.list(prefix)):
            return None
        found = self.records.undelete()
        if found is None:
            cause = f"it has blobs, but {self.names.record} was deleted"
            step = "Bring that blob back, or delete the folder, or choose another name for the state."
            raise ConflictError("open", f"state {self.state}", cause, step)
        return found

    def read_index(self, record: CheckpointRecord, blob: str) -> SnapshotIndex | None:
        """A snapshot index of a record. None if it is damaged, or gone for good: no checkpoint that needs it is whole.

        `FencedError` if it is gone because another writer has taken over; `ConfigurationError` for one of a newer
        release.
        """
        try:
            return self._undeleted_index(record, blob)
        except (CorruptError, NotFoundError) as error:
            what = "gone" if isinstance(error, NotFoundError) else "damaged"
            logger.warning("index %s is %s: the next backup drops the checkpoints that need it (%s)", blob, what, error)
            return None

    def _undeleted_index(self, record: CheckpointRecord, blob: str) -> SnapshotIndex:
        try:
            return read_index(self.container, blob)
        except NotFoundError:
            now = self.records.read()
            if now is not None:  # another writer may have dropped a checkpoint
                self.records.check_owner(now.document, record)
            if not undelete(self.container, [blob]):
                raise
        return read_index(self.container, blob)
