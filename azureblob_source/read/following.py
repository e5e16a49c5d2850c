"""Following a stream: from the log version that was read last to the next one, never past what is published.

A version is where a micro-batch may end. What a range of versions gives depends on the log alone, which only grows, so
a range that is read again gives the same blobs. Two entries that belong together (a batch whose staged blocks expired,
and the entry that voids or replaces it) are never in different ranges: the first has blobs that were never whole, the
second takes them away. One case is beyond this: a batch over many streams (`streamColumn`) whose staged blocks expired
in some of them is decided anew in all of them, so a follower of a stream that had its part whole reads that part twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from azure_account.errors import ConflictError, NotFoundError, TransientError, describe
from azureblob_source.concurrent_map import concurrent_map
from azureblob_source.log.live import live_blobs, live_since
from azureblob_source.log.published import first_unpublished, published_up_to
from azureblob_source.options import EARLIEST, LATEST
from azureblob_source.read.snapshot import writer_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.read.query_schema import Misfit, QuerySchema

_AT_ONCE = 16

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """What a range may hold: whole versions until one of these is reached. None is no limit."""

    blobs: int | None = None
    bytes: int | None = None


@dataclass
class Follower:
    """One reader's walk along a log. `publish_timeout` and `monotonic` are in seconds."""

    log: CommitLog
    publish_timeout: float
    monotonic: Callable[[], float]
    _proven: int = -1
    _waiting: tuple[int, float] | None = None
    _entries: dict[int, LogEntry] = field(default_factory=dict)

    def before(self, start: int | str | datetime) -> int:
        """The version before the first to read: `earliest`, `latest`, a version, or one committed at or after a time.

        The earliest is the last overwrite, if there was one, for the blobs before it are gone. A time to come is now.
        `NotFoundError` for a version that is no longer kept, or does not exist yet.
        """
        first, head = self.log.first(), self.log.refresh()
        if first is None or head is None:
            return -1
        match start:
            case str() if start == LATEST:
                return self._settled(head, -1)
            case str() if start == EARLIEST:
                since = live_since(self.log.history(head.version)) if head.since is None else head.since
                return max(first, since) - 1
            case datetime():
                return self._committed_before(start, first, head.version)
        if not first <= int(start) <= head.version + 1:
            known = f"the earliest kept is {first}, the newest {head.version}"
            step = f"Start at one of these, or at `{EARLIEST}` or `{LATEST}`. A vacuum removes older versions."
            raise NotFoundError(describe("read from version", f"{start} of {self._place}", known, step))
        return int(start) - 1

    def latest(self, after: int | None, limits: Limits, *, at_most: int | None = None) -> int:
        """The version to read up to, from behind `after` (None: not known; then there are no limits).

        `after` itself if there is nothing new, or only a batch that is being published. `TransientError` if that
        lasts for longer than the time-out.
        """
        head = self.log.refresh(after if after is not None and after >= 0 else None)
        if head is None or (after is not None and head.version < after):
            return self._nothing(after, head)
        if after is not None and at_most is not None and after >= at_most:
            return after
        settled = self._kept(lambda: self._settled(head, -1 if after is None else after), after)
        self._watch(after, settled, head)
        if at_most is not None:
            settled = min(settled, at_most)
        if after is None or settled <= after:
            return settled if after is None else after
        if limits == Limits():
            return settled
        return self._kept(lambda: self._limited(after, settled, limits), after)

    def entries(self, after: int, until: int) -> list[LogEntry]:
        """The entries behind `after` up to `until`. `NotFoundError`, naming the earliest kept, if one is gone."""
        kept = [self._entries[version] for version in range(after + 1, until + 1) if version in self._entries]
        if len(kept) == until - after:
            return kept
        found = self._kept(lambda: self.log.entries(after + 1, until), after)
        self._remember(found)
        return found

    def forget(self, until: int) -> None:
        """Drop what is remembered of versions that will not be asked for again."""
        self._entries = {version: entry for version, entry in self._entries.items() if version > until}

    def _kept(self, read: Callable[[], Result], after: int | None) -> Result:
        """What `read` gives; an error of entries that are gone becomes one that a query's user can act upon."""
        try:
            return read()
        except NotFoundError as gone:
            if after is None or after + 1 >= self.log.kept_from:
                raise
            cause = f"a vacuum has removed the versions after it; the earliest kept is {self.log.kept_from}"
            step = f"Start the query with a new checkpoint: it begins at version {self.log.kept_from}."
            message = describe("read on from version", f"{after} of {self._place}", cause, step)
            raise NotFoundError(message) from gone

    @property
    def _place(self) -> str:
        return f"{self.log.container.url}/{self.log.stream}"

    def _nothing(self, after: int | None, head: LogEntry | None) -> int:
        if after is None or (after < 0 and head is None):
            return -1
        there = "the stream has no log" if head is None else f"its newest version is {head.version}"
        step = "If the stream was deleted and written anew, start the query with a new checkpoint."
        raise ConflictError(describe("read on from version", f"{after} of {self._place}", there, step))

    def _settled(self, head: LogEntry, after: int) -> int:
        """The newest version up to which every batch is published, or revoked by another that is."""
        first = first_unpublished(head, known=max(self._proven, after))
        unpublished = self.log.entries(first, head.version) if first <= head.version else []
        self._proven = published_up_to(first - 1, unpublished, self._is_published)
        return self._proven

    def _is_published(self, entry: LogEntry) -> bool:
        published = self._is_public(entry.blobs)
        if published:
            self._remember([entry])
        return published

    def _is_public(self, blobs: Iterable[BlobEntry]) -> bool:
        found = concurrent_map(self.log.container.properties, [blob.name for blob in blobs], _AT_ONCE)
        return all(there is not None and there.size for there in found)  # an empty one is about to be discarded

    def _watch(self, after: int | None, settled: int, head: LogEntry) -> None:
        """Note how long nothing could be read because a decided batch is not published."""
        if settled == head.version or (after is not None and settled > after):
            self._waiting = None
            return
        version = settled + 1
        if self._waiting is None or self._waiting[0] != version:
            self._waiting = version, self.monotonic()
        waited = self.monotonic() - self._waiting[1]
        if waited > self.publish_timeout:
            message = describe(
                "read",
                f"version {version} of {self._place}",
                "its batch is decided but its writer has not published it",
                "Start the writer again, which finishes the batch, or run `python -m azureblob_source repair`.",
                elapsed=waited,
            )
            raise TransientError(message)

    def _limited(self, after: int, settled: int, limits: Limits) -> int:
        """The last version of a range within the limits: one at least, and never between two that belong together."""
        until, blobs, size = after, 0, 0
        for entry in self._walk(after, settled):
            blobs += len(entry.blobs)
            size += sum(blob.size for blob in entry.blobs)
            over = (limits.blobs is not None and blobs > limits.blobs) or (
                limits.bytes is not None and size > limits.bytes
            )
            belongs = entry.replaces is not None and after < entry.replaces <= until
            if over and until > after and not belongs:
                break
            until = entry.version
        return until

    def _walk(self, after: int, settled: int) -> Iterator[LogEntry]:
        """Entries in order, read some at a time, remembered for `entries`."""
        at = after
        while at < settled:
            ahead = min(settled, at + _AT_ONCE)
            yield from self.entries(at, ahead)
            at = ahead

    def _remember(self, entries: Iterable[LogEntry]) -> None:
        self._entries.update((entry.version, entry) for entry in entries)

    def _committed_before(self, moment: datetime, first: int, newest: int) -> int:
        """The last version committed before `moment`: times rise along the log, as far as its writers' clocks agree."""
        low, high = first - 1, newest
        while low < high:
            middle = (low + high + 1) // 2
            if datetime.fromisoformat(self.log.read(middle).timestamp) < moment:
                low = middle
            else:
                high = middle - 1
        return low


