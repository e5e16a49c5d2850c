"""Bring back blobs of a checkpoint that were deleted by mistake, from the account's soft delete.

Nothing of this package deletes what a kept checkpoint needs (decision 15): it was a person, or a rule of the account.
So no delayed request of ours deletes again what is brought back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account.undelete import undelete
from foundation.errors import CorruptError, NotFoundError
from state_backup.record.stored_index import read_index

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azure_account.container import BlobContainer
    from state_backup.record.names import StateNames
    from state_backup.record.record import Checkpoint


def undelete_lost(
    container: BlobContainer, names: StateNames, checkpoint: Checkpoint, stores: Iterable[str], threads: int
) -> tuple[str, ...]:
    """Undelete the blobs of a state that these stores of a checkpoint need and that are gone; those that are back.

    Blobs of others are left alone, whatever an index says.
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
