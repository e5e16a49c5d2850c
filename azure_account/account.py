"""The port: the operations on one storage account that this project uses, and no others.

`RetryingAccount` implements it, over one of two services (`service.py`): `sdk/` sends requests to Azure, `memory/`
keeps everything in memory. `tests/azure_account/contract.py` runs the same tests on both.

A write has four possible outcomes, which are values and not exceptions: `Done`, `Conflict`, `Missing` and `Unknown`.
`Unknown` means that the answer was lost: the service may have done it or not. Only the caller can find out, by reading
back something that it wrote. Every other failure is an error of `errors.py`.
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
STAGED_SECONDS = 7 * 24 * 3600.0
"""How long Azure keeps the staged blocks of a blob after the last of them."""


@dataclass(frozen=True)
class Done:
    """The write was done; `etag` is the object's new ETag (empty after a delete)."""

    etag: str = ""


@dataclass(frozen=True)
class Conflict:
    """The condition does not hold, or a lease forbids the write; nothing was changed."""

    reason: str = ""


@dataclass(frozen=True)
class Missing:
    """The blob, the entity or a block of the block list does not exist; nothing was changed."""

    reason: str = ""


@dataclass(frozen=True)
class Unknown:
    """The answer was lost: the write may have been done. Read back what is stored before you decide."""

    reason: str = ""


Outcome: TypeAlias = Done | Conflict | Missing | Unknown


@dataclass(frozen=True)
class Condition:
    """The condition of a write: `ALWAYS`, `IF_ABSENT`, or `Condition(if_match=etag)`."""

    if_match: str | None = None
    if_absent: bool = False


ALWAYS = Condition()
IF_ABSENT = Condition(if_absent=True)


@dataclass(frozen=True)
class BlobAttributes:
    """What is stored with a blob's bytes. `tier` is `Hot`, `Cool`, `Cold` or `Archive`."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None
    content_type: str | None = None


NO_ATTRIBUTES = BlobAttributes()


@dataclass(frozen=True)
class BlobProperties:
    """A blob in a listing or by its properties. `size` is in bytes; an uncommitted blob has size 0 and no ETag.

    leased: whether a process held its lease when it was read, by the service's clock. lease_expired: whether its last
    lease has expired, and was neither released nor broken; the service does not show it in listings. tags: only in a
    listing that was asked for them.
    """

    name: str
    size: int
    etag: str
    last_modified: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None
    content_type: str | None = None
    committed: bool = True
    leased: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    lease_expired: bool = False


@dataclass(frozen=True)
class BlobContent:
    """Bytes `[start, start + len(data))` of a blob, and the properties of the whole blob.

    age: seconds since the blob was last written, by the service's clock, when it was read.
    """

    data: bytes
    properties: BlobProperties
    age: float


class BlobContainer(Protocol):
    """One container. Blob names are not URL-encoded. All methods block until they are done; all are thread-safe."""

    @property
    def name(self) -> str:
        """The container's name."""

    @property
    def url(self) -> str:
        """The container's URL without credentials, for messages."""

    @property
    def failed_attempts(self) -> int:
        """Requests of this process to this account that were throttled or got no answer so far."""

    def create(self) -> bool:
        """Create the container if it is absent. True if this call created it."""

    def exists(self) -> bool:
        """Whether the container exists."""

    def stage_block(self, blob: str, block_id: str, data: Bytes) -> None:
        """Upload one block, which is not visible until a block list names it. Idempotent.

        block_id: 1–64 ASCII characters, as many as the other ids of the blob.
        data: 1 byte to 4,000 MiB.

        Azure drops the staged blocks of a blob seven days after the last one was staged, and those that a committed
        block list does not name at once.
        """

    def commit_block_list(
        self,
        blob: str,
        block_ids: Sequence[str],
        attributes: BlobAttributes = NO_ATTRIBUTES,
        *,
        condition: Condition = ALWAYS,
    ) -> Outcome:
        """Make a blob of blocks.

        block_ids: of staged or committed blocks, in the order of the blob.
        attributes: metadata, index tags and tier of the blob.
        condition: on what has the name.

        Without a condition it is idempotent and retried. `Missing` if a block does not exist: it has expired, or
        another commit has dropped it.
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

        attributes: metadata, index tags and tier of the blob.
        condition: on what has the name.
        lease_id: of the lease that protects the blob.

        Without a condition it is retried, and `Unknown` only if an answer is lost and the repeat has a conflict.
        """

    def get(self, blob: str, start: int = 0, length: int | None = None, *, if_match: str | None = None) -> BlobContent:
        """Read a blob or a range of it, as far as the blob goes.

        start, length: the range in bytes; by default the whole blob.
        if_match: the ETag that the blob must have.

        `NotFoundError` if the blob does not exist, `ConflictError` if its ETag is not `if_match` any more.
        """

    def properties(self, blob: str) -> BlobProperties | None:
        """Properties of a committed blob; None if it does not exist."""

    def age(self, blob: str) -> float | None:
        """Seconds since a committed blob was last written, by the service's clock; None if it does not exist."""

    def block_ids(self, blob: str) -> Sequence[str]:
        """The ids of a blob's committed blocks, in order; none if it does not exist or was not made of blocks."""

    def list(
        self, prefix: str = "", *, start_from: str | None = None, uncommitted: bool = False, tags: bool = False
    ) -> Iterator[BlobProperties]:
        """Blobs in the order of their names.

        prefix: how the names begin.
        start_from: the first name.
        uncommitted: blobs too that have staged blocks only.
        tags: with index tags, for which the identity needs the right to read them.
        """

    def delete(self, blob: str, *, condition: Condition = ALWAYS, lease_id: str | None = None) -> Outcome:
        """Delete a blob, or the staged blocks of an uncommitted one. `Missing` if it does not exist.

        condition: on the blob. lease_id: of the lease that protects it.

        `Done` if an answer is lost and the repeated request finds no blob.
        """

    def undelete(self, blob: str) -> Outcome:
        """Bring back a deleted blob that the account's soft delete has kept. `Missing` if it has kept none.

        `Done` too, without effect, if the blob is there. An account with versioning may answer `Done` and leave the
        blob absent, because it keeps what was deleted as a version: read the blob before you rely on it.
        """

    def tags(self, blob: str) -> Mapping[str, str]:
        """The blob's index tags. `NotFoundError` if the blob does not exist."""

    def set_tags(self, blob: str, tags: Mapping[str, str]) -> Outcome:
        """Replace the blob's index tags."""

    def acquire_lease(self, blob: str, lease_id: str, seconds: int) -> Outcome:
        """Acquire the lease of a blob. Lease requests are not retried.

        lease_id: a UUID that the caller chooses. seconds: 15 to 60.
        """

    def renew_lease(self, blob: str, lease_id: str) -> Outcome:
        """Renew the lease. `Conflict` if another holder has it, or it was broken."""

    def release_lease(self, blob: str, lease_id: str) -> Outcome:
        """Release the lease."""

    def break_lease(self, blob: str) -> Outcome:
        """Break the lease at once, even if another process holds it."""


