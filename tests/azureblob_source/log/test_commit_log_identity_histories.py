"""Random histories of a stream that is deleted by hand and begun again, beside paused, killed and restarted writers."""

from __future__ import annotations

import pytest

from tests.azureblob_source.log.identity_histories import IdentityHistory
from tests.histories.history import check, check_caught, check_repeatable, run_many
from tests.histories.mutants import Mutant, both, edited, replaced

FEW, HISTORIES = 30, 120
MOST_FOR_A_MUTANT = 240
RARE = (4265, 657, 1216)
"""Seeds of histories that catch a mistake which few others catch."""
EVENTS = (
    "stream deleted",
    "deleted again",
    "writer of a deleted log says so",
    "put after a deletion",
    "killed after such a put",
    "stray above the log",
    "stray removed",
    "reader of a deleted log",
    "reader passes over a stray",
    "batch read of a deleted log",
    "batch read beside a deletion",
)


def test_a_stream_that_is_deleted_and_begun_again_is_one_log_in_every_history() -> None:
    check(IdentityHistory, (*RARE, *range(FEW)))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    """`make histories` runs more, and prints how often each event happened."""
    check(IdentityHistory, (*RARE, *range(HISTORIES)), EVENTS)
    assert 0 == run_many(IdentityHistory, range(3_000))


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(IdentityHistory)


MUTANTS: dict[str, Mutant] = {
    "a writer does not look at the entry before its own": replaced(
        "azureblob_source.log.commit_log:CommitLog._check_log", lambda *_: None
    ),
    "a search takes a stray for the newest entry": replaced(
        "azureblob_source.log.commit_log:CommitLog._without_strays", lambda _, found, __: found
    ),
    "a stray is left in the way": edited(
        "azureblob_source.log.commit_log:CommitLog.put", "there.log_id != before.log_id", "False"
    ),
    "a writer remembers that the schema is stored": edited(
        "azureblob_source.log.commit_log:CommitLog._reset", "StreamNotes()", "StreamNotes(schemas=self.notes.schemas)"
    ),
    "a search that begins again does not compare with the known log": edited(
        "azureblob_source.log.commit_log:CommitLog.refresh",
        "found is not None and self._head is not None",
        "found is not None and head is not None",
    ),
    "a search takes a newer entry with the same log name for one of the known log": edited(
        "azureblob_source.log.commit_log:CommitLog._after_known",
        "there = found if",
        "there = known if found.log_id == known.log_id else found if",
    ),
    "a reader compares no identities": both(
        edited("azureblob_source.read.following:Follower.expect", "self.log_id not in (None, log_id)", "False"),
        edited("azureblob_source.log.commit_log:CommitLog._read", "known[each].log_id != self._head.log_id", "False"),
    ),
    "a batch read compares no identities": edited(
        "azureblob_source.log.commit_log:CommitLog._read", "known[each].log_id != self._head.log_id", "False"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(IdentityHistory, name, (*RARE, *range(MOST_FOR_A_MUTANT)), MUTANTS[name], monkeypatch)
