"""Mistakes in the protocol that the histories must catch: designs that lose data in models, and omissions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from foundation.errors import TransientError
from state_backup.backup.writer import StateWriter
from state_backup.record.names import StateNames
from state_backup.record.store import record_store
from state_backup.sweeping import sweep as sweep_module
from tests.histories.mutants import Mutant, both, edited, replaced
from tests.state_backup.histories import world

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from state_backup.backup.attempt import BackupAttempt
    from state_backup.record.record import Checkpoint
    from state_backup.sweeping.sweep import SweepPlan

_WITHOUT_RECORD = edited("state_backup.sweeping.sweep:sweep", "if records.write(", "if False and records.write(")
_OVERWRITES = edited("state_backup.backup.upload:FileUploader.put", ", condition=IF_ABSENT", "")
_HOUR = 3600.0


def named(text: str) -> Mutant:
    """A file's blob is named so."""
    new = edited(
        "state_backup.backup.upload:FileUploader._uploaded",
        "blob = self._new_name()",
        f"blob = self._new_name().rpartition('/')[0] + '/' + {text}",
    )
    return both(new, _OVERWRITES)


def before_commit(act: Callable[[StateWriter, BackupAttempt], object]) -> Mutant:
    """Something is done before the record is written."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        commit = StateWriter._commit

        def later(writer: StateWriter, new: BackupAttempt, checkpoint: Checkpoint) -> bool:
            act(writer, new)
            return commit(writer, new, checkpoint)

        monkeypatch.setattr(StateWriter, "_commit", later)

    return patch


def _read_record(writer: StateWriter, _: BackupAttempt) -> None:
    writer._record.refresh()
    writer._go_on_from({**writer._indexes, **writer._read_indexes(writer._indexes)})


def _take_tags_off(writer: StateWriter, new: BackupAttempt) -> None:
    for blob in sorted(new.blobs):
        writer._storage.container.set_tags(blob, {})


def _delete_unused_first(writer: StateWriter, new: BackupAttempt) -> None:
    kept = {blob for each in writer.checkpoints[:1] for blob in each.indexes.values()}
    in_use = {blob for index in kept for blob in writer._indexes[index].blob_ids()} | kept
    old = {blob for index in writer._indexes.values() for blob in index.blob_ids()}
    used = {blob for _, index in new.indexes.values() for blob in index.blob_ids()}
    for blob in sorted(old - in_use - used):
        writer._storage.container.delete(blob)


def _age_is_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep spares what is younger than an hour; a backup that has taken half an hour is given up."""
    _WITHOUT_RECORD(monkeypatch)
    monkeypatch.setattr(world, "MIN_AGE", _HOUR)
    upload, commit = StateWriter._upload, StateWriter._commit
    begun: dict[int, int] = {}

    def noted(writer: StateWriter, *args: object) -> object:
        begun[id(writer)] = writer._storage.clock.now_ns()
        return upload(writer, *args)  # type: ignore[arg-type]

    def in_time(writer: StateWriter, new: BackupAttempt, checkpoint: Checkpoint) -> bool:
        if writer._storage.clock.now_ns() - begun[id(writer)] > _HOUR / 2 * 1e9:
            raise TransientError("too late")
        return commit(writer, new, checkpoint)

    monkeypatch.setattr(StateWriter, "_upload", noted)
    monkeypatch.setattr(StateWriter, "_commit", in_time)