@dataclass(frozen=True)
class Entity:
    """One entity of a table: keys, properties, and the ETag for a conditional write.

    age: seconds since it was last written, by the service's clock (to the second), when it was read.
    """

    partition_key: str
    row_key: str
    properties: Mapping[str, str | int | float | bool]
    etag: str = ""
    age: float | None = field(default=None, compare=False)


class Table(Protocol):
    """One table of Azure Table storage. Keys may not contain slashes, backslashes, `#`, `?` or control characters."""

    @property
    def name(self) -> str:
        """The table's name."""

    def create(self) -> bool:
        """Create the table if it is absent. True if this call created it."""

    def insert(self, entity: Entity) -> Outcome:
        """Insert an entity. `Conflict` if its keys exist."""

    def replace(self, entity: Entity, *, condition: Condition = ALWAYS) -> Outcome:
        """Insert or replace; with `Condition(if_match=…)` replace that version only (`Missing` without one)."""

    def get(self, partition_key: str, row_key: str) -> Entity | None:
        """One entity; None if it does not exist."""

    def query(self, partition_key: str | None = None) -> Iterator[Entity]:
        """All entities of a partition, or of the table, in key order."""

    def delete(self, partition_key: str, row_key: str, *, condition: Condition = ALWAYS) -> Outcome:
        """Delete an entity. `Missing` if it does not exist.

        condition: on the entity.
        """


class StorageAccount(Protocol):
    """One storage account, from which its containers and tables are obtained."""

    @property
    def name(self) -> str:
        """The account's name."""

    def container(self, name: str) -> BlobContainer:
        """A handle; no request is made. An invalid name is a `ConfigurationError`."""

    def table(self, name: str) -> Table:
        """A handle; no request is made. An invalid name is a `ConfigurationError`."""
