"""The commit protocol in random histories: several expiries, zombies, late effects, streams, overwrites, maintenance.

`make histories` runs 100,000 of them. A violation names its seed;
`python -m tests.azureblob_source.log.commit_histories --seed N --shrink` shows it request by request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.azureblob_source.log.commit_histories.history import History, run_seed, shrink
from tests.azureblob_source.log.commit_histories.many import run_many
from tests.azureblob_source.log.commit_histories.mutants import MUTANTS

HISTORIES = 400
EVENTS = (
    "second expiry",
    "replaced replacement",
    "replaced batch entry",
    "replaced replacement of a batch entry",
    "voided overwrite",
    "voided replacement",
    "zombie's put after a void",
    "publishes what was revoked",
    "lost answer: commit",
    "lost answer: publish",
    "late effect after an expiry",
    "late effect after a void",
    "two drivers on a checkpoint after an expiry",
    "older txnVersion after an expiry",
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


def test_each_row_is_visible_once_in_every_history_and_everything_has_happened() -> None:
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        violation, events = run_seed(seed)
        assert violation is None, f"history {seed}: {violation}"
        seen.update(events)
    assert [] == [event for event in EVENTS if not seen[event]]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_same_in_ten_thousand_histories() -> None:
    """`make histories` runs 100,000, and prints how often each event happened."""
    assert 0 == run_many(0, 10_000, 2)


def violations(first: int, count: int) -> Iterator[str]:
    for seed in range(first, first + count):
        violation, _ = run_seed(seed)
        if violation is not None:
            yield violation


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_protocol_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert next(violations(0, 3000), None) is not None


def test_a_history_depends_on_its_seed_alone() -> None:
    traces = []
    for _ in range(2):
        history = History(7, trace=True)
        history.run()
        traces.append(history.lines)
    assert traces[0]
    assert traces[0] == traces[1]


def test_a_history_that_fails_shrinks_to_fewer_events_that_fail_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS["the head is taken for published"](monkeypatch)
    seed = next(seed for seed in range(3000) if run_seed(seed)[0] is not None)
    events = shrink(seed, lambda _: True)
    assert len(events) < len(History(seed).events)
    assert History(seed, events).run() is not None
