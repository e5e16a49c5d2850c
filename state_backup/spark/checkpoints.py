"""Back up the checkpoint of a running query in the background, and restore it.

A thread looks for new batches in the checkpoint, takes a snapshot of it and backs that up. If a backup takes longer
than a batch, the next one is of the newest batch. The query never waits for it. So after the loss of a disk the query
goes on after the last batch that was backed up, and runs those after it again.
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from azure_account.location import Location
from foundation.arguments import Count, Seconds, Wait, checked
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import ConfigurationError, ConflictError, CorruptError, FencedError, NotFoundError
from state_backup.backup.settings import WriterSettings
from state_backup.record.store import StateStorage, open_location
from state_backup.restoring.restore import RestoreResult, RestoreSettings, restore
from state_backup.spark.position import STORE, QueryPosition, beside, local_path
from state_backup.spark.schema_paths import relocate
from state_backup.spark.snapshot import newest_batch, query_id, snapshot_of, whole_batch
from state_backup.spark.writers import note_openings, open_for_query, openings_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from azure_account.documents.document import Stored
    from state_backup.backup.writer import StateWriter
    from state_backup.record.record import CheckpointRecord

logger = logging.getLogger("state_backup")

_RETRIES_AT_END = 5
_SHORTEST_PAUSE = 0.02
"""Seconds between two looks at whether the query is to be stopped."""


class Query(Protocol):
    """A `StreamingQuery`, or what looks like one."""

    @property
    def id(self) -> object:
        """The id in the checkpoint."""

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether the query runs."""

    def stop(self) -> None:
        """Stop it."""


@dataclass(frozen=True)
class RestoredCheckpoint:
    """What `restore_checkpoint` has done.

    batch: the last one of the checkpoint; -1 if its first batch is not done, None if there is no checkpoint.
    query: the id of its query; None if there is no checkpoint, or its `metadata` is damaged.
    restored: what was downloaded; None if the directory was kept as it is, or nothing is there.
    """

    batch: int | None
    query: str | None
    restored: RestoreResult | None


@checked
def restore_checkpoint(
    where: Location,
    location: str | Path,
    *,
    discard_newer: bool = False,
    required: bool = False,
    threads: Count = 16,
) -> RestoredCheckpoint:
    """Make `location` the checkpoint that the query has to start from. Call it before the query starts.

    where: the state that has the backup.
    location: the query's `checkpointLocation`, on a local disk.
    discard_newer: discard batches of the directory that the backup does not have, and a directory that is of another
    query or no checkpoint.
    required: a state without a backup is a `NotFoundError`, such as one whose name is wrong.
    threads: requests at a time.

    The directory stays as it is if this machine was the last to back it up: it may have newer batches than the backup.
    If its newest batch is torn, as after a loss of power, it becomes what was backed up; `ConflictError` if that would
    discard batches that are whole.
    Otherwise it becomes what was backed up. If it is of a query that has finished no batch, as of a driver that was
    lost before its first backup, it is kept as `<location>.of-<query>`. Without a backup, or a container, nothing is
    done.

    `ConflictError` if the directory has batches of another query or is no checkpoint, or has newer batches than the
    backup and was not backed up from here since it was restored. `NotFoundError` or `CorruptError` if the newest backup
    is not whole, and an older one lacks batches that are there. `ConfigurationError` if the state is no backup of
    `back_up_checkpoint` or `back_up_batch`; then the directory stays. If the state's record was deleted it is
    undeleted; `ConflictError` if that cannot be done.
    """
    container, names = open_location(where)
    state = names.state
    location = local_path(location)
    stored = _record(StateStorage(container, names))
    if stored is None or stored.document.newest is None:
        if required:
            step = "Check the names of container and state; leave out `required` at the first start of the query."
            raise NotFoundError("restore checkpoint", str(location), f"state {where} has no backup", step)
        return RestoredCheckpoint(newest_batch(location), _query_of(location), None)
    local, torn = whole_batch(location)
    newest, *older = stored.document.checkpoints
    backup = QueryPosition.of(newest, state)
    before = [QueryPosition.of(each, state).batch for each in older if STORE in each.indexes]
    was_last = stored.document.writer in openings_of(location)
    if was_last and not torn and local is not None and local >= backup.batch:
        relocate(location)
        return RestoredCheckpoint(local, _query_of(location), None)
    only = None
    if not discard_newer:
        if was_last and torn:
            _check_torn(location, local, backup, torn)
        elif not _set_aside(location, local, backup):
            _check_not_newer(location, local, backup)
        if local is not None and min(before, default=local) < local:
            only = str(newest.id)  # an older one, if this one is not whole, would discard batches that are here
    restored = restore(where, {STORE: location}, checkpoint_id=only, settings=RestoreSettings(threads))
    relocate(location)
    note_openings(location, [])  # what the query adds from now on is nowhere else
    position = QueryPosition.of(restored.checkpoint, state)
    return RestoredCheckpoint(position.batch, position.query, restored)


