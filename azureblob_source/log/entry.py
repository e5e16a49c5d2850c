"""One entry of a stream's commit log, its draft, and its JSON. Pure.

An entry *commits* a batch: once `_log/<version>.json` exists, the batch consists of exactly the blobs that it names,
and any process may publish them. The entry holds all that this takes: names, block ids, metadata, tags and tier.
"""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass, field, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from azure_account.documents.form import check_version, damaged, needs_newer_release
from azure_account.values import NO_ATTRIBUTES, BlobAttributes
from azureblob_source.log.naming import block_id, is_batch_log, log_stream, may_be_data
from foundation.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

FORMAT_VERSION = 1
ATTEMPT = "azureblob_attempt"
"""Metadata key of the attempt id: it shows which task attempt staged a blob."""
DISCARDED = "discarded"
"""The attempt id of the empty blob by which staged blocks are dropped; it is deleted at once."""
RECENT_TRANSACTIONS = 1000
"""Transaction ids that a log remembers, at least. The one that was idle longest is dropped first."""
LIST_EVERY = 64
"""After this number of versions an entry lists all of them; the others have those used since then (decision 24)."""


def attempt_of(metadata: Mapping[str, str]) -> str | None:
    """The attempt that a blob's metadata names, None if it names none. Storage may change the case of keys."""
    return {key.lower(): value for key, value in metadata.items()}.get(ATTEMPT)


Bound: TypeAlias = int | float | str
"""A number, days or microseconds since 1970, the unscaled number of a decimal, or the start of a text."""
Bounds: TypeAlias = "Mapping[str, tuple[Bound, Bound]]"
"""By column: no value of the column is below the first or above the second."""


@dataclass(frozen=True)
class MovedRows:
    """The rows of an earlier blob, in the blob that a compaction has moved them to.

    name: of the earlier blob; version, committed: version and timestamp of the entry that added it.
    start, end: its rows are in the Avro blocks within these bytes, after `skip` rows of the first block. They have
    `uncompressed` bytes. Event times are those of the earlier blob.
    """

    name: str
    version: int
    committed: str
    start: int
    end: int
    skip: int
    rows: int
    uncompressed: int
    min_event_time: int | None = None
    max_event_time: int | None = None


@dataclass(frozen=True)
class BlobEntry:
    """One blob, staged by one task attempt as the blocks `0 … blocks-1`.

    `uncompressed` and `size` count bytes before and after compression; event times are microseconds since 1970 UTC.
    `bounds` has some columns; of another one nothing is known.
    moved: if its rows were moved: the earlier blobs that had them, in the order of the rows.
    etag: of the version of it that is adopted; None of own blobs. An adopted one has no attempt and no blocks, and
      `rows` is 0 if they were not counted, see `rolled_by`. modified: when that was written, in the same microseconds.
    partition_column: the column that has one value in all rows, which `partition` names; None if it is not known.
    """

    name: str
    stream: str
    partition: str | None
    attempt: str
    blocks: int
    rows: int
    uncompressed: int
    size: int
    schema: str
    rolled_by: str
    min_event_time: int | None = None
    max_event_time: int | None = None
    bounds: Bounds = field(default_factory=dict, hash=False)
    moved: tuple[MovedRows, ...] = field(default=(), hash=False)
    partition_column: str | None = None
    etag: str | None = None
    modified: int | None = None

    @property
    def adopted(self) -> bool:
        """Whether another program has written it: it is never published, altered or deleted by this package."""
        return self.etag is not None

    @property
    def versions(self) -> tuple[int, int]:
        """The oldest and newest version of moved rows; only a blob that has some has these."""
        versions = [each.version for each in self.moved]
        return min(versions), max(versions)

    @property
    def removal(self) -> Removal:
        """The blob as one to remove."""
        return Removal(self.name, self.attempt)

    @property
    def block_ids(self) -> list[str]:
        """The block list to commit."""
        return [block_id(self.attempt, ordinal) for ordinal in range(self.blocks)]


