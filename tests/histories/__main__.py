"""Run many random histories of a protocol, or show one.

python -m tests.histories --count 100000 --processes 2
python -m tests.histories commit --seed 4711 --shrink
"""

from __future__ import annotations

import argparse
import importlib
import sys

from tests.histories.history import History, quiet, run_many, show

KINDS = {
    "commit": ("tests.azureblob_source.log.commit_histories.history:CommitHistory", 1),
    "identity": ("tests.azureblob_source.log.identity_histories:IdentityHistory", 10),
    "revert": ("tests.azureblob_source.log.relocating.revert_histories.history:RevertHistory", 10),
    "checkpoint": ("tests.azureblob_source.log.checkpoint_histories:CheckpointedHistory", 10),
    "checkpoint-revert": ("tests.azureblob_source.log.checkpoint_histories:CheckpointedRevertHistory", 20),
    "restore": ("tests.azureblob_source.log.relocating.restore_histories:RestoreHistory", 10),
    "restore-revert": ("tests.azureblob_source.log.relocating.restore_histories:RestoredRevertHistory", 20),
    "checkpoint-restore": ("tests.azureblob_source.log.relocating.restore_histories:CheckpointedRestoreHistory", 20),
    "audit": ("tests.azureblob_source.maintenance.audit.histories:AuditedHistory", 20),
    "audit-restore": ("tests.azureblob_source.maintenance.audit.histories:AuditedRestoreHistory", 40),
    "audit-revert": ("tests.azureblob_source.maintenance.audit.histories:AuditedRevertHistory", 40),
    "compaction": ("tests.azureblob_source.log.relocating.compaction_histories.history:CompactionHistory", 20),
    "adoption": ("tests.azureblob_source.adoption.histories:AdoptionHistory", 20),
    "backup": ("tests.state_backup.histories.history:BackupHistory", 10),
    "store": ("tests.adjunct_store.histories.history:StoreHistory", 10),
}
"""Of the commit protocol, a stream that is deleted and begun again, batches that are taken back, versions that are
restored, audits, compactions, an adopted folder, a state's backup, an adjunct store.

With each the class of its histories, and which part of the histories asked for is run if no kind is named.
"""


def history_of(kind: str) -> type[History]:
    """The class of a kind's histories."""
    module, _, name = KINDS[kind][0].partition(":")
    found: type[History] = getattr(importlib.import_module(module), name)
    return found


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=KINDS, help="of this protocol alone")
    parser.add_argument("--seed", type=int, help="show this history")
    parser.add_argument("--shrink", action="store_true", help="leave out what it fails without")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument("--count", type=int, default=1000, help="how many histories")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    quiet()
    if given.seed is not None:
        return show(history_of(given.kind or "commit"), given.seed, shorter=given.shrink)
    failed = 0
    for kind, (_, part) in KINDS.items():
        if given.kind in (None, kind):
            print(f"{kind}:")
            count = given.count if given.kind else max(1, given.count // part)
            failed += run_many(history_of(kind), range(given.first, given.first + count), given.processes)
    return failed


if __name__ == "__main__":
    sys.exit(main())
