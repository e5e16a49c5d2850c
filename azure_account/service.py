"""The service: each method is one attempt of one request. Pure.

`sdk/` implements it on Azure, `memory/` in memory. A method returns the answer, or raises one of the failures below, or
an error of `errors.py`, which is final. It does not retry. What a failure means for the caller is decided in one place,
`retrying/retry_loop.py`, so it is the same for Azure and the in-memory account.

    Failure
    ├── Throttled        the service rejected it without processing it: no effect, may be repeated
    ├── Unreached        no connection: no effect, may be repeated
    ├── Ambiguous        the answer was lost, or does not say whether there was an effect
    ├── ConditionFailed  a condition does not hold, or a lease forbids it: no effect
    └── Absent           the blob, entity or block does not exist: no effect
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azure_account.values import BlobAttributes, BlobContent, BlobProperties, Bytes, Condition, Entity

T = TypeVar("T")


class Failure(Exception):  # noqa: N818 - not an error yet: the retry loop makes it one, or an outcome
    """An attempt that did not succeed. For messages, `cause` is a clause and `next_step` a full sentence."""

    def __init__(self, cause: str, *, retry_after: float | None = None, next_step: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.retry_after = retry_after
        self.next_step = next_step


class Throttled(Failure):
    """The service rejected the request without processing it."""


class Unreached(Failure):
    """No connection was made."""


class Ambiguous(Failure):
    """The request may have had an effect or not."""


class ConditionFailed(Failure):
    """A condition does not hold, or a lease forbids the request."""


class Absent(Failure):
    """The blob, entity or block does not exist."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing. `marker` requests the next page; it is None on the last one."""

    items: Sequence[T]
    marker: str | None = None


class BlobService(Protocol):
    """Requests on containers and blobs. A missing container is a `NotFoundError`."""

    @property
    def account(self) -> str:
        """The account's name."""

    @property
    def blob_endpoint(self) -> str:
        """URL of the blob service, without credentials and trailing slash."""

    def create_container(self, container: str) -> None:
        """Create Container. `ConditionFailed` if it exists."""

    def container_exists(self, container: str) -> bool:
        """Get Container Properties."""

    def stage_block(self, container: str, blob: str, block_id: str, data: Bytes) -> None:
        """Put Block."""

    def commit_block_list(
        self, container: str, blob: str, block_ids: Sequence[str], attributes: BlobAttributes, condition: Condition
    ) -> str:
        """Put Block List; the new ETag. `Absent` if a block does not exist."""

    def put(
        self,
        container: str,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes,
        condition: Condition,
        lease_id: str | None,
    ) -> str:
        """Put Blob; the new ETag."""

    def get(self, container: str, blob: str, start: int, length: int, if_match: str | None) -> BlobContent:
        """Get Blob, one range; empty if `start` is at or past the end."""

    def properties(self, container: str, blob: str) -> BlobProperties:
        """Get Blob Properties."""

    def age(self, container: str, blob: str) -> float:
        """Get Blob Properties: seconds from `Last-Modified` to the answer's `Date`."""

    def block_ids(self, container: str, blob: str) -> Sequence[str]:
        """Get Block List, committed."""

    def list_page(
        self, container: str, prefix: str, start_from: str | None, marker: str | None, *, uncommitted: bool, tags: bool
    ) -> Page[BlobProperties]:
        """List Blobs, one page. It may begin before the name `start_from`."""

    def delete(self, container: str, blob: str, condition: Condition, lease_id: str | None) -> None:
        """Delete Blob."""

    def copy(self, container: str, blob: str, source: str, condition: Condition, source_etag: str) -> str | None:
        """Copy Blob, from a source in the container that has this ETag; the new ETag, None if the copy goes on.

        `Absent` if there is no source.
        """

    def undelete(self, container: str, blob: str) -> None:
        """Undelete Blob. `Absent` if there is no such blob, deleted or not."""

    def tags(self, container: str, blob: str) -> Mapping[str, str]:
        """Get Blob Tags."""

    def set_tags(self, container: str, blob: str, tags: Mapping[str, str]) -> None:
        """Set Blob Tags."""

    def acquire_lease(self, container: str, blob: str, lease_id: str, seconds: int) -> str:
        """Lease Blob, acquire; the blob's ETag."""

    def renew_lease(self, container: str, blob: str, lease_id: str) -> str:
        """Lease Blob, renew; the blob's ETag."""

    def release_lease(self, container: str, blob: str, lease_id: str) -> str:
        """Lease Blob, release; the blob's ETag."""

    def break_lease(self, container: str, blob: str) -> None:
        """Lease Blob, break with period 0."""


class TableService(Protocol):
    """Requests on tables. A missing table is a `NotFoundError`."""

    def create_table(self, table: str) -> None:
        """Create Table. `ConditionFailed` if it exists."""

    def insert_entity(self, table: str, entity: Entity) -> str:
        """Insert Entity; the new ETag. `ConditionFailed` if the keys exist."""

    def replace_entity(self, table: str, entity: Entity, if_match: str | None) -> str:
        """Insert Or Replace Entity, or Update Entity if `if_match` is given; the new ETag."""

    def get_entity(self, table: str, partition_key: str, row_key: str) -> Entity:
        """Query Entities, one entity."""

    def query_page(self, table: str, partition_key: str | None, marker: str | None) -> Page[Entity]:
        """Query Entities, one page in key order."""

    def delete_entity(self, table: str, partition_key: str, row_key: str, if_match: str | None) -> None:
        """Delete Entity."""