@dataclass(frozen=True)
class Transaction:
    """Identity under which a batch is committed once: query id and batch id, or `txnAppId` and `txnVersion`."""

    id: str
    version: int

    def __str__(self) -> str:
        """For messages."""
        return f"batch {self.version} of {self.id}"


@dataclass(frozen=True, order=True)
class Removal:
    """A blob that an entry removes: the one that `attempt` has staged, and no other blob of that name."""

    name: str
    attempt: str


@dataclass(frozen=True)
class Totals:
    """What the entries of a log have added, from its first one on. `bytes` counts them after compression."""

    blobs: int = 0
    rows: int = 0
    bytes: int = 0

    def plus(self, blobs: Sequence[BlobEntry]) -> Totals:
        """The totals with what an entry of these blobs adds: rows that were moved are not new."""
        new = [blob for blob in blobs if not blob.moved]
        rows, size = sum(blob.rows for blob in new), sum(blob.size for blob in new)
        return Totals(self.blobs + len(new), self.rows + rows, self.bytes + size)

    def less(self, other: Totals) -> Totals:
        """What is added from `other`, those of an earlier entry, to these."""
        return Totals(self.blobs - other.blobs, self.rows - other.rows, self.bytes - other.bytes)


Operation: TypeAlias = Literal[
    "append", "overwrite", "overwrite-partitions", "replace", "void", "revert", "restore", "epoch", "compact", "adopt"
]
"""What an entry does.

append: adds blobs. overwrite: its blobs take the place of all earlier ones. overwrite-partitions: of those in their
partitions. replace: its blobs take the place of those of entry `replaces`, which cannot be published. void: revokes
entry `replaces`. revert: revokes the entries `reverts`. restore: removes rows that are live and were not at version
`restores`. epoch: opens an epoch. compact: its blobs have the rows of those that it removes. adopt: names blobs that
another program has written, as all entries of its log do (decision 29).
"""
ADOPTED, COUNTED = "adopted", "adopted, counted"
"""The `rolled_by` of adopted blobs, whose rows are not known, or are."""
VOIDED = -1
"""In the place of an entry's version: the batch was committed and voided, so its next run is committed again."""


@dataclass(frozen=True)
class LastCommitted:
    """The last version of one transaction id, and the log entry that holds it; `VOIDED` if that was voided.

    previous: the version before it that the log has, and that is in effect; -1 if there is none. After a revert it is
      the same as `version`.
    batch_version: if the entry is a stream's part of a batch entry, also if it was voided, the version of that. Of the
      revert of a stream, that of the last batch entry that it takes back.
    """

    version: int
    entry: int
    previous: int
    batch_version: int | None

    @property
    def in_effect(self) -> int:
        """The last version that is in effect; -1 if there is none."""
        return self.previous if self.entry == VOIDED else self.version


ALL_PARTITIONS = "all"
"""The `partitions` of a control message that all partitions have received, whose number it states."""


def partitions_of(message: Mapping[str, Any]) -> tuple[str | None, ...]:
    """The partitions of a control message of an entry; None for rows without one."""
    named, count = message.get("partitions"), message.get("partitionCount")
    if named == ALL_PARTITIONS and isinstance(count, int):
        return all_partitions(count)
    return tuple(map(str, named)) if isinstance(named, list) else (None,)


@lru_cache(maxsize=8)
def all_partitions(count: int) -> tuple[str, ...]:
    """The names of all partitions of a stream."""
    return tuple(map(str, range(count)))