def _record(storage: StateStorage) -> Stored[CheckpointRecord] | None:
    """The record of a state; None without a container: a query that creates it has not run yet."""
    try:
        return storage.record()
    except NotFoundError as error:
        logger.warning("nothing is restored: %s", error)
        return None


def _check_torn(location: Path, local: int | None, backup: QueryPosition, torn: Sequence[str]) -> None:
    """`ConflictError` if batches that are whole would be discarded together with one that is torn."""
    logger.warning("checkpoint %s is torn, as after a loss of power: %s", location, ", ".join(torn))
    if local is not None and local > backup.batch:
        names = ", ".join(torn)
        cause = f"{names} is torn, as after a loss of power; batch {local} is whole, the backup has {backup.batch}"
        step = f"Delete {names}, to go on after batch {local}; or go on after the backup (`discard_newer=True`)."
        raise ConflictError("restore checkpoint", str(location), cause, step)


def _set_aside(location: Path, local: int | None, backup: QueryPosition) -> bool:
    """Rename a checkpoint of another query that has finished no batch; whether it was one.

    If two drivers begin a query before its first backup, each gives it an id, and one of the two makes the backup.
    """
    found = _query_of(location)
    aside = beside(location, f"of-{found}")
    if local is not None or found in (None, backup.query) or aside.exists():
        return False
    location.rename(aside)
    logger.warning(
        "checkpoint %s is of query %s, which has finished no batch: it is kept as %s, and query %s is restored",
        location, found, aside, backup.query,
    )  # fmt: skip
    return True


def _check_not_newer(location: Path, local: int | None, backup: QueryPosition) -> None:
    """`ConflictError` if the restore would discard batches that may be nowhere else, or files of something else."""
    step = "Choose another directory; or discard what is there (`discard_newer=True`)."
    if location.is_dir() and any(location.iterdir()) and (found := _query_of(location)) != backup.query:
        cause = f"it is {_kind(found)}, the backup is of query {backup.query}"
        raise ConflictError("restore checkpoint", str(location), cause, step)
    if local is not None and local > backup.batch and not openings_of(location):
        cause = f"it has batch {local}, the backup has batch {backup.batch}"
        step = (
            "To keep these batches start the query without this restore, if no other machine runs it; or discard them"
        )
        raise ConflictError("restore checkpoint", str(location), cause, f"{step} (`discard_newer=True`).")


def _query_of(location: Path) -> str | None:
    """The query of a checkpoint; None also if its metadata is damaged: a restore is what mends that."""
    try:
        return query_id(location)
    except CorruptError as error:
        logger.warning("%s", error)
        return None


@checked
@dataclass(frozen=True)
class CheckpointSettings:
    """How the checkpoint of a query is backed up.

    every: seconds between two backups, at least.
    stop_after: seconds. If backups have failed, or one has waited, for that long, the query is stopped, again and again
    until it has ended. By default it runs on, and `failure` says why.
    retained: the query's `spark.sql.streaming.minBatchesToRetain`.
    writer: its epoch, and how many backups to keep.
    """

    every: Wait = 10.0
    stop_after: Seconds | None = None
    retained: Count = 100
    writer: WriterSettings = WriterSettings()


@checked
def back_up_checkpoint(
    query: Query, where: Location, location: str | Path, settings: CheckpointSettings = CheckpointSettings()
) -> CheckpointBackup:
    """Begin to back up the checkpoint of a query that was just started. Close the result when the query has ended.

    where: the state that gets the backup.
    location: the query's `checkpointLocation`, on a local disk.
    settings: how often; whether to stop the query if that fails.

    Takes the state over from other writers; when another one takes it over, the query is stopped. `ConfigurationError`
    if the directory is not the checkpoint of this query, the state has a backup of something else, or there is a
    `<location>.snapshot` that was not made here.
    """
    _, names = open_location(where)
    location = local_path(location)
    if query_id(location) != str(query.id):
        cause = f"it has a checkpoint of query {query_id(location) or 'none'}, this is query {query.id}"
        step = "Give the checkpointLocation of the query."
        raise ConfigurationError("back up checkpoint", str(location), cause, step)
    writer = open_for_query(where, location, str(query.id), settings.writer)
    batch = None if writer.newest is None else QueryPosition.of(writer.newest, names.state).batch
    return CheckpointBackup(query, writer, location, settings, batch)


