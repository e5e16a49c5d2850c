"""Puts the metadata of a stream's Iceberg table beside the checkpoints of its log, which are its snapshots.

    checkpoint + writer schemas + the table before ─► v<k+1>.metadata.json, put if absent ─► version-hint.text

The table is as new as its newest checkpoint. Where Iceberg cannot say what the stream has, the last table stays.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from arrow_avro import superset
from azure_account.readback import ATTEMPTS
from azure_account.values import IF_ABSENT, JSON, BlobAttributes, Done
from azureblob_source.iceberg.field_ids import assigned
from azureblob_source.iceberg.metadata import IcebergTable, TableSnapshot, from_json, table_uuid, to_json
from azureblob_source.iceberg.schema import NotInIcebergError
from azureblob_source.log.entry import ADOPTED
from azureblob_source.log.naming import (
    checkpoint_name,
    metadata_prefix,
    table_hint_name,
    table_location,
    table_name,
    table_number,
)
from azureblob_source.log.times import microseconds
from foundation.errors import ConfigurationError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from azureblob_source.log.checkpoint.manifest_list import LogCheckpoint
    from azureblob_source.log.commit_log import CommitLog
    from azureblob_source.log.entry import LogEntry

logger = logging.getLogger("azureblob_source")

_TEXT = BlobAttributes(content_type="text/plain")


def put_table(log: CommitLog, checkpoint: LogCheckpoint, entry: LogEntry, root: str) -> IcebergTable:
    """Put the table at a checkpoint, unless a newer one is there; returns the newest one.

    entry: that of the checkpoint's version. root: of the paths, see `iceberg.paths`. `NotInIcebergError` says why there
    is no table at this version. `ConflictError` if other writers put theirs again and again.
    """
    name = ""
    for _ in range(ATTEMPTS):
        number, before = newest_table(log)
        if before is not None and before.uuid == table_uuid(checkpoint.log_id) and before.version > checkpoint.version:
            return before
        table = _extended(log, before, checkpoint, entry, root)
        if table == before:
            return before
        name = table_name(log.stream, number + 1)
        outcome = log.container.put(name, to_json(table), JSON, condition=IF_ABSENT)
        log.notes.table = (number + 1, table) if isinstance(outcome, Done) else None
        if isinstance(outcome, Done):
            log.container.put(table_hint_name(log.stream), str(number + 1).encode(), _TEXT)
            return table
    step = "Run the command `iceberg`, or wait for the next checkpoint."
    raise ConflictError("put", f"{name} in {log.container.url}", "other writers put it", step, attempts=ATTEMPTS)


def newest_table(log: CommitLog) -> tuple[int, IcebergTable | None]:
    """The newest table and its number: 0 if there is none; None for one that this package has not written."""
    if log.notes.table is None:
        number, data = _newest_metadata(log)
        table = None
        if data is not None:
            try:
                table = from_json(data)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                name = table_name(log.stream, number)
                logger.warning("%s is not of this package, and is followed by a new table: %r", name, error)
        log.notes.table = number, table
    return log.notes.table


def _newest_metadata(log: CommitLog) -> tuple[int, bytes | None]:
    number = _hinted(log)
    data = _find(log, number) if number else None
    if data is None:
        listed = log.container.list(f"{metadata_prefix(log.stream)}v")
        number = max((found for blob in listed if (found := table_number(blob.name)) is not None), default=0)
        data = _find(log, number) if number else None
    while data is not None and (newer := _find(log, number + 1)) is not None:
        number, data = number + 1, newer
    return number, data


def _hinted(log: CommitLog) -> int:
    data = _get(log, table_hint_name(log.stream))
    return int(data) if data is not None and data.isdigit() else 0


def _find(log: CommitLog, number: int) -> bytes | None:
    return _get(log, table_name(log.stream, number))


def _get(log: CommitLog, name: str) -> bytes | None:
    try:
        return log.container.get(name).data
    except NotFoundError:
        return None


def _extended(
    log: CommitLog, before: IcebergTable | None, checkpoint: LogCheckpoint, entry: LogEntry, root: str
) -> IcebergTable:
    """The table at a checkpoint, after the one before. `NotInIcebergError` if there is none."""
    uuid, location = table_uuid(checkpoint.log_id), f"{root}{table_location(log.stream)}"
    table = (
        IcebergTable(uuid, location) if before is None or before.uuid != uuid else replace(before, location=location)
    )
    written = [log.writer_schema(each) for each in entry.live_schemas]
    if written:
        try:
            rows = superset(written)
        except ConfigurationError as error:
            raise NotInIcebergError(str(error)) from error
        table = table.with_rows(rows, written, assigned(rows, checkpoint.field_ids or table.field_ids))
    elif not table.schemas:
        raise NotInIcebergError("there are no rows yet")
    if log.container.is_relocated:
        raise NotInIcebergError("its log is in another place than its blobs (`logPath`)")
    _check_names(log, checkpoint, table.version)
    manifests = checkpoint.manifests
    return table.with_snapshot(
        TableSnapshot(
            checkpoint.version,
            microseconds(datetime.fromisoformat(checkpoint.timestamp)) // 1000,
            f"{root}{checkpoint_name(log.stream, checkpoint.version)}",
            blobs=checkpoint.blobs,
            rows=sum(each.rows for each in manifests),
            bytes=sum(each.bytes for each in manifests),
            oldest=max(entry.newest_deletion or 0, checkpoint.since, *checkpoint.removers),
            kept_from=log.kept_from,
            specs=tuple(each.spec_id for each in sorted(manifests, key=lambda each: each.last)),
        )
    )


def _check_names(log: CommitLog, checkpoint: LogCheckpoint, known: int) -> None:
    """`NotInIcebergError` for a blob that is no plain Avro file, among those of manifests after version `known`."""
    for manifest in reversed(checkpoint.manifests):
        if manifest.added > known:
            table = log.checkpoints.read(manifest, ["name", "rolled_by"])
            names = table["name"].to_pylist()
            if ADOPTED in table["rolled_by"].to_pylist():
                raise NotInIcebergError("the rows of adopted blobs are not known: adopt them with `countRows`")
            gzipped = next((name for name in names if name.endswith(".gz")), None)
            if gzipped is not None:
                raise NotInIcebergError(f"blob {gzipped} is gzipped, and Iceberg reads plain Avro files")
