"""Directories kept in a storage account: incremental backup, checkpoints, clean-up, and restore.

backup/         back up: arguments checked, files uploaded, the checkpoint committed; checkpoints of open RocksDB stores
record/         which checkpoints there are: the commit point; the blobs of a state, and their clean-up and undelete
restoring/      make directories, or new ones, what was backed up; whether checkpoints are whole
sweeping/       delete what no checkpoint needs; the rule by which Azure does, if nobody sweeps
local/          directories on disk: reading them, and putting restored ones in place
index/          what a directory has: the snapshot index, and what differs from the one before
spark/          checkpoints of Spark on local disks, backed up while their queries run
cli/            back up, restore, list, verify, sweep
"""

from __future__ import annotations

from azure_account.connect import open_account
from state_backup.backup.arguments import MayBeEmpty
from state_backup.backup.keeping import set_keep
from state_backup.backup.writer import Owner, StateWriter, open_state
from state_backup.local.scan import ReadFiles
from state_backup.record.record import Checkpoint
from state_backup.restoring.restore import Restored, checkpoints, materialise, restore
from state_backup.sweeping.sweep import SweepPlan, plan_sweep, sweep

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
