"""A stream's commit log in its container: find the head, read entries, append one.

Versions are dense from the first kept to the head, which is searched for (`stored_entries.py`); a process that has
appended once knows it without a request.

A vacuum deletes old entries, after it has moved the retention boundary above them (`boundary.py`). Entries below the
boundary are ignored, even if a stale writer puts one there later. So the boundary is read *after* a put, after a search
that found another head, and after reading old entries; what is below it is then ignored. It only ever rises, and before
anything is deleted, so entries at or above it were all in the log when they were read.

A stream can be deleted by hand and begun again while a process runs that knows the old log. So a log has an identity,
which its entries carry (decision 18). After a put, the entry before it must still be the one that the process knew:
else what it put is no part of a log, and is withdrawn. A writer that died before it withdrew leaves such a stray above
the new log: searches pass over it, and the writer that needs its version deletes it.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from azure_account.readback import ATTEMPTS, request_and_read_back
from azure_account.values import IF_ABSENT, Condition, Conflict, Done
from azureblob_source.log.boundary import read_boundary
from azureblob_source.log.entry import LogEntry, from_json, to_json
from azureblob_source.log.folder import check_no_files
from azureblob_source.log.hint import hinted
from azureblob_source.log.naming import log_name, schema_name
from azureblob_source.log.stored_entries import EntriesAhead, StoredEntries, find_entry
from azureblob_source.log.stream_notes import LogFacts, StreamNotes
from azureblob_source.log.writer_clock import clock_warning, seconds_ahead
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import AzureBlobError, ConfigurationError, ConflictError, NotFoundError, TransientError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from arrow_avro import AvroSchema
    from azure_account.container import BlobContainer
    from azure_account.readback import Doubtful
    from azure_account.values import BlobContent
    from azureblob_source.log.boundary import Boundary
    from azureblob_source.log.checkpoint.store import LogCheckpointStore
    from azureblob_source.log.entry import Draft, LastCommitted, Transaction
    from foundation.clock import Clock

Found = TypeVar("Found")

logger = logging.getLogger("azureblob_source")

_RECENT_SECONDS = 30.0
_RECENT_BLOBS = 2000
"""Entries and their blobs that are remembered for the next checkpoint."""
_TRUSTED_SECONDS = 600.0
"""How long a head without a successor is taken to be above the boundary. A vacuum keeps what is younger than an hour,
so within this time none can have deleted both the head and its successor."""


class CommitLog:
    """The log of one stream, as one process sees it. Not thread-safe: one thread commits to a stream at a time.

    Others may meanwhile read schemas and checkpoints, and ask what it `has`.
    readers: how many entries are read concurrently. facts: what another process has found. The clock goes on while the
    machine sleeps: a writer that was suspended must look at the log again.
    """

    def __init__(
        self,
        container: BlobContainer,
        stream: str,
        *,
        readers: int = 16,
        clock: Clock = SYSTEM_CLOCK,
        facts: LogFacts | None = None,
    ) -> None:
        self.container = container
        self.stream = stream
        self.readers = readers
        self._given = facts or LogFacts()
        self.notes: StreamNotes = StreamNotes(schema_texts=dict(self._given.schemas), checkpoint=self._given.checkpoint)
        """What this process knows of the stream."""
        self.kept_from: int = 0
        """Versions below this are known to be below the retention boundary."""
        self._clock = clock
        self._head: LogEntry | None = None
        self.looked: bool = False
        self._listing: LogEntry | None = None
        """The entry that lists the transactions, of those that were needed last."""
        self._boundary_read_at = 0.0
        self._recent: dict[int, LogEntry] = {}
        self._ahead = EntriesAhead()
        """Once the head is known, of its log only."""
        self._stored = StoredEntries(container, stream, readers)

    def facts(self) -> LogFacts:
        """What another process can begin with, which then does not search for it."""
        head, schemas = self._head, dict(self.notes.schema_texts)
        if head is None:
            return LogFacts(schemas=schemas)
        return LogFacts(head.version, head.write_id, schemas, self.notes.checkpoint)

    def schema_text(self, fingerprint: str) -> str:
        """The JSON of a writer schema, which is stored beside the log. It is read once."""
        known = self.notes.schema_texts
        if fingerprint not in known:
            known[fingerprint] = self.container.get(schema_name(self.stream, fingerprint)).data.decode()
        return known[fingerprint]

    def writer_schema(self, fingerprint: str) -> AvroSchema:
        """A writer schema of the stream. Entries name it by its fingerprint. Errors as of `header_schema`."""
        from arrow_avro import header_schema  # noqa: PLC0415 - most commits need none

        return header_schema(self.schema_text(fingerprint), blob=schema_name(self.stream, fingerprint))

    def head(self) -> LogEntry | None:
        """The newest entry that this object knows of. It looks for one only the first time; see `refresh`."""
        return self._head if self.looked else self.refresh()

    def refresh(self, known: int | None = None) -> LogEntry | None:
        """Find the newest entry as of now.

        known: a version that existed, as far as the caller knows; the search begins there or later.
        """
        head, start = self._head, self._start(known)
        while start is not None:
            newest = self._newest(start)
            same = head is not None and newest == head.version
            if same and self._clock.monotonic() - self._boundary_read_at < _TRUSTED_SECONDS:
                break
            found = self._find(newest)
            if found is not None and self._head is not None:
                found = self._after_known(self._head, found)
            elif found is not None and newest > start:
                found = self._without_strays(found, self._find(start))
            first = self.refresh_boundary().first
            if found is not None and found.version >= first:
                if self._is_of_oldest(found, start, first):
                    head = found
                    break
                self.notes.checkpoint, self._ahead = -1, EntriesAhead(oldest=self._ahead.oldest)
                start = self._start(known)
                continue
            head, self._ahead = None, replace(self._ahead, newest={})
            start = first if newest < first else self._find_oldest(first)
        if head is None and self._head is not None:
            self._fail_deleted()
        self._ahead = EntriesAhead() if head is None else self._ahead.of_log(head.log_id)
        self._keep(head)
        return head

    def read_ahead(self) -> None:
        """Read the newest entries, from the newest checkpoint on, before the head is looked for.

        For a process that knows nothing of the log yet: what it needs takes three rounds of requests then.
        """
        find = lambda version: self.checkpoints.find(version)  # noqa: E731, PLW0108 - loads Arrow if it is called
        self._ahead = self._stored.read_ahead(self._given, self.checkpoint_hint(), find)

    def _is_of_oldest(self, found: LogEntry, start: int, first: int) -> bool:
        """Whether the newest entry is of the log that has the oldest. The hint may be that of a deleted log.

        start: where the search began. first: the first version that counts.
        """
        if not self._ahead.by_hint or start <= first:
            return True
        oldest = self._ahead.oldest
        if oldest is None or oldest.version != first:
            oldest = self._find(first)
            self._ahead = replace(self._ahead, oldest=oldest)
        return oldest is not None and oldest.log_id == found.log_id

    def _after_known(self, known: LogEntry, found: LogEntry) -> LogEntry:
        """The newest entry of the log of `known`, which this object has read before; `found` is the newest there is.

        `ConflictError` if `known` is not in the log any more, and no vacuum has deleted it.
        """
        there = found if found.version == known.version else self._find(known.version)
        if there is None and known.version < self.refresh_boundary().first:
            return found
        if there is None or there.write_id != known.write_id:
            self._fail_deleted()
        return self._without_strays(found, known)

    def _without_strays(self, found: LogEntry, known: LogEntry | None) -> LogEntry:
        """The newest entry up to `found` that belongs to the log of `known`: those of a deleted log are passed over."""
        newest: LogEntry | None = found
        version = found.version
        while known is not None and version > known.version and (newest is None or newest.log_id != known.log_id):
            version -= 1
            newest = self._find(version)
        return found if newest is None else newest

    def _fail_deleted(self) -> NoReturn:
        """Fail because the stream was deleted. What this object knew of it is dropped, so it can be used again."""
        known = self._head
        self._reset()
        raise self._deleted(known)

    def _deleted(self, known: LogEntry | None, step: str = "") -> ConflictError:
        was = "" if known is None else f" (this process knew version {known.version}, write id {known.write_id})"
        cause = f"the stream was deleted since this process last looked, and may have been begun again{was}"
        step = step or (
            "A writer: run the batch again, or start the query again from its checkpoint: it goes on in the stream "
            "that is there now, without the batches that it wrote before. A batch read: load it again. A streaming "
            "read: start it with a new checkpoint."
        )
        return ConflictError("use the log of", self.place, cause, step)

    def _reset(self) -> None:
        """Drop everything that is known of the log."""
        self._forget()
        self._listing, self.notes = None, StreamNotes()
        self._recent = {}
        self.kept_from, self._boundary_read_at = 0, 0.0

    def _keep(self, head: LogEntry | None) -> None:
        """Remember the newest entry; None if there is none."""
        self._head, self.looked = head, True
        if head is not None:
            self._recent[head.version] = head
            while sum(1 + len(entry.blobs) for entry in self._recent.values()) > _RECENT_BLOBS:
                del self._recent[min(self._recent)]
            if head.lists:
                self._listing = head

    def _forget(self) -> None:
        """Drop what is known of the head: the next call searches for it."""
        self._head, self.looked, self._ahead = None, False, EntriesAhead()

    def remembered(self, transaction: Transaction | None) -> LastCommitted | None:
        """The newest version of a transaction's id that the log remembers, as far as the head is known.

        One more request if the id was not used lately, and this object does not know which entry lists it.
        """

        def read() -> LastCommitted | None:
            head = None if transaction is None else self.head()
            return None if head is None or transaction is None else self.last_committed(transaction.id, head)

        return self.unless_removed(read)

    def last_committed(self, id_: str, at: LogEntry) -> LastCommitted | None:
        """The newest version of an id as of one entry. `NotFoundError` if a vacuum has removed that and its list."""
        return at.transactions.get(id_) or self._listed_for(at).get(id_)

    def linked_after(
        self, version: int, newest: Callable[[LogEntry], int | None], last: Callable[[LogEntry], int | None]
    ) -> Iterator[LogEntry]:
        """The entries of one kind after a version, from the newest back, as far as the head is known.

        newest: the version of the last such entry up to one; last: of the last one before it.
        """
        head = self.head()
        at = None if head is None else newest(head)
        while at is not None and at > version and at >= self.kept_from:
            entry = self.read(at)
            yield entry
            at = last(entry)

    def transactions(self) -> dict[str, LastCommitted]:
        """All transactions that the log remembers, as far as the head is known."""

        def read() -> dict[str, LastCommitted]:
            head = self.head()
            return {} if head is None else {**self._listed_for(head), **head.transactions}

        return self.unless_removed(read)

    def next_entry(
        self, head: LogEntry | None, draft: Draft, published_up_to: int, voided: LogEntry | None = None
    ) -> LogEntry:
        """The draft as the entry that follows `head`: see `Draft.succeeding`. voided: the entry that it voids.

        `ConfigurationError` if one of them adopts, and the other does not.
        """
        if head is not None and head.adopts != draft.adopts:
            raise adoption_error(self, draft.operation, head)
        known: dict[str, LastCommitted] = {}
        if head is not None and head.next_lists:
            older = self._listed_for(head)
            known = {id_: older[id_] for id_ in older if id_ not in head.transactions} | dict(head.transactions)
        elif head is not None:
            changed = (draft.transaction, None if voided is None else voided.transaction)
            found = {each.id: self.last_committed(each.id, head) for each in changed if each is not None}
            known = {id_: last for id_, last in found.items() if last is not None}
        entry = draft.succeeding(head, published_up_to, known, restored=voided and self._entry_before(voided))
        if voided is not None and entry.last_compaction == voided.version:
            entry = replace(entry, last_compaction=voided.last_compaction)
        if voided is not None and entry.last_kept == voided.version:
            entry = replace(entry, last_kept=voided.last_kept)
        return entry

    def _listed_for(self, at: LogEntry) -> Mapping[str, LastCommitted]:
        """The transactions of the entry that lists them for this one."""
        listing = self._listing
        if listing is None or (listing.version, listing.log_id) != (at.list_version, at.log_id):
            listing = at if at.lists else self._find(at.list_version)
            if listing is None or listing.log_id != at.log_id:
                self._check_shortened(at)
                return {}
            self._listing = listing
        return listing.transactions

    def _check_shortened(self, at: LogEntry) -> None:
        """`NotFoundError` unless the list of an entry is gone with all that was before it: then it counts as removed.

        A vacuum keeps the list of what it keeps, so the entry may be below the boundary by now. Else the log was
        shortened by hand, or the list alone was deleted.
        """
        if not self._is_there(at):
            self._fail_deleted()
        first, name = self.refresh_boundary().first, log_name(self.stream, at.list_version)
        if first > at.list_version or (self._find_oldest(first) or 0) < at.list_version:
            cause = f"{name}, which lists the transactions that are committed, is missing"
            raise NotFoundError("use the log of", self.place, cause, "Restore it (soft delete).")
        logger.warning("the log was shortened by hand: transactions that only %s listed are forgotten", name)

    def _entry_before(self, entry: LogEntry) -> LogEntry | None:
        """The entry before this one, if it is kept."""
        try:
            return self.read(entry.version - 1) if entry.version else None
        except NotFoundError:
            return None

    @property
    def place(self) -> str:
        """The stream and its container, for messages."""
        return f"{self.stream} in {self.container.url}"

    def check_no_files(self, *, own_are_right: bool) -> None:
        """Called before the log begins: see `folder.check_no_files`. If it has begun meanwhile, all is well."""
        listed = list(self.container.list(f"{self.stream}/"))
        try:
            check_no_files(self.stream, listed, self.container.url, own_are_right=own_are_right)
        except ConfigurationError:
            if self.refresh() is None:
                raise

    def refresh_boundary(self) -> Boundary:
        """Read the log's retention boundary as of now. A head below it is forgotten."""
        boundary = read_boundary(self.container, self.stream)
        self.kept_from = max(self.kept_from, boundary.first)
        self._boundary_read_at = self._clock.monotonic()
        if self._head is not None and self._head.version < self.kept_from:
            self._forget()
        return boundary

    def boundary_is_recent(self) -> bool:
        """Whether this object has read the boundary within half a minute: the process was not paused for longer."""
        return self._clock.monotonic() - self._boundary_read_at < _RECENT_SECONDS

    @cached_property
    def checkpoints(self) -> LogCheckpointStore:
        """The checkpoints of the log."""
        from azureblob_source.log.checkpoint.store import LogCheckpointStore  # noqa: PLC0415 - loads Arrow, for few calls

        return LogCheckpointStore(self.container, self.stream)

    def checkpoint_hint(self) -> int:
        """The version of the newest checkpoint, as far as is known; -1 for none. It is read once."""
        if self.notes.checkpoint is None:
            self.notes.checkpoint = hinted(self.container, self.stream)
        return self.notes.checkpoint

    def first(self) -> int | None:
        """The oldest version kept, None if the log is empty."""
        first = self.refresh_boundary().first
        return first if self.has(first) else self._find_oldest(first)

    def read(self, version: int) -> LogEntry:
        """One entry. `NotFoundError`, which names the oldest kept, if that version is not, or no longer, in the log."""
        return self.entries(version, version)[0]

    def entries(self, first: int, last: int) -> list[LogEntry]:
        """The entries `first … last`, in order; several are read concurrently.

        Errors as of `read`, and `ConflictError` if they are of another log than the head that this object knows.
        """
        return [*self.entries_of(range(first, last + 1)).values()]

    def entries_of(self, versions: Sequence[int], *, recent: bool = False) -> dict[int, LogEntry]:
        """The entries of these versions, in their order. Errors as of `entries`.

        recent: those that this process has put or read lately are not read again.
        """
        lately = {each: self._recent[each] for each in versions if recent and each in self._recent}
        found = self._read([each for each in versions if each not in lately]) | lately
        return {each: found[each] for each in versions}

    def _read(self, versions: Sequence[int]) -> dict[int, LogEntry]:
        known = dict(self._ahead.newest) if self.looked and self.boundary_is_recent() else {}
        if self._head is not None:
            known[self._head.version] = self._head
        unknown = [version for version in versions if version not in known]
        if unknown:
            found = self._stored.find_all(unknown)
            self.refresh_boundary()
            known |= found
        for version in versions:
            if version not in known or version < self.kept_from:
                if self._head is not None and not self._is_there(self._head):
                    self._fail_deleted()
                raise self.not_kept(version)
        if self._head is not None and any(known[each].log_id != self._head.log_id for each in versions):
            self._fail_deleted()
        return known

    def recent(self, version: int) -> LogEntry | None:
        """An entry, if this process has put or read it lately."""
        return self._recent.get(version)

    def recent_entries(self, first: int, last: int) -> list[LogEntry]:
        """As `entries`, but what this process has put or read lately is not read again."""
        return [*self.entries_of(range(first, last + 1), recent=True).values()]

    def history(self, last: int | None = None) -> list[LogEntry]:
        """Every entry kept, up to version `last`, by default the head as of now. `NotFoundError` if it is not kept."""

        def read() -> list[LogEntry]:
            oldest, head = self.first(), self.refresh()
            if head is None or oldest is None:
                return []
            newest = head.version if last is None else last
            return self.entries(min(oldest, newest), newest)

        return self.unless_removed(read)

    def live_entries(self, version: int) -> list[LogEntry]:
        """The entries up to `version` that can have live blobs: those since the last overwrite. Errors as of `read`."""
        last = self.read(version)

        def read() -> list[LogEntry]:
            oldest = max(last.since, self.kept_from)
            if oldest > version:
                raise self.not_kept(version)
            return self.entries(oldest, version)

        return self.unless_removed(read)

    def unless_removed(self, read: Callable[[], Found]) -> Found:
        """What `read` finds. It is called again if a vacuum has removed an entry that it was about to read.

        `NotFoundError` if an entry is missing, and neither the head nor the boundary has moved.
        """
        while True:
            head, kept_from = self._head, self.kept_from
            try:
                return read()
            except NotFoundError:
                if self._head == head and self.kept_from == kept_from:
                    raise

    def has_moved_on(self, head: LogEntry | None, kept_from: int) -> bool:
        """Whether the head is another one by now, or the boundary above `kept_from`: what was read then may be gone."""
        return self.refresh() != head or self.kept_from > kept_from

    def put(self, entry: LogEntry) -> LogEntry:
        """Put `entry` as its version unless that exists; returns the entry that has the version afterwards.

        The version is read back when an answer was lost: the same write id means that the put was executed. Repeating
        the put is safe, as it can only ever create this very entry. `ConflictError` if the version turns out to be
        below the boundary: it commits nothing, and neither does any other entry that is found there.
        """
        name, data = log_name(self.stream, entry.version), to_json(entry)
        before = self._head if self._head is not None and self._head.version == entry.version - 1 else None

        def read_back(answer: Doubtful) -> LogEntry | None:
            if isinstance(answer, Conflict) or self.container.properties(name) is not None:
                there = self._find(entry.version)
                if before is not None and there is not None and there.log_id != before.log_id:
                    self._delete_stray(there, before)
                elif there is not None:
                    return self._accept_or_withdraw(there, entry)
            return None

        found = request_and_read_back(
            lambda: self.container.put(name, data, condition=IF_ABSENT), read_back, partial(self._unresolved, entry)
        )
        there = self._accept_or_withdraw(entry, entry) if isinstance(found, Done) else found
        if before is not None:
            self._check_log(before, entry)
        return there

    def _check_log(self, before: LogEntry, put: LogEntry) -> None:
        """`ConflictError` if the entry before the one that was put is gone: the log was deleted in between.

        The answer has the service's time, with which this writer's clock is compared.
        """
        if self._is_there(before, partial(self._compare_clocks, self._clock.now())):
            return
        known = self._head
        self._reset()
        head = self.refresh()
        if head is not None and head.version > put.version and self._is_there(put):  # another process has gone on
            raise self._deleted(known, _after_an_unknown_put(put))
        self._reset()
        self._withdraw(put)
        raise self._deleted(known)

    def _compare_clocks(self, asked: float, answer: BlobContent) -> None:
        """Warn once if this writer's clock differs from the service's."""
        service = answer.properties.last_modified.timestamp() + answer.age
        ahead = seconds_ahead(asked, self._clock.now(), service)
        if ahead and not self.notes.clock_differs:
            self.notes.clock_differs = True
            logger.warning("%s: %s", self.stream, clock_warning(ahead, service))

    def _is_there(self, entry: LogEntry, seen: Callable[[BlobContent], object] = lambda _: None) -> bool:
        """Whether an entry that this object has read or put is in the log still, or was deleted by a vacuum.

        seen: gets the answer that has it.
        """
        there = self._unconfirmed.get(entry.version)
        there = there or find_entry(self.container, self.stream, entry.version, seen)
        if there is None:
            return entry.version < self.refresh_boundary().first
        return there.write_id == entry.write_id

    def _delete_stray(self, stray: LogEntry, before: LogEntry) -> None:
        """Delete an entry of a deleted log, which is in the way. `ConflictError` if it is this object's own that is."""
        there = self._with_etag(stray)
        if not self._is_there(before):
            self._fail_deleted()
        if there is not None:
            name = log_name(self.stream, stray.version)
            logger.warning("%s is an entry of another log that was deleted: it is removed", name)
            self.container.delete(name, condition=Condition(if_match=there))

    def _with_etag(self, entry: LogEntry) -> str | None:
        """The ETag of an entry, None if it is not there any more."""
        name = log_name(self.stream, entry.version)
        try:
            content = self.container.get(name)
        except NotFoundError:
            return None
        return content.properties.etag if from_json(content.data, name).write_id == entry.write_id else None

    def _unresolved(self, entry: LogEntry, answer: Doubtful) -> TransientError:
        place = f"log entry {log_name(self.stream, entry.version)} in {self.container.url}"
        cause, step = f"no answer was received ({answer})", _after_an_unknown_put(entry)
        return TransientError("commit", place, cause, step, attempts=ATTEMPTS)

    def _accept_or_withdraw(self, there: LogEntry, put: LogEntry) -> LogEntry:
        """Take what is `there` after a put for the head. Below the retention boundary: delete it, `ConflictError`."""
        boundary = self.refresh_boundary()
        if put.version >= boundary.first:
            if self._head is None or there.version > self._head.version:
                self._keep(there)
            return there
        self._forget()
        # A vacuum deletes the entries that it is removing with their blobs, which it could not find without them. It
        # keeps the one that lists transactions.
        if there.write_id == put.write_id and put.version not in (*boundary.removing, boundary.list_version):
            self._withdraw(put)
        raise ConflictError(
            "commit",
            f"version {put.version} of {self.place}",
            f"since this writer last looked, a vacuum has made {boundary.first} the first version",
            "This version commits nothing: run the batch again.",
        )

    def _withdraw(self, entry: LogEntry) -> None:
        """Delete an entry that commits nothing, unless another one has its name by now."""
        name = log_name(self.stream, entry.version)
        try:
            etag = self._with_etag(entry)
            if etag is not None:
                self.container.delete(name, condition=Condition(if_match=etag))
        except AzureBlobError as error:
            logger.warning("%s commits nothing and could not be deleted, which does no harm (%s)", name, error)

    def _start(self, known: int | None) -> int | None:
        """Where the search for the head begins: a version that existed, None if there is none."""
        if self._unconfirmed:
            return min(self._unconfirmed)
        if self._head is None and known is None:
            known = self._given_version()
        start = known if self._head is None else max(self._head.version, known or 0)
        if start is not None and start >= self.kept_from:
            return start
        by_hint = not self.looked and (hint := self.checkpoint_hint()) >= 0 and self.has(hint)
        self._ahead = replace(self._ahead, by_hint=by_hint)
        if by_hint:
            return hint
        if self.kept_from or self.has(0):
            return self.kept_from
        return self.refresh_boundary().first or self._find_oldest(0)

    def _given_version(self) -> int | None:
        """The version that another process has found; None if the log does not have that entry any more."""
        given = self._given
        there = None if given.version is None else self._find(given.version)
        return given.version if there is not None and there.write_id == given.write_id else None

    def _find_oldest(self, first: int) -> int | None:
        """Find the oldest version from `first` on, where entries were deleted by something else than a vacuum."""
        found = self._stored.oldest(first)
        self.kept_from = max(self.kept_from, found or 0)
        return found

    def _newest(self, known: int) -> int:
        """The newest version, given one that exists."""
        if self._unconfirmed:
            return max(self._unconfirmed)
        if not self.looked and known == self.notes.checkpoint:
            listed = self._stored.listed(known)
            if listed is not None:
                return listed
        return self._stored.newest(known)

    def has(self, version: int) -> bool:
        """Whether there is an entry of this version, even below the boundary."""
        return self._stored.has(version)

    def has_oldest(self, version: int) -> bool:
        """Whether the oldest entry that counts, which has this version, is there: it may have been read already."""
        oldest = self._ahead.oldest
        return (oldest is not None and oldest.version == version and self.boundary_is_recent()) or self.has(version)

    def _find(self, version: int) -> LogEntry | None:
        return self._unconfirmed.get(version) or find_entry(self.container, self.stream, version)

    @property
    def _unconfirmed(self) -> Mapping[int, LogEntry]:
        """The newest entries as they were read ahead, as long as the head is not known."""
        return {} if self.looked else self._ahead.newest

    def not_kept(self, version: int) -> NotFoundError:
        """The error for a version that is not, or no longer, in the log."""
        oldest, head = self.first(), self.refresh()
        known, step = "the log is empty", "Ask for a version that is kept."
        if oldest is not None and head is not None:
            known = f"the oldest entry kept is {oldest}, the newest {head.version}"
            if oldest < version < head.version:
                known = f"{known}, and this one between them is missing: it was deleted by hand"
                step = (
                    f"Restore {log_name(self.stream, version)} (soft delete). Or stop all writers of the stream, "
                    "delete every blob below it, and write it again."
                )
        return NotFoundError("read version", f"{version} of {self.stream}", known, step)


def adoption_error(log: CommitLog, operation: str, head: LogEntry) -> ConfigurationError:
    """The error for a change of another kind than its log is of."""
    if head.adopts:
        cause = "the log names blobs that another program has written, which are never changed or deleted"
        step = "Write to another stream; read this one to have its rows there too."
        return ConfigurationError(f"{operation}: write to", log.place, cause, step)
    step = "Read it without `adoptFolder`. Blobs of other programs in it: `python -m azureblob_source ls` names them."
    return ConfigurationError("adopt blobs of", log.place, "the folder is a stream, with a log of its own", step)


def _after_an_unknown_put(entry: LogEntry) -> str:
    if entry.transaction is not None:
        return "Run the batch again: if it was committed after all, its entry is found."
    return (
        f"Before you run it again, look at version {entry.version} (`python -m azureblob_source log … --version "
        f"{entry.version}`): if its write id is {entry.write_id}, the batch is committed, and another run would write "
        "its rows twice. With `txnAppId` and `txnVersion` a repeat is recognised."
    )
