"""What is wrong with a log: versions that are missing, entries that do not follow each other. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from azureblob_source.log.naming import log_name
from azureblob_source.maintenance.audit.findings import Finding, Kind, advice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from azureblob_source.log.entry import LogEntry
    from foundation.errors import CorruptError

_NOT_OF_IT = "Find out who has put it there; readers and writers of the stream may stop at it. Then delete it."


def gaps(versions: Iterable[int], first: int, last: int) -> list[tuple[int, int]]:
    """The ranges of versions from `first` to `last`, both included, that are not among `versions`."""
    found = []
    expected = first
    for version in sorted(version for version in versions if first <= version <= last):
        if version > expected:
            found.append((expected, version - 1))
        expected = max(expected, version + 1)
    return [*found, (expected, last)] if expected <= last else found


def gap_finding(stream: str, place: str, gap: tuple[int, int]) -> Finding:
    """The finding for versions that are missing."""
    first, last = gap
    what = f"version {first} is missing" if first == last else f"versions {first} to {last} are missing"
    return Finding(
        Kind.LOG, log_name(stream, first), first, f"{what}: no vacuum has removed them", advice(Kind.LOG, place)
    )


@dataclass
class Chain:
    """Checks entries in the order of their versions, each against the one before it."""

    stream: str
    place: str
    log_id: str
    read: int = 0
    findings: list[Finding] = field(default_factory=list)
    broken: set[int] = field(default_factory=set)
    """Versions that are damaged, or not of this log."""
    _before: LogEntry | None = None

    def add(self, version: int, entry: LogEntry | CorruptError) -> LogEntry | None:
        """Check what is stored as a version. The entry, if it is of this log."""
        self.read += 1
        if isinstance(entry, Exception):
            self._note(version, f"it is damaged: {entry.cause}")
            return None
        fault = next(self._faults(version, entry), None)
        if fault is not None:
            self._note(version, *fault)
            return None
        follows = self._before is not None and self._before.version + 1 == version
        for what in _breaks(self._before, entry) if follows and self._before is not None else ():
            self._note(version, what, breaks=False)
        self._before = entry
        return entry

    def _faults(self, version: int, entry: LogEntry) -> Iterator[tuple[str, str]]:
        if entry.version != version:
            yield f"it has the entry of version {entry.version}", advice(Kind.LOG, self.place)
        if entry.log_id != self.log_id or (version == 0 and entry.write_id != entry.log_id):
            yield f"it is of another log: its id is {entry.log_id}, that of the head {self.log_id}", _NOT_OF_IT

    def _note(self, version: int, what: str, step: str = "", *, breaks: bool = True) -> None:
        if breaks:
            self.broken.add(version)
        self.findings.append(
            Finding(Kind.LOG, log_name(self.stream, version), version, what, step or advice(Kind.LOG, self.place))
        )


def _breaks(before: LogEntry, entry: LogEntry) -> Iterator[str]:
    """In what an entry does not follow the one before it."""
    if entry.totals_before != before.totals:
        yield f"its totals do not continue those of version {before.version}"
    if datetime.fromisoformat(entry.timestamp) <= datetime.fromisoformat(before.timestamp):
        yield f"its time is not after that of version {before.version}"


def of_another_log(stream: str, version: int, head: LogEntry) -> Finding:
    """The finding for an entry above the head, of a stream that was deleted."""
    what = f"it is an entry of another log, above the head, version {head.version}"
    step = "Nothing needs to be done: the writer that needs its version deletes it."
    return Finding(Kind.LOG, log_name(stream, version), version, what, step)


def stray(stream: str, version: int, first: int) -> Finding:
    """The finding for an entry below the retention boundary that no vacuum keeps or is removing."""
    what = (
        f"it is below the first version that counts, {first}, so it commits nothing: a stale writer has put it there, "
        "or a vacuum was interrupted"
    )
    step = "Readers and writers ignore it: the next vacuum deletes it."
    return Finding(Kind.LOG, log_name(stream, version), version, what, step)


def schema_finding(name: str) -> Finding:
    """The finding for a writer schema that is not there."""
    what = "this writer schema of live blobs is missing: the stream cannot be read"
    return Finding(Kind.LOG, name, None, what, "Restore it (soft delete), or put the schema of a blob's header there.")
