"""Vacuum: deletes old entries of a stream's log, and the blobs that they name. Retention as in Kafka.

    plan ─► for each 500 entries: read them ─► move boundary ─► delete their blobs ─► delete them ─► clear `removing`
         ─► delete what overwrites and restores have kept long enough ─► delete checkpoints that nothing needs

Why this order is safe (each clause is a test):
  * The retention boundary moves first: from then on readers and writers ignore what is deleted next.
  * Only published entries are removed, and never the head: no batch is voided, and the transactions stay known.
  * The entry that lists the transactions of the first one that is kept loses its blobs, and is kept (decision 24).
  * A blob is deleted only if its `azureblob_attempt` metadata names the entry's attempt, on the ETag that was read.
  * A blob with moved rows is deleted as soon as all of them are below the boundary, which divides no rows that the plan
    has seen. If nothing has followed the entry that has moved them, another entry removes it.
  * An entry is deleted after its blobs. If a vacuum dies, the boundary's `removing` lists the entries that it began
    with, and the next vacuum starts with them. Any other entry below the boundary was put there by a stale writer: it
    is deleted, its blobs are not.

The logs below `_batches/` name blobs of other streams: only their entries are removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING

from azure_account.readback import ATTEMPTS, request_and_read_back
from azure_account.values import Condition, Done, Missing
from azureblob_source.log.boundary import Boundary, move_boundary
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import Draft, attempt_of
from azureblob_source.log.live import first_unpublished
from azureblob_source.log.naming import (
    is_batch_log,
    log_name,
    log_prefix,
    log_version,
    of_replaced,
    replaced_prefix,
)
from azureblob_source.log.publishing.keeping import keepers_after
from azureblob_source.log.publishing.publish import Publisher, still_there
from azureblob_source.log.publishing.status import newest_batch_entry
from azureblob_source.log.relocating.relocation import commit_relocation, compactions_after
from azureblob_source.log.stored_entries import find_entry
from azureblob_source.maintenance.checkpoints import unneeded
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from foundation.parallel import Item, Result, concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from datetime import datetime

    from azure_account.container import BlobContainer
    from azure_account.readback import Doubtful
    from azure_account.values import BlobProperties, Outcome
    from azureblob_source.log.entry import BlobEntry, LogEntry

SHORTEST_RETENTION = timedelta(hours=1)
"""Much longer than a reader or writer works without reading the boundary again."""

_ENTRIES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """An entry as the listing of its log shows it; `written` is the service's time."""

    version: int
    etag: str
    written: datetime


