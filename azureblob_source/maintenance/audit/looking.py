"""Looks at single blobs again: live ones that a listing does not show as they must be, and their staged blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from azureblob_source.log.entry import DISCARDED, attempt_of
from azureblob_source.log.naming import log_name
from azureblob_source.maintenance.audit.findings import Finding, Kind, advice
from foundation.parallel import concurrent_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from azure_account.values import BlobProperties
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import BlobEntry
    from foundation.parallel import Item, Result

AT_ONCE = 64
MOST = 10_000
"""Blobs of each kind that are looked at again."""


@dataclass(frozen=True)
class AuditContext:
    """What is audited. older_than: seconds after which what is in doubt counts as a finding."""

    log: CommitLog
    older_than: float
    _ages: dict[str, float | None] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """`container/stream`, as commands take it."""
        return f"{self.log.container.name}/{self.log.stream}"

    def finding(self, kind: Kind, name: str, version: int | None, what: str) -> Finding:
        """A finding with the usual advice."""
        return Finding(kind, name, version, what, advice(kind, self.place))

    def each(self, act: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results of requests that are made concurrently."""
        return concurrent_map(act, items, AT_ONCE, after_error="abandon")

    def age_of_entry(self, version: int) -> float | None:
        """Seconds since an entry was put, by the service's clock."""
        return self.age_of(log_name(self.log.stream, version))

    def age_of(self, name: str) -> float | None:
        """Seconds since a blob was written; it is asked once."""
        if name not in self._ages:
            self._ages[name] = self.log.container.age(name)
        return self._ages[name]

    def is_old(self, age: float | None) -> bool:
        """Whether something of this age counts as a finding."""
        return age is not None and age >= self.older_than


@dataclass(frozen=True)
class LiveBlob:
    """A live blob that is in doubt. published: its entry is. again: it seems to have been written after that."""

    blob: BlobEntry
    version: int
    published: bool
    again: bool


@dataclass(frozen=True)
class Look:
    """What was seen of it. renewed: only its metadata were changed."""

    of: LiveBlob
    finding: Finding | None
    renewed: bool = False


def look_at(context: AuditContext, doubtful: Iterable[LiveBlob]) -> list[Look]:
    """Look at live blobs that are in doubt."""
    return context.each(lambda each: _look(context, each), list(doubtful))


def _look(context: AuditContext, of: LiveBlob) -> Look:
    container, blob = context.log.container, of.blob
    there = container.properties(blob.name)
    attempt = None if there is None else attempt_of(there.metadata)
    if blob.adopted:
        return Look(of, _finding_of_adopted(blob, of.version, there))
    if not of.published and (there is None or attempt not in (None, blob.attempt)):
        return Look(of, None)  # it is pending; what has its name is looked at as another blob
    fault = _fault(blob, there)
    if fault is None and attempt == blob.attempt and not of.again:
        return Look(of, None)
    if fault is None and list(container.block_ids(blob.name)) == blob.block_ids:
        return Look(of, None, renewed=True)
    if fault is None:
        why = "its metadata names no attempt" if attempt is None else "it was written again after it was published"
        fault = Kind.ALTERED, f"{why}, and its blocks are not those of its entry"
    return Look(of, context.finding(fault[0], blob.name, of.version, fault[1]))


def _finding_of_adopted(blob: BlobEntry, version: int, there: BlobProperties | None) -> Finding | None:
    """What is wrong with a blob that another program has written."""
    step = "Restore it (versioning, soft delete); reads leave it out with `ignoreCorruptBlobs`."
    if there is None:
        return Finding(Kind.MISSING, blob.name, version, "it was deleted since it was adopted", step)
    if there.etag != blob.etag:
        step = "Reads with `allowOverwrites` read it as it is; those with `ignoreCorruptBlobs` leave it out."
        return Finding(Kind.ALTERED, blob.name, version, "it was replaced since it was adopted", step)
    return None


def _fault(blob: BlobEntry, there: BlobProperties | None) -> tuple[Kind, str] | None:
    """What is wrong with a live blob, as far as its properties show it."""
    attempt = None if there is None else attempt_of(there.metadata)
    if there is None or (attempt == DISCARDED and not there.size):
        return Kind.MISSING, f"it is not visible: {blob.rows:,} rows are gone"
    if there.size != blob.size:
        return Kind.ALTERED, f"it has {there.size:,} bytes, its entry {blob.size:,}"
    if attempt not in (None, blob.attempt):
        return Kind.ALTERED, f"it is of attempt {attempt}, its entry names {blob.attempt}"
    return None


def is_staged(context: AuditContext, name: str) -> bool | None:
    """Whether blocks are staged for a blob that is not visible; None if it is visible by now."""
    listed = context.log.container.list(name, uncommitted=True)
    there = next((blob for blob in listed if blob.name == name), None)
    if there is not None and there.committed:
        return None
    return there is not None