def _sweep_deletes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    condemn = sweep_module.sweep

    def sweep(container: BlobContainer, state: str, plan: SweepPlan, **settings: int) -> int:
        for blob in plan.waste:
            container.delete(blob)
        return condemn(container, state, plan, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(world, "sweep", sweep)


def _sweep_takes_names_off(monkeypatch: pytest.MonkeyPatch) -> None:
    condemn = sweep_module.sweep

    def sweep(container: BlobContainer, state: str, plan: SweepPlan, **settings: int) -> int:
        gone = condemn(container, state, plan, **settings)  # type: ignore[arg-type]
        records = record_store(container, StateNames(state), lambda: f"off-{plan.stored.etag}")
        stored = records.read()
        if stored is not None:
            left = tuple(name for name in stored.document.condemned if name not in plan.waste)
            records.write(replace(stored.document, condemned=left), stored)
        return gone

    monkeypatch.setattr(world, "sweep", sweep)


MUTANTS: dict[str, Mutant] = {
    "A: the record is written without a condition": edited(
        "azure_account.documents.document:DocumentBlob.write",
        "IF_ABSENT if before is None else Condition(if_match=before)",
        "Condition()",
    ),
    "B: a file's name is its blob's name": named("file.name"),
    "C2: a sweep deletes what its listing has and the record has not": _WITHOUT_RECORD,
    "D: a file's content is its blob's name": named("file.blake3"),
    "F: a sweep spares what is young, a backup has a deadline": _age_is_grace,
    "G': the record is read just before the commit": before_commit(_read_record),
    "a sweep takes names off the list": _sweep_takes_names_off,
    "a sweep deletes before it condemns": _sweep_deletes_first,
    "a writer deletes before it commits": before_commit(_delete_unused_first),
    "a writer does not look whether its blobs were condemned": edited(
        "state_backup.backup.writer:StateWriter._commit_repeatedly",
        "new.blobs & set(self._record.document.condemned)",
        "set()",
    ),
    "what a failed attempt has uploaded is not condemned": both(
        edited(
            "state_backup.backup.writer:StateWriter._commit",
            "(self._blobs_of(known) | self._unused)",
            "self._blobs_of(known)",
        ),
        replaced("state_backup.backup.writer:StateWriter._condemn_the_rest", lambda *_: None),
    ),
    "the TTL is taken off before the commit": before_commit(_take_tags_off),
    "the TTL is not taken off by who takes over": edited(
        "state_backup.record.clean_up:CleanUp.run",
        "self.with_ttl -= _each(storage, take_ttl_off, sorted(self.with_ttl)).done",
        "self.with_ttl = set()",
    ),
    "the epoch is not checked when the record is read again": replaced(
        "azure_account.documents.owner:OwnedDocumentBlob.check_owner", lambda *_: None
    ),
    "two writers of one epoch are not told apart": edited(
        "azure_account.documents.owner:OwnedDocumentBlob.check_owner",
        "(found.epoch, found.writer) != (own.epoch, own.writer)",
        "found.epoch != own.epoch",
    ),
    "a commit whose answer was lost is made again": edited(
        "state_backup.backup.writer:StateWriter._find_committed",
        "return checkpoint in self.checkpoints",
        "return False",
    ),
    "a commit of its own that takes effect late is not noticed": edited(
        "state_backup.backup.writer:StateWriter._refresh",
        "self._go_on_from({**known, **self._read_indexes(known)})",
        "pass",
    ),
    "blobs are put without a condition": _OVERWRITES,
    "a run that asks for fewer checkpoints drops the others": edited(
        "state_backup.backup.settings:kept", "max(record.keep, wanted or 0)", "wanted or record.keep"
    ),
    "a writer goes on with the number of checkpoints that it was opened with": edited(
        "state_backup.backup.writer:StateWriter._commit",
        "newest = record.keep - 1",
        "newest = self.__dict__.setdefault('opened_with', record.keep) - 1",
    ),
    "blobs of a checkpoint that is kept are condemned": edited(
        "state_backup.backup.writer:StateWriter._commit",
        "for each in checkpoints for blob",
        "for each in checkpoints[: record.keep] for blob",
    ),
    "a pack is deleted when its first file is not needed any more": edited(
        "state_backup.index.snapshot_index:SnapshotIndex.blob_ids",
        "for blob in file.blobs",
        "for blob in file.blobs if not blob.pack_offset",
    ),
    "what the list has no room for is left": replaced(
        "state_backup.backup.writer:StateWriter._condemn_the_rest", lambda *_: None
    ),
    "worn packs are kept": replaced("state_backup.backup.attempt:without_worn", lambda _, stored: dict(stored)),
    "the files of a pack lie in another order": edited(
        "state_backup.backup.upload:FileUploader._put_group",
        "zip(group, begins, strict=False)}",
        "zip(group[::-1], begins, strict=False)}",
    ),
}
