"""Backups, take-overs, sweeps and restores in random histories, stopped, killed and left without an answer anywhere."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.mutating import Mutant
from tests.state_backup.histories.history import run_seed
from tests.state_backup.histories.mutants import MUTANTS

HISTORIES = 300
MOST_FOR_A_MUTANT = 1_000
EVENTS = (
    "a pack is committed",
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
    """The protocol warns all the time here. Only what the histories count is emitted."""
    loggers = [
        logging.getLogger(f"state_backup.{name}") for name in ("backup.upload", "restoring.restore", "sweeping.sweep")
    ]
    for each in loggers:
        each.disabled = True
    yield
    for each in loggers:
        each.disabled = False


def test_every_checkpoint_can_be_restored_in_every_history_and_everything_has_happened() -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        violation, events = run_seed(seed)
        assert violation is None, f"history {seed}: {violation}"
        seen.update(events)
    assert [] == [event for event in EVENTS if not seen[event]]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_in_twenty_thousand_histories() -> None:
    assert [] == [(seed, violation) for seed in range(20_000) if (violation := run_seed(seed)[0]) is not None]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant: Mutant = MUTANTS[name]
    mutant(monkeypatch)
    found = (run_seed(seed)[0] for seed in range(MOST_FOR_A_MUTANT))
    assert next((violation for violation in found if violation is not None), None) is not None


def test_a_history_depends_on_its_seed_alone() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        run_seed(7, trace)
    assert traces[0]
    assert traces[0] == traces[1]