class CheckpointBackup(AbstractContextManager["CheckpointBackup"]):
    """The backup of one query, in a thread. Made by `back_up_checkpoint`.

    When the query ends, the thread makes a last backup and ends. A context manager that waits for it.
    """

    def __init__(
        self,
        query: Query,
        writer: StateWriter,
        location: Path,
        settings: CheckpointSettings,
        batch: int | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._query, self._writer, self._location, self._settings = query, writer, location, settings
        self._batch, self._clock = batch, clock
        self._failure: Exception | None = None
        self._closing = threading.Event()
        self._ended = threading.Event()
        self._unsaved_since: float | None = None
        """When the first of the backups began that have not succeeded; None if the last one has."""
        self._thread = threading.Thread(target=self._run, name=f"back-up-{location.name}", daemon=True)
        self._thread.start()
        if (seconds := settings.stop_after) is not None:
            threading.Thread(
                target=self._stop_in_time, args=(seconds,), name=f"stop-{location.name}", daemon=True
            ).start()

    @property
    def batch(self) -> int | None:
        """The last batch that is backed up; None before the first."""
        return self._batch

    @property
    def behind(self) -> int:
        """Batches that the query has committed since: they are run again if the disk is lost now."""
        newest = newest_batch(self._location)
        return 0 if newest is None else newest - (-1 if self._batch is None else self._batch)

    @property
    def failure(self) -> Exception | None:
        """Why the last backup has failed; None if it has not."""
        return self._failure

    def close(self) -> None:
        """Make a last backup, and end; the query may run on. Raises the `failure` of that backup."""
        self._closing.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close it. An error of the block is not hidden by one of the backup, which is logged."""
        if error is None:
            self.close()
            return
        self._closing.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def _run(self) -> None:
        try:
            self._follow()
        except FencedError as error:
            self._failure = error
            logger.error("query %s is stopped: %s", self._query.id, error)  # noqa: TRY400 - the message has it all
            self._stop_for_good()
        except Exception as error:
            self._failure = error
            logger.exception("checkpoint %s is not backed up any more", self._location)
        finally:
            self._ended.set()

    def _stop_in_time(self, seconds: float) -> None:
        """Stop the query when no backup has succeeded for so long, whatever one waits for; again as long as it runs."""
        while not self._ended.wait(max(_SHORTEST_PAUSE, min(self._settings.every, seconds / 4))):
            since = self._unsaved_since
            if since is not None and self._clock.monotonic() - since >= seconds and self._query_runs():
                logger.error("query %s is stopped: no backup for %s s", self._query.id, seconds)
                self._stop_query()

    def _follow(self) -> None:
        """Back up until the query has ended, or `close` is called; then once more."""
        while True:
            ends = self._closing.is_set() or not self._query_runs()
            if self._unsaved_since is None:
                self._unsaved_since = self._clock.monotonic()
            if self._back_up():
                self._unsaved_since = None
            if ends:
                break
            self._closing.wait(self._settings.every)
        for _ in range(_RETRIES_AT_END):
            if self._failure is None:
                break
            self._clock.sleep(min(1.0, self._settings.every))
            self._back_up()

    def _stop_for_good(self) -> None:
        """Stop the query until it has ended, or `close` is called."""
        self._stop_query()
        while self._query_runs() and not self._closing.wait(self._settings.every):
            self._stop_query()

    def _stop_query(self) -> None:
        """Stop the query. An error is logged: the caller tries again while the query runs."""
        try:
            self._query.stop()
        except Exception as error:  # noqa: BLE001 - such as spark.sql.streaming.stopTimeout, or of a session that ends
            logger.warning("query %s cannot be stopped, it is tried again while it runs: %s", self._query.id, error)

    def _query_runs(self) -> bool:
        try:
            return self._query.isActive
        except Exception as error:  # noqa: BLE001 - such as of a session that was stopped
            logger.warning("query %s cannot be asked, so it has ended: %s", self._query.id, error)
            return False

    def _back_up(self) -> bool:
        """Back the newest batch up, if it is not yet. False if that fails with what may pass."""
        try:
            newest = newest_batch(self._location)
            self._check_there(newest)
            if newest != self._batch:
                self._back_up_newest()
        except FencedError:
            raise
        except Exception as error:  # noqa: BLE001 - the thread goes on whatever happens: `failure` has it
            self._failure = error
            logger.warning("checkpoint %s: the backup is tried again: %s", self._location, error)
            return False
        self._failure = None
        return True

    def _check_there(self, newest: int | None) -> None:
        """`ConflictError` if the checkpoint has vanished under the query, such as with the disk that it was on."""
        found = query_id(self._location)
        if found != str(self._query.id) or (newest is None and self._batch is not None):
            what = "nothing is there" if not self._location.exists() else f"it is {_kind(found)}"
            cause = f"{what}: it is not the checkpoint of query {self._query.id} any more"
            step = "See that its disk is mounted. `restore_checkpoint` gives it back when the query has ended."
            raise ConflictError("back up checkpoint", str(self._location), cause, step)

    def _back_up_newest(self) -> None:
        with snapshot_of(self._location, self._settings.retained) as (snapshot, batch):
            self._check_there(batch)
            if batch is not None:
                offsets = QueryPosition(batch, str(self._query.id)).offsets
                self._writer.back_up({STORE: snapshot}, offsets, trust_times=True)
                self._batch = batch


def _kind(found: str | None) -> str:
    return "no checkpoint of Spark" if found is None else f"of query {found}"
