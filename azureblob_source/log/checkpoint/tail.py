"""What the entries after a checkpoint change in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azureblob_source.log.live import entries_in_effect, live_blobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint, ManifestFile
    from azureblob_source.log.entry import BlobEntry, LogEntry


@dataclass(frozen=True)
class TailEffect:
    """What entries after a checkpoint change: blobs of these `versions` and `names` are gone, `added` are new."""

    versions: frozenset[int]
    names: frozenset[str]
    added: tuple[tuple[LogEntry, BlobEntry], ...]

    def touches(self, manifest: ManifestFile) -> bool:
        """Whether a manifest can have a blob that is gone."""
        return bool(self.names) or any(manifest.first <= version <= manifest.last for version in self.versions)


def tail_effect(base: LogCheckpoint, entries: Sequence[LogEntry]) -> TailEffect | None:
    """What entries after `base`, in order, change in it. None if it is no base for them.

    An overwrite of all that has followed ends it, and the revocation of an entry that had removed blobs: these are live
    again. One that is voided, although it was published, may be such an entry.
    """
    later = [entry for entry in entries if entry.version > base.version]
    if later and later[-1].since != base.since:
        return None
    revoked = frozenset[int]().union(*(entry.revoked for entry in later))
    voided = [entry.replaces for entry in later if entry.operation == "void"]
    if not revoked.isdisjoint(base.removers) or any((each or 0) <= base.version for each in voided):
        return None
    return TailEffect(
        frozenset(version for version in revoked if version <= base.version),
        frozenset(removal.name for entry in entries_in_effect(later) for removal in entry.removed),
        tuple(added_by(later)),
    )


def is_kept(blob: BlobEntry, kept_from: int) -> bool:
    """Whether a blob of an entry from version `kept_from` on has rows of such a version: they may have been moved."""
    return not blob.moved or blob.versions[1] >= kept_from


def removers_from(first: int, entries: Sequence[LogEntry]) -> tuple[int, ...]:
    """The entries from version `first` on that have removed blobs, and that can be revoked while all is published.

    An overwrite cannot: no revert takes it back. A stream may have any number of those of partitions.
    """
    return tuple(each.version for each in entries if each.version >= first and each.revives and not each.overwrites)


def added_by(entries: Sequence[LogEntry], revoking: Sequence[LogEntry] = ()) -> list[tuple[LogEntry, BlobEntry]]:
    """The blobs that entries add, and that neither they nor `revoking`, which follow them, remove or revoke."""
    live = live_blobs([*entries, *revoking])
    return [(entry, blob) for entry in entries for blob in entry.blobs if live.get(blob.name) is blob]
