"""A service in which some folders of a container are kept elsewhere, under the names that they would have there.

read     hub/0/2026/…       ─► hub/0/2026/…      in the container
         hub/_log/…         ─► logs/hub/_log/…   in another one
LIST     hub/               ─► both; the folders that are kept elsewhere come last
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from azure_account.service import Page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azure_account.service import BlobService
    from azure_account.values import BlobAttributes, BlobContent, BlobProperties, Bytes, Condition, Relocation

_NEXT = "\0"
"""Begins the marker of a page of the folder whose number follows."""


@dataclass(frozen=True)
class RelocatedService:
    """The `BlobService` of one container, some folders of which are elsewhere."""

    service: BlobService
    relocations: tuple[Relocation, ...]

    @property
    def account(self) -> str:
        """The account's name."""
        return self.service.account

    @property
    def blob_endpoint(self) -> str:
        """URL of the blob service."""
        return self.service.blob_endpoint

    def _place(self, container: str, blob: str) -> tuple[str, str]:
        """Container and name of a blob."""
        for each in self.relocations:
            if blob.startswith(each.prefix):
                return each.container, each.to + blob[len(each.prefix) :]
        return container, blob

    def create_container(self, container: str) -> None:
        """As of the service."""
        self.service.create_container(container)

    def container_exists(self, container: str) -> bool:
        """As of the service."""
        return self.service.container_exists(container)

    def stage_block(self, container: str, blob: str, block_id: str, data: Bytes) -> None:
        """As of the service."""
        self.service.stage_block(*self._place(container, blob), block_id, data)

    def commit_block_list(
        self, container: str, blob: str, block_ids: Sequence[str], attributes: BlobAttributes, condition: Condition
    ) -> str:
        """As of the service."""
        return self.service.commit_block_list(*self._place(container, blob), block_ids, attributes, condition)

    def put(
        self,
        container: str,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes,
        condition: Condition,
        lease_id: str | None,
    ) -> str:
        """As of the service."""
        return self.service.put(*self._place(container, blob), data, attributes, condition, lease_id)

    def get(self, container: str, blob: str, start: int, length: int, if_match: str | None) -> BlobContent:
        """As of the service."""
        found = self.service.get(*self._place(container, blob), start, length, if_match)
        return replace(found, properties=replace(found.properties, name=blob))

    def properties(self, container: str, blob: str) -> BlobProperties:
        """As of the service."""
        return replace(self.service.properties(*self._place(container, blob)), name=blob)

    def age(self, container: str, blob: str) -> float:
        """As of the service."""
        return self.service.age(*self._place(container, blob))

    def block_ids(self, container: str, blob: str) -> Sequence[str]:
        """As of the service."""
        return self.service.block_ids(*self._place(container, blob))

    def list_page(
        self, container: str, prefix: str, start_from: str | None, marker: str | None, *, uncommitted: bool, tags: bool
    ) -> Page[BlobProperties]:
        """As of the service, but that names of folders that are elsewhere come last."""
        inside = next((each for each in self.relocations if prefix.startswith(each.prefix)), None)
        if inside is not None:
            return self._page_of(inside, prefix, start_from, marker, uncommitted=uncommitted, tags=tags)
        below = [each for each in self.relocations if each.prefix.startswith(prefix)]
        if marker is None or not marker.startswith(_NEXT):
            page = self.service.list_page(container, prefix, start_from, marker, uncommitted=uncommitted, tags=tags)
            own = tuple(item for item in page.items if self._place(container, item.name)[1] == item.name)
            return Page(own, page.marker or (f"{_NEXT}0{_NEXT}" if below else None))
        number, own_marker = marker[1:].split(_NEXT, 1)
        each = below[int(number)]
        page = self._page_of(each, each.prefix, start_from, own_marker or None, uncommitted=uncommitted, tags=tags)
        if page.marker is not None:
            return Page(page.items, f"{_NEXT}{number}{_NEXT}{page.marker}")
        return Page(page.items, f"{_NEXT}{int(number) + 1}{_NEXT}" if int(number) + 1 < len(below) else None)

    def _page_of(
        self, of: Relocation, prefix: str, start_from: str | None, marker: str | None, *, uncommitted: bool, tags: bool
    ) -> Page[BlobProperties]:
        """A page of a folder that is elsewhere."""
        start = None
        if start_from is not None and start_from.startswith(of.prefix):
            start = of.to + start_from[len(of.prefix) :]
        elsewhere = of.to + prefix[len(of.prefix) :]
        page = self.service.list_page(of.container, elsewhere, start, marker, uncommitted=uncommitted, tags=tags)
        return Page(tuple(map(of.back, page.items)), page.marker)

    def delete(self, container: str, blob: str, condition: Condition, lease_id: str | None) -> None:
        """As of the service."""
        self.service.delete(*self._place(container, blob), condition, lease_id)

    def copy(self, container: str, blob: str, source: str, condition: Condition, source_etag: str) -> str | None:
        """As of the service: what is copied is in no folder that is kept elsewhere."""
        return self.service.copy(container, blob, source, condition, source_etag)

    def undelete(self, container: str, blob: str) -> None:
        """As of the service."""
        self.service.undelete(*self._place(container, blob))

    def tags(self, container: str, blob: str) -> Mapping[str, str]:
        """As of the service."""
        return self.service.tags(*self._place(container, blob))

    def set_tags(self, container: str, blob: str, tags: Mapping[str, str]) -> None:
        """As of the service."""
        self.service.set_tags(*self._place(container, blob), tags)

    def acquire_lease(self, container: str, blob: str, lease_id: str, seconds: int) -> str:
        """As of the service."""
        return self.service.acquire_lease(*self._place(container, blob), lease_id, seconds)

    def renew_lease(self, container: str, blob: str, lease_id: str) -> str:
        """As of the service."""
        return self.service.renew_lease(*self._place(container, blob), lease_id)

    def release_lease(self, container: str, blob: str, lease_id: str) -> str:
        """As of the service."""
        return self.service.release_lease(*self._place(container, blob), lease_id)

    def break_lease(self, container: str, blob: str) -> None:
        """As of the service."""
        self.service.break_lease(*self._place(container, blob))
