"""Which blobs a stream consists of, by the entries of its log, and up to which version these are published. Pure.

version      0 … 7     8        9        10       11
             published revoked  visible  missing  not looked at          head.published_up_to = 7
                       │        │        └ published up to 9
                       │        └ in effect, every blob visible
                       └ first unpublished: 8
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azureblob_source.log.entry import attempt_of
from azureblob_source.log.naming import has_suffix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azure_account.values import BlobProperties
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


def is_visible(blob: BlobEntry, there: BlobProperties | None) -> bool:
    """Whether `there`, which has the blob's name, is this blob, and not one of another attempt or of another tool.

    A tool that has replaced a blob's metadata has left its name, and its size if the name has no random suffix that
    would tell. So what a tool has damaged is still the blob, which its reader reports. An empty blob is about to be
    deleted. An adopted blob was visible before its entry was put.
    """
    if blob.adopted:
        return True
    if there is None or not there.size:
        return False
    attempt = attempt_of(there.metadata)
    if attempt is not None:
        return attempt == blob.attempt
    return has_suffix(blob.name) or there.size == blob.size


def first_unpublished(head: LogEntry | None, *, known: int = -1, kept_from: int = 0) -> int:
    """The lowest version that is not known to be published.

    Published are the versions up to `head.published_up_to` and up to `known`, which the caller has published or found
    to be. Below the retention boundary `kept_from` everything was published or revoked. Adopted blobs are visible when
    their entry is put.
    """
    if head is not None and head.adopts:
        return head.version + 1
    return max(-1 if head is None else head.published_up_to, known, kept_from - 1) + 1


def last_published(published: int, unpublished: Iterable[LogEntry], is_published: Callable[[LogEntry], bool]) -> int:
    """The version up to which every entry in effect is published.

    unpublished: the entries after version `published`. is_published: called in their order, until it denies.
    """
    for entry in entries_in_effect(unpublished):
        if not is_published(entry):
            break
        published = entry.version
    return published
