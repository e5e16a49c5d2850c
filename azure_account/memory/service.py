"""`BlobService` in memory, for tests and trials: the rules of Azure without its latency.

It has the rules that matter to a writer: staged blocks expire after seven days, and are dropped by a commit that does
not name them; block ids of a blob have one length; there are limits of 50,000 and 100,000 blocks; ETags, conditions,
leases and tags. Thread-safe, within one process.
"""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from azure_account.memory import leases
from azure_account.memory.tables import MemoryTables
from azure_account.names import MAX_STAGED_BLOCKS
from azure_account.service import Absent, ConditionFailed, Page
from azure_account.values import NO_ATTRIBUTES, STAGED_SECONDS, BlobAttributes, BlobContent, BlobProperties
from foundation.clock import Clock, ManualClock
from foundation.errors import ConfigurationError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from azure_account.values import Bytes, Condition


# The most that one answer of Azure has.
PAGE_BLOBS = 5000


@dataclass(frozen=True)
class ServiceAssumptions:
    """What the service does where this is not verified on Azure, which may differ from the emulator. Tests try both.

    list_before_condition: Put Block List checks the blocks before If-None-Match, so that it answers `InvalidBlockList`
      and not `BlobAlreadyExists` if a block is missing and the blob exists.
    delete_keeps_blocks: Delete Blob leaves the blocks that were staged for the name after the blob was committed.
    dated_by_first_block: an uncommitted blob is listed with the time of its first block, not of the last.
    copy_looks: a copy goes on after its answer, until its properties were looked at so often.
    create_only: the credential is a SAS that allows to create blobs and not to overwrite them, so a write to a blob
      that exists is refused with `UnauthorizedBlobOverwrite`, whatever its condition.
    lists_from_name: a listing can begin at a name, as from service version 2026-02-06 on. Azurite ignores that.
    """

    list_before_condition: bool = False
    delete_keeps_blocks: bool = False
    dated_by_first_block: bool = False
    create_only: bool = False
    lists_from_name: bool = True
    copy_looks: int = 0


@dataclass
class _Blob:
    """What is stored under one name: the committed blob, if `etag` is set, and staged blocks."""

    blocks: dict[str, bytes] = field(default_factory=dict)
    data: bytes | tuple[bytes, ...] = b""
    size: int = 0
    etag: str = ""
    written: float = 0.0
    attributes: BlobAttributes = NO_ATTRIBUTES
    staged: dict[str, bytes] = field(default_factory=dict)
    staged_since: float = 0.0
    staged_at: float = 0.0
    lease: leases.LeaseRecord | None = None
    copy_status: str | None = None
    copy_of: str = ""
    copy_looks: int = 0

    def content(self) -> bytes:
        """The committed bytes. Blocks are joined at the first read."""
        if isinstance(self.data, tuple):
            self.data = b"".join(self.data)
        return self.data


class _Container(dict[str, _Blob]):
    """The blobs of a container by name. Names are sorted for the first listing after one was added or deleted."""

    _sorted: list[str] | None = None

    def __setitem__(self, name: str, blob: _Blob) -> None:
        if name not in self:
            self._sorted = None
        super().__setitem__(name, blob)

    def __delitem__(self, name: str) -> None:
        self._sorted = None
        super().__delitem__(name)

    def names(self, first: str, prefix: str) -> Iterator[str]:
        """The names that begin with `prefix`, from `first` on, in order. `first` is not below `prefix`."""
        if self._sorted is None:
            self._sorted = sorted(self)
        names = self._sorted
        for place in range(bisect_left(names, first), len(names)):
            name = names[place]
            if not name.startswith(prefix):
                return
            yield name


