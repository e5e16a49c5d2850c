"""Retention: old entries of a stream's log are taken away, and the blobs that they name with them, as in Kafka.

    plan ─► for each 500 entries: read them ─► move the boundary ─► delete their blobs ─► delete them ─► clear the rest

Why this order holds (each clause is a test):
  * The boundary is moved first, so from then on nobody counts on what is about to be deleted.
  * Only what is published is taken, and never the head, so no batch is taken back and the transactions stay known.
  * A blob is deleted only if its `azureblob_attempt` metadata is the entry's, in the version that was looked at.
  * An entry is deleted after its blobs. A vacuum that dies leaves its entries in the boundary's `removing`; the next
    one begins with them. Any other entry below the boundary was put there too late: it goes, its blobs are not touched.

The logs of `_batches/` name blobs of other streams; their entries alone are removed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from azure_account.account import Condition, Done, Missing
from azure_account.errors import ConfigurationError, ConflictError, NotFoundError, describe
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit_log import find_entry
from azureblob_source.log.entry import attempt_of
from azureblob_source.log.naming import BATCHES, log_name, log_prefix, log_version
from azureblob_source.log.published import first_unpublished
from azureblob_source.log.readback import ATTEMPTS, request_and_read_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from azure_account.account import BlobContainer, Outcome
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.log.readback import Doubtful

SHORTEST_RETENTION = timedelta(hours=1)
"""What a reader or writer may sleep through without looking at the boundary is well below it."""

_ENTRIES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """An entry as the listing of its log shows it."""

    version: int
    etag: str
    written: datetime


@dataclass(frozen=True)
class VacuumPlan:
    """What a vacuum would do.

    expired: entries to take away, oldest first; `blobs`, `rows` and `bytes` are what they name.
    leftovers: entries below the boundary whose removal was begun, to be finished with their blobs.
    strays: entries that were put below the boundary, to be deleted without touching their blobs.
    first, last: the first version that will be kept, and the head.
    """

    stream: str
    boundary: Boundary
    expired: tuple[LoggedEntry, ...]
    leftovers: tuple[LoggedEntry, ...]
    strays: tuple[LoggedEntry, ...]
    first: int
    last: int
    blobs: int = 0
    rows: int = 0
    bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.expired or self.leftovers or self.strays or self.boundary.removing)

    @property
    def log_only(self) -> bool:
        """Whether the blobs belong to other streams' logs."""
        return self.stream.startswith(f"{BATCHES}/")


@dataclass(frozen=True)
class Vacuumed:
    """What a vacuum has done. `foreign` are names that now hold a blob of somebody else, which was left alone."""

    entries: int
    blobs: int
    foreign: tuple[str, ...] = ()


def check_retention(older_than: timedelta, *, forced: bool = False) -> timedelta:
    """`older_than` if it can be a retention; below an hour only if `forced`."""
    if older_than < timedelta(0) or (older_than < SHORTEST_RETENTION and not forced):
        message = (
            f"a retention of {older_than} is shorter than an hour: readers that are at work would lose what they "
            "have begun to read. Give a longer one, or force it when nobody reads."
        )
        raise ConfigurationError(message)
    return older_than


def plan_vacuum(log: CommitLog, before: datetime, progress: Callable[[int], object] = lambda _: None) -> VacuumPlan:
    """What to take away of a log: entries that the service wrote before `before`. Changes nothing.

    `progress` is told how many more entries were read. `NotFoundError` if there is no log.
    """
    boundary, head = log.boundary(), log.refresh()
    if head is None:
        step = "Check container and stream; `python -m azureblob_source ls` shows what is there."
        raise NotFoundError(describe("vacuum", f"{log.container.url}/{log.stream}", "there is no commit log", step))
    listed = list(_listed(log.container, log.stream))
    plan = plan_from_listing(log.stream, listed, boundary, head, before=before, needed=_needed(log, head))
    blobs = rows = size = 0
    for chunk in _chunks(plan.expired):
        for entry in log.entries(chunk[0].version, chunk[-1].version):
            blobs += len(entry.blobs)
            rows += entry.rows
            size += sum(blob.size for blob in entry.blobs)
        progress(len(chunk))
    return replace(plan, blobs=blobs, rows=rows, bytes=size)


def plan_from_listing(
    stream: str, listed: Sequence[LoggedEntry], boundary: Boundary, head: LogEntry, *, before: datetime, needed: int
) -> VacuumPlan:
    """The plan, without totals, out of a log's listing. Entries from `needed` on are kept. Pure."""
    below = [entry for entry in listed if entry.version < boundary.first]
    leftovers = [entry for entry in below if boundary.removing.get(entry.version) == entry.etag]
    end = min(first_unpublished(head), head.version, needed)
    expired: list[LoggedEntry] = []
    for entry in listed:
        if boundary.first <= entry.version < end:
            if entry.written >= before:
                break
            expired.append(entry)
    return VacuumPlan(
        stream=stream,
        boundary=boundary,
        expired=tuple(expired),
        leftovers=tuple(leftovers),
        strays=tuple(entry for entry in below if entry not in leftovers),
        first=expired[-1].version + 1 if expired else boundary.first,
        last=head.version,
    )


