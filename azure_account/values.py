"""What the port takes and returns: outcomes, conditions, and what is stored of blobs and entities. Pure.

A write has four possible outcomes, which are values and not exceptions: `Done`, `Conflict`, `Missing` and `Unknown`.
`Unknown` means that the answer was lost: the service may have done it or not. Only the caller can find out, by reading
back something that it wrote. Every other failure is an error of `foundation/errors.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping
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
"""What a conditional write has come to."""


@dataclass(frozen=True)
class Condition:
    """The condition of a write: `ALWAYS`, `IF_ABSENT`, or `Condition(if_match=etag)`."""

    if_match: str | None = None
    if_absent: bool = False


ALWAYS = Condition()
"""Write whatever is stored."""
IF_ABSENT = Condition(if_absent=True)
"""Write only if there is no blob or entity of that name."""


@dataclass(frozen=True)
class BlobAttributes:
    """What is stored with a blob's bytes. `tier` is `Hot`, `Cool`, `Cold` or `Archive`."""

    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    tier: str | None = None
    content_type: str | None = None


JSON = BlobAttributes(content_type="application/json")
"""Of a blob that has a JSON document."""
NO_ATTRIBUTES = BlobAttributes()


@dataclass(frozen=True)
class BlobProperties:
    """A blob in a listing or by its properties. `size` is in bytes; an uncommitted blob has size 0 and no ETag.

    leased: whether a process held its lease when it was read, by the service's clock. lease_expired: whether its last
    lease has expired, and was neither released nor broken; the service does not show it in listings. tags: only in a
    listing that was asked for them. copy_status: of a blob that a copy has made `success`, `pending`, `aborted` or
    `failed`; not in listings.
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
    copy_status: str | None = None


@dataclass(frozen=True)
class BlobContent:
    """Bytes `[start, start + len(data))` of a blob, and the properties of the whole blob.

    age: seconds since the blob was last written, by the service's clock, when it was read.
    """

    data: bytes
    properties: BlobProperties
    age: float


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


@dataclass(frozen=True)
class Relocation:
    """Names that begin with `prefix` in one container, and `to` in `container`."""

    prefix: str
    container: str
    to: str

    def there(self, name: str) -> str:
        """The name that a blob has in the other container."""
        return self.to + name[len(self.prefix) :]

    def back(self, blob: BlobProperties) -> BlobProperties:
        """A blob of the other container under the name that it has here."""
        return blob if self.to == self.prefix else replace(blob, name=self.prefix + blob.name[len(self.to) :])
