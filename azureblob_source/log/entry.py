"""One entry of a stream's commit log, and its JSON. Pure.

An entry *decides* a batch: once `_log/<version>.json` exists, exactly the blobs that it names are the batch, and
anyone may finish making them visible. It therefore holds all that is needed for that: names, block ids, metadata,
tags and tier.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from azure_account.account import NO_ATTRIBUTES, BlobAttributes
from azure_account.errors import ConfigurationError, CorruptError
from azureblob_source.log.naming import block_id

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT_VERSION = 1
ATTEMPT = "azureblob_attempt"
"""Metadata key of the task attempt that staged a blob: how a publisher knows its own blob."""
DISCARDED = "discarded"
"""The attempt of the empty blob that a repair puts in the place of staged blocks, for a moment, to drop them."""
RECENT_TRANSACTIONS = 1000
"""Transaction ids that an entry remembers. The one that was idle longest is forgotten first."""


def attempt_of(metadata: Mapping[str, str]) -> str | None:
    """The attempt that a blob's metadata names, None if it names none. Storage may change the case of keys."""
    return {key.lower(): value for key, value in metadata.items()}.get(ATTEMPT)


@dataclass(frozen=True)
class BlobEntry:
    """One blob: staged by one task attempt, and to be committed as blocks `0 … blocks-1` of that attempt.

    `uncompressed` and `size` count bytes before and after compression; event times are microseconds since 1970 UTC.
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

    @property
    def block_ids(self) -> list[str]:
        """The block list to commit."""
        return [block_id(self.attempt, ordinal) for ordinal in range(self.blocks)]


@dataclass(frozen=True)
class Transaction:
    """What makes a batch the same batch when it is repeated: query id and batch id, or `txnAppId` and `txnVersion`."""

    id: str
    version: int


VOIDED = -1
"""In the place of an entry's version: the batch was decided and taken back, so its next run decides it anew."""


@dataclass(frozen=True)
class Applied:
    """The last version of one transaction id, and the log entry that holds it; `VOIDED` if that was voided."""

    version: int
    entry: int


