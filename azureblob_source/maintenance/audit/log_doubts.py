"""Looks at a log again where its listing is not as it must be: versions that are missing, strays, writer schemas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from azureblob_source.log.entry import LogEntry
from azureblob_source.maintenance.audit.log_faults import (
    Chain,
    gap_finding,
    gaps,
    of_another_log,
    schema_finding,
    stray,
)
from azureblob_source.maintenance.audit.log_view import AT_ONCE, stored
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from azureblob_source.maintenance.audit.findings import Finding
    from azureblob_source.maintenance.audit.live_index import Sweep
    from azureblob_source.maintenance.audit.log_view import LogView
    from azureblob_source.maintenance.audit.looking import AuditContext

_MOST_GAPS = 100


@dataclass(frozen=True)
class LogDoubts:
    """What is not as it must be in a listing: see `doubts_of`."""

    gaps: Sequence[tuple[int, int]]
    above: Sequence[int]
    below: Sequence[int]
    schemas: Sequence[str]

    def __bool__(self) -> bool:
        """Whether there is something."""
        return bool(self.gaps or self.above or self.below or self.schemas)


def doubts_of(sweep: Sweep, view: LogView, until: int) -> LogDoubts:
    """What a listing shows of a log that is not as it must be.

    until: the head before the listing. Of the versions up to it, those that are missing; those above the head of the
    view, and those below its boundary; writer schemas that are not there.
    """
    first, last = view.boundary.first, min(until, view.head.version)
    below = {version for version in sweep.versions if version < first}
    return LogDoubts(
        gaps(sweep.versions, first, last),
        sorted({version for version in sweep.versions if version > view.head.version}),
        sorted(below - {*view.boundary.removing, view.boundary.list_version}),
        sweep.unlisted_schemas(view.head.live_schemas),
    )


@dataclass(frozen=True)
class LogFaults:
    """What is wrong with a log. beyond_head: it goes on beyond the head that readers find, after missing versions."""

    findings: Sequence[Finding]
    beyond_head: bool


def log_findings(context: AuditContext, doubts: LogDoubts, view: LogView) -> LogFaults:
    """The doubts that have become faults. view: read after the listing that has raised them."""
    container, stream = context.log.container, context.log.stream
    found = [gap_finding(stream, context.place, gap) for gap in _still_missing(context, doubts.gaps)]
    beyond, strays = _above(context, doubts.above, view)
    found += [schema_finding(name) for name in doubts.schemas if container.properties(name) is None]
    found += [stray(stream, version, view.boundary.first) for version in doubts.below if _is_stray(context, version)]
    return LogFaults([*found, *beyond, *strays], bool(beyond))


def _still_missing(context: AuditContext, missing: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges of versions of which the last one is neither there nor below the boundary."""
    log = context.log
    found = [gap for gap in list(missing)[:_MOST_GAPS] if not log.has(gap[1])]
    first = log.refresh_boundary().first
    return [(max(start, first), end) for start, end in found if end >= first]


def _above(context: AuditContext, versions: Sequence[int], view: LogView) -> tuple[list[Finding], list[Finding]]:
    """What is wrong above the head: versions that are missing there, and entries of another log."""
    log = context.log
    read = dict(zip(versions, stored(log, versions[:AT_ONCE]), strict=False))
    own = [version for version, entry in read.items() if _is_own(entry, view.head)]
    head = log.refresh() if own else None
    missing = [] if head is None else _still_missing(context, gaps(own, head.version + 1, max(own)))
    others = [
        of_another_log(log.stream, version, view.head)
        for version, entry in read.items()
        if isinstance(entry, LogEntry) and version not in own and context.is_old(context.age_of_entry(version))
    ]
    return [gap_finding(log.stream, context.place, gap) for gap in missing], others


def _is_own(entry: LogEntry | CorruptError | None, head: LogEntry) -> bool:
    return isinstance(entry, CorruptError) or (isinstance(entry, LogEntry) and entry.log_id == head.log_id)


def _is_stray(context: AuditContext, version: int) -> bool:
    """Whether an entry below the boundary is there, old, and nothing that a vacuum keeps or is removing."""
    log = context.log
    before = log.refresh_boundary()
    if version in (*before.removing, before.list_version) or not context.is_old(context.age_of_entry(version)):
        return False
    return log.refresh_boundary() == before and log.has(version)


def findings_without_head(context: AuditContext, sweep: Sweep) -> tuple[int, list[Finding], int]:
    """What is wrong with a log whose newest entries cannot be read: first version, findings, entries read."""
    log = context.log
    first = log.refresh_boundary().first
    versions = sorted(version for version in sweep.versions if version >= first)
    if not versions:
        return first, [], 0
    missing = gaps(versions, first, versions[-1])
    found = [gap_finding(log.stream, context.place, gap) for gap in _still_missing(context, missing)]
    newest = versions[-AT_ONCE:]
    entries = {version: entry for version, entry in zip(newest, stored(log, newest), strict=True) if entry is not None}
    ids = [entry.log_id for entry in entries.values() if isinstance(entry, LogEntry)]
    chain = Chain(log.stream, context.place, max(ids, key=ids.count, default=""))
    for version, entry in entries.items():
        chain.add(version, entry)
    return first, [*found, *chain.findings], chain.read
