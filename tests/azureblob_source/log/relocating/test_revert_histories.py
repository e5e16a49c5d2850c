"""Batches that are taken back, in random histories: many streams, suspended drivers, vacuums, epochs, followers, kills.

A violation names its seed; `python -m tests.histories revert --seed N --shrink` shows it request by request.
"""

from __future__ import annotations

import pytest

from tests.azureblob_source.log.relocating.revert_histories.history import RevertHistory
from tests.azureblob_source.log.relocating.revert_histories.mutants import MUTANTS
from tests.histories.history import check, check_caught, check_repeatable

FEW = 30
EVENTS = (
    "batch of another query",
    "overwrite of partitions",
    "overwrite of rows of the query",
    "batch without rows",
    "checkpoint is restored whose last batch is the newest",
    "driver is suspended between the parts of its batch",
    "driver of a lost disk wakes between the parts of its batch",
    "suspended driver puts no part of what was taken back",
    "driver of a lower epoch on a lost disk is fenced",
    "epoch of a batch log",
    "vacuum",
    "revert",
    "revert of several batches",
    "revert of nothing",
    "revert of a stream that has no part of the batches",
    "second revert of a log",
    "revert beside a vacuum",
    "revert is refused after a vacuum",
    "revert is killed before its first put",
    "revert is killed between its puts",
    "revert is killed before it deletes",
    "revert is run again",
    "follower skips what was taken back",
    "follower skips what an earlier revert took back",
    "follower reads again what was taken back",
    "follower overtaken by a vacuum",
    "snapshot",
    "revert of a stream without a log",
    "revert of a query that has written no rows",
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")


def test_each_row_is_there_once_in_every_history() -> None:
    check(RevertHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    """`make histories` runs 10,000, and prints how often each event happened."""
    check(RevertHistory, range(2_000), EVENTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_revert_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(RevertHistory, name, range(1000), MUTANTS[name], monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(RevertHistory)