class MemoryService:
    """The state of one account: it is a `BlobService`, and `tables` is its `TableService`."""

    def __init__(
        self,
        account: str = "memory",
        clock: Clock | None = None,
        behaviour: ServiceAssumptions | None = None,
        *,
        soft_delete: float | None = None,
    ) -> None:
        """soft_delete: for how many seconds deleted blobs can be undeleted; by default they cannot."""
        self.behaviour: ServiceAssumptions = behaviour or ServiceAssumptions()
        self.account = account
        self.blob_endpoint: str = f"memory://{account}"
        self.clock: Clock = clock or ManualClock()
        self._containers: dict[str, _Container] = {}
        self._soft_delete = soft_delete
        self._deleted: dict[tuple[str, str], tuple[float, _Blob]] = {}  # the last of each name, until a time
        self._lock = threading.RLock()
        self._versions = itertools.count(1)
        self.tables: MemoryTables = MemoryTables(self._new_etag, self.clock)

    def create_container(self, container: str) -> None:
        with self._lock:
            if container in self._containers:
                raise ConditionFailed("ContainerAlreadyExists: the container exists")
            self._containers[container] = _Container()

    def container_exists(self, container: str) -> bool:
        return container in self._containers

    def stage_block(self, container: str, blob: str, block_id: str, data: Bytes) -> None:
        with self._lock:
            blobs = self._blobs(container)
            found = self._blob(blobs, blob) or _Blob()
            leases.check_write(found.lease, None, self.clock.now())
            _check_block(found, block_id)
            blobs[blob] = found
            if not found.staged:
                found.staged_since = self.clock.now()
            found.staged[block_id] = bytes(data)
            found.staged_at = self.clock.now()

    def commit_block_list(
        self, container: str, blob: str, block_ids: Sequence[str], attributes: BlobAttributes, condition: Condition
    ) -> str:
        """Put Block List. A block id means the staged block if there is one, else the committed one."""
        with self._lock:
            blobs = self._blobs(container)
            found = self._blob(blobs, blob) or _Blob()
            if self.behaviour.list_before_condition:
                _blocks(found, block_ids)
            self._check_overwrite(found, condition, None)
            listed = _blocks(found, block_ids)
            blobs[blob] = found
            self._write(found, tuple(listed), dict(zip(block_ids, listed, strict=True)), attributes)
            self.changed(container, blob)
            return found.etag

    def put(
        self,
        container: str,
        blob: str,
        data: Bytes,
        attributes: BlobAttributes,
        condition: Condition,
        lease_id: str | None,
    ) -> str:
        """Put Blob. It drops the blob's staged blocks."""
        with self._lock:
            blobs = self._blobs(container)
            found = self._blob(blobs, blob) or _Blob()
            self._check_overwrite(found, condition, lease_id)
            blobs[blob] = found
            self._write(found, (bytes(data),), {}, attributes)
            self.changed(container, blob)
            return found.etag

    def get(self, container: str, blob: str, start: int, length: int, if_match: str | None) -> BlobContent:
        with self._lock:
            found = self._committed(container, blob)
            if if_match not in {None, "*", found.etag}:
                raise ConditionFailed("ConditionNotMet: the blob is another version")
            if found.attributes.tier == "Archive":
                raise ConfigurationError(f"Blob {container}/{blob} is archived. Rehydrate it before you read it.")
            data = found.content()[start : start + length]
            return BlobContent(
                data, replace(self._properties(blob, found), tier=None), self.clock.now() - found.written
            )

    def properties(self, container: str, blob: str) -> BlobProperties:
        with self._lock:
            found = self._committed(container, blob)
            shown = self._properties(blob, found)
            if found.copy_status == "pending":
                found.copy_looks -= 1
                found.copy_status = "pending" if found.copy_looks else "success"
            return shown

    def age(self, container: str, blob: str) -> float:
        with self._lock:
            return self.clock.now() - self._committed(container, blob).written

    def block_ids(self, container: str, blob: str) -> Sequence[str]:
        with self._lock:
            return list(self._committed(container, blob).blocks)

    def list_page(
        self, container: str, prefix: str, start_from: str | None, marker: str | None, *, uncommitted: bool, tags: bool
    ) -> Page[BlobProperties]:
        first = max(prefix, (start_from or "") if self.behaviour.lists_from_name else "", marker or "")
        with self._lock:
            blobs = self._blobs(container)
            found = ((name, self._blob(blobs, name)) for name in blobs.names(first, prefix))
            committed = ((name, blob) for name, blob in found if blob is not None and (blob.etag or uncommitted))
            shown = list(itertools.islice(committed, PAGE_BLOBS + 1))
            items = tuple(
                replace(self._properties(name, blob), tags=dict(blob.attributes.tags) if tags else {})
                for name, blob in shown[:PAGE_BLOBS]
            )
        return Page(items, shown[PAGE_BLOBS][0] if len(shown) > PAGE_BLOBS else None)

    def delete(self, container: str, blob: str, condition: Condition, lease_id: str | None) -> None:
        """Delete Blob, and its staged blocks unless `behaviour` says that they are kept."""
        with self._lock:
            blobs = self._blobs(container)
            found = self._blob(blobs, blob)
            if found is None:
                raise Absent("BlobNotFound: there is no such blob")
            self._check_write(found, condition, lease_id)
            del blobs[blob]
            for copy in blobs.values():
                if copy.copy_status == "pending" and copy.copy_of == blob:
                    copy.copy_status, copy.data, copy.size = "failed", b"", 0
            if found.etag and self._soft_delete is not None:
                kept = replace(found, staged={}, lease=None)
                self._deleted[container, blob] = self.clock.now() + self._soft_delete, kept
            if self.behaviour.delete_keeps_blocks and found.etag and found.staged:
                blobs[blob] = _Blob(staged=found.staged, staged_since=found.staged_since, staged_at=found.staged_at)
            self.changed(container, blob)

    def copy(self, container: str, blob: str, source: str, condition: Condition, source_etag: str) -> str | None:
        """Copy Blob. It has the blocks of its source, whose delete ends a copy that goes on."""
        with self._lock:
            blobs, of = self._blobs(container), self._committed(container, source)
            if source_etag != of.etag:
                raise ConditionFailed("SourceConditionNotMet: the source is another version")
            found = self._blob(blobs, blob) or _Blob()
            if found.copy_status == "pending":
                raise ConditionFailed("PendingCopyOperation: a copy goes on")
            self._check_overwrite(found, condition, None)
            blobs[blob] = found
            self._write(found, (of.content(),), dict(of.blocks), replace(of.attributes, tags={}, tier=None))
            found.copy_of, found.copy_looks = source, self.behaviour.copy_looks
            found.copy_status = "pending" if found.copy_looks else "success"
            self.changed(container, blob)
            return None if found.copy_looks else found.etag

    def undelete(self, container: str, blob: str) -> None:
        with self._lock:
            found = self._blobs(container).get(blob)
            if found is None or not found.etag:
                until, deleted = self._deleted.pop((container, blob), (0.0, None))
                if deleted is None or self.clock.now() >= until:
                    raise Absent("BlobNotFound: there is no such blob, deleted or not")
                self._blobs(container)[blob] = deleted
                self.changed(container, blob)

    def tags(self, container: str, blob: str) -> Mapping[str, str]:
        with self._lock:
            return dict(self._committed(container, blob).attributes.tags)

    def set_tags(self, container: str, blob: str, tags: Mapping[str, str]) -> None:
        """Set Blob Tags. The ETag does not change."""
        with self._lock:
            found = self._committed(container, blob)
            leases.check_write(found.lease, None, self.clock.now())
            found.attributes = replace(found.attributes, tags=dict(tags))

    def acquire_lease(self, container: str, blob: str, lease_id: str, seconds: int) -> str:
        with self._lock:
            found = self._committed(container, blob)
            found.lease = leases.acquire(found.lease, lease_id, seconds, self.clock.now())
            return found.etag

    def renew_lease(self, container: str, blob: str, lease_id: str) -> str:
        with self._lock:
            found = self._committed(container, blob)
            found.lease = leases.renew(found.lease, lease_id, self.clock.now())
            return found.etag

    def release_lease(self, container: str, blob: str, lease_id: str) -> str:
        with self._lock:
            found = self._committed(container, blob)
            leases.release(found.lease, lease_id)
            found.lease = None
            return found.etag

    def break_lease(self, container: str, blob: str) -> None:
        with self._lock:
            found = self._committed(container, blob)
            found.lease = leases.broken(found.lease)

    def contents(self, container: str) -> dict[str, bytes]:
        """All committed blobs of a container, in name order. For tests: no request, so no faults."""
        with self._lock:
            blobs = self._containers.get(container, _Container())
            return {name: blobs[name].content() for name in sorted(blobs) if blobs[name].etag}

    def staged(self, container: str) -> dict[str, tuple[str, ...]]:
        """The ids of staged blocks by blob. For tests: no request, so no faults."""
        with self._lock:
            blobs = self._containers.get(container, _Container())
            alive = {name: self._blob(blobs, name) for name in sorted(blobs)}
            return {name: tuple(blob.staged) for name, blob in alive.items() if blob is not None and blob.staged}

    def changed(self, container: str, blob: str) -> None:
        """Called after a blob was committed, put, deleted or undeleted. A test that watches it overrides this."""

    def _new_etag(self) -> str:
        return f'"0x8D{next(self._versions):013X}"'

    def _blobs(self, container: str) -> _Container:
        try:
            return self._containers[container]
        except KeyError:
            raise NotFoundError(f"Container {container} does not exist. Create it first.") from None

    def _blob(self, blobs: dict[str, _Blob], name: str) -> _Blob | None:
        """What is stored under `name`. Expired blocks are dropped first, and the name if nothing else is under it."""
        found = blobs.get(name)
        if found is not None and found.staged and self.clock.now() >= found.staged_at + STAGED_SECONDS:
            found.staged.clear()
            if not found.etag:
                del blobs[name]
                return None
        return found

    def _committed(self, container: str, blob: str) -> _Blob:
        found = self._blobs(container).get(blob)
        if found is None or not found.etag:
            raise Absent("BlobNotFound: there is no such blob")
        return found

    def _properties(self, name: str, blob: _Blob) -> BlobProperties:
        staged = blob.staged_since if self.behaviour.dated_by_first_block else blob.staged_at
        return BlobProperties(
            name=name,
            size=blob.size,
            etag=blob.etag,
            last_modified=datetime.fromtimestamp(blob.written if blob.etag else staged, UTC),
            metadata=blob.attributes.metadata,
            tier=blob.attributes.tier,
            content_type=(blob.attributes.content_type or "application/octet-stream") if blob.etag else None,
            committed=bool(blob.etag),
            leased=blob.lease is not None and blob.lease.active(self.clock.now()),
            lease_expired=blob.lease is not None and blob.lease.expired(self.clock.now()),
            copy_status=blob.copy_status,
        )

    def _check_overwrite(self, found: _Blob, condition: Condition, lease_id: str | None) -> None:
        if self.behaviour.create_only and found.etag:
            raise ConditionFailed("UnauthorizedBlobOverwrite: the blob exists, and the SAS may only create")
        self._check_write(found, condition, lease_id)

    def _check_write(self, found: _Blob, condition: Condition, lease_id: str | None) -> None:
        if condition.if_absent and found.etag:
            raise ConditionFailed("BlobAlreadyExists: the blob exists")
        if condition.if_match is not None and condition.if_match not in {found.etag, "*" if found.etag else None}:
            raise ConditionFailed("ConditionNotMet: the blob is another version, or is gone")
        if found.lease is not None or lease_id is not None:
            leases.check_write(found.lease, lease_id, self.clock.now())

    def _write(
        self, found: _Blob, data: tuple[bytes, ...], blocks: dict[str, bytes], attributes: BlobAttributes
    ) -> None:
        found.data, found.size, found.blocks = data, sum(map(len, data)), blocks
        found.staged = {}
        found.attributes = replace(
            attributes, metadata=dict(attributes.metadata), tags=dict(attributes.tags), tier=attributes.tier or "Hot"
        )
        found.written = self.clock.now()
        found.copy_status = None
        found.lease = leases.after_write(found.lease, found.written)
        found.etag = self._new_etag()


def _check_block(found: _Blob, block_id: str) -> None:
    other = next(iter(found.staged or found.blocks), block_id)
    if len(other) != len(block_id):
        raise ConfigurationError(
            f"Block id {block_id} has {len(block_id)} characters and others of the blob {len(other)}: "
            "use one length within a blob."
        )
    if len(found.staged) >= MAX_STAGED_BLOCKS and block_id not in found.staged:
        raise ConfigurationError(
            f"A blob can have {MAX_STAGED_BLOCKS:,} staged blocks: commit it, or use larger blocks."
        )


def _blocks(found: _Blob, block_ids: Sequence[str]) -> list[bytes]:
    """The blocks of a block list. An id means the staged block if there is one, else the committed one."""
    known = {**found.blocks, **found.staged}
    missing = [block_id for block_id in block_ids if block_id not in known]
    if missing:
        raise Absent(f"InvalidBlockList: block {missing[0]} of the list does not exist")
    return [known[block_id] for block_id in block_ids]
