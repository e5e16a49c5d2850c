"""Audits in random histories of commits and of reverts: they find the damage that is done, and nothing else.

`make histories` runs many of both; `python -m tests.histories audit --seed N --shrink` shows one.
"""

from __future__ import annotations

import pytest

from tests.azureblob_source.maintenance.audit.histories import (
    DAMAGES,
    AuditedHistory,
    AuditedRestoreHistory,
    AuditedRevertHistory,
)
from tests.histories.history import check, check_caught, check_repeatable
from tests.histories.mutants import Mutant, both, edited

FEW = 12
EVENTS = (
    "audit beside others",
    "audit by a checkpoint",
    "audit finds it sound",
    "something is pending",
    "vacuum is pending",
    "rewritten is found",
    "found while it is still to be deleted",
    *(f"spoiled: {name}" for name in DAMAGES),
)
_AUDIT = "azureblob_source.maintenance.audit"
MUTANTS: dict[str, Mutant] = {
    "what was seen is not compared with the log once more": edited(
        f"{_AUDIT}.auditing:_Auditing._confirm",
        'place is None or index.blob(place, "").attempt != blob.attempt',
        "place == -1",
    ),
    "other blobs are judged by the log as it was before the listing": edited(
        f"{_AUDIT}.auditing:_Auditing.run", "later = self._view()", "later = view"
    ),
    "what an unpublished entry removes must be gone": edited(
        f"{_AUDIT}.extra_blobs:_Judging._judge_undone", "by > self.view.published and", "False and"
    ),
    "what a vacuum is deleting must be gone": edited(
        f"{_AUDIT}.extra_blobs:judge", "each.name not in removing and ", ""
    ),
    "blobs of an unpublished entry must be visible": both(
        edited(f"{_AUDIT}.auditing:_Auditing._doubtful", "view.published", "view.head.version"),
        edited(f"{_AUDIT}.auditing:_Auditing._extra", "> view.published", "> view.head.version"),
    ),
    "sizes are not compared": edited(
        f"{_AUDIT}.live_index:Sweep.page", "self.index.sizes[at] == ", "0 <= "
    ),
    "attempts are not compared": edited(f"{_AUDIT}.live_index:Sweep.page", "same &= pc.equal", "pc.equal"),
    "every blob counts as written again": edited(
        f"{_AUDIT}.publication:written_again", " & (sweep.modified > bound + SLACK)", ""
    ),
    "entries that were revoked count": edited(
        f"{_AUDIT}.entry_facts:EntryFacts._in_effect", 'pc.invert(pc.is_in(table["entry"], value_set=revoked))',
        'pc.is_valid(table["entry"])',
    ),
    "blobs of a stream below count": edited(f"{_AUDIT}.live_index:Sweep.extra", "self._nested", "()"),
    "missing versions are not looked for": edited(
        f"{_AUDIT}.log_doubts:doubts_of", "gaps(sweep.versions, first, last)", "()"
    ),
    "what follows a missing version is judged": edited(
        f"{_AUDIT}.auditing:_Auditing.run", "if log_faults.beyond_head", "if False"
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


def test_an_audit_finds_what_was_damaged_and_nothing_else_in_every_history() -> None:
    check(AuditedHistory, range(FEW))
    check(AuditedRevertHistory, range(FEW))
    check(AuditedRestoreHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    check(AuditedHistory, range(600), EVENTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_audit_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(AuditedHistory, name, range(1000), MUTANTS[name], monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(AuditedHistory)