@dataclass(frozen=True)
class Change:
    """What a draft and an entry have in common.

    removed: blobs of earlier entries that this one removes.
    control: the control messages in the blobs, each once with its `partitions` (see `write/control_objects.py`).
    batch_version: of a stream's part of a batch over many streams, the version of its batch entry; None for other
      batches. Of the revert of a stream, the last batch entry that it takes back.
    reverts: versions of the entries that it takes back.
    restores: the version whose live blobs are live again.
    commit_info: what the writer says of it (option `commitInfo`).
    adopted_since: blobs that were modified before this time are left out by all discoveries; None: no blob is.
    """

    write_id: str
    timestamp: str
    operation: Operation = "append"
    transaction: Transaction | None = None
    epoch: int | None = None
    blobs: tuple[BlobEntry, ...] = ()
    removed: tuple[Removal, ...] = ()
    replaces: int | None = None
    control: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    writers: tuple[Mapping[str, Any], ...] = ()
    attributes: BlobAttributes = NO_ATTRIBUTES
    batch_version: int | None = None
    reverts: tuple[int, ...] = ()
    restores: int | None = None
    commit_info: str | None = None
    adopted_since: str | None = None

    @property
    def adopts(self) -> bool:
        """Whether it, and so each entry of its log, names blobs that another program has written."""
        return self.operation == "adopt"

    @property
    def rows(self) -> int:
        """Rows in all blobs."""
        return sum(blob.rows for blob in self.blobs)

    @property
    def overwrites(self) -> bool:
        """Whether its blobs take the place of earlier ones, which are deleted once all of its own are visible."""
        return self.operation in ("overwrite", "overwrite-partitions")


@dataclass(frozen=True)
class Draft(Change):
    """What a writer wants to append to a log. It has no version yet.

    keep: for how long an overwrite or a restore keeps what it removes.
    """

    keep: timedelta | None = None

    def succeeding(
        self,
        head: LogEntry | None,
        published_up_to: int,
        known: Mapping[str, LastCommitted],
        *,
        restored: LogEntry | None = None,
    ) -> LogEntry:
        """The draft as the entry that follows `head`; entries up to version `published_up_to` are published.

        known: the transactions that the log remembers at `head`; all of them if the next entry lists them, else at
        least that of the draft, and of a void that of the entry that it voids.
        restored: of a void, the entry before the one that it voids: its schemas count again, and if that was an
        overwrite, what was live. None if a vacuum has removed it, and with it all that was live.
        """
        version = 0 if head is None else head.version + 1
        since, schemas = self._live_from(restored if self.operation == "void" else head, version)
        content: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(Change)}
        if head is not None:
            content["timestamp"] = _later(self.timestamp, head.timestamp)
        if self.epoch is None and head is not None:
            content["epoch"] = head.epoch
        keeps = self.removed and (self.overwrites or self.operation == "restore")
        return LogEntry(
            **content,
            version=version,
            published_up_to=published_up_to,
            transactions=self._transactions(head, version, known),
            list_version=version if head is None or head.next_lists else head.list_version,
            since=since,
            schemas=schemas,
            log_id=self.write_id if head is None else head.log_id,
            last_deletion=None if head is None else head.newest_deletion,
            last_compaction=None if head is None else head.newest_compaction,
            kept_until=_after(content["timestamp"], self.keep) if keeps and self.keep else None,
            last_kept=None if head is None else head.newest_kept,
            totals=(Totals() if head is None else head.totals).plus(self.blobs),
        )

    def _transactions(
        self, head: LogEntry | None, version: int, known: Mapping[str, LastCommitted]
    ) -> dict[str, LastCommitted]:
        """`transactions` of this draft as `version`, its own as the one used last."""
        lists = head is None or head.next_lists
        transactions = dict(known if lists else {} if head is None or head.lists else head.transactions)
        if self.operation == "void":
            transactions |= {
                of: LastCommitted(last.version, VOIDED, last.previous, self.batch_version)
                for of, last in known.items()
                if last.entry == self.replaces
            }
        if self.transaction is not None:
            own = self.transaction.version
            previous = own if self.operation == "revert" else _previous(known.get(self.transaction.id), own)
            transactions.pop(self.transaction.id, None)
            transactions[self.transaction.id] = LastCommitted(own, version, previous, self.batch_version)
        return dict(list(transactions.items())[-RECENT_TRANSACTIONS:])

    def _live_from(self, before: LogEntry | None, version: int) -> tuple[int, tuple[str, ...]]:
        """`since` and `schemas` of this draft as `version`, after `before`."""
        used = dict.fromkeys(blob.schema for blob in self.blobs)
        if before is None or (self.operation == "overwrite" and used):
            return version, tuple(used)
        if used and before.since == before.version and not before.blobs:
            return before.since, tuple(used)
        since = version if self.operation == "overwrite" else before.since
        return since, tuple(dict.fromkeys((*before.schemas, *used)))


