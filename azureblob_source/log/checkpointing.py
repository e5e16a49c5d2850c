"""Makes the checkpoints of a log: within the commit of a batch when one is due, or all at once by a command.

    newest checkpoint + entries since then ─► the next one       (`checkpoint.building`)
    no checkpoint, or none that is a base ──► from the entries since the last overwrite

The log is never changed, and nothing depends on a checkpoint but how many requests a read makes. So a batch never fails
for one, and a step within a commit is bounded: what it leaves to do, the next one does, or the command.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from azureblob_source.log.live_state import UNUSABLE, warn_unusable
from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry

logger = logging.getLogger("azureblob_source")

_MOST_ENTRIES = 1000
"""Entries of one step within a commit."""


def checkpoint_in_commit(log: CommitLog, last: LogEntry) -> None:
    """Make a checkpoint at `last`, which was committed and published now. A failure is logged, not raised."""
    try:
        make_checkpoint(log, last, most=_MOST_ENTRIES)
    except AzureBlobError as error:
        logger.warning("%s: no checkpoint is made at version %d: %s", log.stream, last.version, error)


def make_checkpoint(
    log: CommitLog, last: LogEntry, *, most: int | None = None, rebuild: bool = False
) -> LogCheckpoint | None:
    """Make the checkpoint at `last`, which is published; returns it. None if that is left to a later step.

    most: how many entries may be read; then the checkpoint may be at an earlier version.
    rebuild: from the entries alone, in the place of one at that version.
    """
    from azureblob_source.log.checkpoint.building import begun, extended  # noqa: PLC0415 - loads Arrow, for few calls

    base = None if rebuild else newest_checkpoint(log, last)
    if base is not None and base.version >= last.version:
        return base
    made: LogCheckpoint | None = None
    if base is not None and base.since == last.since:
        entries = log.recent_entries(base.version + 1, _end(base.version, last, most))
        try:
            made = extended(base, entries, log.checkpoints, log.kept_from)
        except UNUSABLE as error:
            warn_unusable(base, error)
    if made is None:
        oldest = max(last.since, log.kept_from)
        end = _end(oldest - 1, last, most)
        if base is not None and end <= base.version:
            text = "%s: version %d is too far for a checkpoint within a commit; run the command `checkpoint`"
            logger.warning(text, log.stream, last.version)
            return None
        entries = log.live_entries(last.version) if most is None else log.recent_entries(oldest, end)
        made = begun(entries, log.checkpoints, base)
    log.checkpoints.put(made, replaces=rebuild)
    log.notes.checkpoint = made.version
    logger.debug("%s: checkpoint at version %d: %d live blobs", log.stream, made.version, made.blobs)
    return made


def _end(after: int, last: LogEntry, most: int | None) -> int:
    return last.version if most is None else min(last.version, after + most)


def newest_checkpoint(log: CommitLog, last: LogEntry) -> LogCheckpoint | None:
    """The newest checkpoint of the log up to `last` that can be read."""
    if (hint := log.checkpoint_hint()) < 0:
        return None
    found = log.checkpoints.find(hint)
    return found if found is not None and found.log_id == last.log_id and found.version <= last.version else None
