"""Random histories: fills of which some were replaced, and tasks of two readers, stopped at every storage call."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.adjunct_store.histories.history import StoreHistory
from tests.adjunct_store.histories.mutants import MUTANTS
from tests.histories.history import check, check_caught, check_repeatable, run_many

FEW, HISTORIES = 50, 300
MOST_FOR_A_MUTANT = 3_000
EVENTS = (
    "Spark refuses a fill",
    "a batch job is forgotten",
    "a batch is read again while a copy of its query is ahead",
    "a checkpoint is copied",
    "a clean-up deletes a pin that is followed",
    "a pin is shared",
    "hundreds of jobs in one process",
    "a batch is published again",
    "a batch is read again",
    "a batch is read again after its version retires",
    "a fill builds its store again",
    "a fill drops what another source has begun",
    "a fill finds what it has built again without an answer",
    "a fill is fenced",
    "a generation is abandoned",
    "a generation is bootstrapped",
    "a generation is dropped",
    "a generation is sealed",
    "a lost checkpoint is refused",
    "a mistaken fill dies",
    "a mistaken fill is refused",
    "a pin is confirmed after its version retires",
    "a pin is renewed",
    "a publication fails and the fill goes on",
    "a reader waits for the first version",
    "a replaced fill wakes: list pin",
    "a replaced fill wakes: put",
    "a replaced fill wakes: put manifest",
    "a store is opened by another spelling",
    "a store that has grown is built again in one batch",
    "a task that was given up pins",
    "a version is dropped",
    "an expired pin is replaced",
    "an unconfirmed pin is replaced",
    "late effect: delete",
    "late effect: put manifest",
    "late effect: put manifest, done",
    "late effect: put pin",
    "lost answer: put manifest, done",
    "lost answer: put manifest, not done",
    "lost answer: put pin, done",
    "lost answer: put pin, not done",
    "second take-over",
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The protocol warns all the time here."""
    logger = logging.getLogger("adjunct_store")
    logger.disabled = True
    yield
    logger.disabled = False


def test_every_batch_reads_one_version_that_stays_in_every_history() -> None:
    check(StoreHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_twenty_thousand_histories_and_everything_happens() -> None:
    check(StoreHistory, range(HISTORIES), EVENTS)
    assert 0 == run_many(StoreHistory, range(20_000))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(StoreHistory, name, range(MOST_FOR_A_MUTANT), MUTANTS[name], monkeypatch)


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(StoreHistory)
