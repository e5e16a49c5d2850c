"""Discovers the new blobs of a folder, and adopts them: entries of the folder's log name them where they are.

    log ─► what it has ─► listing ─► new blobs ─► headers ─► put of the next version, if absent
     ▲                                                             │ another discovery was first
     └──────────── the entries since then: what they have is left out ◄──────────┘

Any number of processes may discover at once, and be killed at any request (each clause is a test):
  * A blob is in the log once, by its name: an entry is put only as the next version of a log all of whose names were
    compared with it. A process that was asleep, or loses the race, reads the entries that it does not know first.
  * What a killed process has left is an entry, or nothing, or a schema that no entry names.
  * A listing finds all new blobs of the last minutes of all partitions; a whole listing, now and then, all others.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from azure_account.values import IF_ABSENT, JSON
from azureblob_source.adoption.discovery import (
    PAGE,
    AdoptionRules,
    Discovery,
    Found,
    FoundBlob,
    LeftOut,
    divided,
    partition_of,
    ranges,
    whole_folder,
)
from azureblob_source.adoption.headers import LookedAt, look_at
from azureblob_source.adoption.known_blobs import MOST_NAMES, KnownBlobs
from azureblob_source.adoption.logged_names import LoggedNames, logged_names
from azureblob_source.log.checkpointing import checkpoint_in_commit
from azureblob_source.log.commit_log import adoption_error
from azureblob_source.log.entry import ADOPTED, COUNTED, BlobEntry, Draft
from azureblob_source.log.folder import METADATA_IGNORED
from azureblob_source.log.name_places import name_place
from azureblob_source.log.naming import probe_name, schema_name
from azureblob_source.options import EARLIEST, LATEST
from azureblob_source.write.schema_evolution import refusal
from foundation.clock import SYSTEM_CLOCK, utc
from foundation.errors import ConfigurationError, ConflictError
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from arrow_avro import AvroSchema
    from azure_account.values import BlobProperties
    from azureblob_source.adoption.discovery import ListRange
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry
    from foundation.clock import Clock

logger = logging.getLogger("azureblob_source")

_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class AdoptionSettings:
    """How a folder is adopted. Times are in seconds.

    start: where the log begins, if it has not begun: `earliest`, `latest`, or the least time of last modification.
    at_rest: for how long a blob was not modified when it is adopted. whole_every: from one whole listing to the next.
    threads: requests at once. count_rows: read each blob, so that the log has the number of its rows. entry_blobs,
    entry_bytes: what an entry has at most, but for one large blob. checkpoint_interval: versions from one checkpoint of
    the log to the next. most_names: names that are kept between discoveries, beside those of the last minutes.
    """

    start: str | datetime = EARLIEST
    any_extension: bool = False
    at_rest: float = 60.0
    whole_every: float = 600.0
    threads: int = 16
    count_rows: bool = False
    entry_blobs: int = 256
    entry_bytes: int = 1 << 30
    checkpoint_interval: int = 64
    most_names: int = MOST_NAMES


class Adopter:
    """Adopts the blobs of one folder, for as long as a process follows it. Not thread-safe."""

    def __init__(self, log: CommitLog, settings: AdoptionSettings, clock: Clock = SYSTEM_CLOCK) -> None:
        self.log: CommitLog = log
        self.settings: AdoptionSettings = settings
        self._clock = clock
        self._log_id: str | None = None
        self._version = -1
        self._known = KnownBlobs()
        self._since_listing: dict[str, str] = {}
        """Blobs of the entries that were read or put since the listing began, with their ETags."""
        self._nested: frozenset[str] = frozenset()
        self._pages = 1
        self._whole_at: float | None = None
        self._newest_before: FoundBlob | None = None
        self._stays: dict[tuple[str, str], LeftOut] = {}
        """Blobs by name and ETag that were looked at, and will not be adopted as they are."""
        self._said_metadata = False
        self._waiting = 0
        self._said: set[tuple[LeftOut, str]] = set()

    def discover(self) -> Discovery:
        """Adopt what is new. After an error the next call goes on; what was put by then stays.

        `ConfigurationError` if the folder is a stream of this package.
        """
        began, head = self._clock.monotonic(), self._begun()
        self._learn(head)
        self._since_listing = {}
        chosen = self._ranges()
        rules = self._rules(head)
        is_whole = chosen == whole_folder(self.log.stream)
        found = self._listed_whole(rules) if is_whole else self._listed(chosen, rules)
        if is_whole:
            self._nested = frozenset(found.nested)
        adopted = entries = 0
        settings = self.settings
        for some in divided(found.in_order(self._nested), settings.entry_blobs, settings.entry_bytes):
            put = self._adopt(some, found)
            adopted, entries = adopted + put, entries + bool(put)
        self._newest_before = found.newest_before or self._newest_before
        if is_whole:
            self._whole_at, self._pages = began, 1 + found.listed // PAGE
        self._say(found)
        left_out = {reason.value: count for reason, count in found.left_out.items()}
        return Discovery(adopted, entries, found.listed, is_whole, left_out)

    def expected_schema(self) -> AvroSchema | None:
        """The schema of the newest blob before the log's start, after a discovery; None if there is none."""
        if self._newest_before is None:
            return None
        seen = look_at(self.log.container, self._newest_before, 0.0, count_rows=False)
        return seen.schema if isinstance(seen, LookedAt) else None

    def _begun(self) -> LogEntry:
        """The head of the folder's log, which begins if there is none."""
        while (head := self.log.refresh()) is None:
            self._begin()
        if not head.adopts:
            raise adoption_error(self.log, "adopt", head)
        return head

    def _begin(self) -> None:
        """Put the first entry of the log, which has no blobs, and says from when on they are adopted."""
        try:
            since = self._start()
            draft = replace(self._draft(), adopted_since=None if since is None else since.isoformat())
            there = self.log.put(self.log.next_entry(None, draft, -1))
        except ConfigurationError as refusal:
            step = "Grant the permission to write there, or set option `logPath` to a folder that may be written to."
            raise ConfigurationError("begin the log of", self.log.place, refusal.failure, step) from refusal
        if there.write_id == draft.write_id:
            text = "%s: a log begins, which adopts blobs of other programs from %s on"
            logger.info(text, self.log.stream, since or "the first")

    def _start(self) -> datetime | None:
        """The least time of last modification of blobs that are adopted, by the service's clock; None for all."""
        start = self.settings.start
        if isinstance(start, datetime):
            return start
        if start != LATEST:
            return None
        container, name = self.log.container, probe_name(self.log.stream, uuid.uuid4().hex[:16])
        container.put(name, b"-")
        there = container.properties(name)
        container.delete(name)
        return None if there is None else there.last_modified

    def _draft(self) -> Draft:
        timestamp = utc(self._clock).isoformat(timespec="milliseconds")
        return Draft(uuid.uuid4().hex, timestamp, operation="adopt")

    def _rules(self, head: LogEntry) -> AdoptionRules:
        since = None if head.adopted_since is None else datetime.fromisoformat(head.adopted_since)
        return AdoptionRules(self.log.stream, since, self.settings.any_extension, self._nested)

    def _learn(self, head: LogEntry) -> None:
        """Know all blobs that the log has, up to its head."""
        if self._log_id != head.log_id:
            names = logged_names(self.log, head.version)
            self._known, self._log_id = KnownBlobs.of(names.pairs, len(names), self.settings.most_names), head.log_id
            self._whole_at = None
        else:
            self._take(self.log.entries(self._version + 1, head.version))
        self._version = head.version

    def _take(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            named = [(blob.name, blob.etag or "") for blob in entry.blobs]
            self._known.add(named)
            self._since_listing.update(named)
            self._version = entry.version

    def _ranges(self) -> list[ListRange]:
        """What to list now."""
        due = self._whole_at is None or self._clock.monotonic() - self._whole_at >= self.settings.whole_every
        if due:
            return whole_folder(self.log.stream)
        return ranges(
            self._known,
            self.log.stream,
            utc(self._clock),
            starts_from=self.log.container.lists_from_name,
            pages=self._pages,
        )

    def _listed_whole(self, rules: AdoptionRules) -> Found:
        """What is in the folder. Names that are not kept are compared with the log page by page."""
        found, names = Found(), None
        for page in self._pages_of(*whole_folder(self.log.stream)):
            found.take(page, self._known, rules)
            if found.older:
                names = logged_names(self.log, self._version) if names is None else names
                self._compare_older(found, names)
        return found

    def _compare_older(self, found: Found, names: LoggedNames) -> None:
        older, found.older = found.older, []
        for blob, etag in zip(older, names.etags([each.name for each in older]), strict=True):
            found.compare(blob, etag)

    def _listed(self, chosen: Sequence[ListRange], rules: AdoptionRules) -> Found:
        """What is in these ranges. Older names are left to whole listings."""
        found = Found()

        def names(each: ListRange) -> list[BlobProperties]:
            return [blob for page in self._pages_of(each) for blob in page]

        for page in concurrent_map(names, chosen, self.settings.threads, after_error="abandon"):
            found.take(page, self._known, rules)
        return found

    def _pages_of(self, each: ListRange) -> Iterator[list[BlobProperties]]:
        names = self.log.container.list(each.prefix, start_from=each.start)
        while page := list(islice(names, PAGE)):
            yield page

    def _adopt(self, some: Sequence[FoundBlob], found: Found) -> int:
        """Adopt those that can be; returns how many."""
        look = partial(self._look_at, found=found)
        looked = concurrent_map(look, some, self.settings.threads, after_error="abandon")
        ready = [each for each in looked if each is not None]
        while ready := self._fitting([each for each in ready if not self._is_known(each, found)], found):
            head = self.log.head()
            if head is not None and head.version == self._version:
                if self._put(ready, head):
                    return len(ready)
                head = self.log.refresh()
            if head is None or head.log_id != self._log_id:
                step = "Run it again: another log begins, which adopts all blobs from its start on."
                raise ConflictError("adopt blobs of", self.log.place, "the log was deleted meanwhile", step)
            self._learn(head)
        return 0

    def _put(self, ready: Sequence[LookedAt], head: LogEntry) -> bool:
        """Put the entry that follows `head`, whose log's names were all compared. False if another one was first."""
        for each in ready:
            self._keep_schema(each)
        blobs = tuple(map(self._entry, ready))
        draft = replace(self._draft(), blobs=blobs, adopted_since=head.adopted_since)
        there = self.log.put(self.log.next_entry(head, draft, head.version))
        if there.write_id != draft.write_id:
            return False
        self._take([there])
        logger.info("%s: version %d adopts %d blobs", self.log.stream, there.version, len(blobs))
        if (there.version + 1) % self.settings.checkpoint_interval == 0:
            checkpoint_in_commit(self.log, there)
        return True

    def _look_at(self, blob: FoundBlob, found: Found) -> LookedAt | None:
        """The blob, if it can be adopted. A verdict that stays is remembered."""
        verdict = self._stays.get((blob.name, blob.etag))
        settings = self.settings
        seen = verdict or look_at(self.log.container, blob, settings.at_rest, count_rows=settings.count_rows)
        if isinstance(seen, LookedAt):
            return seen
        self._leave_out(blob, seen, found)
        return None

    def _leave_out(self, blob: FoundBlob, reason: LeftOut, found: Found) -> None:
        found.leave_out(reason, blob.name)
        if reason.stays and len(self._stays) < _MOST_REMEMBERED:
            self._stays[blob.name, blob.etag] = reason

    def _is_known(self, each: LookedAt, found: Found) -> bool:
        """Whether another discovery has adopted it meanwhile."""
        etag = self._since_listing.get(each.blob.name)
        if etag is not None and etag != each.blob.etag:
            found.leave_out(LeftOut.REPLACED, each.blob.name)
        return etag is not None

    def _fitting(self, ready: Sequence[LookedAt], found: Found) -> list[LookedAt]:
        """The blobs, from the first on, whose schemas leave the stream readable as a whole."""
        head = self.log.head()
        known = () if head is None else head.schemas
        schemas: dict[str, AvroSchema] = {}
        fitting = []
        for each in ready:
            fingerprint = each.schema.fingerprint
            if fingerprint not in known and fingerprint not in schemas:
                there = [*map(self.log.writer_schema, known), *schemas.values()]
                if there and refusal(there, each.schema, fixed=False) is not None:
                    self._leave_out(each.blob, LeftOut.UNFIT, found)
                    continue
                schemas[fingerprint] = each.schema
            fitting.append(each)
        return fitting

    def _keep_schema(self, each: LookedAt) -> None:
        """Store the schema beside the log, before an entry names it."""
        fingerprint, texts = each.schema.fingerprint, self.log.notes.schema_texts
        if fingerprint not in texts:
            self.log.container.put(
                schema_name(self.log.stream, fingerprint), each.schema.json.encode(), JSON, condition=IF_ABSENT
            )
            texts[fingerprint] = each.schema.json

    def _entry(self, each: LookedAt) -> BlobEntry:
        blob, folder = each.blob, self.log.stream
        return BlobEntry(
            name=blob.name,
            stream=folder,
            partition=partition_of(name_place(blob.name), folder),
            attempt="",
            blocks=0,
            rows=each.rows or 0,
            uncompressed=blob.size,
            size=blob.size,
            schema=each.schema.fingerprint,
            rolled_by=ADOPTED if each.rows is None else COUNTED,
            etag=blob.etag,
            modified=blob.modified,
        )

    def _say(self, found: Found) -> None:
        """Log each reason with the first blob that it is new for, and how many blobs will be looked at again."""
        waiting = found.left_out[LeftOut.BEING_WRITTEN]
        if waiting != self._waiting:
            logger.info("%s: %d blobs wait: they are %s", self.log.stream, waiting, LeftOut.BEING_WRITTEN.value)
        self._waiting = waiting
        if found.has_spark_metadata and not self._said_metadata:
            self._said_metadata = True
            logger.warning(METADATA_IGNORED, self.log.stream)
        for reason, names in found.examples.items():
            new = [name for name in names if (reason, name) not in self._said]
            if new and len(self._said) < _MOST_REMEMBERED:
                self._said.update((reason, name) for name in new)
                text = "%s: %d blobs are not adopted, such as %s: %s"
                logger.warning(text, self.log.stream, len(new), new[0], reason.value)
