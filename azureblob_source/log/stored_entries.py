"""The entries of a log as they are stored, and the search for the newest of them.

Versions are dense, so the newest is found by doubling steps and halving, in about 2·log2(n) requests; by two listings,
if a checkpoint says where to begin. What is found can be below the retention boundary, or of a log that was deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from azureblob_source.log.entry import from_json
from azureblob_source.log.naming import hundred_prefix, log_name, log_prefix, log_version
from foundation.errors import NotFoundError
from foundation.parallel import both, concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from azure_account.container import BlobContainer
    from azure_account.values import BlobContent
    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
    from azureblob_source.log.entry import LogEntry
    from azureblob_source.log.stream_notes import LogFacts

_TAIL = 64
"""Entries after a checkpoint, by default."""


@dataclass(frozen=True)
class EntriesAhead:
    """Entries that were read before the head was known.

    newest: by version, without a gap, read before the retention boundary. oldest: the entry that shows of which log
    these are. by_hint: the search for the head begins at a hint, which may be that of a deleted log.
    """

    newest: Mapping[int, LogEntry] = field(default_factory=dict)
    oldest: LogEntry | None = None
    by_hint: bool = False

    def of_log(self, log_id: str) -> EntriesAhead:
        """The entries of one log."""
        newest = {version: entry for version, entry in self.newest.items() if entry.log_id == log_id}
        return EntriesAhead(newest, None if self.oldest is None or self.oldest.log_id != log_id else self.oldest)


@dataclass(frozen=True)
class StoredEntries:
    """The entries of a stream's log. readers: how many are read concurrently."""

    container: BlobContainer
    stream: str
    readers: int

    def has(self, version: int) -> bool:
        """Whether there is an entry of this version."""
        return self.container.properties(log_name(self.stream, version)) is not None

    def find_all(self, versions: Sequence[int], readers: int | None = None) -> dict[int, LogEntry]:
        """The entries of these versions, as far as they are there."""
        find = partial(find_entry, self.container, self.stream)
        found = concurrent_map(find, versions, readers or self.readers, after_error="abandon")
        return {version: entry for version, entry in zip(versions, found, strict=True) if entry is not None}

    def oldest(self, first: int) -> int | None:
        """The oldest version from `first` on, None if there is none."""
        listed = self.container.list(log_prefix(self.stream), start_from=log_name(self.stream, first))
        return next((version for blob in listed if (version := log_version(blob.name)) is not None), None)

    def newest(self, known: int) -> int:
        """The newest version, given one that exists."""
        step = 1
        while self.has(known + step):
            known, step = known + step, step * 2
        missing = known + step
        while missing - known > 1:
            middle = (known + missing) // 2
            if self.has(middle):
                known = middle
            else:
                missing = middle
        return known

    def listed(self, known: int) -> int | None:
        """The newest version of those that follow `known`; None if a listing does not show it.

        They are too many, or there is a gap: what is above it is of a deleted log, or an entry was deleted by hand.
        Names are listed by the hundred: that of the next version, and that of the version by which a checkpoint is due.
        """
        prefixes = [*dict.fromkeys(hundred_prefix(self.stream, known + after) for after in (1, _TAIL + 1))]
        listed = concurrent_map(
            lambda prefix: list(self.container.list(prefix)), prefixes, self.readers, after_error="abandon"
        )
        there = {version for blobs in listed for blob in blobs if (version := log_version(blob.name)) is not None}
        newest = known
        while newest + 1 in there:
            newest += 1
        is_shown = hundred_prefix(self.stream, newest + 1) in prefixes and max(there, default=newest) <= newest
        return newest if is_shown else None

    def read_ahead(self, given: LogFacts, hint: int, checkpoint: Callable[[int], LogCheckpoint | None]) -> EntriesAhead:
        """Read the newest entries, from the newest checkpoint on: two rounds of requests.

        hint: its version; -1 without one. checkpoint: finds the one of a version.
        """
        known = max(hint, given.version or 0, 0)
        listed = partial(self.listed, known - 1)
        newest, base = (listed(), None) if hint < 0 else both(listed, partial(checkpoint, hint), self.readers)
        if newest is None or newest < known:
            return EntriesAhead()
        versions = {known, newest} if base is None else {*range(base.version, newest + 1)}
        found = self.find_all([*versions | ({0} if hint == known else set())], 4 * self.readers)
        ahead = {version: found[version] for version in versions if version in found}
        is_own = base is None or all(entry.log_id == base.log_id for entry in ahead.values())
        at_given = ahead.get(-1 if given.version is None else given.version)
        if len(ahead) < len(versions) or not is_own or (at_given is not None and at_given.write_id != given.write_id):
            return EntriesAhead(oldest=found.get(0))
        return EntriesAhead(ahead, found.get(0), by_hint=at_given is None)


def find_entry(
    container: BlobContainer, stream: str, version: int, seen: Callable[[BlobContent], object] = lambda _: None
) -> LogEntry | None:
    """The entry stored as a version, even below the boundary; None if there is none. seen: gets the answer."""
    name = log_name(stream, version)
    try:
        content = container.get(name)
    except NotFoundError:
        return None
    seen(content)
    return from_json(content.data, name)
