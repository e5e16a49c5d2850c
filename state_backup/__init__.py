"""Directories kept in a storage account: incremental backup, checkpoints, clean-up, and restore.

index/          what a directory has: the snapshot index, and what differs from the one before
local/          directories on disk: reading them, and putting restored ones in place
transfer/       files to blobs and back, in parallel and verified; assembly of whole directories
arguments       what callers give, checked before anything is written
record          which checkpoints there are: the commit point; record_store reads and changes it
writer          back up: upload, commit, clean up; state_storage is where it finds the state
keeping         how many checkpoints a state keeps
sweeping        delete what no checkpoint needs
restoring       make directories, or new ones, what was backed up; undelete brings back what was deleted by hand
verifying       whether checkpoints are whole
lifecycle       the rule by which Azure deletes what a crash has left, if nobody sweeps
rocksdb         checkpoints of RocksDB stores that are open
spark/          checkpoints of Spark on local disks, backed up while their queries run
cli/            back up, restore, list, verify, sweep
"""

from __future__ import annotations

from azure_account.connect import open_account
from state_backup.arguments import MayBeEmpty
from state_backup.keeping import set_keep
from state_backup.local.scan import ReadFiles
from state_backup.record import Checkpoint
from state_backup.restoring import Restored, checkpoints, materialise, restore
from state_backup.sweeping import SweepPlan, plan_sweep, sweep
from state_backup.writer import Owner, StateWriter, open_state

__all__ = [
    "Checkpoint",
    "MayBeEmpty",
    "Owner",
    "ReadFiles",
    "Restored",
    "StateWriter",
    "SweepPlan",
    "checkpoints",
    "materialise",
    "open_account",
    "open_state",
    "plan_sweep",
    "restore",
    "set_keep",
    "sweep",
]
