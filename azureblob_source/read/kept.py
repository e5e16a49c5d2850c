"""Blobs that overwrites and restores have removed, and keep: a read of an earlier version finds them in their copies.

blobs of a version ─► entries after it that keep what they remove (`lastKept`) ─► the same blobs, by the names of copies
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from azureblob_source.log.keeping import keepers_after
from azureblob_source.log.naming import replaced_name
from azureblob_source.log.publish import still_there
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry, Removal
    from azureblob_source.read.blobs import StreamBlob


def kept_after(log: CommitLog, version: int) -> Mapping[str, str]:
    """By name of a blob that was live at a version, and was removed since: the name of its copy.

    As far as the head is known. What an entry that is not published has still to copy is left out.
    """
    head, names = log.head(), dict[str, str]()
    if head is None or head.newest_kept is None or head.newest_kept <= version:
        return names
    for entry in keepers_after(log, version):  # a name may be used again: its first removal counts
        removed = entry.removed if entry.version <= head.published_up_to else _deleted(log, entry)
        names |= {each.name: replaced_name(log.stream, entry.version, each.name) for each in removed}
    return names


def _deleted(log: CommitLog, entry: LogEntry) -> list[Removal]:
    """Those of the blobs that an entry removes that are deleted."""
    there = concurrent_map(partial(still_there, log.container), entry.removed, log.readers, after_error="abandon")
    return [removal for removal, found in zip(entry.removed, there, strict=True) if found is None]


def in_copies(blobs: Iterable[StreamBlob], kept: Mapping[str, str]) -> tuple[StreamBlob, ...]:
    """The blobs, by the names of their copies where they have one."""
    return tuple(replace(blob, name=kept.get(blob.name, blob.name)) for blob in blobs)
