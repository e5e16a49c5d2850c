"""The operations on one container that this project uses, and no others: a part of the port.

A method checks names, follows pages, and has its requests repeated by the retry loop. Below is one of two services
(`service.py`): `sdk/` sends requests to Azure, `memory/` keeps everything in memory. `tests/azure_account/contract.py`
runs the same tests on both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account import names
from azure_account.retrying.retry_loop import Request, RetryLoop
from azure_account.values import ALWAYS, NO_ATTRIBUTES, BlobContent, Done, Outcome, Relocation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from azure_account.service import BlobService
    from azure_account.values import BlobAttributes, BlobProperties, Bytes, Condition

# Bytes of one GET: little is repeated after a lost connection, and an attempt stays within its time limit.
READ_CHUNK_BYTES = 32 * 1024 * 1024


class BlobContainer:
    """One container. Blob names are not URL-encoded. All methods block until they are done; all are thread-safe."""

    def __init__(self, name: str, service: BlobService, retry_loop: RetryLoop, *relocations: Relocation) -> None:
        self.name = name
        self._service = service
        self._retry_loop = retry_loop
        self._relocations, self._own = relocations, Relocation("", name, "")
        self.lists_from_name: bool = True
        """Whether listings begin at `start_from`, as far as is known: an older service begins with the first name."""

    @property
    def url(self) -> str:
        """The container's URL without credentials, for messages."""
        return f"{self._service.blob_endpoint}/{self.name}"

    @property
    def failed_attempts(self) -> int:
        """Requests of this process to this account that were throttled or got no answer so far."""
        return self._retry_loop.failed.total

    def __repr__(self) -> str:
        return f"BlobContainer({self.url})"

    def relocated(self, *relocations: Relocation) -> BlobContainer:
        """The container with some folders, if any, elsewhere in the account. Nothing is copied to or from these."""
        return BlobContainer(self.name, self._service, self._retry_loop, *relocations)

    @property
    def is_relocated(self) -> bool:
        """Whether some folders of it are elsewhere."""
        return bool(self._relocations)

    def _place(self, blob: str) -> Relocation:
        """Where names that begin like this one are."""
        for each in self._relocations:
            if blob.startswith(each.prefix):
                return each
        return self._own

    def _at(self, blob: str) -> tuple[str, str]:
        """Container and name of a blob, as the service has it."""
        place = self._place(blob)
        return place.container, place.there(blob)

    def create(self) -> bool:
        """Create the container if it is absent. True if this call created it."""
        return self._retry_loop.create(
            Request("create_container", self.name), lambda: self._service.create_container(self.name)
        )

    def exists(self) -> bool:
        """Whether the container exists."""
        return self._retry_loop.repeat(
            Request("container_exists", self.name), lambda: self._service.container_exists(self.name)
        )

    def stage_block(self, blob: str, block_id: str, data: Bytes) -> None:
        """Upload one block, which is not visible until a block list names it. Idempotent.

        block_id: 1–64 ASCII characters, as many as the other ids of the blob.
        data: 1 byte to 4,000 MiB.

        Azure drops the staged blocks of a blob seven days after the last one was staged, and those that a committed
        block list does not name at once.
        """
        names.check_block(block_id, data)
        request = self._request("stage_block", blob)
        self._retry_loop.repeat(request, lambda: self._service.stage_block(*self._at(blob), block_id, data))

    def commit_block_list(
        self,
        blob: str,
        block_ids: Sequence[str],
        attributes: BlobAttributes = NO_ATTRIBUTES,
        *,
        condition: Condition = ALWAYS,
    ) -> Outcome:
        """Make a blob of these blocks."""
        names.check_block_list(block_ids)
        names.check_attributes(attributes)
        return self._retry_loop.write(
            self._request("commit_block_list", blob),
            lambda: self._service.commit_block_list(*self._at(blob), block_ids, attributes, condition),
            conditional=condition != ALWAYS,
        )

    def put(
        self,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes = NO_ATTRIBUTES,
        *,
        condition: Condition = ALWAYS,
        lease_id: str | None = None,
    ) -> Outcome:
        """Write a whole blob in one request."""
        names.check_attributes(attributes)
        return self._retry_loop.write(
            self._request("put", blob),
            lambda: self._service.put(*self._at(blob), data, attributes, condition, lease_id),
            conditional=condition != ALWAYS or lease_id is not None,
        )

    def get(self, blob: str, start: int = 0, length: int | None = None, *, if_match: str | None = None) -> BlobContent:
        """Read a blob or a range of it, as far as the blob goes.

        start, length: the range in bytes; by default the whole blob.
        if_match: the ETag that the blob must have.

        `NotFoundError` if the blob does not exist, `ConflictError` if its ETag is not `if_match` any more.
        """
        wanted = READ_CHUNK_BYTES if length is None else min(length, READ_CHUNK_BYTES)
        first = self._range(blob, start, wanted, if_match)
        end = first.properties.size if length is None else min(start + length, first.properties.size)
        at = start + len(first.data)
        if at >= end:
            return first
        parts = [first.data]
        while at < end:
            part = self._range(blob, at, min(READ_CHUNK_BYTES, end - at), first.properties.etag)
            parts.append(part.data)
            at += len(part.data)
        return BlobContent(b"".join(parts), first.properties, first.age)

    def properties(self, blob: str) -> BlobProperties | None:
        """Properties of a committed blob; None if it does not exist."""
        found = self._retry_loop.find(
            self._request("properties", blob), lambda: self._service.properties(*self._at(blob)), None
        )
        return None if found is None else self._place(blob).back(found)

    def age(self, blob: str) -> float | None:
        """Seconds since a committed blob was last written, by the service's clock; None if it does not exist."""
        return self._retry_loop.find(self._request("age", blob), lambda: self._service.age(*self._at(blob)), None)

    def block_ids(self, blob: str) -> Sequence[str]:
        """The ids of a blob's committed blocks, in order; none if it does not exist or was not made of blocks."""
        return self._retry_loop.find(
            self._request("block_ids", blob), lambda: self._service.block_ids(*self._at(blob)), ()
        )

    def list(
        self, prefix: str = "", *, start_from: str | None = None, uncommitted: bool = False, tags: bool = False
    ) -> Iterator[BlobProperties]:
        """Blobs whose name begins with `prefix`, in name order, from the name `start_from` on.

        Those of folders that are elsewhere come last.
        """
        place = self._place(prefix)
        below = [each for each in self._relocations if each.prefix.startswith(prefix)] if place is self._own else []
        for each in (place, *below):
            for blob in self._listed(each, prefix, start_from, uncommitted=uncommitted, tags=tags):
                if (start_from is None or blob.name >= start_from) and self._place(blob.name) is each:
                    yield self._with_state(blob) if uncommitted else blob

    def _listed(
        self, place: Relocation, prefix: str, start_from: str | None, *, uncommitted: bool, tags: bool
    ) -> Iterator[BlobProperties]:
        """Blobs of one place. They may begin before the name `start_from`."""
        request, marker = Request("list_tags" if tags else "list", self.name, prefix), None
        there = place.there(max(prefix, place.prefix, key=len))
        start = None if start_from is None or not start_from.startswith(place.prefix) else place.there(start_from)
        while True:
            page = self._retry_loop.repeat(
                request,
                lambda marker=marker: self._service.list_page(  # type: ignore[misc]
                    place.container, there, start, marker, uncommitted=uncommitted, tags=tags
                ),
            )
            if start is not None and page.items and page.items[0].name < start:
                self.lists_from_name = False
            yield from map(place.back, page.items)
            marker = page.marker
            if marker is None:
                return

    def delete(self, blob: str, *, condition: Condition = ALWAYS, lease_id: str | None = None) -> Outcome:
        """Delete a blob, or the staged blocks of an uncommitted one. `Missing` if it does not exist.

        condition: on the blob. lease_id: of the lease that protects it.

        `Done` if an answer is lost and the repeated request finds no blob.
        """
        return self._retry_loop.write(
            self._request("delete", blob),
            lambda: self._service.delete(*self._at(blob), condition, lease_id),
            conditional=condition != ALWAYS or lease_id is not None,
            absent_is=Done(),
        )

    def copy(self, blob: str, source: str, *, source_etag: str, condition: Condition = ALWAYS) -> Outcome:
        """Copy a blob of the container on the server, with its block ids and metadata, without index tags and tier.

        source_etag: `Conflict` if the source has another ETag. condition: on the copy. `Missing` without a source.
        Reading the source takes a permission of its own.

        `Done` without an ETag if the copy goes on: properties show how it ends, and meanwhile the source must stay.
        """
        names.check_blob(source)
        return self._retry_loop.write(
            self._request("copy", blob),
            lambda: self._service.copy(self.name, blob, source, condition, source_etag),
            conditional=True,
        )

    def undelete(self, blob: str) -> Outcome:
        """Bring back a deleted blob that the account's soft delete has kept. `Missing` if it has kept none.

        `Done` too, without effect, if the blob is there. An account with versioning may answer `Done` and leave the
        blob absent, because it keeps what was deleted as a version: read the blob before you rely on it.
        """
        return self._retry_loop.write(
            self._request("undelete", blob), lambda: self._service.undelete(*self._at(blob)), conditional=False
        )

    def tags(self, blob: str) -> Mapping[str, str]:
        """The blob's index tags. `NotFoundError` if the blob does not exist."""
        return self._retry_loop.repeat(self._request("tags", blob), lambda: self._service.tags(*self._at(blob)))

    def set_tags(self, blob: str, tags: Mapping[str, str]) -> Outcome:
        """Replace the blob's index tags."""
        names.check_tags(tags)
        return self._retry_loop.write(
            self._request("set_tags", blob),
            lambda: self._service.set_tags(*self._at(blob), tags),
            conditional=False,
        )

    def acquire_lease(self, blob: str, lease_id: str, seconds: int) -> Outcome:
        """Acquire the lease of a blob. Lease requests are not retried.

        lease_id: a UUID that the caller chooses. seconds: 15 to 60.
        """
        names.check_lease(lease_id, seconds)
        return self._retry_loop.once(
            self._request("acquire_lease", blob),
            lambda: self._service.acquire_lease(*self._at(blob), lease_id, seconds),
        )

    def renew_lease(self, blob: str, lease_id: str) -> Outcome:
        """Renew the lease. `Conflict` if another holder has it, or it was broken."""
        names.check_lease(lease_id)
        request = self._request("renew_lease", blob)
        return self._retry_loop.once(request, lambda: self._service.renew_lease(*self._at(blob), lease_id))

    def release_lease(self, blob: str, lease_id: str) -> Outcome:
        """Release the lease."""
        names.check_lease(lease_id)
        request = self._request("release_lease", blob)
        return self._retry_loop.once(request, lambda: self._service.release_lease(*self._at(blob), lease_id))

    def break_lease(self, blob: str) -> Outcome:
        """Break the lease at once, even if another process holds it."""
        request = self._request("break_lease", blob)
        return self._retry_loop.once(request, lambda: self._service.break_lease(*self._at(blob)))

    def _with_state(self, item: BlobProperties) -> BlobProperties:
        """The item with `committed` set right: a listing does not distinguish an empty blob from an uncommitted one."""
        if item.size or not item.committed or self.properties(item.name) is not None:
            return item
        return replace(item, etag="", committed=False)

    def _request(self, operation: str, blob: str) -> Request:
        names.check_blob(blob)
        return Request(operation, self.name, blob)

    def _range(self, blob: str, start: int, length: int, if_match: str | None) -> BlobContent:
        request = self._request("get", blob)
        found = self._retry_loop.repeat(request, lambda: self._service.get(*self._at(blob), start, length, if_match))
        place = self._place(blob)
        return found if place is self._own else replace(found, properties=place.back(found.properties))
