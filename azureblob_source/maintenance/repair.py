"""Repair: publishes committed entries, and removes leftovers and revived blobs.

* Unpublished entries. The next writer of the stream would publish them too; a repair is for when there is none.
* Leftovers: staged blocks that no entry names. Azure drops them after seven days; without them listings are shorter.
* Revived blobs: visible again although the log has voided or overwritten them, because a delayed request of a task or
  a writer published them late. Readers of the log ignore them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azure_account.values import Condition, Done
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.entry import DISCARDED, attempt_of
from azureblob_source.log.folder import is_below, strangers
from azureblob_source.log.live import first_unpublished, live_blobs
from azureblob_source.log.live_state import blobs_live_at
from azureblob_source.log.naming import BATCHES, is_batch_log, is_data, log_stream
from azureblob_source.log.publishing.publish import drop_staged_blocks, still_there
from azureblob_source.log.publishing.roll_forward import publish_committed
from azureblob_source.log.publishing.status import newest_batch_entry
from azureblob_source.read.snapshot import writer_schemas
from azureblob_source.read.waiting import not_visible
from azureblob_source.write.schema_evolution import Refusal, read_as
from foundation.errors import ConfigurationError, ConflictError, CorruptError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from azure_account.container import BlobContainer
    from azure_account.values import BlobProperties
    from azureblob_source.log.entry import BlobEntry, Draft, LogEntry
    from azureblob_source.log.publishing.publish import Publisher

logger = logging.getLogger("azureblob_source")

_TIME_LEVELS = 5
"""Levels at the end of a data blob's name: yyyy/MM/dd/HH/mm-ss."""


@dataclass(frozen=True)
class UnpublishedEntry:
    """A committed entry that is not published: its `missing` blobs are not visible, `lost` ones are not staged either.

    still_there: blobs that the entry removes and that are not deleted yet.
    """

    stream: str
    entry: LogEntry
    missing: tuple[str, ...]
    lost: tuple[str, ...]
    still_there: tuple[str, ...] = ()


@dataclass(frozen=True)
class Leftover:
    """A blob of staged blocks that no entry names. `since` is its time in the listing."""

    name: str
    since: datetime


@dataclass(frozen=True)
class Revived:
    """A blob that is visible although it is voided or overwritten. `attempt` is its attempt id."""

    name: str
    attempt: str


@dataclass(frozen=True)
class RepairPlan:
    """What a repair would do. `recent` are staged blocks that it keeps: their batch may still be committed.

    It leaves two things as they are. strangers: blobs of other programs, by the stream that they are in. unreadable:
    streams that cannot be read as a whole, and why.
    """

    streams: tuple[str, ...]
    unpublished: tuple[UnpublishedEntry, ...]
    leftovers: tuple[Leftover, ...]
    recent: tuple[Leftover, ...]
    revived: tuple[Revived, ...] = ()
    strangers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.unpublished or self.leftovers or self.revived)


@dataclass(frozen=True)
class RepairResult:
    """What a repair has done: entries published, entries voided, leftovers removed, revived blobs deleted."""

    published: int
    voided: int
    removed: int
    revived: int = 0


def plan_repair(container: BlobContainer, stream: str | None, before: datetime) -> RepairPlan:
    """Plan the repair of a stream, or of all streams of the container. Changes nothing.

    Staged blocks are `leftovers` if they are older than `before`, else `recent`.
    """
    listed = list(container.list("" if stream is None else f"{stream}/", uncommitted=True))
    streams = sorted({of for blob in listed if (of := _stream_of(blob)) is not None})
    staged = {blob.name for blob in listed if not blob.committed}
    entries_of = {name: _unpublished(CommitLog(container, name)) for name in streams}
    unpublished = [
        found
        for name, entries in entries_of.items()
        for entry in entries
        if (found := _unpublished_entry(container, name, entry, entries, staged)) is not None
    ]
    visible = {blob.name: blob for blob in listed if blob.committed}
    revived = [found for name in streams for found in _revived(CommitLog(container, name), visible)]
    committed_names = {blob.name for entries in entries_of.values() for entry in entries for blob in entry.blobs}
    committed_names |= _committed_in_batch_logs(container)
    adopted = {name for name in streams if _adopts(CommitLog(container, name))}
    own = [blob for blob in listed if not is_below(blob.name, adopted)]
    uncommitted = [Leftover(blob.name, blob.last_modified) for blob in own if _is_leftover(blob, committed_names)]
    return RepairPlan(
        tuple(streams),
        tuple(unpublished),
        tuple(leftover for leftover in uncommitted if leftover.since < before),
        tuple(leftover for leftover in uncommitted if leftover.since >= before),
        tuple(revived),
        strangers(own, set(streams)),
        {name: cause for name in streams if (cause := _unreadable(CommitLog(container, name))) is not None},
    )


def _adopts(log: CommitLog) -> bool:
    """Whether the blobs of a stream, and the blocks that are staged there, are of another program."""
    head = log.head()
    return head is not None and head.adopts


def _unreadable(log: CommitLog) -> str | None:
    """Why the stream cannot be read as a whole, None if it can."""
    head = log.head()
    if head is None or len(head.live_schemas) <= 1:
        return None
    try:
        found = read_as(writer_schemas(log, head.live_schemas))
    except (ConfigurationError, CorruptError, NotFoundError) as error:
        return str(error)
    return found.cause if isinstance(found, Refusal) else None


def missing_blobs(log: CommitLog) -> list[BlobEntry]:
    """Live blobs of the stream that are neither visible nor staged: they were deleted by hand, or have expired."""
    head = log.refresh()
    if head is None:
        return []
    there = {blob.name for blob in log.container.list(f"{log.stream}/", uncommitted=True)}
    return [blob for blob in blobs_live_at(log, head.version) if blob.name not in there]


