"""A state in its container: the record, the snapshot indexes and the other blobs, and what was deleted of them."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from azure_account.documents.document import DocumentBlob, fetch_document
from azure_account.documents.owner import OwnedDocumentBlob
from azure_account.undelete import undelete
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError
from state_backup.index import snapshot_index
from state_backup.record.names import StateNames
from state_backup.record.record import from_json, to_json
from state_backup.record.ttl import TAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from azure_account.container import BlobContainer
    from azure_account.documents.document import Stored
    from azure_account.location import Location
    from azure_account.values import BlobProperties
    from foundation.clock import Clock
    from state_backup.index.snapshot_index import SnapshotIndex
    from state_backup.record.record import Checkpoint, CheckpointRecord

logger = logging.getLogger("state_backup")


def new_uuid() -> str:
    """A random id."""
    return uuid.uuid4().hex


def open_location(where: Location) -> tuple[BlobContainer, StateNames]:
    """The container of a state, and the state's names. Makes no request.

    `ConfigurationError` if `where` names no state, or cannot be one.
    """
    if not where.path:
        raise ConfigurationError(f"No state is named in container {where.container}: give `container/state`.")
    names = StateNames(where.path)
    return where.open(), names


def record_store(
    container: BlobContainer, names: StateNames, new_id: Callable[[], str] = new_uuid
) -> OwnedDocumentBlob[CheckpointRecord]:
    """Reads and changes the record of a state."""
    documents = DocumentBlob(container, names.record, "record", to_json, from_json)
    return OwnedDocumentBlob(documents, f"state {names.state}", "writer", new_id)


def read_index(container: BlobContainer, blob: str) -> SnapshotIndex:
    """The index in a blob. One that is damaged is fetched again. `NotFoundError`, and the errors of `from_json`."""
    return fetch_document(container, blob, snapshot_index.from_json).document


def list_blobs(
    container: BlobContainer, prefixes: Sequence[str], *, uncommitted: bool = False
) -> tuple[list[BlobProperties], ConfigurationError | None]:
    """The blobs with these prefixes, with their tags. An error if tags are refused: then they are without.

    uncommitted: also those that have staged blocks only.
    """

    def blobs(*, tags: bool) -> list[BlobProperties]:
        return [blob for prefix in prefixes for blob in container.list(prefix, uncommitted=uncommitted, tags=tags)]

    try:
        return blobs(tags=True), None
    except ConfigurationError as refused:
        return blobs(tags=False), refused


def undelete_lost(
    container: BlobContainer, names: StateNames, checkpoint: Checkpoint, stores: Iterable[str], threads: int
) -> tuple[str, ...]:
    """Undelete the blobs of a state that these stores of a checkpoint need and that are gone; those that are back.

    Nothing of this package deletes what a kept checkpoint needs (decision 15): it was a person, or a rule of the
    account. So no delayed request of ours deletes again what is brought back. Blobs of others are left alone, whatever
    an index says.
    """
    indexes = [checkpoint.indexes[store] for store in stores]
    back = undelete(container, indexes, threads)
    files = {blob for index in indexes for blob in _files_of(container, index) if names.owns(blob)}
    return back + undelete(container, sorted(files), threads)


def _files_of(container: BlobContainer, index: str) -> frozenset[str]:
    """The blobs of an index; none if it cannot be read, which the restore reports."""
    try:
        return read_index(container, index).blob_ids()
    except (NotFoundError, CorruptError):
        return frozenset()


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
        blobs, refused = list_blobs(self.container, self.names.prefixes)
        with_ttl = None if refused else frozenset(blob.name for blob in blobs if TAG in blob.tags)
        return {blob.name: blob.size for blob in blobs}, with_ttl

    def record(self) -> Stored[CheckpointRecord] | None:
        """The record, None for a new state. A deleted one is undeleted; `ConflictError` if that cannot be done."""
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
