"""What writers and vacuums have begun and not finished: no finding, unless it cannot be finished any more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azureblob_source.log.live import is_visible
from azureblob_source.maintenance.audit.findings import Finding, Kind, Pending
from azureblob_source.maintenance.audit.looking import is_staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from azureblob_source.log.entry import BlobEntry, LogEntry
    from azureblob_source.maintenance.audit.log_view import LogView
    from azureblob_source.maintenance.audit.looking import AuditContext


@dataclass(frozen=True)
class _Unfinished:
    """An entry with blobs that are not visible; of them, `lost` are not staged either."""

    entry: LogEntry
    missing: Sequence[BlobEntry]
    lost: Sequence[BlobEntry]
    age: float | None


def unpublished(context: AuditContext, view: LogView) -> tuple[list[Finding], list[Pending]]:
    """What is committed and not visible, of the entries that are not known to be published."""
    found = [each for entry in view.unpublished if (each := _unfinished(context, view, entry)) is not None]
    doubtful = [each for each in found if each.lost and context.is_old(each.age)]
    undone = _undone_since(context, view) if doubtful else (frozenset(), frozenset())
    findings: list[Finding] = []
    pending: list[Pending] = []
    for each in found:
        version = each.entry.version
        if each in doubtful:
            lost = [blob for blob in each.lost if blob.name not in undone[1] and version not in undone[0]]
            what = "it is neither visible nor staged, so its version cannot be published"
            findings += [context.finding(Kind.MISSING, blob.name, version, what) for blob in lost]
        if each not in doubtful or len(each.lost) < len(each.missing):
            pending.append(Pending(version, _what(each), each.age))
    return findings, pending


def _what(of: _Unfinished) -> str:
    lost = f"; {len(of.lost):,} of them not staged either" if of.lost else ""
    return f"{len(of.missing):,} of its {len(of.entry.blobs):,} blobs not visible yet{lost}"


def _unfinished(context: AuditContext, view: LogView, entry: LogEntry) -> _Unfinished | None:
    later = (each for each in view.unpublished if each.version > entry.version)
    removed = {removal.name for each in later for removal in each.removed}
    blobs = [blob for blob in entry.blobs if blob.name not in removed]
    there = context.each(context.log.container.properties, [blob.name for blob in blobs])
    missing = [blob for blob, seen in zip(blobs, there, strict=True) if not is_visible(blob, seen)]
    absent = {blob.name for blob, seen in zip(blobs, there, strict=True) if seen is None}
    if not missing:
        return None
    staged = context.each(lambda blob: blob.name not in absent or is_staged(context, blob.name), missing)
    lost = [blob for blob, is_there in zip(missing, staged, strict=True) if is_there is False]
    missing = [blob for blob, is_there in zip(missing, staged, strict=True) if is_there is not None]
    return _Unfinished(entry, missing, lost, context.age_of_entry(entry.version)) if missing else None


def _undone_since(context: AuditContext, view: LogView) -> tuple[frozenset[int], frozenset[str]]:
    """Versions that are revoked or vacuumed since the view, and names of blobs that entries after it remove."""
    log = context.log

    def read() -> list[LogEntry]:
        head = log.refresh()
        return [] if head is None else log.entries(max(view.head.version + 1, log.kept_from), head.version)

    later = log.unless_removed(read)
    vacuumed = frozenset(entry.version for entry in view.unpublished if entry.version < log.kept_from)
    undone = vacuumed.union(*(entry.revoked for entry in later))
    return undone, frozenset(removal.name for entry in later for removal in entry.removed)


def still_to_delete(context: AuditContext, awaited: Mapping[int, int]) -> list[Pending]:
    """What entries remove that is still visible. awaited: the number of blobs, by version."""
    return [
        Pending(version, f"{count:,} blobs that it removes still visible", context.age_of_entry(version))
        for version, count in sorted(awaited.items())
    ]


def vacuuming(view: LogView, outdated: int) -> list[Pending]:
    """A vacuum that is at work, or was interrupted. outdated: blobs of later versions that it has still to delete."""
    count = len(view.boundary.removing)
    if not count and not outdated:
        return []
    what = f"a vacuum is deleting {count:,} versions and {outdated:,} blobs of later ones, or was interrupted"
    return [Pending(None, what, None)]
