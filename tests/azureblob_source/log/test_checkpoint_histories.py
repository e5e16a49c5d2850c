"""Logs with checkpoints in random histories of commits and of reverts: a read by a checkpoint is a read by the entries.

`make histories` runs many of both; `python -m tests.histories checkpoint --seed N --shrink` shows one.
"""

from __future__ import annotations

import pytest

from tests.azureblob_source.log.checkpoint_histories import CheckpointedHistory, CheckpointedRevertHistory
from tests.histories.history import check, check_caught, check_repeatable, violating
from tests.histories.mutants import Mutant, edited

FEW = 4
BOTH = (
    "read by a checkpoint",
    "checkpoint beside a vacuum",
    "checkpoint of blobs that are gone",
    "damaged manifest is met",
    "process is killed within a checkpoint",
    "checkpoint of the command",
    *(
        f"{damage} {part}"
        for part in ("list", "manifest", "hint")
        for damage in ("missing", "empty", "torn", "exchanged")
    ),
)
OF_COMMITS = (
    *BOTH,
    "checkpoint, then void",
    "checkpoint, then overwrite",
    "checkpoint, then overwrite-partitions",
    "checkpoint, then replace",
)
OF_REVERTS = (*BOTH, "checkpoint, then revert")

MUTANTS: dict[str, Mutant] = {
    "what a vacuum has removed is read from manifests": edited(
        "azureblob_source.log.checkpoint.store:LogCheckpointStore.left_of", "kept_from=kept_from", "kept_from=0"
    ),
    "what the tail removes is read from manifests": edited(
        "azureblob_source.log.checkpoint.store:LogCheckpointStore.left_of", "names=effect.names, ", ""
    ),
    "what the tail adds is not read": edited(
        "azureblob_source.log.live_state:LiveState.effect", "added=own", "added=()"
    ),
    "a checkpoint lacks the first entry after the one before it": edited(
        "azureblob_source.log.checkpointing:_extended", "entries[1:] or entries", "entries[2:] or entries"
    ),
    "the rest of a table that is split is lost": edited(
        "azureblob_source.log.checkpoint.building:_written", "for start in starts", "for start in starts[:1]"
    ),
    "a damaged manifest has no blobs": edited(
        "azureblob_source.log.live_state:with_live_state",
        "state = by_entries(log, version)",
        "return use(state, state.effect_of_entries())",
    ),
    "a damaged list ends a read": edited(
        "azureblob_source.log.checkpoint.store:LogCheckpointStore.find",
        "CorruptError, ConfigurationError",
        "ConfigurationError",
    ),
    "the command tries again for ever": edited(
        "azureblob_source.log.checkpointing:make_checkpoint",
        "most is not None:\n            text",
        "not rebuild:\n            text",
    ),
}


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")


def test_a_read_by_a_checkpoint_is_a_read_by_the_entries_in_every_history() -> None:
    check(CheckpointedHistory, range(FEW))
    check(CheckpointedRevertHistory, range(FEW))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_in_many_histories_and_everything_happens() -> None:
    check(CheckpointedHistory, range(600), OF_COMMITS)
    check(CheckpointedRevertHistory, range(300), OF_REVERTS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_checkpoint_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_caught(CheckpointedHistory, name, range(1000), MUTANTS[name], monkeypatch)


@pytest.mark.long
def test_a_wrong_checkpoint_after_a_revert_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = "[manifest] if left.num_rows == table.num_rows else _written(left, last.version, store)"
    edited("azureblob_source.log.checkpoint.building:extended", kept, "[manifest]")(monkeypatch)
    assert violating(CheckpointedRevertHistory, range(1000)) is not None


def test_a_history_depends_on_its_seed_alone() -> None:
    check_repeatable(CheckpointedHistory)
