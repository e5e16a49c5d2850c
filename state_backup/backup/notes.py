"""What a writer of a state knows, as a file that the next process of this host goes on from without a request.

The notes are right as long as the record has the ETag in them: what a writer commits is conditional on it. If they are
of a time before the last commit, or another writer has the state, the commit is refused and the record read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from azure_account.documents.document import Stored
from azure_account.documents.form import DocumentFormat, sealed
from foundation.errors import AzureBlobError
from state_backup.index import snapshot_index
from state_backup.local.scan import ChecksumCache
from state_backup.record import record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from state_backup.index.snapshot_index import SnapshotIndex
    from state_backup.record.record import CheckpointRecord

_FORM = DocumentFormat("Notes", 1, "Delete the file.")
_TEXT = ("utf-8", "surrogatepass")
"""Names of files may be any bytes."""
_SETS = ("with_ttl", "gone", "unused", "without_tags", "lost")


@dataclass(frozen=True)
class WriterNotes:
    """What a writer hands to the writer of the next process.

    stored: the record as it was last read or written. indexes: its snapshot indexes, by blob.
    with_ttl, gone, unused, without_tags, lost: names of blobs, as the writer has them.
    looked: when it was looked whether the blobs are there (seconds since 1970).
    read_files: by store.
    """

    stored: Stored[CheckpointRecord]
    indexes: Mapping[str, SnapshotIndex]
    with_ttl: AbstractSet[str]
    gone: AbstractSet[str]
    unused: AbstractSet[str]
    without_tags: AbstractSet[str]
    lost: AbstractSet[str]
    looked: float
    read_files: Mapping[str, ChecksumCache]

    def to_json(self) -> bytes:
        """As they are stored."""
        fields: dict[str, Any] = {"format-version": _FORM.format_version}
        fields |= {name.replace("_", "-"): sorted(getattr(self, name)) for name in _SETS}
        fields["record"] = record.to_json(self.stored.document).decode(*_TEXT)
        fields["etag"], fields["looked"] = self.stored.etag, self.looked
        fields["indexes"] = {blob: snapshot_index.to_json(index).decode(*_TEXT) for blob, index in self.indexes.items()}
        fields["read-files"] = {store: each.to_json() for store, each in self.read_files.items()}
        return sealed(fields)

    @classmethod
    def from_json(cls, data: bytes, blob: str) -> WriterNotes | None:
        """The inverse; None for notes that are damaged or of another release. blob: of the record."""

        def notes(fields: dict[str, Any]) -> WriterNotes:
            return cls(
                Stored(record.from_json(fields["record"].encode(*_TEXT), blob), fields["etag"]),
                {name: snapshot_index.from_json(text.encode(*_TEXT), name) for name, text in fields["indexes"].items()},
                looked=float(fields["looked"]),
                **{name: frozenset(fields[name.replace("_", "-")]) for name in _SETS},
                read_files={store: ChecksumCache.from_json(each) for store, each in fields["read-files"].items()},
            )

        try:
            return _FORM.read(data, blob, notes)
        except AzureBlobError:
            return None
