"""Backups, take-overs, sweeps and restores in random histories, stopped, killed and left without an answer anywhere."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.histories.history import check, check_caught, check_repeatable, run_many
from tests.state_backup.histories.history import BackupHistory
from tests.state_backup.histories.mutants import MUTANTS

FEW, HISTORIES = 50, 300
MOST_FOR_A_MUTANT = 1_000
EVENTS = (
    "a pack is committed",
    "bytes of files are in an index",
    "a pack is needed in part",
    "files of a worn pack are uploaded again",
    "the list of condemned blobs was too short, and the rest follows",
    "a sweep has condemned blobs",
    "an earlier commit took effect just before that",
    "a replaced writer wakes: delete",
    "a replaced writer wakes: write record",
    "a replaced writer wakes: upload",
    "lost answer of the record's write: done",
    "lost answer of the record's write: not done",
    "late effect: delete",
    "late effect: upload",
    "late effect: write record",
    "late upload after its blob was condemned",
    "late upload brings a deleted blob back",
    "a backup fails and the writer goes on",
    "a sweep follows a commit without an answer",
    "an older checkpoint is kept",
    "the number of checkpoints is changed by order",
    "a restore finds what one that was killed has left",
    "a restore is overtaken",
    "restored",
    "second take-over",
    "two writers of one epoch back up",
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The protocol warns all the time here. Only the histories, which count some warnings, get them."""
    logger = logging.getLogger("state_backup")
    logger.propagate = False
    yield
    logger.propagate = True


def test_every_checkpoint_can_be_restored_in_every_history() -> None:
    check(BackupHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_twenty_thousand_histories_and_everything_happens() -> None:
    check(BackupHistory, range(HISTORIES), EVENTS)
    assert 0 == run_many(BackupHistory, range(20_000))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(BackupHistory, name, range(MOST_FOR_A_MUTANT), MUTANTS[name], monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(BackupHistory)
