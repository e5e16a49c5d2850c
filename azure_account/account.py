"""The port: what this project asks of one storage account, and nothing more.

Two implementations stand behind it, `azure_sdk.py` (the official SDK) and `memory.py` (in memory, with scripted
faults); `tests/azure_account/contract.py` runs one suite on both.

A conditional request has four possible ends, and they are values, not exceptions: `Done`, `Conflict`, `Missing` and
`Unknown`. *Unknown* means that the answer was lost: the service may or may not have done it. Only the caller can
resolve it, by reading back something that it wrote. Every other failure is an error of `errors.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

Bytes: TypeAlias = "bytes | bytearray | memoryview"

BLOCKS_OF_A_BLOB = 50_000
"""Blocks that Azure allows in one blob."""
BYTES_OF_A_BLOCK = 4000 << 20
"""Bytes that Azure allows in one block."""


@dataclass(frozen=True)
class Done:
    """The service did it; `etag` is the object's new ETag (empty after a delete)."""

    etag: str = ""


@dataclass(frozen=True)
class Conflict:
    """The condition did not hold, or a lease forbids it; nothing was changed."""

    reason: str = ""


@dataclass(frozen=True)
class Missing:
    """The thing to act on does not exist: blob, entity, or a block of a block list; nothing was changed."""

    reason: str = ""


@dataclass(frozen=True)
class Unknown:
    """The answer was lost: it may have been done. Read back before you decide."""

    reason: str = ""


Outcome: TypeAlias = Done | Conflict | Missing | Unknown


@dataclass(frozen=True)
class Condition:
    """When a write may happen. `ALWAYS`, `IF_ABSENT`, or `Condition(if_match=etag)`."""

    if_match: str | None = None
    if_absent: bool = False


ALWAYS = Condition()
IF_ABSENT = Condition(if_absent=True)