def _later(timestamp: str, before: str) -> str:
    """A time, or a millisecond after that of the entry before if that is not earlier: clocks of writers differ."""
    earliest = datetime.fromisoformat(before) + timedelta(milliseconds=1)
    return timestamp if datetime.fromisoformat(timestamp) >= earliest else earliest.isoformat(timespec="milliseconds")


def _after(timestamp: str, interval: timedelta) -> str:
    """The time after a time."""
    return (datetime.fromisoformat(timestamp) + interval).isoformat(timespec="milliseconds")


def _previous(last: LastCommitted | None, version: int) -> int:
    """`previous` of a version that follows `last`, or is committed again."""
    if last is None:
        return -1
    return last.previous if last.version == version else last.in_effect


@dataclass(frozen=True, kw_only=True)
class LogEntry(Change):
    """One committed change of a stream.

    published_up_to: every entry up to this version was published when this one was committed.
    transactions: last version of each transaction id used after entry `list_version`, this entry's included, and the
      entry that holds it; of all recent ids if that is this entry. The one used last is the last.
    since: the version of the last overwrite, before which no blob is live; 0 if there is none.
    schemas: fingerprints of the writer schemas used since then, in order of first use.
    log_id: the log's identity, which is the write id of its version 0 (see decision 18).
    last_deletion: the version of the last entry before this one that `deletes`.
    last_compaction: the version of the last entry before this one that has moved rows.
    kept_until: the time until which the blobs that it removes are kept; None if they are not.
    last_kept: the version of the last entry before this one that keeps what it removes.
    totals: of all entries up to this one, also of those that were revoked since, or that a vacuum has deleted.
    """

    version: int
    published_up_to: int = -1
    transactions: Mapping[str, LastCommitted] = field(default_factory=dict)
    list_version: int = 0
    since: int = 0
    schemas: tuple[str, ...] = ()
    log_id: str = ""
    last_deletion: int | None = None
    last_compaction: int | None = None
    kept_until: str | None = None
    last_kept: int | None = None
    totals: Totals = Totals()

    @property
    def lists(self) -> bool:
        """Whether it lists all recent transactions."""
        return self.list_version == self.version

    @property
    def next_lists(self) -> bool:
        """Whether the entry after this one does."""
        return self.version + 1 >= self.list_version + LIST_EVERY

    @property
    def live_schemas(self) -> tuple[str, ...]:
        """The schemas that rows of the stream may have: none right after an overwrite without rows."""
        return () if self.since == self.version and not self.blobs else self.schemas

    @property
    def deletes(self) -> bool:
        """Whether readers of earlier versions look for it, since it deletes rows, or since it revokes one that does."""
        return self.operation in ("overwrite-partitions", "revert", "restore", "void") or self.leaves_out

    @property
    def leaves_out(self) -> bool:
        """Whether it removes blobs that were deleted by hand."""
        return self.operation == "append" and bool(self.removed)

    @property
    def newest_deletion(self) -> int | None:
        """The version of the last entry up to this one that `deletes`."""
        return self.version if self.deletes else self.last_deletion

    @property
    def taken_back(self) -> Collection[int]:
        """Versions whose rows it has removed, which readers that come later leave out."""
        return self.reverts if self.restores is None else range(self.restores + 1, self.version)

    @property
    def moves(self) -> bool:
        """Whether it has moved rows."""
        return any(blob.moved for blob in self.blobs)

    @property
    def newest_compaction(self) -> int | None:
        """The version of the last entry up to this one that has moved rows."""
        return self.version if self.moves else self.last_compaction

    @property
    def newest_kept(self) -> int | None:
        """The version of the last entry up to this one that keeps what it removes."""
        return self.last_kept if self.kept_until is None else self.version

    def is_kept_at(self, time: datetime) -> bool:
        """Whether what it removes is kept at a time."""
        return self.kept_until is not None and time < datetime.fromisoformat(self.kept_until)

    @property
    def totals_before(self) -> Totals:
        """The totals of all entries before this one."""
        return self.totals.less(Totals().plus(self.blobs))

    @property
    def revives(self) -> bool:
        """Whether blobs of earlier entries are live again if this one is revoked, since it removes or revokes some."""
        return bool(self.removed or self.revoked) or self.operation == "overwrite"

    @property
    def revoked(self) -> frozenset[int]:
        """Versions of the entries that this one revokes: they count as if they had added and removed nothing."""
        return frozenset(self.reverts if self.replaces is None else (self.replaces,))


