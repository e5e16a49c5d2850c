"""The commit protocol in random histories: several expiries, zombies, late effects, streams, overwrites, maintenance.

`make histories` runs 100,000 of them. A violation names its seed;
`python -m tests.histories commit --seed N --shrink` shows it request by request.
"""

from __future__ import annotations

import pytest

from tests.azureblob_source.log.commit_histories.history import CommitHistory
from tests.azureblob_source.log.commit_histories.mutants import MUTANTS
from tests.histories.history import check, check_caught, check_repeatable, run_many, shrink, violating

FEW, HISTORIES = 60, 1000
EVENTS = (
    "second expiry",
    "replaced replacement",
    "replaced batch entry",
    "replaced replacement of a batch entry",
    "replaced part that a vacuum has deleted",
    "voided overwrite",
    "voided replacement",
    "overwrite of partitions that others have rows beside",
    "overwrite of rows without a partition",
    "voided overwrite of partitions",
    "replaced overwrite of partitions",
    "follower leaves out what was overwritten",
    "zombie's put after a void",
    "publishes what was revoked",
    "lost answer: commit",
    "lost answer: publish",
    "late effect after an expiry",
    "late effect after a void",
    "two drivers on a checkpoint after an expiry",
    "older txnVersion after an expiry",
    "id from a list",
    "list of ten ids",
    "list below the boundary",
    "vacuum passed a sleeping writer",
    "repair killed between its two steps",
    "repair published",
    "repair voided",
    "repeat without rows",
    "fenced writer",
    "epoch opened beside an unpublished batch",
    "follower's batch",
    "snapshot",
    "deleted by hand",
    "void at the head",
    "another tool's blob before stage",
    "another tool's blob before publish",
    "void beside another tool's blob",
)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("ERROR")


def test_each_row_is_visible_once_in_every_history() -> None:
    check(CommitHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_ten_thousand_histories_and_everything_happens() -> None:
    """`make histories` runs 100,000, and prints how often each event happened."""
    check(CommitHistory, range(HISTORIES), EVENTS)
    assert 0 == run_many(CommitHistory, range(10_000))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(CommitHistory, name, range(3000), MUTANTS[name], monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(CommitHistory)


def test_a_history_that_fails_shrinks_to_fewer_events_that_fail_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["the head is taken for published"](monkeypatch)
    seed = violating(CommitHistory, range(3000))
    assert seed is not None
    events = shrink(CommitHistory, seed)
    assert len(events) < len(CommitHistory(seed).events)
    assert CommitHistory(seed, events).run() is not None
