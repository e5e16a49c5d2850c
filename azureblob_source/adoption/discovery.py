"""What a discovery lists, and which of the listed blobs a log adopts. Pure.

what the log has ─► ranges to list ─► listed blobs ─┬─► new: by their headers, entries
                                                    └─► left out, each for a reason that is counted
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from azureblob_source.adoption.known_blobs import LATE
from azureblob_source.log.entry import DISCARDED, attempt_of
from azureblob_source.log.folder import SPARK_METADATA, is_avro, is_below
from azureblob_source.log.name_places import NamePlace, name_place
from azureblob_source.log.naming import log_stream, may_be_data
from azureblob_source.log.times import microseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from azure_account.values import BlobProperties
    from azureblob_source.adoption.known_blobs import KnownBlobs, Partition

PAGE = 5000
"""Names of one request of a listing."""
_EXAMPLES = 1000
_ACTIVE = timedelta(days=1)
"""A partition whose newest blob is older than the newest of all by more than this is left to whole listings."""
_MOST_DIRECTORIES = 64
_AHEAD = timedelta(hours=1)
"""How far the time in a name may be ahead of this clock."""


class LeftOut(Enum):
    """Why a listed blob is not adopted, or not yet."""

    EMPTY = "empty"
    ODD_NAME = "with a name that has an empty level or a backslash"
    OTHER_FORMAT = "other format by its name"
    BEFORE_START = "modified before the start"
    REPLACED = "replaced after it was adopted"
    BEING_WRITTEN = "leased or modified just now"
    DAMAGED = "damaged"
    UNFIT = "schema does not fit the others"
    CHANGED = "changed while it was looked at"

    @property
    def is_odd(self) -> bool:
        """Whether somebody should look at the blob."""
        return self not in (LeftOut.BEFORE_START, LeftOut.BEING_WRITTEN, LeftOut.CHANGED)

    @property
    def stays(self) -> bool:
        """Whether the blob as it is will never be adopted, unless the options change."""
        return self in (LeftOut.OTHER_FORMAT, LeftOut.DAMAGED, LeftOut.UNFIT)


@dataclass(frozen=True, slots=True)
class FoundBlob:
    """A listed blob that is new. modified: in microseconds since 1970 UTC."""

    name: str
    etag: str
    size: int
    modified: int

    @property
    def order(self) -> tuple[int, str]:
        """Blobs are adopted in the order of the times in their names, or of their last modification."""
        moment = name_place(self.name).moment
        return self.modified if moment is None else microseconds(moment), self.name


@dataclass(frozen=True)
class AdoptionRules:
    """What a log adopts of its folder.

    since: only blobs that were modified at this time or later, None for all; any_extension: whatever their names end
    in. nested: folders below it that have logs of their own.
    """

    folder: str
    since: datetime | None = None
    any_extension: bool = False
    nested: frozenset[str] = frozenset()


@dataclass
class Found:
    """What a listing has: new blobs, those whose names are older than what is known, and how many others.

    examples: names of some that are left out. nested: folders that have logs of their own. listed: names.
    """

    new: list[FoundBlob] = field(default_factory=list)
    older: list[FoundBlob] = field(default_factory=list)
    left_out: Counter[LeftOut] = field(default_factory=Counter)
    examples: dict[LeftOut, list[str]] = field(default_factory=lambda: defaultdict(list))
    nested: set[str] = field(default_factory=set)
    listed: int = 0
    has_spark_metadata: bool = False
    newest_before: FoundBlob | None = None
    """The newest of those that were modified before the start: its schema is likely to be that of what comes."""

    def take(self, page: Iterable[BlobProperties], known: KnownBlobs, rules: AdoptionRules) -> None:
        """Sort out some blobs of a listing."""
        for blob in page:
            self.listed += 1
            if not may_be_data(blob.name, rules.folder):
                of = log_stream(blob.name)
                self.nested |= set() if of in (None, rules.folder) else {str(of)}
                self.has_spark_metadata |= SPARK_METADATA in blob.name
                if "//" in blob.name or "\\" in blob.name:
                    self.leave_out(LeftOut.ODD_NAME, blob.name)
                continue
            reason = _reason(blob, rules)
            found = FoundBlob(blob.name, blob.etag, blob.size, microseconds(blob.last_modified))
            if reason is not None:
                self.leave_out(reason, blob.name)
                if reason is LeftOut.BEFORE_START:
                    newest = self.newest_before
                    self.newest_before = found if newest is None or newest.modified < found.modified else newest
                continue
            try:
                self.compare(found, known.etag(blob.name))
            except KeyError:
                self.older.append(found)

    def compare(self, found: FoundBlob, etag: str | None) -> None:
        """Sort out a blob that the log has with this ETag; None if it has not."""
        if etag is None:
            self.new.append(found)
        elif etag != found.etag:
            self.leave_out(LeftOut.REPLACED, found.name)

    def leave_out(self, reason: LeftOut, name: str) -> None:
        """Count a blob that is not adopted, and keep some names of those that somebody should look at."""
        self.left_out[reason] += 1
        if reason.is_odd and len(self.examples[reason]) < _EXAMPLES:
            self.examples[reason].append(name)

    def in_order(self, nested: frozenset[str]) -> list[FoundBlob]:
        """The new blobs, each once, without those of folders that have a log of their own."""
        unique = {blob.name: blob for blob in self.new if not is_below(blob.name, nested)}
        return sorted(unique.values(), key=lambda blob: blob.order)


@dataclass(frozen=True)
class Discovery:
    """What one discovery has found. adopted: blobs; left_out: how many blobs for which reason; listed: names."""

    adopted: int = 0
    entries: int = 0
    listed: int = 0
    is_whole: bool = False
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, object]:
        """As commands and a query's progress show it."""
        counts = {"adopted": self.adopted, "versions": self.entries, "listed": self.listed}
        return {**counts, "leftOut": dict(self.left_out)}


