"""Checks what overwrites and restores keep: each copy is there, as it was made, and nothing else is beside it.

entries that keep (`lastKept`), published before the listing ─► names of copies ─► what differs is looked at again

What a vacuum may have deleted is not missed: copies whose time is over, and those of entries below the boundary.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from azureblob_source.log.entry import Removal
from azureblob_source.log.naming import of_replaced, replaced_name
from azureblob_source.log.publishing.keeping import keepers_after
from azureblob_source.log.publishing.publish import still_there
from azureblob_source.maintenance.audit.extra_blobs import Extra, origins_of
from azureblob_source.maintenance.audit.findings import Finding, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from azureblob_source.log.entry import LogEntry
    from azureblob_source.maintenance.audit.entry_facts import EntryFacts
    from azureblob_source.maintenance.audit.live_index import Sweep
    from azureblob_source.maintenance.audit.log_view import LogView
    from azureblob_source.maintenance.audit.looking import AuditContext

_RESTORE = "Restore it (soft delete), or do without the versions before that one."


@dataclass(frozen=True)
class _Copy:
    """A copy that must be there. keeper: the entry that keeps it; size: that of the blob, in bytes."""

    name: str
    keeper: LogEntry
    attempt: str
    size: int


def kept_findings(
    context: AuditContext, sweep: Sweep, view: LogView, facts_of: Callable[[Sequence[Extra]], EntryFacts]
) -> list[Finding]:
    """What is wrong with kept blobs. view: of before the listing. facts_of: what entries say of some blobs."""
    if view.head.newest_kept is None:
        return []
    keepers = [
        entry
        for entry in keepers_after(context.log, view.boundary.first - 1)
        if entry.version <= view.published and _is_in_time(context, entry)
    ]
    copies = _copies(context.log.stream, view, keepers, facts_of)
    differing = [copy for copy in copies if sweep.kept.get(copy.name) != (copy.size, copy.attempt)]
    found = [finding for finding in context.each(lambda copy: _look(context, copy), differing) if finding is not None]
    return [*found, *_foreign(context.log.stream, sweep, keepers)]


def _is_in_time(context: AuditContext, keeper: LogEntry) -> bool:
    """Whether what an entry keeps must be there still, by the service's clock."""
    until, begun = (datetime.fromisoformat(text) for text in (keeper.kept_until or keeper.timestamp, keeper.timestamp))
    age = context.age_of_entry(keeper.version)
    return age is not None and age < (until - begun).total_seconds()


def _copies(
    stream: str, view: LogView, keepers: Sequence[LogEntry], facts_of: Callable[[Sequence[Extra]], EntryFacts]
) -> list[_Copy]:
    removed = {(entry.version, each): entry for entry in keepers for each in entry.removed}
    blobs = [Extra(each.name, each.attempt) for _, each in removed]
    origins = origins_of(facts_of(blobs), blobs) if blobs else {}
    found = []
    for ((version, each), keeper), blob in zip(removed.items(), blobs, strict=True):
        origin = origins.get(blob)
        if origin is not None and origin.name == blob.name and origin.rows_of >= view.boundary.first:
            found.append(_Copy(replaced_name(stream, version, each.name), keeper, each.attempt, origin.size))
    return found


def _look(context: AuditContext, copy: _Copy) -> Finding | None:
    there = still_there(context.log.container, Removal(copy.name, copy.attempt))
    kept = f"version {copy.keeper.version} keeps it until {copy.keeper.kept_until}"
    if there is None:
        kind, what = Kind.MISSING, f"{kept}, and it is gone, or another blob"
        if context.log.refresh_boundary().first > copy.keeper.version:
            return None
    elif there.size != copy.size:
        kind, what = Kind.ALTERED, f"{kept}, and it has {there.size:,} bytes, by the log {copy.size:,}"
    else:
        return None
    return Finding(kind, copy.name, copy.keeper.version, what, _RESTORE)


def _foreign(stream: str, sweep: Sweep, keepers: Sequence[LogEntry]) -> list[Finding]:
    """What is beside the copies of an entry."""
    known = {entry.version: {each.name for each in entry.removed} for entry in keepers}
    found = []
    for name in sweep.kept:
        version, blob = of_replaced(stream, name) or (-1, "")
        if version in known and blob not in known[version]:
            what = f"version {version} has removed no blob of this name"
            found.append(Finding(Kind.FOREIGN, name, version, what, "Move or delete it."))
    return found
