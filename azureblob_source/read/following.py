"""Following a stream: from the last version that was read to the next one, never past the last published version.

A micro-batch ends with a version. The blobs of a range of versions depend on the log alone, which only grows: a range
that is read again gives the same blobs, but for those that a revert or an overwrite of partitions has deleted since. A
voided entry and the entry that revokes it are never in different ranges, since the first names blobs that were never
published as a whole and the second removes them. One case is not covered: a batch over many streams (`streamColumn`)
whose staged blocks expire in some of the streams is committed again in all of them, so the follower of a stream that
had published its part reads that part twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from azureblob_source.log.entry import Totals
from azureblob_source.log.live import entries_in_effect, first_unpublished, last_published, live_blobs
from azureblob_source.log.live_state import no_log
from azureblob_source.log.stored_entries import find_entry
from azureblob_source.options import EARLIEST, LATEST
from azureblob_source.read.blobs import PLANNED, stream_blob, stream_blobs
from azureblob_source.read.waiting import PublicationWait, not_visible
from foundation.clock import SYSTEM_CLOCK, utc
from foundation.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry, LogEntry, MovedRows
    from azureblob_source.read.blobs import StreamBlob
    from azureblob_source.read.deletions import Deleted, DeletionFinder
    from azureblob_source.read.moved import MovedRowsFinder
    from azureblob_source.read.query_schema import Misfit, QuerySchema
    from foundation.clock import Clock

_AT_ONCE = 16
_MANY = 200
"""Versions of a range from which on a checkpoint is looked for: with it, a hundred requests are enough."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class TriggerLimits:
    """How much a micro-batch may read: whole versions, until one of these is reached. None is no limit."""

    blobs: int | None = None
    bytes: int | None = None

    def excess(self, read: Totals) -> float:
        """Negative if a micro-batch of so much is within the limits; 0 is one blob or byte above one of them."""
        some = ((self.blobs, read.blobs), (self.bytes, read.bytes))
        return max((count / (limit + 1) for limit, count in some if limit is not None), default=0.0) - 1


@dataclass(frozen=True)
class Backlog:
    """What is committed and not read yet. It is an upper bound: what was revoked or overwritten since counts too."""

    versions: int
    blobs: int
    rows: int
    bytes: int


