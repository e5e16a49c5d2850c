"""The writer of the state that has a query's checkpoint: opened, or resumed from what a process before has noted.

A file beside the checkpoint has the notes, and another one the openings of this machine. The notes count only for the
last of these openings: a restore clears them, so a query that has been elsewhere opens the state again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account.documents.form import check_version
from foundation.errors import ConfigurationError, ConflictError
from state_backup.backup.notes import WriterNotes
from state_backup.backup.settings import TaskIdentity, WriterSettings
from state_backup.backup.writer import open_state, resume_state
from state_backup.local.durable import replace_bytes
from state_backup.record.store import StateStorage, open_location
from state_backup.spark.position import QueryPosition, beside
from state_backup.spark.snapshot import check_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.location import Location
    from state_backup.backup.writer import StateWriter


logger = logging.getLogger("state_backup")

_OPENINGS, _VERSION = "backup.json", 1
"""The file beside a checkpoint that remembers the openings of this machine, and its format version."""


def openings_of(location: Path) -> list[str]:
    """The openings of the state from this machine that may be the last, as a file beside the checkpoint has them.

    Two while one opens the state: a process may die between the file and the opening.
    """
    try:
        fields = json.loads(beside(location, _OPENINGS).read_text("utf-8"))
        check_version(fields["format-version"], _VERSION, str(beside(location, _OPENINGS)))
        return [str(each) for each in fields["openings"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        logger.warning("%s is damaged, so the backup counts: %s", beside(location, _OPENINGS), error)
        return []


def note_openings(location: Path, openings: list[str]) -> None:
    """Note the openings of the state from this machine, in the place of earlier notes."""
    fields = {"format-version": _VERSION, "openings": openings}
    replace_bytes(beside(location, _OPENINGS), json.dumps(fields).encode("ascii"))


def open_for_query(
    where: Location, location: Path, query: str, settings: WriterSettings, planned: int | None = None
) -> StateWriter:
    """Take a state over for the checkpoint of a query.

    planned: the batch that the query runs; by default it is not known.
    `ConfigurationError` if the state has a backup of something else, or there is a `<location>.snapshot` that was not
    made here; `ConflictError` if it has a later batch than the query: the query began without it.
    """
    container, names = open_location(where)
    before = StateStorage(where.prepare(container), names).record()
    newest = None if before is None else before.document.newest
    if newest is not None:
        _check_same(QueryPosition.of(newest, names.state), query, planned, names.state)
    check_snapshot(location)
    opening = settings.opening or uuid.uuid4().hex
    last = [] if before is None else [each for each in openings_of(location) if each == before.document.writer]
    note_openings(location, [*last, opening])
    return open_state(where, TaskIdentity(job_name=names.state), replace(settings, opening=opening))


def _check_same(backup: QueryPosition, query: str, planned: int | None, state: str) -> None:
    if backup.query != query:
        cause = f"it has a backup of query {backup.query}, this is query {query}"
        step = "Restore that checkpoint before the query starts, or choose another state."
        raise ConfigurationError("back up checkpoint", f"state {state}", cause, step)
    if planned is not None and backup.batch >= planned:
        cause = f"it has batch {backup.batch}, and the query runs batch {planned} only"
        step = "Restore the checkpoint (`restore_checkpoint`) before the query starts."
        raise ConflictError("back up checkpoint", f"state {state}", cause, step)


def resumed_writer(where: Location, location: Path, settings: WriterSettings) -> StateWriter | None:
    """The writer that a process before has noted. None if there is none, or the state was restored or opened since."""
    _, names = open_location(where)
    try:
        data = beside(location, "writer.json").read_bytes()
    except FileNotFoundError:
        return None
    notes = WriterNotes.from_json(data, names.record)
    if notes is None:
        return None
    record = notes.stored.document
    if record.writer not in openings_of(location)[-1:] or settings.epoch not in (None, record.epoch):
        return None
    return resume_state(where, TaskIdentity(job_name=names.state), notes, settings)


def note_writer(location: Path, writer: StateWriter) -> None:
    """Note what the next process goes on from. If the disk refuses it, or the record is gone, it opens the state."""
    notes = beside(location, "writer.json")
    if writer.record_is_gone:
        notes.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError):
        replace_bytes(notes, writer.notes().to_json())