@dataclass(frozen=True)
class VacuumPlan:
    """What a vacuum would do.

    outdated: entries to remove, oldest first; `blobs`, `rows` and `bytes` are the totals of their blobs.
    interrupted: entries below the boundary that an interrupted vacuum began to remove, to be removed with their blobs.
    strays: entries that a stale writer put below the boundary, to be deleted without their blobs.
    list_entry: the entry below the boundary that is kept, as it lists transactions.
    moved: blobs of later, published entries, all of whose rows were moved from outdated ones, to be deleted.
    newest_moved: the same of entries that are not known to be published.
    copies: kept blobs that are to be deleted, as their time is over, or they have rows of outdated entries only.
    checkpoints: blobs of checkpoints of the log, to be deleted.
    first, last: the first version that is kept, and the head.
    """

    stream: str
    boundary: Boundary
    outdated: tuple[ListedEntry, ...]
    interrupted: tuple[ListedEntry, ...]
    strays: tuple[ListedEntry, ...]
    list_entry: ListedEntry | None
    first: int
    last: int
    blobs: int = 0
    rows: int = 0
    bytes: int = 0
    moved: tuple[BlobEntry, ...] = ()
    newest_moved: tuple[BlobEntry, ...] = ()
    copies: tuple[BlobProperties, ...] = ()
    checkpoints: tuple[BlobProperties, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        entries = self.outdated or self.interrupted or self.strays or self.boundary.removing
        return not (entries or self.moved or self.newest_moved or self.copies or self.checkpoints)

    @property
    def log_only(self) -> bool:
        """Whether the log is a batch log, whose blobs belong to other streams."""
        return is_batch_log(self.stream)


@dataclass(frozen=True)
class VacuumResult:
    """What a vacuum has deleted; `checkpoints`: blobs of these. copies: blobs that were kept.

    foreign: names that belong to blobs of another writer now, which were kept.
    """

    entries: int
    blobs: int
    foreign: tuple[str, ...] = ()
    checkpoints: int = 0
    copies: int = 0


def check_retention(older_than: timedelta, *, forced: bool = False) -> timedelta:
    """`older_than` if it is a valid retention; less than an hour only if `forced`. Else `ConfigurationError`."""
    if older_than < timedelta(0) or (older_than < SHORTEST_RETENTION and not forced):
        message = (
            f"a retention of {older_than} is shorter than an hour: it may delete blobs while readers still read them. "
            "Give a longer one, or add `--force` if nothing reads the stream."
        )
        raise ConfigurationError(message)
    return older_than


def plan_vacuum(
    log: CommitLog,
    before: datetime,
    progress: Callable[[int], object] = lambda _: None,
    *,
    now: datetime | None = None,
) -> VacuumPlan:
    """Plan the removal of the entries that were written before `before`, by the service's clock. Changes nothing.

    now: what is kept until then is removed too; by default until `before`. progress: called with the number of entries
    read since its last call. `NotFoundError` if there is no log.
    """
    boundary, head = log.refresh_boundary(), log.refresh()
    if head is None:
        step = "Check container and stream; `python -m azureblob_source ls` shows what is there."
        raise NotFoundError("vacuum", f"{log.container.url}/{log.stream}", "there is no commit log", step)
    if head.adopts:
        cause = "its log names blobs of another program, and is what tells new ones from those that were read"
        step = "Delete blobs where they are written; reads leave them out with `ignoreCorruptBlobs`."
        raise ConfigurationError("vacuum", f"{log.container.url}/{log.stream}", cause, step)
    listed = list(_listed(log.container, log.stream))
    movers = list(compactions_after(log, boundary.first - 1))
    moved = [blob for entry in movers for blob in entry.blobs if blob.moved]
    plan = plan_from_listing(log.stream, listed, boundary, head, before=before, needed=_needed(log, head))
    plan = _with_undivided(plan, moved)
    blobs = rows = size = 0
    keeps, outdated = head.newest_kept is not None, set[str]()
    for chunk in _chunks(plan.outdated):
        for entry in log.entries(chunk[0].version, chunk[-1].version):
            outdated |= {blob.name for blob in entry.blobs} if keeps else set()
            blobs += len(entry.blobs)
            rows += entry.rows
            size += sum(blob.size for blob in entry.blobs)
        progress(len(chunk))
    checkpoints = () if plan.log_only else tuple(unneeded(log, plan.first))
    of_published, of_others = _outdated_moved(log.container, movers, plan.first, head.published_up_to)
    plan = replace(plan, moved=of_published, newest_moved=of_others)
    if keeps and not plan.log_only:
        interrupted = [find_entry(log.container, log.stream, entry.version) for entry in plan.interrupted]
        outdated |= {blob.name for entry in interrupted if entry is not None for blob in entry.blobs}
        outdated |= {blob.name for blob in moved if blob.versions[1] < plan.first}
        plan = replace(plan, copies=tuple(_outdated_copies(log, head, plan.first, outdated, now or before)))
    return replace(plan, blobs=blobs, rows=rows, bytes=size, checkpoints=checkpoints)


def _outdated_copies(
    log: CommitLog, head: LogEntry, first: int, outdated: Collection[str], now: datetime
) -> Iterator[BlobProperties]:
    """The kept blobs that nothing needs. first: the first version that counts; outdated: names of blobs before it.

    Those of a version without an entry that keeps them are of one that was voided.
    """
    keepers = {entry.version for entry in keepers_after(log, first - 1) if entry.is_kept_at(now)}
    for blob in log.container.list(replaced_prefix(log.stream)):
        found = of_replaced(log.stream, blob.name)
        if found is not None and found[0] <= head.version and (found[0] not in keepers or found[1] in outdated):
            yield blob


def plan_from_listing(
    stream: str, listed: Sequence[ListedEntry], boundary: Boundary, head: LogEntry, *, before: datetime, needed: int
) -> VacuumPlan:
    """The plan, without totals, from the listing of a log. Entries from version `needed` on are kept. Pure."""
    below = [entry for entry in listed if entry.version < boundary.first]
    interrupted = [entry for entry in below if boundary.removing.get(entry.version) == entry.etag]
    list_entry = next((entry for entry in below if entry.version == boundary.list_version), None)
    end = min(first_unpublished(head), head.version, needed)
    outdated: list[ListedEntry] = []
    for entry in listed:
        if boundary.first <= entry.version < end:
            if entry.written >= before:
                break
            outdated.append(entry)
    return VacuumPlan(
        stream=stream,
        boundary=boundary,
        outdated=tuple(outdated),
        interrupted=tuple(interrupted),
        strays=tuple(entry for entry in below if entry not in interrupted and entry != list_entry),
        list_entry=list_entry,
        first=outdated[-1].version + 1 if outdated else boundary.first,
        last=head.version,
    )


def vacuum(
    container: BlobContainer,
    plan: VacuumPlan,
    new_id: Callable[[], str],
    progress: Callable[[int], object] = lambda _: None,
    *,
    threads: int = 32,
) -> VacuumResult:
    """Carry out a plan with `threads` concurrent requests. `progress` is called with the entries deleted since then.

    Safe while readers and writers use the stream, and to run again after an interruption at any point. Of two vacuums
    of one log one ends with `ConflictError`, and so does that of a stream that was deleted since.
    """
    work = _Work(container, plan, threads, progress)
    boundary, kept = plan.boundary, plan.list_entry
    work.delete_entries(plan.strays)
    work.clear(plan.interrupted, work.read(plan.interrupted), kept)
    for chunk in _chunks(plan.outdated):
        entries = work.read(chunk)
        removing = {entry.version: entry.etag for entry in chunk}
        end = chunk[-1].version + 1
        first = find_entry(container, plan.stream, end)
        if first is None and not any(entries):
            raise work.deleted()
        listed_in = end if first is None else first.list_version
        boundary = move_boundary(container, plan.stream, boundary, Boundary(end, removing, new_id(), listed_in))
        before = [] if kept is None or kept.version == listed_in else [kept]
        kept = next((each for each in (*chunk, kept) if each is not None and each.version == listed_in), None)
        work.delete_entries(before)
        work.clear(chunk, entries, kept)
    if boundary.removing:
        move_boundary(container, plan.stream, boundary, replace(boundary, removing={}, write_id=new_id()))
    work.delete_blobs(plan.moved)
    work.delete_copies([*work.copies])
    work.delete_checkpoints()
    work.remove_newest_moved(new_id())
    return VacuumResult(work.entries, work.blobs, tuple(work.foreign), len(plan.checkpoints), len(plan.copies))


class _Fate(Enum):
    """What becomes of a blob that an entry below the boundary names."""

    DELETED = auto()
    GONE = auto()
    FOREIGN = auto()
    """Another writer's blob has the name: it stays."""


@dataclass
class _Work:
    """One run of a vacuum, and what it has done."""

    container: BlobContainer
    plan: VacuumPlan
    threads: int
    progress: Callable[[int], object]
    entries: int = 0
    blobs: int = 0
    foreign: list[str] = field(default_factory=list)
    copies: dict[str, list[BlobProperties]] = field(default_factory=dict)
    """Kept blobs that are still to be deleted, by the names that they had."""

    def __post_init__(self) -> None:
        for blob in self.plan.copies:
            _, name = of_replaced(self.plan.stream, blob.name) or (0, blob.name)
            self.copies.setdefault(name, []).append(blob)

    def read(self, entries: Sequence[ListedEntry]) -> list[LogEntry | None]:
        """The contents of the entries; None for one that is deleted already. `ConflictError` as of `deleted`."""
        return self._each(self._read, entries)

    def clear(
        self, entries: Sequence[ListedEntry], contents: Sequence[LogEntry | None], kept: ListedEntry | None
    ) -> None:
        """Delete the blobs of entries below the boundary, then the entries but `kept`."""
        if not self.plan.log_only:
            blobs = [blob for entry in contents if entry is not None for blob in entry.blobs]
            self.delete_copies([blob.name for blob in blobs])
            self.delete_blobs(blobs)
        self.delete_entries([entry for entry in entries if entry != kept])

    def delete_blobs(self, blobs: Sequence[BlobEntry]) -> None:
        """Delete blobs below the boundary."""
        fates = self._each(self._delete_blob, blobs)
        self.blobs += fates.count(_Fate.DELETED)
        self.foreign += [blob.name for blob, fate in zip(blobs, fates, strict=True) if fate is _Fate.FOREIGN]

    def remove_newest_moved(self, write_id: str) -> None:
        """Have an entry remove the blobs that a writer may still publish. Errors as of `commit_relocation`."""
        log = CommitLog(self.container, self.plan.stream)
        if self.plan.newest_moved and (head := log.refresh()) is not None:
            removed = tuple(blob.removal for blob in self.plan.newest_moved)
            draft = Draft(write_id, head.timestamp, "compact", removed=removed)
            commit_relocation(log, draft, Publisher(self.container, self.threads), self.plan.last)

    def delete_entries(self, entries: Sequence[ListedEntry]) -> None:
        """Delete entries below the boundary, each on the ETag that was listed."""
        for chunk in _chunks(entries):
            self._each(self._delete_entry, chunk)
            self.entries += len(chunk)
            self.progress(len(chunk))

    def delete_copies(self, names: Iterable[str]) -> None:
        """Delete those of the kept blobs that had these names, each on the ETag that was listed."""
        copies = [copy for name in names for copy in self.copies.pop(name, ())]
        self._each(lambda blob: self._delete(blob.name, blob.etag), copies)

    def delete_checkpoints(self) -> None:
        """Delete the blobs of checkpoints, each on the ETag that was listed."""
        self._each(lambda blob: self._delete(blob.name, blob.etag), self.plan.checkpoints)

    def _each(self, act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        return concurrent_map(act, items, self.threads, after_error="wait")

    def _read(self, entry: ListedEntry) -> LogEntry | None:
        etags: list[str] = []
        found = find_entry(self.container, self.plan.stream, entry.version, lambda at: etags.append(at.properties.etag))
        if found is not None and etags != [entry.etag]:
            raise self.deleted()
        return found

    def deleted(self) -> ConflictError:
        """The error for a log that is not the one of the plan any more."""
        place, cause = f"{self.plan.stream} in {self.container.url}", "the stream was deleted since this was planned"
        return ConflictError("vacuum", place, cause, "Run it again.")

    def _delete_entry(self, entry: ListedEntry) -> None:
        self._delete(log_name(self.plan.stream, entry.version), entry.etag)

    def _delete(self, name: str, etag: str) -> None:
        def read_back(answer: Doubtful) -> Doubtful | None:
            there = None if isinstance(answer, Missing) else self.container.properties(name)
            return answer if there is None or there.etag != etag else None

        request_and_read_back(
            lambda: self.container.delete(name, condition=Condition(if_match=etag)),
            read_back,
            lambda answer: _stuck(self.container, name, answer),
        )

    def _delete_blob(self, blob: BlobEntry) -> _Fate:
        outcome = None
        for _ in range(ATTEMPTS):
            there = self.container.properties(blob.name)
            if there is None:
                return _Fate.GONE if outcome is None else _Fate.DELETED  # by the attempt before
            if attempt_of(there.metadata) != blob.attempt:
                return _Fate.FOREIGN
            outcome = self.container.delete(blob.name, condition=Condition(if_match=there.etag))
            if isinstance(outcome, Done):
                return _Fate.DELETED
        raise _stuck(self.container, blob.name, outcome)


def _stuck(container: BlobContainer, name: str, outcome: Outcome | Doubtful | None) -> ConflictError:
    step = "Look whether a lease or a policy holds it, then run the vacuum again: it goes on where this one ended."
    return ConflictError("delete", f"{name} in {container.url}", str(outcome), step, attempts=ATTEMPTS)


def _listed(container: BlobContainer, stream: str) -> Iterator[ListedEntry]:
    for blob in container.list(log_prefix(stream)):
        version = log_version(blob.name)
        if version is not None:
            yield ListedEntry(version, blob.etag, blob.last_modified)


def _with_undivided(plan: VacuumPlan, moved: Sequence[BlobEntry]) -> VacuumPlan:
    """The plan with the highest boundary up to its own that is not amid the rows of a blob with moved rows."""
    first = plan.first
    while divided := [oldest for oldest, newest in (blob.versions for blob in moved) if oldest < first <= newest]:
        first = min(divided)
    first = max(first, plan.boundary.first)
    return replace(plan, outdated=tuple(entry for entry in plan.outdated if entry.version < first), first=first)


def _outdated_moved(
    container: BlobContainer, movers: Sequence[LogEntry], first: int, published_up_to: int
) -> tuple[tuple[BlobEntry, ...], tuple[BlobEntry, ...]]:
    """The blobs all of whose moved rows are below `first`: those that are there, and those of unpublished entries."""
    outdated = [
        (entry.version, blob)
        for entry in movers
        for blob in entry.blobs
        if first <= entry.version and blob.moved and blob.versions[1] < first
    ]
    published = [blob for version, blob in outdated if version <= published_up_to]
    there = tuple(blob for blob in published if still_there(container, blob.removal) is not None)
    return there, tuple(blob for version, blob in outdated if version > published_up_to)


def _needed(log: CommitLog, head: LogEntry) -> int:
    """The first version that is needed: of a batch log the newest batch entry, and those that it replaces."""
    if not is_batch_log(log.stream):
        return head.version
    entry = newest_batch_entry(log, head)
    while entry.replaces is not None:
        entry = log.read(entry.replaces)
    return entry.version


def _chunks(entries: Sequence[ListedEntry]) -> Iterable[Sequence[ListedEntry]]:
    return (entries[at : at + _ENTRIES_AT_ONCE] for at in range(0, len(entries), _ENTRIES_AT_ONCE))
