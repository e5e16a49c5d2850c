"""Keeping what entries have removed: copies on the server, in a place that no reader of the listing shows.

    removed blob ─► copied to `_replaced/<version>/…` (`copying`) ─► deleted        when the entry is published

An overwrite or a restore with `keptUntil` keeps the blobs that it removes until then; a vacuum deletes them. Any number
of processes may publish it: what is deleted is the version of a blob that was copied. `lastKept` links these entries.
See decision 28.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

from azure_account.names import MAX_NAME
from azureblob_source.log.naming import replaced_name
from azureblob_source.log.publishing.publish import still_there
from foundation.errors import ConfigurationError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry, Removal


def check_can_keep(log: CommitLog, removed: Iterable[Removal]) -> None:
    """`ConfigurationError` if the name of a blob that is to be kept would be too long."""
    longest = max((removal.name for removal in removed), key=len, default="")
    if len(replaced_name(log.stream, 0, longest)) > MAX_NAME:
        cause = f"its name would have more than {MAX_NAME} characters below `_replaced`"
        step = "Nothing was committed. Leave option `keepReplaced` out."
        raise ConfigurationError("keep", f"blob {longest} in {log.container.url}", cause, step)


def keepers_after(log: CommitLog, version: int) -> Iterator[LogEntry]:
    """The entries after a version that keep what they remove, from the newest back, as far as the head is known."""
    return log.linked_after(version, attrgetter("newest_kept"), attrgetter("last_kept"))


def kept_after(log: CommitLog, version: int) -> Mapping[str, str]:
    """The names of copies, by the names of blobs that were live at a version and were removed since.

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
    """What of an entry's `removed` is deleted by now."""
    there = concurrent_map(partial(still_there, log.container), entry.removed, log.readers, after_error="abandon")
    return [removal for removal, found in zip(entry.removed, there, strict=True) if found is None]
