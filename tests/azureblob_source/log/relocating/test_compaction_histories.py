"""Compactions in random histories: writers, readers, vacuums, reverts and repairs beside them, all of which are killed.

A violation names its seed; `python -m tests.histories compaction --seed N --shrink` shows it request by request.
"""

from __future__ import annotations

import pytest

from tests.azureblob_source.log.relocating.compaction_histories.history import CompactionHistory
from tests.azureblob_source.log.relocating.compaction_histories.mutants import MUTANTS
from tests.histories.history import check, check_caught, check_repeatable

FEW = 12
EVENTS = (
    "chain of three",
    "compaction is killed before a request to publish",
    "compaction is killed before a request to remove",
    "compaction lost its blobs to others",
    "two compactions at once",
    "void of a compaction",
    "row is twice in the listing while the old blobs are deleted",
    "task finds its rows elsewhere",
    "range is read again",
    "read of a version",
    "follower begins again",
    "driver dies between its streams",
    "part of a batch is replaced",
    "overwrite of rows that were moved",
    "revert of rows that were moved",
    "second revert",
    "revert is refused after a vacuum",
    "vacuum deletes a blob before its entry",
    "vacuum removes a blob of the head",
    "boundary is amid moved rows",
    "leaves out missing blobs",
    "audit finds it sound",
    "audit finds: missing",
    "audit finds: revoked",
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")


def test_every_reader_finds_each_row_once_in_every_history() -> None:
    check(CompactionHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    """`make histories` runs 5,000, and prints how often each event happened."""
    check(CompactionHistory, range(1_000), EVENTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_compaction_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(CompactionHistory, name, range(300), MUTANTS[name], monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(CompactionHistory)
