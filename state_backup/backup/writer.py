"""Back up the stores of a task: upload what is new, commit, then clean up.

    open_state   raise the epoch in the record; take up the clean-up that an earlier writer has left
    back_up      scan ─► compare ─► upload files ─► put indexes ─► change the record ─► take TTLs off, delete
                                                                      │ the commit point
                                                                      └ it was changed meanwhile ─► read it again:
                                                                           another writer: `FencedError`
                                                                           a sweep has condemned new blobs: upload again
                                                                           else: change it again

Decision 15 says why no order of events, clocks included, deletes what a checkpoint needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from azure_account.documents.owner import DocumentOwner
from azure_account.location import Location
from azure_account.undelete import undelete
from foundation.arguments import checked
from foundation.clock import SYSTEM_CLOCK, Clock
from foundation.errors import AzureBlobError, ConflictError, NotFoundError
from foundation.parallel import concurrent_map
from foundation.report import ProgressCallbacks
from state_backup.backup.attempt import AttemptOptions, BackupAttempt, KnownContent
from state_backup.backup.notes import WriterNotes
from state_backup.backup.settings import (
    MayBeEmpty,
    TaskIdentity,
    WriterHandover,
    WriterSettings,
    check_all_given,
    checked_stores,
    kept,
    may_be_empty,
)
from state_backup.index.checkpoint_id import CheckpointId, next_id
from state_backup.metrics import StateMetrics
from state_backup.record.clean_up import CleanUp
from state_backup.record.record import MOST_CONDEMNED, Checkpoint, CheckpointRecord
from state_backup.record.store import StateStorage, new_uuid, open_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.documents.document import Stored
    from state_backup.backup.attempt import BackedUpStore
    from state_backup.index.dir_diff import Blobs, Content
    from state_backup.index.snapshot_index import SnapshotIndex
    from state_backup.local.scan import ChecksumCache

logger = logging.getLogger("state_backup")

_LOOK_EVERY = 86_400.0
"""Seconds after which a writer looks again whether the blobs of its checkpoints are there."""
_ATTEMPTS = 10
"""How often a commit is tried when sweeps change the record in between."""


@checked
def open_state(
    where: Location,
    owner: TaskIdentity,
    settings: WriterSettings = WriterSettings(),
    *,
    prior: WriterHandover = WriterHandover(),
    clock: Clock = SYSTEM_CLOCK,
    new_id: Callable[[], str] = new_uuid,
) -> StateWriter:
    """Take a state over from other writers, and take up the clean-up that they have left.

    where: the state: a container, which is created if it is absent, and its path, such as `flights/task-3`.
    owner: goes into each snapshot index.
    settings: the epoch of this writer, how many checkpoints to keep, and threads.
    prior: what the writer before has left on this host.

    `FencedError` if a writer with a higher epoch has the state. Of two writers with one epoch, the last to open the
    state has it.
    """
    container, names = open_location(where)
    storage = StateStorage(container, names, settings.threads, clock, new_id)
    is_new = False

    def own(before: Stored[CheckpointRecord] | None) -> CheckpointRecord:
        nonlocal is_new
        record = CheckpointRecord(0, "") if before is None else before.document
        above = record.epoch + 1 if settings.epoch is None else settings.epoch
        is_new = above > record.epoch
        keep = kept(names.state, record, settings.keep)
        return replace(record, epoch=above, writer=settings.opening or new_id(), keep=keep)

    try:
        record = storage.records.open(own, storage.record)
    except NotFoundError:
        where.prepare(container)
        record = storage.records.open(own, storage.record)
    writer = StateWriter(storage, owner, record, settings)
    writer.take_up(prior)
    if is_new:  # the tasks of a fill open the states of a store with one epoch, for each batch
        newest = "none" if writer.newest is None else writer.newest.id
        logger.info("state %s: epoch %d begins, the newest checkpoint is %s", names.state, writer.epoch, newest)
    return writer


def resume_state(
    where: Location,
    owner: TaskIdentity,
    notes: WriterNotes,
    settings: WriterSettings = WriterSettings(),
) -> StateWriter:
    """Go on as the writer of a process before, without a request.

    where, owner, settings: as for `open_state`; the settings' epoch, number of checkpoints and opening do not count.
    notes: of the writer before, after its last backup. If another one has the state now, a backup is fenced.
    """
    container, names = open_location(where)
    storage = StateStorage(container, names, settings.threads)
    writer = StateWriter(storage, owner, DocumentOwner(storage.records, notes.stored), settings)
    writer.resume(notes)
    return writer


class StateWriter:
    """The one writer of a state; `open_state` makes it. Not thread-safe."""

    def __init__(
        self,
        storage: StateStorage,
        owner: TaskIdentity,
        record: DocumentOwner[CheckpointRecord],
        settings: WriterSettings,
    ) -> None:
        self._storage, self._owner, self._settings = storage, owner, settings
        self._record = record
        self._indexes: dict[str, SnapshotIndex] = {}
        """The snapshot indexes of the checkpoints in the record, by blob."""
        self._left = CleanUp(())
        self._unused: set[str] = set()
        """Blobs of attempts that have failed, and others that no checkpoint has: the next commit condemns them."""
        self._without_tags: set[str] = set()
        """Blobs that got no TTL."""
        self._lost: set[str] = set()
        """Blobs that no new checkpoint uses: they are gone, or have not the size they had."""
        self._looked = 0.0
        """When the blobs were looked at, by this writer or the one of whose notes it goes on."""
        self._read_files: dict[str, ChecksumCache] = {}
        self._metrics = StateMetrics(storage.state)
        self.record_is_gone: bool = False
        """Whether the record was found deleted. The state has to be opened again then: the notes do not hold."""
        self.backed_up: Mapping[str, BackedUpStore] = {}
        """What the last committed backup did, by store."""

    def take_up(self, prior: WriterHandover) -> None:
        """Look at what the state has, and take up the clean-up that earlier writers have left."""
        self._indexes = self._read_indexes(())
        there, with_ttl = self._storage.listed()
        in_use, record = self._blobs_of(self._indexes), self._record.document
        self._left = CleanUp(in_use - self._blobs_without_ttl(prior.settled) if with_ttl is None else in_use & with_ttl)
        self._read_files = dict(prior.read_files)
        self._lost, self._looked = self._find_lost(there), self._storage.clock.now()
        if len(self._indexes) == len({blob for each in self.checkpoints for blob in each.indexes.values()}):
            # What no checkpoint names is of writers that cannot commit any more: they lost the state by this opening.
            self._unused |= set(there) - in_use - set(record.condemned)
        self._left.gone = set(record.condemned) - set(there)
        self._clean_up()

    def notes(self) -> WriterNotes:
        """What the next process goes on from (`resume_state`)."""
        blobs = self._left.with_ttl, self._left.gone, self._unused, self._without_tags, self._lost
        return WriterNotes(self._record.stored, self._indexes, *blobs, self._looked, self._read_files)

    def resume(self, notes: WriterNotes) -> None:
        """Go on from what the process before has noted, without a request."""
        self._indexes = dict(notes.indexes)
        self._left = CleanUp(notes.with_ttl)
        self._left.gone = set(notes.gone)
        self._unused, self._without_tags, self._lost = set(notes.unused), set(notes.without_tags), set(notes.lost)
        self._looked, self._read_files = notes.looked, dict(notes.read_files)

    @property
    def epoch(self) -> int:
        """The epoch of this writer."""
        return self._record.document.epoch

    @property
    def newest(self) -> Checkpoint | None:
        """The last checkpoint; None before the first."""
        return self._record.document.newest

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """The checkpoints that can be restored, newest first."""
        return self._record.document.checkpoints

    @property
    def settled(self) -> bool:
        """Whether all blobs of the checkpoints are without TTL: the next writer need not see to that."""
        return not self._left.with_ttl

    @property
    def read_files(self) -> Mapping[str, ChecksumCache]:
        """The files that the last backup has read or knew, by store; empty unless it had `trust_times`."""
        return self._read_files

    @checked
    def back_up(
        self,
        stores: Mapping[str, Path | str | MayBeEmpty],
        offsets: Mapping[str, str] | None = None,
        report: ProgressCallbacks = ProgressCallbacks(),
        *,
        trust_times: bool = False,
        keep: Collection[str | CheckpointId] = (),
        leave_out: Collection[str] = (),
    ) -> Checkpoint:
        """Commit a checkpoint of these directories, by store name, and of the offsets that belong to them.

        stores: the checkpoint has these and no others.
        offsets: texts by key, such as where the inputs were.
        report: gets the files to upload, before each store's upload, and each piece that was.
        trust_times: a file whose inode, size and modification time are those of the last backup is not read again. Only
        for directories of hard links to files that are never changed in place, such as checkpoints of RocksDB.
        keep: ids of checkpoints that stay in the record beside the newest ones; those that are not in it any more are
        ignored.
        leave_out: stores of the checkpoint before that this one has not, so that they are dropped with older ones.

        `ConfigurationError` if a store of the checkpoint before is neither given nor left out, or had files at its last
        checkpoint and has none, unless `MayBeEmpty` says so.
        The directories must not change meanwhile: `ConflictError` if they do. `FencedError` if another writer has taken
        over. After these the checkpoint is there only if the answer of its commit was lost, as it may be after a
        `TransientError`; then all of it is there. An error of the clean-up is only logged: the next backup takes it up.
        """
        with self._metrics.count_failures("backupsFailed"):
            begun = self._storage.clock.monotonic()
            directories = checked_stores(stores, self._storage.state)
            check_all_given(directories, leave_out, self._storage.state, self.newest)
            self._look_again()
            options = AttemptOptions(report, trust_times, frozenset(map(str, keep)), may_be_empty(stores))
            new = self._attempt(options)
            new.check_readable(directories, offsets or {}, self.epoch)
            if not trust_times:
                self._read_files.clear()
            self._upload(new, directories)
            checkpoint = self._commit_repeatedly(new, directories, options, dict(offsets or {}))
            self._report_commit(checkpoint, self._storage.clock.monotonic() - begun)
            self._clean_up()
            self._condemn_the_rest()
            return checkpoint

    def _commit_repeatedly(
        self, new: BackupAttempt, directories: Mapping[str, Path], options: AttemptOptions, offsets: dict[str, str]
    ) -> Checkpoint:
        """Commit the attempt, or new ones if a sweep, or an earlier commit whose answer was lost, came between."""
        for _ in range(_ATTEMPTS):
            checkpoint = new.checkpoint(offsets)
            if self._commit(new, checkpoint) or self._find_committed(new, checkpoint):
                self.backed_up = new.stores
                return checkpoint
            condemned = new.blobs & set(self._record.document.condemned)
            if condemned or new.base != self.newest:
                cause = "a sweep has condemned blobs" if condemned else "an earlier commit took effect just before that"
                logger.warning("%s of a backup of %s: it is repeated", cause, self._storage.state)
                new = self._attempt(options, self._still_stored(new))
                self._upload(new, directories)
        raise self._storage.records.too_many_changes()

    def _look_again(self) -> None:
        """Once a day, whether somebody has deleted or cut blobs: a list of them, and the indexes, are read."""
        now = self._storage.clock.now()
        if abs(now - self._looked) < _LOOK_EVERY:
            return
        there, _ = self._storage.listed()
        if self._blobs_of(self._indexes) - set(there):
            self._refresh({})  # another writer may have taken over, and deleted them
        unread = self._indexes.keys() - self._fetched(self._indexes)
        self._lost, self._looked = self._lost | self._find_lost(there) | unread, now

    def _attempt(self, options: AttemptOptions, uploaded: Mapping[Content, Blobs] | None = None) -> BackupAttempt:
        id_ = next_id(self._storage.clock.now_ns(), None if self.newest is None else self.newest.id)
        known = KnownContent(self.checkpoints, self._indexes, self._lost, uploaded or {}, self._read_files)
        return BackupAttempt(self._storage, self._owner, id_, known, options)

    def _upload(self, new: BackupAttempt, stores: Mapping[str, Path]) -> None:
        try:
            new.upload(stores, self._settings, self._metrics, tags_refused=self._left.tags_refused)
        finally:
            self._left.tags_refused = new.tags_refused
            self._unused |= new.blobs
            self._without_tags |= new.without_tags

    def _still_stored(self, new: BackupAttempt) -> dict[Content, Blobs]:
        if new.base != self.newest:
            return {}
        condemned = set(self._record.document.condemned)
        return {
            content: blobs
            for content, blobs in new.content.items()
            if not any(each.blob_id in condemned for each in blobs)
        }

    def _report_commit(self, checkpoint: Checkpoint, seconds: float) -> None:
        self._metrics.count("checkpointsCommitted")
        self._metrics.set("lastCheckpoint", self._storage.clock.now())
        for store, done in self.backed_up.items():
            self._metrics.count("filesRetained", done.retained_files, store=store)
            self._metrics.count("bytesRetained", done.retained_bytes, store=store)
        stores = self.backed_up.values()
        logger.info(
            "state %s: checkpoint %s is committed, %d files with %d bytes uploaded, %d files kept, in %.2f s",
            self._storage.state, checkpoint.id, sum(each.uploaded_files for each in stores),
            sum(each.uploaded_bytes for each in stores), sum(each.retained_files for each in stores), seconds,
        )  # fmt: skip

    def _commit(self, new: BackupAttempt, checkpoint: Checkpoint) -> bool:
        """Change the record. False if it was changed meanwhile."""
        record = self._record.document
        whole = set(self._indexes) - self._lost
        older = [each for each in record.checkpoints if set(each.indexes.values()) <= whole]
        newest = record.keep - 1
        checkpoints = (checkpoint, *older[:newest], *(each for each in older[newest:] if str(each.id) in new.keep))
        known = {**self._indexes, **dict(new.indexes.values())}
        in_use = self._blobs_of({blob: known[blob] for each in checkpoints for blob in each.indexes.values()})
        waste = (self._blobs_of(known) | self._unused) - in_use
        changed = replace(record, checkpoints=checkpoints, condemned=self._condemned(record, waste))
        if not self._record.replace(changed):
            return False
        self._go_on_from(known)
        return True

    def _condemned(self, record: CheckpointRecord, waste: set[str]) -> tuple[str, ...]:
        """The list of the next record: without what is gone, and with as much of the waste as it has room for."""
        condemned = sorted(set(record.condemned) - self._left.gone)
        new = sorted(waste - set(record.condemned))
        return (*condemned, *new[: max(0, MOST_CONDEMNED - len(condemned))])

    def _condemn_the_rest(self) -> None:
        """Condemn and delete what the list had no room for, part by part, until nothing is left or nothing goes.

        Else waste would add up if each backup has more of it than the list has room for. An error is only logged, and
        if the record was changed meanwhile, the next commit finds that out.
        """
        try:
            while self._unused:
                record = self._record.document
                condemned = self._condemned(record, self._unused)
                if set(condemned) == set(record.condemned):
                    return
                if not self._record.replace(replace(record, condemned=condemned)):
                    return
                self._go_on_from(self._indexes)
                self._clean_up()
        except AzureBlobError as error:
            logger.warning("the clean-up of %s goes on with the next backup: %s", self._storage.state, error)

    def _find_committed(self, new: BackupAttempt, checkpoint: Checkpoint) -> bool:
        """Read the record that was changed meanwhile. True if it has the checkpoint: the commit's answer was lost."""
        self._refresh(dict(new.indexes.values()))
        return checkpoint in self.checkpoints

    def _refresh(self, new: Mapping[str, SnapshotIndex]) -> None:
        """Read the record again. new: snapshot indexes that it may have. `FencedError` if another writer has it."""
        try:
            self._record.refresh()
        except ConflictError:
            self.record_is_gone = True
            raise
        known = {**self._indexes, **new}
        self._go_on_from({**known, **self._read_indexes(known)})

    def _read_indexes(self, known: Collection[str]) -> dict[str, SnapshotIndex]:
        return self._fetched({blob for each in self.checkpoints for blob in each.indexes.values()} - set(known))

    def _fetched(self, blobs: Collection[str]) -> dict[str, SnapshotIndex]:
        """The snapshot indexes in these blobs that can be read. A store may have hundreds, for readers of old ones."""
        read, names = partial(self._storage.read_index, self._record.document), sorted(blobs)
        found = concurrent_map(read, names, self._storage.threads, after_error="wait")
        return {blob: index for blob, index in zip(names, found, strict=True) if index is not None}

    def _find_lost(self, there: Mapping[str, int]) -> set[str]:
        """Blobs of checkpoints that are gone for good, or have not the size they had: no new checkpoint uses them.

        there: the blobs of the state, with their sizes.
        """
        storage, needed = self._storage, self._blobs_of(self._indexes)
        gone = needed - set(there)
        lost = gone - set(undelete(storage.container, sorted(gone), storage.threads))
        for index in self._indexes.values():
            lost |= {blob for blob, size in index.blob_sizes() if blob in needed and there.get(blob, size) != size}
        if lost:
            text = (
                "%d of the blobs of %s are gone or cut, such as %s: the next backup uploads again what it has of them"
            )
            logger.warning(text, len(lost), storage.state, min(lost))
        return lost

    def _go_on_from(self, known: Mapping[str, SnapshotIndex]) -> None:
        """Take notes of the record, which is another one than before. known: its snapshot indexes, and others."""
        record = self._record.document
        named = {blob for each in record.checkpoints for blob in each.indexes.values()}
        self._indexes = {blob: index for blob, index in known.items() if blob in named}
        in_use, condemned = self._blobs_of(self._indexes), set(record.condemned)
        self._left.with_ttl = (self._left.with_ttl | (self._unused - self._without_tags)) & in_use
        self._without_tags &= self._unused
        self._unused = (self._unused | self._blobs_of(known)) - in_use - condemned

    def _blobs_without_ttl(self, settled: str) -> set[str]:
        """The blobs of the checkpoint that is known to be settled, and of those before it."""
        ids = [str(each.id) for each in self.checkpoints]
        since = self.checkpoints[ids.index(settled) :] if settled in ids else ()
        named = {blob for each in since for blob in each.indexes.values()}
        return self._blobs_of({blob: index for blob, index in self._indexes.items() if blob in named})

    def _clean_up(self) -> None:
        with self._metrics.measured("cleanupSeconds"):
            deleted = self._left.run(self._storage, self._record.document.condemned)
        self._metrics.count("blobsDeleted", deleted)

    def _blobs_of(self, indexes: Mapping[str, SnapshotIndex]) -> set[str]:
        """The blobs of snapshots: their indexes and files. Not names of others, which are not ours to change."""
        blobs = {*indexes, *(blob for index in indexes.values() for blob in index.blob_ids())}
        return {blob for blob in blobs if self._storage.names.owns(blob)}
