"""Random histories of owners, and mistakes that these must catch."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.azure_account.documents.owner_histories import run_seed
from tests.histories.mutants import Mutant, edited

HISTORIES = 300
MOST_FOR_A_MUTANT = 1_000
EVENTS = (
    "a change gives up",
    "a change is fenced",
    "a change misses a deleted ledger",
    "a change stays unknown",
    "a deleted ledger is undeleted",
    "a late write takes effect",
    "a process that has lost the ledger wakes",
    "a replacement meets another change",
    "a write without an answer is stored",
    "amended",
    "an opening gives up",
    "an opening is fenced",
    "an opening stays unknown",
    "deleted",
    "fault: LateEffect",
    "fault: LostAnswer",
    "fault: Reset",
    "fault: TimeOut",
    "opened",
)
_STORE = "azure_account.documents.owner:OwnedDocumentBlob"
_OWNER = "azure_account.documents.owner:DocumentOwner"
_WRITE = "azure_account.documents.document:DocumentBlob.write"
_SAME = "(found.epoch, found.writer) != (own.epoch, own.writer)"
_ANSWER = "answer = request_and_read_back(request, read_back, unresolved)"
MUTANTS: dict[str, Mutant] = {
    "an opening does not check the epoch": edited(f"{_STORE}.check_epoch", "found.epoch > epoch", "False"),
    "the owner is not checked": edited(f"{_STORE}.check_owner", _SAME, "False"),
    "the writer is not checked": edited(f"{_STORE}.check_owner", _SAME, "found.epoch != own.epoch"),
    "the epoch is not checked when the document is read again": edited(
        f"{_STORE}.check_owner", _SAME, "found.writer != own.writer and found.epoch < own.epoch"
    ),
    "the document is written without a condition": edited(
        _WRITE, "IF_ABSENT if before is None else Condition(if_match=before)", "Condition()"
    ),
    "a lost answer is taken for done": edited(
        _WRITE, _ANSWER, f"answer = request()\n    if not isinstance(answer, Done | Unknown):\n        {_ANSWER}"
    ),
    "a lost answer is taken for a conflict": edited(
        _WRITE, "stored is not None and stored.document.write_id == document.write_id", "False"
    ),
    "an opening does not give up": edited(f"{_STORE}.open", "range(_ATTEMPTS)", "range(10**9)"),
    "a change does not give up": edited(f"{_OWNER}.change", "range(_ATTEMPTS)", "range(10**9)"),
    "a change that changes nothing does not check the owner": edited(
        f"{_OWNER}.change", "if changed == before.document:", "if changed == before.document:\n            return"
    ),
    "what may be stored is forgotten at once": edited(f"{_OWNER}.replace", "self._unknown.append(document)", "pass"),
    "what may be stored is forgotten when the document is read": edited(
        f"{_OWNER}._go_on_from", "stored.etag != self._stored.etag", "True"
    ),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Undeleting warns."""
    logger = logging.getLogger("azure_account")
    logger.disabled = True
    yield
    logger.disabled = False


def test_one_process_owns_the_document_in_every_history_and_everything_has_happened() -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        violation, events = run_seed(seed)
        assert violation is None, f"history {seed}: {violation}"
        seen.update(events)
    assert [] == [event for event in EVENTS if not seen[event]]


@pytest.mark.long
def test_the_same_in_twenty_thousand_histories() -> None:
    assert [] == [(seed, violation) for seed in range(20_000) if (violation := run_seed(seed)[0]) is not None]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert any(run_seed(seed)[0] is not None for seed in range(MOST_FOR_A_MUTANT))
