"""Blobs that somebody deletes or cuts while a writer runs: it looks once a day, and then its checkpoints are whole."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from azure_account.memory.faults import FaultInjector
from foundation.clock import ManualClock
from foundation.errors import FencedError
from state_backup import TaskIdentity, checkpoints, open_state, restore, verify
from state_backup.backup.notes import WriterNotes
from state_backup.backup.settings import WriterSettings
from state_backup.backup.writer import resume_state
from tests.histories.mutants import Mutant, edited
from tests.state_backup.states import STATE, TREES, check_no_orphans, equal, new_account, state_in, write

if TYPE_CHECKING:
    from pathlib import Path

    from azure_account.container import BlobContainer
    from tests.state_backup.index.trees import Tree

DAY = 86_400
OWNER = TaskIdentity("flights")
MUTANTS: dict[str, Mutant] = {
    "nobody looks": edited(
        "state_backup.backup.writer:StateWriter._look_again", "< _LOOK_EVERY", "< 100 * _LOOK_EVERY"
    ),
    "an index that is gone is kept": edited(
        "state_backup.backup.attempt:BackupAttempt._is_unchanged", "previous in lost or ", ""
    ),
    "files that are gone count as unchanged": edited(
        "state_backup.backup.attempt:BackupAttempt._is_unchanged",
        "(previous in lost or not before.blob_ids().isdisjoint(lost))",
        "previous in lost",
    ),
    "a checkpoint without its index stays": edited(
        "state_backup.backup.writer:StateWriter._commit", "set(self._indexes) - self._lost", "set(self._indexes)"
    ),
}


def run(seed: int, folder: Path) -> None:
    """Backups of a directory that changes or not, and losses, for some days."""
    draws, clock, account = Random(seed), ManualClock(), new_account()
    container = account.container("box")
    writer = open_state(state_in(container), OWNER, WriterSettings(threads=1), clock=clock)
    tree: Tree = TREES[0]
    live = write(folder / "live", tree)
    for number in range(8):
        if draws.random() < 0.5:
            tree = draws.choice(TREES)
            write(live, tree)
        there = sorted(blob.name for blob in container.list() if not blob.name.endswith("checkpoint.json"))
        lost = draws.sample(there, min(number, 1))
        for blob in lost:
            container.delete(blob) if draws.random() < 0.7 else container.put(blob, b"")
        clock.advance(DAY)
        writer.back_up({"store": live})
        newest = verify(state_in(container), deep=True)[0]
        assert newest.whole, f"{lost} were lost"
        named = {index for each in checkpoints(state_in(container)) for index in each.indexes.values()}
        assert named.isdisjoint(lost)
        assert restore(state_in(container), {"store": folder / "restored"}).checkpoint == writer.newest
        assert equal(folder / "restored", tree)
    writer.back_up({"store": live})
    open_state(state_in(container), OWNER, WriterSettings(threads=1), clock=clock).back_up({"store": live})
    check_no_orphans(container)


@pytest.mark.parametrize("seed", range(12))
def test_a_writer_that_runs_notices_what_was_lost_within_a_day(tmp_path: Path, seed: int) -> None:
    run(seed, tmp_path)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_check_of_lost_blobs_catches(tmp_path: Path, mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[mutant](monkeypatch)
    with pytest.raises(AssertionError):  # noqa: PT012 - one of the seeds
        for seed in range(40):
            run(seed, tmp_path)


def test_the_look_is_three_requests_a_day(tmp_path: Path) -> None:
    faults, clock, live = FaultInjector(), ManualClock(), write(tmp_path / "live", TREES[0])
    container = new_account().restarted(faults).container("box")
    writer = open_state(state_in(container), OWNER, clock=clock)
    writer.back_up({"store": live})
    asked = []
    for hours in (1, 22, 1, 1, 23):
        clock.advance(hours * 3600)
        before = faults.count
        writer.back_up({"store": live})
        asked.append([each.operation for each in faults.attempts[before:]])
    look = ["list_tags", "list_tags", "get", "put"]
    assert [["put"], ["put"], look, ["put"], look] == asked


def test_a_writer_that_goes_on_from_notes_looks_once_a_day_too(tmp_path: Path) -> None:
    container, live = new_account().container("box"), write(tmp_path / "live", TREES[0])
    first = open_state(state_in(container), OWNER)
    first.back_up({"store": live})
    notes = WriterNotes.from_json(first.notes().to_json(), f"{STATE}/checkpoint.json")
    assert notes is not None
    assert notes.looked > 0
    lose_files(container)
    second = resume_state(state_in(container), OWNER, notes)
    second.back_up({"store": live})
    assert not verify(state_in(container))[0].whole
    yesterday = replace(second.notes(), looked=notes.looked - DAY)
    resume_state(state_in(container), OWNER, yesterday).back_up({"store": live})
    assert verify(state_in(container), deep=True)[0].whole


def test_blobs_that_another_writer_has_deleted_are_not_brought_back(tmp_path: Path) -> None:
    clock, account = ManualClock(), new_account()
    container = account.container("box")
    old = open_state(state_in(container), OWNER, clock=clock)
    for tree in TREES[:2]:
        old.back_up({"store": write(tmp_path / "live", tree)})
    new = open_state(state_in(container), OWNER, clock=clock)
    for tree in TREES[2:]:
        new.back_up({"store": write(tmp_path / "live", tree)})
    before = account.service.contents("box")
    clock.advance(DAY)
    with pytest.raises(FencedError):
        old.back_up({"store": tmp_path / "live"})
    assert before == account.service.contents("box")


def lose_files(container: BlobContainer) -> None:
    for blob in list(container.list(f"{STATE}/files/")):
        container.delete(blob.name)
