"""With which seed each mutant of a protocol is caught: the tests try it first, so that they need not search for it.

    python -m tests.histories.caught      writes caught.json anew: for mutants that are new, or are not caught by theirs

A seed that does not catch its mutant any more, since the protocol or its model has changed, makes no test fail: the
test goes on with the search.
"""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING

import pytest

from tests.histories.history import CAUGHT, caught_by, quiet, violating

if TYPE_CHECKING:
    from tests.histories.history import History
    from tests.histories.mutants import Mutant

MOST = 20_000
KINDS = {
    "tests.adjunct_store.histories.history:StoreHistory": "tests.adjunct_store.histories.mutants",
    "tests.azureblob_source.log.commit_histories.history:CommitHistory": (
        "tests.azureblob_source.log.commit_histories.mutants"
    ),
    "tests.azureblob_source.log.identity_histories:IdentityHistory": (
        "tests.azureblob_source.log.test_commit_log_identity_histories"
    ),
    "tests.azureblob_source.log.relocating.revert_histories.history:RevertHistory": (
        "tests.azureblob_source.log.relocating.revert_histories.mutants"
    ),
    "tests.azureblob_source.log.relocating.compaction_histories.history:CompactionHistory": (
        "tests.azureblob_source.log.relocating.compaction_histories.mutants"
    ),
    "tests.azureblob_source.log.checkpoint_histories:CheckpointedHistory": (
        "tests.azureblob_source.log.test_checkpoint_histories"
    ),
    "tests.azureblob_source.log.relocating.restore_histories:RestoreHistory": (
        "tests.azureblob_source.log.relocating.test_restore_histories"
    ),
    "tests.azureblob_source.maintenance.audit.histories:AuditedHistory": (
        "tests.azureblob_source.maintenance.audit.test_auditing_histories"
    ),
    "tests.azureblob_source.adoption.histories:AdoptionHistory": (
        "tests.azureblob_source.adoption.test_adopter_histories"
    ),
    "tests.state_backup.histories.history:BackupHistory": "tests.state_backup.histories.mutants",
}
"""The class of the histories, and the module that has their `MUTANTS`."""


def main() -> None:
    """Search for the seeds, and print those that are new."""
    quiet()
    found: dict[str, dict[str, int]] = {}
    for place, mutants in KINDS.items():
        module, _, name = place.partition(":")
        kind: type[History] = getattr(importlib.import_module(module), name)
        of_kind: dict[str, Mutant] = importlib.import_module(mutants).MUTANTS
        for label, mutant in of_kind.items():
            known = caught_by(kind, label)
            with pytest.MonkeyPatch.context() as monkeypatch:
                mutant(monkeypatch)
                seed = violating(kind, (*known, *range(MOST)))
            if seed is None:
                raise SystemExit(f"{name}: nothing in {MOST:,} histories catches {label!r}")
            if (seed,) != known:
                print(f"{name}: {label}: {seed}", flush=True)
            found.setdefault(name, {})[label] = seed
    CAUGHT.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    main()