def _reason(blob: BlobProperties, rules: AdoptionRules) -> LeftOut | None:
    """Why a listed blob is left out, as far as the listing shows it."""
    if not rules.any_extension and not is_avro(blob.name):
        return LeftOut.OTHER_FORMAT
    if not blob.size or attempt_of(blob.metadata) == DISCARDED:
        return LeftOut.EMPTY
    if rules.since is not None and blob.last_modified < rules.since:
        return LeftOut.BEFORE_START
    return LeftOut.BEING_WRITTEN if blob.leased else None


@dataclass(frozen=True)
class ListRange:
    """Names with this prefix, from the name `start` on; None is from the first."""

    prefix: str
    start: str | None = None


def whole_folder(folder: str) -> list[ListRange]:
    """The range of all names."""
    return [ListRange(f"{folder}/")]


def ranges(known: KnownBlobs, folder: str, now: datetime, *, starts_from: bool, pages: int) -> list[ListRange]:
    """What to list for blobs that are new; in all partitions, those that come later than `LATE` left aside.

    starts_from: whether the service can begin a listing at a name. pages: requests of a whole listing.
    """
    active = list(_active(known))
    found = [
        each
        for partition in active
        for each in ([_from_name(partition)] if starts_from else _by_prefixes(partition, now))
    ]
    if not found or (known.is_whole and pages <= len(found)):
        return whole_folder(folder)
    return found


def _active(known: KnownBlobs) -> Iterator[Partition]:
    """The partitions that are likely to get blobs."""
    moments = [each.newest.moment for each in known.partitions.values() if each.newest.moment is not None]
    newest = max(moments, default=None)
    for partition in known.partitions.values():
        if partition.newest.moment is not None and newest is not None and partition.newest.moment >= newest - _ACTIVE:
            yield partition
    directories = [prefix for prefix, each in known.partitions.items() if each.newest.moment is None]
    above = {prefix[: end + 1] for prefix in known.partitions for end, sign in enumerate(prefix[:-1]) if sign == "/"}
    for prefix in [each for each in directories if each not in above][-_MOST_DIRECTORIES:]:
        yield known.partitions[prefix]


def _from_name(partition: Partition) -> ListRange:
    newest = partition.newest
    if newest.moment is None:
        return ListRange(newest.prefix, partition.since)
    century = newest.name[: newest.spans[0][0] + 2]
    return ListRange(century, partition.since)


def _by_prefixes(partition: Partition, now: datetime) -> Iterator[ListRange]:
    newest = partition.newest
    if newest.moment is None:
        yield ListRange(newest.prefix)
        return
    for prefix in newest.prefixes(newest.moment - LATE, max(newest.moment, now) + _AHEAD):
        yield ListRange(prefix)


def divided(found: Sequence[FoundBlob], most: int, most_bytes: int) -> Iterator[Sequence[FoundBlob]]:
    """The blobs of each entry, in order: within a number of blobs and of bytes, but one at least."""
    start = size = 0
    for place, blob in enumerate(found):
        if place > start and (place - start == most or size + blob.size > most_bytes):
            yield found[start:place]
            start, size = place, 0
        size += blob.size
    if found:
        yield found[start:]


def partition_of(place: NamePlace, folder: str) -> str | None:
    """The levels of a blob's partition below its folder; None if there are none."""
    return place.prefix[len(folder) + 1 :].rstrip("/_") or None