@dataclass(frozen=True)
class LogEntry:
    """One decided change of a stream.

    operation: `append`, `overwrite` (the batch replaces all earlier blobs), `replace` (the batch takes the place of
      entry `replaces`, whose staged blocks had expired), `void` (gives up entry `replaces`), `epoch` (opens an epoch).
    published: every entry up to this version was published when this one was decided.
    removed: blobs of earlier entries that this one takes away.
    control: the control messages in the blobs, each once with its `partitions` (see `control.py`).
    transactions: last version of each recent transaction id, this entry's included, and the entry that holds it.
    since: the version of the last overwrite, before which no blob is live; None if an older release wrote the log.
    schemas: fingerprints of the writer schemas used since then, in order of first use; None as above.
    decision: of a batch over many streams, the version in the log of its transaction that this entry carries out; None
      for other batches, and if an older release wrote the entry.
    """

    version: int
    write_id: str
    timestamp: str
    operation: str = "append"
    transaction: Transaction | None = None
    epoch: int | None = None
    published: int = -1
    blobs: tuple[BlobEntry, ...] = ()
    removed: tuple[str, ...] = ()
    replaces: int | None = None
    control: tuple[Mapping[str, Any], ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    writers: tuple[Mapping[str, Any], ...] = ()
    attributes: BlobAttributes = NO_ATTRIBUTES
    transactions: Mapping[str, Applied] = field(default_factory=dict)
    since: int | None = None
    schemas: tuple[str, ...] | None = None
    decision: int | None = None

    @property
    def rows(self) -> int:
        """Rows in all blobs of the entry."""
        return sum(blob.rows for blob in self.blobs)

    def behind(self, head: LogEntry | None, published: int, restored: LogEntry | None = None) -> LogEntry:
        """The draft as the entry that follows `head`.

        `restored` is the entry before the overwrite that this one voids: what was live then is live again. None if a
        vacuum has removed it, and with it all that was live.
        """
        version = 0 if head is None else head.version + 1
        transactions = {} if head is None else dict(head.transactions)
        if self.operation == "void":
            transactions |= {
                of: Applied(last.version, VOIDED) for of, last in transactions.items() if last.entry == self.replaces
            }
        if self.transaction is not None:
            transactions.pop(self.transaction.id, None)
            transactions[self.transaction.id] = Applied(self.transaction.version, version)
            for forgotten in list(transactions)[: max(0, len(transactions) - RECENT_TRANSACTIONS)]:
                del transactions[forgotten]
        epoch = self.epoch if self.epoch is not None else (head.epoch if head else None)
        entry = replace(self, version=version, transactions=transactions, published=published, epoch=epoch)
        voids_overwrite = (
            head is not None
            and self.operation == "void"
            and self.replaces == head.version
            and head.operation == "overwrite"
        )
        since, schemas = self._live_from(restored if voids_overwrite else head, version)
        return replace(entry, since=since, schemas=schemas)

    def _live_from(self, before: LogEntry | None, version: int) -> tuple[int | None, tuple[str, ...] | None]:
        """`since` and `schemas` of this entry as `version`, after `before`."""
        used = dict.fromkeys(blob.schema for blob in self.blobs)
        if before is None or (self.operation == "overwrite" and used):
            return version, tuple(used)
        if before.schemas is None:
            return None, None
        if used and before.since == before.version and not before.blobs:
            return before.since, tuple(used)
        since = version if self.operation == "overwrite" else before.since
        return since, tuple(dict.fromkeys((*before.schemas, *used)))


def to_json(entry: LogEntry) -> bytes:
    """The entry as it is stored: UTF-8 JSON, camelCase, nothing that is empty."""
    document: dict[str, Any] = {
        "formatVersion": FORMAT_VERSION,
        "version": entry.version,
        "writeId": entry.write_id,
        "timestamp": entry.timestamp,
        "operation": entry.operation,
        "epoch": entry.epoch,
        "published": entry.published,
        "since": entry.since,
        "schemas": None if entry.schemas is None else list(entry.schemas),
        "replaces": entry.replaces,
        "decision": entry.decision,
        "transaction": _transaction_json(entry.transaction),
        "blobs": [_blob_json(blob) for blob in entry.blobs],
        "removed": list(entry.removed),
        "control": [dict(message) for message in entry.control],
        "metrics": dict(entry.metrics),
        "writers": [dict(writer) for writer in entry.writers],
        "metadata": dict(entry.attributes.metadata),
        "tags": dict(entry.attributes.tags),
        "tier": entry.attributes.tier,
        "transactions": {id_: [last.version, last.entry] for id_, last in entry.transactions.items()},
    }
    kept = {key: value for key, value in document.items() if value is not None and value not in ([], {})}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()


def from_json(data: bytes, name: str) -> LogEntry:
    """The entry stored as blob `name`. Unknown fields are ignored; a newer format is a `ConfigurationError`."""
    try:
        document = json.loads(data)
        written_as = document["formatVersion"]
        if written_as > FORMAT_VERSION:
            message = (
                f"log entry {name} has format version {written_as}, this release reads up to {FORMAT_VERSION}. "
                "Upgrade the package on this machine."
            )
            raise ConfigurationError(message)
        return _entry(document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        message = f"log entry {name} is damaged ({error!r}). Restore it from a backup; do not delete it."
        raise CorruptError(message) from error


def _entry(document: Mapping[str, Any]) -> LogEntry:
    transaction = document.get("transaction")
    return LogEntry(
        version=int(document["version"]),
        write_id=str(document["writeId"]),
        timestamp=str(document["timestamp"]),
        operation=str(document["operation"]),
        transaction=None if transaction is None else Transaction(transaction["id"], int(transaction["version"])),
        epoch=document.get("epoch"),
        published=int(document["published"]),
        blobs=tuple(_blob(blob) for blob in document.get("blobs", ())),
        removed=tuple(document.get("removed", ())),
        replaces=document.get("replaces"),
        control=tuple(document.get("control", ())),
        metrics=document.get("metrics", {}),
        writers=tuple(document.get("writers", ())),
        attributes=BlobAttributes(document.get("metadata", {}), document.get("tags", {}), document.get("tier")),
        transactions={id_: Applied(*last) for id_, last in document.get("transactions", {}).items()},
        since=int(document["since"]) if "since" in document else None,
        schemas=tuple(map(str, document.get("schemas", ()))) if "since" in document else None,
        decision=document.get("decision"),
    )


def _transaction_json(transaction: Transaction | None) -> dict[str, Any] | None:
    return None if transaction is None else {"id": transaction.id, "version": transaction.version}


_BLOB_FIELDS = {
    "name": "name",
    "stream": "stream",
    "partition": "partition",
    "attempt": "attempt",
    "blocks": "blocks",
    "rows": "rows",
    "uncompressed": "uncompressed",
    "size": "size",
    "schema": "schema",
    "rolledBy": "rolled_by",
    "minEventTime": "min_event_time",
    "maxEventTime": "max_event_time",
}
_MAY_LACK = frozenset(("partition", "minEventTime", "maxEventTime"))


def _blob_json(blob: BlobEntry) -> dict[str, Any]:
    values = {key: getattr(blob, attribute) for key, attribute in _BLOB_FIELDS.items()}
    return {key: value for key, value in values.items() if value is not None}


def _blob(document: Mapping[str, Any]) -> BlobEntry:
    kept: dict[str, Any] = {key: document.get(key) if key in _MAY_LACK else document[key] for key in _BLOB_FIELDS}
    return BlobEntry(**{_BLOB_FIELDS[key]: value for key, value in kept.items()})