@dataclass
class SchemaGuard:
    """Ends the ranges of a query before the first version whose rows the query's schema does not hold.

    Entries below the last overwrite are not looked at: their blobs are gone, which a reader of them reports.
    """

    follower: Follower
    query: QuerySchema
    _known: dict[str, Misfit | None] = field(default_factory=dict)

    def end(self, after: int, until: int) -> int:
        """The last version that can be read of those after `after` up to `until`. `ConflictError` if none can."""
        if until <= after or self._holds_head():
            return until
        entries = self.follower.entries(after, until)
        unfit = self._unfit(entries)
        if unfit is None:
            return until
        end = _whole_range_before(entries, unfit[0].version)
        if end <= after:
            raise self._error(*unfit)
        return end

    def check(self, entries: Sequence[LogEntry]) -> None:
        """`ConflictError` if the rows of a range do not fit. For Spark before 4.2, which sets the range by itself."""
        unfit = None if self._holds_head() else self._unfit(entries)
        if unfit is not None:
            raise self._error(*unfit)

    def _holds_head(self) -> bool:
        """Whether everything since the last overwrite fits: the head names the writer schemas of all that."""
        head = self.follower.log.head()
        return head is not None and head.schemas is not None and not any(map(self._misfit, head.schemas))

    def _unfit(self, entries: Sequence[LogEntry]) -> tuple[LogEntry, Misfit] | None:
        head = self.follower.log.head()
        since = (head.since if head is not None else None) or 0
        for entry, blob in new_blobs(entries):
            misfit = self._misfit(blob.schema) if entry.version >= since else None
            if misfit is not None:
                return entry, misfit
        return None

    def _misfit(self, fingerprint: str) -> Misfit | None:
        if fingerprint not in self._known:
            self._known[fingerprint] = self.query.misfit(writer_schema(self.follower.log, fingerprint))
        return self._known[fingerprint]

    def _error(self, entry: LogEntry, misfit: Misfit) -> ConflictError:
        log = self.follower.log
        place = f"version {entry.version} of {log.container.url}/{log.stream}"
        return ConflictError(describe("read on with", place, misfit.cause, misfit.next_step))


def _whole_range_before(entries: Sequence[LogEntry], version: int) -> int:
    """The last version before `version` where a range may end: never between two entries that belong together."""
    end = version - 1
    for entry in reversed(entries):
        if entry.version > end and entry.replaces is not None and entries[0].version <= entry.replaces <= end:
            end = entry.replaces - 1
    return end


def new_blobs(entries: Iterable[LogEntry]) -> list[tuple[LogEntry, BlobEntry]]:
    """What a range of entries gives: the blobs that they add and do not take away again, with the entry of each."""
    entries = list(entries)
    live = live_blobs(entries)
    return [(entry, blob) for entry in entries for blob in entry.blobs if blob.name in live]
