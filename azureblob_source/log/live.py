"""Which blobs a stream consists of, by the entries of its log. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureblob_source.log.entry import BlobEntry, LogEntry


def entries_in_effect(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """The entries that no other of them revokes. A revoked entry has added and removed nothing."""
    entries = list(entries)
    revoked = frozenset[int]().union(*(entry.revoked for entry in entries))
    return [entry for entry in entries if entry.version not in revoked]


def live_blobs(entries: Iterable[LogEntry]) -> dict[str, BlobEntry]:
    """The blobs, by name, that the entries add and no later one of them removes. Entries come in version order."""
    live: dict[str, BlobEntry] = {}
    for entry in entries_in_effect(entries):
        for removal in entry.removed:
            live.pop(removal.name, None)
        live.update((blob.name, blob) for blob in entry.blobs)
    return live