@dataclass(frozen=True)
class BlobAttributes:
    """What is stored beside a blob's bytes. `tier` is `Hot`, `Cool`, `Cold` or `Archive`."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None
    content_type: str | None = None


NO_ATTRIBUTES = BlobAttributes()


@dataclass(frozen=True)
class BlobProperties:
    """One blob as a listing or a HEAD shows it. `size` is in bytes; an uncommitted blob has size 0 and no ETag."""

    name: str
    size: int
    etag: str
    last_modified: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None
    content_type: str | None = None
    committed: bool = True


@dataclass(frozen=True)
class BlobContent:
    """Bytes `[start, start + len(data))` of a blob, and the properties of the whole."""

    data: bytes
    properties: BlobProperties


class BlobContainer(Protocol):
    """One container. Blob names are plain text; the adapter encodes them. All calls block, all are thread-safe."""

    @property
    def name(self) -> str:
        """The container's name."""

    @property
    def url(self) -> str:
        """Its URL without credentials, for messages."""

    @property
    def failed_attempts(self) -> int:
        """Requests to this account that were throttled or got no answer so far, in this process."""

    def create(self) -> bool:
        """Create the container if it is absent. True if this call created it."""

    def exists(self) -> bool:
        """Whether the container exists."""

    def stage_block(self, blob: str, block_id: str, data: Bytes) -> None:
        """Upload one block that nobody sees until a block list names it. Idempotent.

        `block_id` is 1–64 ASCII characters, of one length within a blob. Azure drops a blob's staged blocks seven
        days after the last one, and all that a committed list does not name.
        """

    def commit_block_list(
        self,
        blob: str,
        block_ids: Sequence[str],
        attributes: BlobAttributes = NO_ATTRIBUTES,
        *,
        condition: Condition = ALWAYS,
    ) -> Outcome:
        """Make a blob of the named blocks, staged or committed, in this order.

        Without a condition it is idempotent and retried. `Missing` if a block is not there (expired, or dropped by
        another commit).
        """

    def put(
        self,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes = NO_ATTRIBUTES,
        *,
        condition: Condition = ALWAYS,
        lease_id: str | None = None,
    ) -> Outcome:
        """Write a whole blob in one request.

        Unconditional puts are retried; they end `Unknown` only if the repeat of a lost answer is refused.
        """

    def get(self, blob: str, start: int = 0, length: int | None = None, *, if_match: str | None = None) -> BlobContent:
        """Read a blob or a range of it; a range past the end is cut.

        `NotFoundError` if the blob is absent, `ConflictError` if it is no longer the one of `if_match`.
        """

    def properties(self, blob: str) -> BlobProperties | None:
        """Properties of a committed blob, or None."""

    def age(self, blob: str) -> float | None:
        """Seconds since a committed blob was last written, both times by the service's clock; None if it is absent."""

    def block_ids(self, blob: str) -> Sequence[str]:
        """The ids of a blob's committed blocks, in order; none if it is absent or was not made of blocks."""

    def list(
        self, prefix: str = "", *, start_from: str | None = None, uncommitted: bool = False
    ) -> Iterator[BlobProperties]:
        """Blobs whose name begins with `prefix`, in name order, at or after the name `start_from`.

        `uncommitted` adds blobs that have staged blocks only.
        """

    def delete(self, blob: str, *, condition: Condition = ALWAYS, lease_id: str | None = None) -> Outcome:
        """Delete a blob, or the staged blocks of an uncommitted one. `Missing` if there is none.

        `Done` if the repeat after a lost answer finds nothing.
        """

    def tags(self, blob: str) -> Mapping[str, str]:
        """The blob's index tags. `NotFoundError` if the blob is absent."""

    def set_tags(self, blob: str, tags: Mapping[str, str]) -> Outcome:
        """Replace the blob's index tags."""

    def acquire_lease(self, blob: str, lease_id: str, seconds: int) -> Outcome:
        """Take the lease for 15–60 s under a lease id (a UUID) of the caller's choice. No lease call is retried."""

    def renew_lease(self, blob: str, lease_id: str) -> Outcome:
        """Renew. `Conflict` if the lease is another's or was broken."""

    def release_lease(self, blob: str, lease_id: str) -> Outcome:
        """Give the lease back."""

    def break_lease(self, blob: str) -> Outcome:
        """Break whatever lease there is, at once."""


@dataclass(frozen=True)
class Entity:
    """One table row: keys, properties, and the ETag that a conditional write presents."""

    partition_key: str
    row_key: str
    properties: Mapping[str, str | int | float | bool]
    etag: str = ""


class Table(Protocol):
    """One table of Azure Table storage. Keys may not contain slashes, backslashes, `#`, `?` or control characters."""

    @property
    def name(self) -> str:
        """The table's name."""

    def create(self) -> bool:
        """Create the table if it is absent. True if this call created it."""

    def insert(self, entity: Entity) -> Outcome:
        """Insert. `Conflict` if the keys exist."""

    def replace(self, entity: Entity, *, condition: Condition = ALWAYS) -> Outcome:
        """Insert or replace; with `Condition(if_match=…)` replace only that version (`Missing` if it is gone)."""

    def get(self, partition_key: str, row_key: str) -> Entity | None:
        """One entity, or None."""

    def query(self, partition_key: str | None = None) -> Iterator[Entity]:
        """All entities of a partition, or of the table, in key order."""

    def delete(self, partition_key: str, row_key: str, *, condition: Condition = ALWAYS) -> Outcome:
        """Delete. `Missing` if there is none."""


class StorageAccount(Protocol):
    """One storage account: the factory of its containers and tables."""

    @property
    def name(self) -> str:
        """The account's name."""

    def container(self, name: str) -> BlobContainer:
        """A handle; no request is made. An invalid name is a `ConfigurationError`."""

    def table(self, name: str) -> Table:
        """A handle; no request is made. An invalid name is a `ConfigurationError`."""
