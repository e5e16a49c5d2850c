"""Makes the checkpoints of a log: within the commit of a batch when one is due, or all at once by a command.

    newest checkpoint + entries since then ─► the next one       (`checkpoint.building`)
    no checkpoint, or none that is a base ──► from the entries since the last overwrite

The log is never changed, and nothing depends on a checkpoint but how many requests a read makes. So a batch never fails
for one, and a step within a commit is bounded: what it leaves to do, the next one does, or the command.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from azureblob_source.iceberg.paths import root
from azureblob_source.log.live_state import UNUSABLE, checkpoints_before, warn_unusable
from foundation.errors import AzureBlobError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from arrow_avro import AvroSchema
    from azureblob_source.iceberg.metadata import IcebergTable
    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
    from azureblob_source.log.checkpoint.table_columns import TableColumns
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry

logger = logging.getLogger("azureblob_source")

_MOST_ENTRIES = 1000
"""Entries of one step within a commit."""


def checkpoint_in_commit(log: CommitLog, last: LogEntry, table_paths: str | None = None) -> None:
    """Make a checkpoint at `last`, which was committed and published now. A failure is logged, not raised.

    table_paths: the scheme of paths in the Iceberg table, which is put after it; None for no table. Why there is none
    is logged once.
    """
    from azureblob_source.iceberg.schema import NotInIcebergError  # noqa: PLC0415 - loads Arrow, for few commits

    try:
        if table_paths is None:
            make_checkpoint(log, last, most=_MOST_ENTRIES)
        else:
            make_table(log, last, root(log.container.url, table_paths), most=_MOST_ENTRIES)
    except NotInIcebergError as reason:
        if log.notes.no_table != str(reason):
            log.notes.no_table = str(reason)
            logger.warning("%s: its Iceberg table is not made, or stays as it is: %s", log.stream, reason)
    except Exception as error:  # the batch is committed, and must not fail any more
        known = isinstance(error, AzureBlobError)
        text = "%s: no checkpoint is made at version %d: %s"
        logger.warning(text, log.stream, last.version, error if known else repr(error), exc_info=not known)


def make_table(log: CommitLog, last: LogEntry, paths: str, *, most: int | None = None) -> IcebergTable | None:
    """Make the checkpoint at `last`, which is published, and the Iceberg table at it; returns the table.

    paths: their root, see `iceberg.paths`. most: as of `make_checkpoint`. `NotInIcebergError` says why there is no
    table.
    """
    from azureblob_source.log.iceberg_table import put_table  # noqa: PLC0415 - few logs have a table

    log.checkpoints.root = paths
    made = make_checkpoint(log, last, most=most)
    if made is None:
        return None
    return put_table(log, made, log.recent_entries(made.version, made.version)[0], paths)


def make_checkpoint(
    log: CommitLog, last: LogEntry, *, most: int | None = None, rebuild: bool = False
) -> LogCheckpoint | None:
    """Make the checkpoint at `last`, which is published; returns it. None if that is left to a later step.

    most: how many entries may be read; then the checkpoint may be at an earlier version.
    rebuild: from the entries alone, in the place of one at that version; ids of columns stay. One with blobs below the
      retention boundary is replaced too.
    """
    from azureblob_source.log.checkpoint.building import begun  # noqa: PLC0415 - loads Arrow, for few calls

    bases = checkpoints_before(log, last)
    newest = next(bases, None)
    made = None if rebuild or newest is None else _extended(log, last, chain((newest,), bases), most)
    if made is not None and newest is not None and (made is newest or made.version < newest.version):
        return made
    if made is None:
        oldest = max(last.since, log.kept_from)
        end = _end(oldest - 1, last, most)
        if end < oldest:  # a vacuum has passed it
            return None
        if newest is not None and end <= newest.version and most is not None:
            text = "%s: version %d is too far for a checkpoint within a commit; run the command `checkpoint`"
            logger.warning(text, log.stream, last.version)
            return None
        entries = log.live_entries(last.version) if most is None else log.recent_entries(oldest, end)
        log.checkpoints.columns = columns = columns_of(log, newest)
        made = begun(entries, log.checkpoints, columns)
    log.checkpoints.put(made, replaces=rebuild or (newest is not None and made.version == newest.version))
    log.notes.checkpoint = made.version
    logger.debug("%s: checkpoint at version %d: %d live blobs", log.stream, made.version, made.blobs)
    return made


def _extended(log: CommitLog, last: LogEntry, bases: Iterable[LogCheckpoint], most: int | None) -> LogCheckpoint | None:
    """The checkpoint that follows the first of the bases, from the newest back, that is one; None if there is none.

    The base itself, if it is at `last` and has no blob below the retention boundary.
    """
    from azureblob_source.log.checkpoint.building import extended  # noqa: PLC0415 - loads Arrow, for few calls

    oldest, reached = max(last.since, log.kept_from), -1
    for base in bases:
        end = _end(base.version, last, most)
        if base.version < oldest or (base.version < reached and end <= reached):
            break
        reached = max(reached, base.version)
        if base.since != last.since:  # of an overwrite that was voided
            continue
        try:
            entries = log.recent_entries(base.version, end)
            if entries[0].write_id != base.write_id:  # the newest entries were deleted by hand, others have followed
                continue
            if base.version == last.version and base.oldest >= log.kept_from:
                return base
            later = entries[1:] or entries
            log.checkpoints.columns = columns = columns_of(log, base)
            made = extended(base, later, log.checkpoints, columns, log.kept_from)
        except UNUSABLE as error:
            warn_unusable(base, error)
            continue
        if made is not None:
            return made
    return None


def columns_of(log: CommitLog, base: LogCheckpoint | None) -> TableColumns:
    """The columns of the stream, with the ids that they have by an earlier checkpoint."""
    from azureblob_source.log.checkpoint.table_columns import TableColumns  # noqa: PLC0415 - see `make_checkpoint`

    def schema_of(fingerprint: str) -> AvroSchema | None:
        try:
            return log.writer_schema(fingerprint)
        except UNUSABLE as error:
            logger.warning("%s: blobs of a schema have no bounds in checkpoints: %s", log.stream, error)
            return None

    return TableColumns({} if base is None else base.field_ids, schema_of)


def _end(after: int, last: LogEntry, most: int | None) -> int:
    return last.version if most is None else min(last.version, after + most)