def repair(
    container: BlobContainer,
    plan: RepairPlan,
    draft: Callable[[], Draft],
    publisher: Publisher,
    *,
    leftovers: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> RepairResult:
    """Carry out a plan; `leftovers` are removed only on request. `progress` is called with the steps done since then.

    draft: gives a fresh write id, time and epoch for an entry that voids. `FencedError` if its epoch is too low;
    `ConflictError`, after all else is done, if an entry cannot be published and may not be voided yet (see
    `void_version`).
    """
    published = voided = 0
    failures: list[ConflictError] = []
    for stream in dict.fromkeys(each.stream for each in plan.unpublished):
        todo = {each.entry.version for each in plan.unpublished if each.stream == stream}
        log = CommitLog(container, stream)
        before = log.refresh()
        try:
            head = publish_committed(log, draft(), publisher)
        except ConflictError as error:
            failures.append(error)
            continue
        if before is not None and head is not None:
            given_up = {entry.replaces for entry in log.entries(before.version + 1, head.version)}
            voided += len(todo & given_up)
            published += len(todo - given_up)
        progress(len(todo))
    revived = sum(_remove_revived(container, each) for each in plan.revived)
    progress(len(plan.revived))
    removed = 0
    if leftovers and plan.leftovers:
        committed_names = _committed_now(container, {*plan.streams, *_streams_above(plan.leftovers)})
        for leftover in plan.leftovers:
            if leftover.name not in committed_names:
                removed += _discard(container, leftover.name)
            progress(1)
    if failures:
        raise failures[0]
    return RepairResult(published, voided, removed, revived)


def _unpublished(log: CommitLog) -> list[LogEntry]:
    """The entries that the head does not say to be published."""
    head = log.refresh()
    return [] if head is None else log.entries(first_unpublished(head, kept_from=log.kept_from), head.version)


def _revived(log: CommitLog, visible: Mapping[str, BlobProperties]) -> list[Revived]:
    """Blobs of published entries that are visible although a published entry has voided or overwritten them."""
    entries = log.history()
    if not entries:
        return []
    done = [entry for entry in entries if entry.version <= entries[-1].published_up_to]
    live = live_blobs(done).keys() | live_blobs(entries).keys()
    return [
        Revived(blob.name, blob.attempt)
        for entry in done
        for blob in entry.blobs
        if blob.name not in live and blob.name in visible and _wrote(visible[blob.name], blob.attempt)
    ]


def _wrote(there: BlobProperties | None, attempt: str) -> bool:
    return there is not None and attempt_of(there.metadata) == attempt


def _remove_revived(container: BlobContainer, blob: Revived) -> bool:
    there = container.properties(blob.name)
    if there is None or not _wrote(there, blob.attempt):
        return False
    try:
        return isinstance(container.delete(blob.name, condition=Condition(if_match=there.etag)), Done)
    except ConfigurationError as error:
        logger.warning("%s", error)
        return False


def _unpublished_entry(
    container: BlobContainer, stream: str, entry: LogEntry, entries: Sequence[LogEntry], staged: set[str]
) -> UnpublishedEntry | None:
    later = [each for each in entries if each.version > entry.version]
    if any(entry.version in each.revoked for each in later):
        return None
    taken_away = {removal.name for each in later for removal in each.removed}
    blobs = [blob for blob in entry.blobs if blob.name not in taken_away]
    missing = tuple(blob.name for blob in not_visible(container, blobs))
    lost = tuple(name for name in missing if name not in staged)
    kept = tuple(each.name for each in entry.removed if still_there(container, each) is not None)
    return UnpublishedEntry(stream, entry, missing, lost, kept) if missing or kept else None


def _streams_above(leftovers: Iterable[Leftover]) -> set[str]:
    """All names that may be the stream of a leftover: it may have had no log when the plan was made."""
    levels = [leftover.name.split("/")[:-_TIME_LEVELS] for leftover in leftovers]
    return {"/".join(above[:depth]) for above in levels for depth in range(1, len(above) + 1)}


def _committed_now(container: BlobContainer, streams: Iterable[str]) -> set[str]:
    """The blobs of unpublished entries and of the newest batch entries, as of now."""
    entries = (entry for stream in streams for entry in _unpublished(CommitLog(container, stream)))
    return {blob.name for entry in entries for blob in entry.blobs} | _committed_in_batch_logs(container)


def _committed_in_batch_logs(container: BlobContainer) -> set[str]:
    """Blobs that the newest batch entries name: the logs of their streams may not have them yet."""
    names = sorted({found for blob in container.list(f"{BATCHES}/") if (found := log_stream(blob.name)) is not None})
    heads = ((log, log.head()) for log in (CommitLog(container, name) for name in names))
    newest = (newest_batch_entry(log, head) for log, head in heads if head is not None)
    return {blob.name for entry in newest for blob in entry.blobs}


def _stream_of(blob: BlobProperties) -> str | None:
    stream = log_stream(blob.name)
    return None if stream is None or is_batch_log(stream) else stream


def _is_leftover(blob: BlobProperties, committed_names: set[str]) -> bool:
    if blob.committed:
        return blob.size == 0 and attempt_of(blob.metadata) == DISCARDED
    return is_data(blob.name) and blob.name not in committed_names


def _discard(container: BlobContainer, name: str) -> bool:
    """Drop the staged blocks of a blob. A blob that was published in the meantime stays."""
    drop_staged_blocks(container, name)
    there = container.properties(name)
    if there is None or there.size or attempt_of(there.metadata) != DISCARDED:
        return False
    return isinstance(container.delete(name, condition=Condition(if_match=there.etag)), Done)
