"""Restore what a stream had at a version or a time: which version that is, and what it takes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from azureblob_source.log.live import first_unpublished
from azureblob_source.log.publishing.publish import still_there
from azureblob_source.log.relocating.restore import Restoration, restoration
from azureblob_source.read.following import version_at
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry
    from foundation.clock import Clock


@dataclass(frozen=True)
class RestorePlan:
    """What a restore would do. is_needed: whether other blobs are live, or an earlier restore is not finished."""

    stream: str
    restoration: Restoration
    is_needed: bool


def plan_restore(log: CommitLog, version: int) -> RestorePlan:
    """Plan to restore a version. Changes nothing. Errors as of `restoration`."""
    log.refresh()
    found = restoration(log, version)
    return RestorePlan(log.stream, found, found.changes or _is_unfinished(log, found.head))


def _is_unfinished(log: CommitLog, head: LogEntry) -> bool:
    """Whether a blob is there that an unpublished restore has removed."""
    unpublished = log.entries(first_unpublished(head, kept_from=log.kept_from), head.version)
    removed = [each for entry in unpublished if entry.operation == "restore" for each in entry.removed]
    return any(still_there(log.container, each) is not None for each in removed)


def restored_version(log: CommitLog, version: int | None, time: datetime | None, clock: Clock = SYSTEM_CLOCK) -> int:
    """The version to restore: the one that is given, or the last one committed up to a time, in UTC if it has no zone.

    `ConfigurationError` unless one of the two is given. Errors as of `version_at`.
    """
    if time is not None and version is None:
        log.refresh()
        return version_at(log, time if time.tzinfo is not None else time.replace(tzinfo=UTC), clock)
    if version is None or time is not None:
        raise ConfigurationError("A restore is to a version or to a time: give one of the two.")
    return version