@dataclass(frozen=True)
class GoneEntry:
    """What is known of an entry that is not in the log any more: a vacuum has deleted it, or it was voided.

    transaction: the one that it committed. version: None if it was voided. batch_version: as of `LastCommitted`.
    """

    transaction: Transaction
    version: int | None
    batch_version: int | None


AnyEntry: TypeAlias = LogEntry | GoneEntry


def to_json(entry: LogEntry) -> bytes:
    """The entry as it is stored: UTF-8 JSON, camelCase, always with all fields."""
    document: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "version": entry.version,
        "writeId": entry.write_id,
        "timestamp": entry.timestamp,
        "operation": entry.operation,
        "commitInfo": entry.commit_info,
        "adoptedSince": entry.adopted_since,
        "epoch": entry.epoch,
        "logId": entry.log_id,
        "published": entry.published_up_to,
        "since": entry.since,
        "schemas": entry.schemas,
        "replaces": entry.replaces,
        "reverts": entry.reverts,
        "restores": entry.restores,
        "lastDeletion": entry.last_deletion,
        "lastCompaction": entry.last_compaction,
        "keptUntil": entry.kept_until,
        "lastKept": entry.last_kept,
        "batchVersion": entry.batch_version,
        "transaction": None if entry.transaction is None else asdict(entry.transaction),
        "blobs": [blob_document(blob) for blob in entry.blobs],
        "removed": [[each.name, each.attempt] for each in entry.removed],
        "totals": asdict(entry.totals),
        "control": [dict(message) for message in entry.control],
        "metrics": dict(entry.metrics),
        "writers": [dict(writer) for writer in entry.writers],
        "metadata": dict(entry.attributes.metadata),
        "tags": dict(entry.attributes.tags),
        "tier": entry.attributes.tier,
        "transactions": {id_: astuple(last) for id_, last in entry.transactions.items()},
        "transactionList": entry.list_version,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(data: bytes, name: str) -> LogEntry:
    """The entry stored as blob `name`. Unknown fields are ignored.

    `ConfigurationError` if it has a newer format or an unknown operation. `CorruptError` if it is damaged, or names a
    blob that is no data of its stream: a forged entry cannot have blobs of another stream read or deleted.
    """
    try:
        document = json.loads(data)
        check_version(document["formatVersion"], FORMAT_VERSION, f"Log entry {name}")
        if document["operation"] not in get_args(Operation):
            raise needs_newer_release(f"Log entry {name} has the operation {document['operation']!r}")
        entry = _entry(document)
        foreign = _foreign_name(entry, log_stream(name))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        step = "Restore it from a backup; do not delete it."
        raise damaged(f"Log entry {name}", f"{error!r}", step) from error
    if foreign is None:
        return entry
    message = (
        f"Log entry {name} names the blob {foreign!r}, which no entry of this log may name. Restore the entry from a "
        "backup, and check which identities may write to the log; do not delete it."
    )
    raise CorruptError(message)