def vacuum(
    container: BlobContainer,
    plan: VacuumPlan,
    new_id: Callable[[], str],
    progress: Callable[[int], object] = lambda _: None,
    *,
    threads: int = 32,
) -> Vacuumed:
    """Do what is planned. `progress` is told how many more entries are gone; `threads` requests are made at once.

    Safe to run beside readers, writers and another vacuum of the log, which ends one of the two with `ConflictError`,
    and to run again after it was interrupted anywhere.
    """
    with ThreadPoolExecutor(threads, "azureblob-vacuum") as pool:
        work = _Work(container, plan, pool.map if threads > 1 else map, progress)
        work.delete_entries(plan.strays)
        work.clear(plan.leftovers, work.read(plan.leftovers))
        boundary = plan.boundary
        for chunk in _chunks(plan.expired):
            entries = work.read(chunk)
            removing = {entry.version: entry.etag for entry in chunk}
            new = Boundary(chunk[-1].version + 1, removing, new_id())
            boundary = move_boundary(container, plan.stream, boundary, new)
            work.clear(chunk, entries)
        if boundary.removing:
            move_boundary(container, plan.stream, boundary, replace(boundary, removing={}, write_id=new_id()))
    return Vacuumed(work.entries, work.blobs, tuple(work.foreign))


@dataclass
class _Work:
    """One run of a vacuum, and what it has done. `each` calls a function on every item of a sequence."""

    container: BlobContainer
    plan: VacuumPlan
    each: Callable[..., Iterable[Any]]
    progress: Callable[[int], object]
    entries: int = 0
    blobs: int = 0
    foreign: list[str] = field(default_factory=list)

    def read(self, entries: Sequence[LoggedEntry]) -> list[LogEntry | None]:
        """The entries' content; None for one that is gone."""
        return list(self.each(self._read, entries))

    def clear(self, entries: Sequence[LoggedEntry], contents: Sequence[LogEntry | None]) -> None:
        """Delete the blobs of entries below the boundary, then the entries."""
        if not self.plan.log_only:
            blobs = [blob for entry in contents if entry is not None for blob in entry.blobs]
            for blob, deleted in zip(blobs, self.each(self._delete_blob, blobs), strict=True):
                if deleted is None:
                    self.foreign.append(blob.name)
                else:
                    self.blobs += deleted
        self.delete_entries(entries)

    def delete_entries(self, entries: Sequence[LoggedEntry]) -> None:
        """Delete entries below the boundary, each in the version that was listed."""
        for _ in self.each(self._delete_entry, entries):
            self.entries += 1
            self.progress(1)

    def _read(self, entry: LoggedEntry) -> LogEntry | None:
        return find_entry(self.container, self.plan.stream, entry.version)

    def _delete_entry(self, entry: LoggedEntry) -> None:
        name = log_name(self.plan.stream, entry.version)

        def read_back(answer: Doubtful) -> Doubtful | None:
            there = None if isinstance(answer, Missing) else self.container.properties(name)
            return answer if there is None or there.etag != entry.etag else None

        request_and_read_back(
            lambda: self.container.delete(name, condition=Condition(if_match=entry.etag)),
            read_back,
            lambda answer: _stuck(self.container, name, answer),
        )

    def _delete_blob(self, blob: BlobEntry) -> bool | None:
        """True if this call deleted it, False if it was gone before, None if another's blob has the name."""
        outcome = None
        for _ in range(ATTEMPTS):
            there = self.container.properties(blob.name)
            if there is None:
                return outcome is not None
            if attempt_of(there.metadata) != blob.attempt:
                return None
            outcome = self.container.delete(blob.name, condition=Condition(if_match=there.etag))
            if isinstance(outcome, Done):
                return True
        raise _stuck(self.container, blob.name, outcome)


def _stuck(container: BlobContainer, name: str, outcome: Outcome | Doubtful | None) -> ConflictError:
    step = "Look whether a lease or a policy holds it, then run the vacuum again: it goes on where this one ended."
    return ConflictError(describe("delete", f"{name} in {container.url}", str(outcome), step, attempts=ATTEMPTS))


def _listed(container: BlobContainer, stream: str) -> Iterator[LoggedEntry]:
    for blob in container.list(log_prefix(stream)):
        version = log_version(blob.name)
        if version is not None:
            yield LoggedEntry(version, blob.etag, blob.last_modified)


def _needed(log: CommitLog, head: LogEntry) -> int:
    """The first version that the head still leans on: a decision over many streams needs those that it replaces."""
    entry = head
    while log.stream.startswith(f"{BATCHES}/") and entry.replaces is not None:
        entry = log.read(entry.replaces)
    return entry.version


def _chunks(entries: Sequence[LoggedEntry]) -> Iterable[Sequence[LoggedEntry]]:
    return (entries[at : at + _ENTRIES_AT_ONCE] for at in range(0, len(entries), _ENTRIES_AT_ONCE))
