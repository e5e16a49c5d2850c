"""Which blobs a stream consists of as of one version. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from azureblob_source.log_entry import BlobEntry, LogEntry


def live_blobs(entries: Iterable[LogEntry]) -> dict[str, BlobEntry]:
    """The blobs, by name, that the entries add and no later one of them removes. Entries come in version order."""
    live: dict[str, BlobEntry] = {}
    for entry in entries:
        for name in entry.removed:
            live.pop(name, None)
        live.update((blob.name, blob) for blob in entry.blobs)
    return live