def _foreign_name(entry: LogEntry, stream: str | None) -> str | None:
    """A name in an entry of the log of `stream` that is no data of it; of a batch log, of any stream. None if none."""
    if stream is None:
        return None
    own = None if is_batch_log(stream) else stream
    names = (*(blob.name for blob in entry.blobs), *(removal.name for removal in entry.removed))
    foreign = (name for name in names if not may_be_data(name, own))
    of_others = (blob for blob in entry.blobs if blob.stream != own)
    elsewhere = (blob.name for blob in of_others if not may_be_data(blob.name, blob.stream))
    return next(foreign, None) or next(elsewhere, None)


def _entry(document: Mapping[str, Any]) -> LogEntry:
    transaction = document["transaction"]
    return LogEntry(
        version=int(document["version"]),
        write_id=str(document["writeId"]),
        timestamp=str(document["timestamp"]),
        operation=document["operation"],
        commit_info=document["commitInfo"],
        adopted_since=document["adoptedSince"],
        transaction=None if transaction is None else Transaction(transaction["id"], int(transaction["version"])),
        epoch=document["epoch"],
        published_up_to=int(document["published"]),
        blobs=tuple(map(blob_of, document["blobs"])),
        removed=tuple(Removal(str(removed), str(attempt)) for removed, attempt in document["removed"]),
        replaces=document["replaces"],
        reverts=tuple(map(int, document["reverts"])),
        restores=document["restores"],
        last_deletion=document["lastDeletion"],
        last_compaction=document["lastCompaction"],
        kept_until=_time(document["keptUntil"]),
        last_kept=document["lastKept"],
        control=tuple(document["control"]),
        metrics=document["metrics"],
        writers=tuple(document["writers"]),
        attributes=BlobAttributes(document["metadata"], document["tags"], document["tier"]),
        transactions={id_: LastCommitted(*last) for id_, last in document["transactions"].items()},
        list_version=int(document["transactionList"]),
        since=int(document["since"]),
        schemas=tuple(map(str, document["schemas"])),
        batch_version=document["batchVersion"],
        log_id=str(document["logId"]),
        totals=Totals(*(int(document["totals"][name]) for name in ("blobs", "rows", "bytes"))),
    )


def _time(stored: str | None) -> str | None:
    """A time or None. `ValueError` for another text."""
    if stored is not None:
        datetime.fromisoformat(stored)
    return stored


_BLOB_FIELDS = {
    "name": "name",
    "stream": "stream",
    "partition": "partition",
    "partitionColumn": "partition_column",
    "attempt": "attempt",
    "blocks": "blocks",
    "rows": "rows",
    "uncompressed": "uncompressed",
    "size": "size",
    "schema": "schema",
    "rolledBy": "rolled_by",
    "minEventTime": "min_event_time",
    "maxEventTime": "max_event_time",
    "etag": "etag",
    "modified": "modified",
}


def blob_document(blob: BlobEntry) -> dict[str, Any]:
    """A blob as an object of JSON."""
    own = {key: getattr(blob, attribute) for key, attribute in _BLOB_FIELDS.items()}
    return own | {"bounds": dict(blob.bounds), "moved": [astuple(each) for each in blob.moved]}


def blob_of(document: Mapping[str, Any]) -> BlobEntry:
    """The inverse of `blob_document`. `KeyError`, `TypeError` or `ValueError` if the object is damaged."""
    bounds = {column: (lower, upper) for column, (lower, upper) in document["bounds"].items()}
    moved = tuple(MovedRows(*each) for each in document["moved"])
    return BlobEntry(
        **{attribute: document[key] for key, attribute in _BLOB_FIELDS.items()}, bounds=bounds, moved=moved
    )
