"""Restores in random histories: of commits, of batches that are taken back, and with checkpoints of the logs.

A violation names its seed; `python -m tests.histories restore --seed N --shrink` shows it request by request.
"""

from __future__ import annotations

import pytest

from azureblob_source.log.entry import LogEntry
from tests.azureblob_source.log.relocating.restore_histories import (
    CheckpointedRestoreHistory,
    RestoredRevertHistory,
    RestoreHistory,
)
from tests.histories.history import check, check_caught, check_repeatable
from tests.histories.mutants import Mutant, edited

FEW = 25
EVENTS = (
    "restore",
    "restore beside a vacuum",
    "restore falls asleep",
    "restore is killed before it puts",
    "restore is killed while it deletes",
    "restore meets a writer that goes on",
    "restore of a version without rows",
    "restore of nothing",
    "restore of several batches",
    "restore of what was deleted is refused",
    "second restore of a stream",
    "two restores at once",
)

MUTANTS: dict[str, Mutant] = {
    "a restore deletes nothing": edited(
        "azureblob_source.log.publishing.publish:Publisher.publish", ', "restore")', ")"
    ),
    "a restore that was not first deletes all the same": edited(
        "azureblob_source.log.relocating.restore:restore",
        "if log.put(entry).write_id == entry.write_id",
        "if log.put(entry)",
    ),
    "what was deleted is taken for live": edited(
        "azureblob_source.log.relocating.restore:restoration", "if lost", "if False"
    ),
    "what is live at the version is looked at before what is live now": edited(
        "azureblob_source.log.relocating.restore:restoration",
        "now = _live_at(log, head.version)\n    then = _live_at(log, version)",
        "then = _live_at(log, version)\n    now = _live_at(log, head.version)",
    ),
}


def _reverts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    found = property(lambda entry: entry.version if entry.operation == "revert" else entry.last_deletion)
    monkeypatch.setattr(LogEntry, "newest_deletion", found)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")


def test_what_was_live_is_live_again_in_every_history() -> None:
    check(RestoreHistory, range(FEW))
    check(RestoredRevertHistory, range(FEW // 2))
    check(CheckpointedRestoreHistory, range(FEW // 6))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    check(RestoreHistory, range(2000), EVENTS)
    check(RestoredRevertHistory, range(1000), EVENTS)
    check(CheckpointedRestoreHistory, range(400), ("checkpoint, then restore", *EVENTS))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_restore_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(RestoreHistory, name, range(1000), MUTANTS[name], monkeypatch)


def test_a_follower_that_reads_what_a_restore_has_removed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(RestoredRevertHistory, "", range(1000), _reverts_only, monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(RestoreHistory)