@dataclass
class Follower:
    """Finds, for one reader, where its next range of a log ends. `publish_timeout` is in seconds.

    no_container: the container did not exist when the reader looked last. by_version: as of `BlobSelection`.
    """

    log: CommitLog
    publish_timeout: float
    clock: Clock = SYSTEM_CLOCK
    log_id: str | None = None
    """The identity of the log that is followed, as far as it is known."""
    _published: int = -1
    _waits_for_rows: bool = False
    _entries: dict[int, LogEntry] = field(default_factory=dict)
    _totals: dict[int, Totals] = field(default_factory=lambda: {-1: Totals()})
    no_container: bool = False
    by_version: bool = False

    def __post_init__(self) -> None:
        self._wait = PublicationWait(self.publish_timeout, self.clock)

    def version_before(self, start: int | str | datetime) -> int:
        """The version before the first to read: `earliest`, `latest`, a version, or one committed at or after a time.

        The earliest is the last overwrite, if there was one, as the blobs before it are deleted. A time in the future
        means now. `NotFoundError` for a version that a vacuum has removed, or that does not exist yet.
        """
        head = self._head(None)
        first = None if head is None else self.log.first()
        if first is None or head is None:
            return -1
        self.expect(head.log_id)
        match start:
            case str() if start == LATEST:
                return self._last_published(head, -1)
            case str() if start == EARLIEST:
                return max(first, head.since) - 1
            case datetime():
                return self._committed_before(start, first, head)
        if not first <= int(start) <= head.version + 1:
            known = f"the earliest kept is {first}, the newest {head.version}"
            step = f"Start at one of these, or at `{EARLIEST}` or `{LATEST}`. A vacuum removes older versions."
            raise NotFoundError("read from version", f"{start} of {self._place}", known, step)
        return int(start) - 1

    def latest(self, after: int | None, limits: TriggerLimits, *, at_most: int | None = None) -> int:
        """Where a range that begins after `after` ends (None: not known; then there are no limits).

        `after` itself if there is nothing new, or only a batch that is being published. `TransientError` if publishing
        takes longer than the timeout.
        """
        head = self._head(after)
        if head is None or (after is not None and head.version < after):
            return self._log_ends_before(after, head)
        self.expect(head.log_id)
        if after is not None and at_most is not None and after >= at_most:
            return after
        published = self._unless_vacuumed(lambda: self._last_published(head, -1 if after is None else after), after)
        self._check_timeout(after, published, head)
        if at_most is not None:
            published = min(published, at_most)
        if after is None or published <= after:
            return published if after is None else after
        if limits == TriggerLimits():
            return published
        return self._unless_vacuumed(lambda: self._admitted(after, published, limits), after)

    def entries(self, after: int, until: int) -> list[LogEntry]:
        """The entries after `after` up to `until`. If one is vacuumed, `NotFoundError` names the earliest kept."""
        kept = [self._entries[version] for version in range(after + 1, until + 1) if version in self._entries]
        if len(kept) == until - after:
            return kept
        found = self._unless_vacuumed(lambda: self.log.entries(after + 1, until), after)
        for entry in found:
            self.expect(entry.log_id)
        self._remember(found)
        return found

    def blobs(self, after: int, until: int) -> list[tuple[StreamBlob, str]]:
        """The blobs that the versions after `after` up to `until` add and that no one of them removes.

        Each with the fingerprint of its schema. What was reverted since then, or replaced by an overwrite of
        partitions, is left out, since its blobs are deleted: a version that is read again may have fewer rows than
        before. Errors as of `entries`.
        """
        deleted = self._unless_vacuumed(lambda: self._deleted_after(until), after)
        reverts = () if deleted is None else deleted.reverts
        found = self._by_checkpoint(after, until, reverts) if until - after > _MANY else None
        if found is None:
            new = new_blobs(self.entries(after, until), reverts)
            found = [(stream_blob(entry, blob), blob.schema) for entry, blob in new]
        found = self._with_moved(found, after, until, deleted)
        return found if deleted is None else deleted.left_of(found)

    def _with_moved(
        self, found: list[tuple[StreamBlob, str]], after: int, until: int, deleted: Deleted | None
    ) -> list[tuple[StreamBlob, str]]:
        """The blobs of a range, as what is read of them now: rows of other versions are in them too."""
        head = self.head()
        if head is None or head.newest_compaction is None or head.newest_compaction <= after:
            return found
        revoked = frozenset[int]() if deleted is None else deleted.taken_back
        replaced_at = None if deleted is None else deleted.replaced_at
        if replaced_at is not None and head.since > until:
            replaced_at = self._before_overwrite(head, until)
        at = until if deleted is None else deleted.in_effect(until)

        def keeps(rows: MovedRows) -> bool:
            return after < rows.version and rows.version not in revoked

        def is_cut(blob: StreamBlob) -> bool:
            first = blob.version if blob.first_version is None else blob.first_version
            return self.by_version or after >= (first or 0) or bool(revoked)

        by_schema: dict[str, list[StreamBlob]] = {}
        for blob, schema in found:
            by_schema.setdefault(schema, []).append(blob)
        return [
            (blob, schema)
            for schema, blobs in by_schema.items()
            for blob in self._moves.parts(self._moves.located(blobs, at, keeps, replaced_at), keeps, is_cut)
        ]

    def _before_overwrite(self, head: LogEntry, until: int) -> int | None:
        """The version before the first overwrite of all rows after `until`; None if too many have followed it."""
        entry = head
        for _ in range(_AT_ONCE):
            version = entry.since - 1
            entry = self._entry(version)
            if entry.since <= until:
                return version
        return None

    def _by_checkpoint(
        self, after: int, until: int, reverts: Sequence[LogEntry]
    ) -> list[tuple[StreamBlob, str]] | None:
        """The blobs of a range that are live at `until`, by its newest checkpoint; None if there is none to use."""
        from azureblob_source.log.live_state import UNUSABLE, by_checkpoint, warn_unusable  # noqa: PLC0415 - see `_MANY`

        if any(entry.restores is not None for entry in reverts):  # it takes back more than an entry can revoke
            return None
        state = by_checkpoint(self.log, self.entries(until - 1, until)[0], after + 1)
        effect = None if state is None else state.effect([replace(entry, removed=(), blobs=()) for entry in reverts])
        if state is None or state.base is None or effect is None:
            return None
        try:
            table = state.base_table((*PLANNED, "schema"), lambda each: each.last > after)
        except UNUSABLE as error:
            warn_unusable(state.base, error)
            return None
        if table is None or after + 1 < self.log.kept_from:  # what a vacuum has removed is an error
            return None
        live = self.log.checkpoints.left_of(table, effect, after + 1)
        added = ((stream_blob(entry, blob), blob.schema) for entry, blob in effect.added)
        return [*zip(stream_blobs(live), live["schema"].to_pylist(), strict=True), *added]

    def taken_back(self, after: int, until: int) -> frozenset[int]:
        """The versions after `after` up to `until` that were reverted since then."""
        deleted = self._deleting_after(until)
        return frozenset() if deleted is None else deleted.reverted.intersection(range(after + 1, until + 1))

    def _deleting_after(self, version: int) -> Deleted | None:
        """What later entries delete, also those that are not published; None if there is no such entry."""
        head = self.head()
        if head is None or head.newest_deletion is None or head.newest_deletion <= version:
            return None
        return self._deletions.after(version, head)

    def _deleted_after(self, version: int) -> Deleted | None:
        """What later entries delete, but for overwrites that are not published: they may be voided yet."""
        head, found = self.head(), self._deleting_after(version)
        if head is None or found is None:
            return None
        known = max(version, self._published, self.log.kept_from - 1, head.published_up_to)
        if any(entry.version > known for entry in found.overwrites):
            known = self._last_published(head, known)
        return found.published(known)

    def expect(self, log_id: str | None) -> None:
        """Note which log an offset is of. None: when the offset was made there was no log.

        `ConflictError` if it is of another log than the one followed so far.
        """
        if log_id is not None:
            if self.log_id not in (None, log_id):
                there = (
                    f"the query has read the log {self.log_id}, this is {log_id}: the stream was deleted and begun "
                    "again, or the checkpoint is of a query over another stream"
                )
                step = "Start the query with a new checkpoint, which is its own and reads the stream that is there now."
                raise ConflictError("read on in", self._place, there, step)
            self.log_id = log_id

    def forget(self, until: int) -> None:
        """Drop the remembered entries up to this version, which will not be read again."""
        self._entries = {version: entry for version, entry in self._entries.items() if version > until}
        self._totals = {version: totals for version, totals in self._totals.items() if version >= until}
        self._deletions.forget(until)

    def backlog(self, read: int) -> Backlog | None:
        """What follows version `read`, where a range ends or a query starts. No request, once the head is known.

        None if there is no log, or no entry at or right after `read` has been seen.
        """
        head = self.head()
        if head is None:
            return None
        self._note_totals(head)
        if read not in self._totals:
            return None
        added = head.totals.less(self._totals[read])
        return Backlog(head.version - read, added.blobs, added.rows, added.bytes)

    def _unless_vacuumed(self, read: Callable[[], Result], after: int | None) -> Result:
        """The result of `read`, with an error for the query's user if the entries that it needs are vacuumed."""
        try:
            return read()
        except NotFoundError as gone:
            if after is None or after + 1 >= self.log.kept_from:
                raise
            cause = f"a vacuum has removed the versions after it; the earliest kept is {self.log.kept_from}"
            step = f"Start the query with a new checkpoint: it begins at version {self.log.kept_from}."
            raise NotFoundError("read on from version", f"{after} of {self._place}", cause, step) from gone

    def head(self) -> LogEntry | None:
        """The newest entry as far as it is known; None also as long as the container does not exist."""
        return None if self.no_container else self.log.head()

    def _head(self, after: int | None) -> LogEntry | None:
        """The head as of now. A container that does not exist yet is waited for, as a stream is."""
        read_before = after is not None and after >= 0
        try:
            head = self.log.refresh(after if read_before else None)
        except NotFoundError:  # of the container: that of a blob is no error here
            if read_before:
                raise
            self.no_container = True
            return None
        self.no_container = False
        return head

    @cached_property
    def _moves(self) -> MovedRowsFinder:
        from azureblob_source.read.moved import MovedRowsFinder  # noqa: PLC0415 - few streams were compacted

        return MovedRowsFinder(self.log)

    @cached_property
    def _deletions(self) -> DeletionFinder:
        from azureblob_source.read.deletions import DeletionFinder  # noqa: PLC0415 - few streams need it

        return DeletionFinder(self.log)

    @property
    def _place(self) -> str:
        return f"{self.log.container.url}/{self.log.stream}"

    def _log_ends_before(self, after: int | None, head: LogEntry | None) -> int:
        """-1 as long as there is no log. `ConflictError` if the query has read versions that the log does not have."""
        if after is None or (after < 0 and head is None):
            return -1
        there = "the stream has no log" if head is None else f"its newest version is {head.version}"
        step = "If the stream was deleted and written again, start the query with a new checkpoint."
        raise ConflictError("read on from version", f"{after} of {self._place}", there, step)

    def _last_published(self, head: LogEntry, after: int) -> int:
        """The newest version up to which every batch is published, or revoked by one that is."""
        first = first_unpublished(head, known=max(self._published, after))
        unpublished = self.log.entries(first, head.version) if first <= head.version else []
        for entry in unpublished:
            self._note_totals(entry)
        self._published = last_published(first - 1, unpublished, self._is_published)
        held = (entry for entry in entries_in_effect(unpublished) if entry.version > self._published)
        self._waits_for_rows = any(entry.operation != "compact" for entry in held)
        return self._published

    def _is_published(self, entry: LogEntry) -> bool:
        published = not not_visible(self.log.container, entry.blobs)
        if published:
            self._remember([entry])
        return published

    def _check_timeout(self, after: int | None, published: int, head: LogEntry) -> None:
        """`TransientError` if the reader has waited too long for a committed batch to be published."""
        if published == head.version or not self._waits_for_rows or (after is not None and published > after):
            self._wait.end()
        else:
            self._wait.go_on(f"version {published + 1} of {self._place}", version=published + 1)

    def _admitted(self, after: int, published: int, limits: TriggerLimits) -> int:
        """Where a range within the limits ends: one version or more, never cut before an entry that revokes one."""
        begun = self._last_within(after, published, limits)
        until, read = begun, self._totals[begun].less(self._totals[after]) if begun > after else Totals()
        for entry in self._in_steps(until, published):
            read = read.plus(entry.blobs)
            over = limits.excess(read) >= 0
            revokes = entry.replaces is not None and after < entry.replaces <= until
            undecided = entry.published_up_to < until  # a later entry can still revoke one of this range
            if over and until > after and not revokes and not undecided:
                break
            until = entry.version
        return until

    def _last_within(self, after: int, published: int, limits: TriggerLimits) -> int:
        """A version up to which a long range is within the limits, by the totals of few entries; else `after`."""
        near = after + _AT_ONCE
        if published <= near:
            return after
        self.entries(after, near)

        def excess(version: int) -> float:
            if version not in self._totals:
                self._note_totals(self._entry(version))
            return limits.excess(self._totals[version].less(self._totals[after]))

        if (excess(near) + 1) * _MANY >= _AT_ONCE:  # a shorter range is likely, whose entries are needed anyway
            return after
        if excess(published) < 0:
            return published
        return _last_before((near, excess(near)), (published, excess(published)), excess)

    def _in_steps(self, after: int, until: int) -> Iterator[LogEntry]:
        """The entries after `after` up to `until`, read a few at a time and remembered for `entries`."""
        for start in range(after, until, _AT_ONCE):
            yield from self.entries(start, min(start + _AT_ONCE, until))

    def _remember(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            self._entries[entry.version] = entry
            self._note_totals(entry)

    def _note_totals(self, entry: LogEntry) -> None:
        """Note the totals of an entry and of the one before it, which a vacuum may have deleted."""
        self._totals |= {entry.version - 1: entry.totals_before, entry.version: entry.totals}

    def _committed_before(self, moment: datetime, first: int, head: LogEntry) -> int:
        """The last version committed before `moment`: times rise along the log."""

        def seconds_after(entry: LogEntry) -> float:
            return (datetime.fromisoformat(entry.timestamp) - moment).total_seconds()

        oldest, newest = seconds_after(self._entry(first)), seconds_after(head)
        if oldest >= 0:
            return first - 1
        if newest < 0:
            return head.version
        return _last_before((first, oldest), (head.version, newest), lambda each: seconds_after(self._entry(each)))

    def _entry(self, version: int) -> LogEntry:
        """An entry, for a guess: it may be below the retention boundary by now. Errors as of `CommitLog.read`."""
        return find_entry(self.log.container, self.log.stream, version) or self.log.read(version)


def version_at(log: CommitLog, moment: datetime, clock: Clock = SYSTEM_CLOCK) -> int:
    """The last version committed up to `moment`.

    `NotFoundError` if that is before the first version kept, or in the future, or if there is no log.
    """
    head = log.head()
    if head is None:
        raise no_log(log)
    text = moment.isoformat()
    place, ask = f"{log.container.url}/{log.stream}", "the view `commits` lists the times of all versions."
    if moment > max(utc(clock), datetime.fromisoformat(head.timestamp)):
        step = f"Ask for a time up to now: {ask}"
        raise NotFoundError(f"read as of {text}", place, "this time is in the future", step)
    found = Follower(log, 0).version_before(moment + timedelta(microseconds=1))
    if found < log.kept_from or found < 0:
        oldest = log.read(log.kept_from)
        cause = f"version {oldest.version}, the oldest kept, was committed at {oldest.timestamp}"
        raise NotFoundError(f"read as of {text}", place, cause, f"Ask for that time or a later one: {ask}")
    return found


@dataclass
class SchemaGuard:
    """Ends the ranges of a query before the first version whose rows do not fit the query's schema.

    Entries before the last overwrite are not checked: their blobs are deleted, which the read of them reports.
    """

    follower: Follower
    query: QuerySchema
    _known: dict[str, Misfit | None] = field(default_factory=dict)

    def end(self, after: int, until: int) -> int:
        """The last version after `after`, up to `until`, that can be read. `ConflictError` if none can."""
        if until <= after or self._fits_head():
            return until
        unfit = self._unfit(after, until)
        if unfit is None:
            return until
        end = _whole_range_before(self.follower.entries(after, until), unfit[0])
        if end <= after:
            raise self._error(*unfit)
        return end

    def check(self, after: int, until: int) -> None:
        """`ConflictError` if rows of a range do not fit. For Spark before 4.2, which sets the range by itself."""
        unfit = None if self._fits_head() else self._unfit(after, until)
        if unfit is not None:
            raise self._error(*unfit)

    def _fits_head(self) -> bool:
        """Whether all rows since the last overwrite fit: the head names their writer schemas."""
        head = self.follower.head()
        return head is not None and not any(map(self._misfit, head.schemas))

    def _unfit(self, after: int, until: int) -> tuple[int, Misfit] | None:
        """The first version with rows that do not fit, and why."""
        head = self.follower.head()
        since = 0 if head is None else head.since
        unfit = [
            (max(after + 1, (blob.version if blob.first_version is None else blob.first_version) or 0), misfit)
            for blob, schema in self.follower.blobs(after, until)
            if (blob.version or 0) >= since and (misfit := self._misfit(schema)) is not None
        ]
        return min(unfit, key=itemgetter(0), default=None)

    def _misfit(self, fingerprint: str) -> Misfit | None:
        if fingerprint not in self._known:
            self._known[fingerprint] = self.query.misfit(self.follower.log.writer_schema(fingerprint))
        return self._known[fingerprint]

    def _error(self, version: int, misfit: Misfit) -> ConflictError:
        log = self.follower.log
        place = f"version {version} of {log.container.url}/{log.stream}"
        return ConflictError("read on with", place, misfit.cause, misfit.next_step)


def _whole_range_before(entries: Sequence[LogEntry], version: int) -> int:
    """The last version before `version` where a range may end: never between an entry and the one that revokes it."""
    end = version - 1
    for entry in reversed(entries):
        if entry.version > end and entry.replaces is not None and entries[0].version <= entry.replaces <= end:
            end = entry.replaces - 1
    return end


def new_blobs(entries: Iterable[LogEntry], reverts: Iterable[LogEntry] = ()) -> list[tuple[LogEntry, BlobEntry]]:
    """The blobs that a range of entries adds and does not remove again, each with its entry.

    reverts: later entries that take some of them back. A blob whose rows are all of earlier versions adds none.
    """
    revoked = frozenset[int]().union(*(entry.taken_back for entry in reverts))
    entries = [entry for entry in entries if entry.version not in revoked]
    live = live_blobs(entries)
    first = entries[0].version if entries else 0
    return [
        (entry, blob)
        for entry in entries
        for blob in entry.blobs
        if live.get(blob.name) is blob and (not blob.moved or blob.versions[1] >= first)
    ]


def _last_before(below: tuple[int, float], above: tuple[int, float], distance: Callable[[int], float]) -> int:
    """The last version whose distance to what is looked for is negative.

    below, above: a version with a negative distance and a later one with another, each with its distance. Each second
    guess is where the distance would be 0 if it rose evenly; those between halve what is left. So where it does, few
    are made, and else two at most for each halving.
    """
    (last, low), (after, high), is_even = below, above, True
    while after - last > 1:
        share = low / (low - high) if is_even else 0.5
        guess = min(max(last + int(share * (after - last)), last + 1), after - 1)
        found, is_even = distance(guess), not is_even
        if found < 0:
            last, low = guess, found
        else:
            after, high = guess, found
    return last
