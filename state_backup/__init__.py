"""Directories kept in a storage account: incremental backup, checkpoints, clean-up, and restore.

backup/         back up: arguments checked, files uploaded, the checkpoint committed; checkpoints of open RocksDB stores
record/         which checkpoints there are: the commit point; the blobs of a state, and their clean-up and undelete
restoring/      make directories, or new ones, what was backed up; whether checkpoints are whole
sweeping/       delete what no checkpoint needs; the rule by which Azure does, if nobody sweeps
local/          directories on disk: reading them, and putting restored ones in place
index/          what a directory has: the snapshot index, and what differs from the one before
spark/          checkpoints of Spark on local disks, backed up while their queries run
cli/            back up, restore, list, verify, sweep

Users import what is here and in `spark`. Other packages import what is here, the tools of `local`, and two pure
modules: `index.checkpoint_id` and `record.names`. A contract in pyproject.toml lists them.
"""

from __future__ import annotations

from azure_account.connect import open_account
from azure_account.location import Location
from foundation.report import ProgressCallbacks
from state_backup.backup.rocksdb import rocksdb_checkpoint
from state_backup.backup.settings import MayBeEmpty, TaskIdentity, WriterHandover, WriterSettings, set_keep
from state_backup.backup.writer import StateWriter, open_state
from state_backup.local.scan import ChecksumCache
from state_backup.record.record import LEAST_KEPT, Checkpoint
from state_backup.restoring.restore import (
    LinkSources,
    RestoreResult,
    RestoreSettings,
    checkpoints,
    materialise,
    restore,
)
from state_backup.restoring.verifying import VerificationResult, verify
from state_backup.sweeping.sweep import SweepPlan, plan_sweep, sweep

__all__ = [
    "LEAST_KEPT",
    "Checkpoint",
    "ChecksumCache",
    "LinkSources",
    "Location",
    "MayBeEmpty",
    "ProgressCallbacks",
    "RestoreResult",
    "RestoreSettings",
    "StateWriter",
    "SweepPlan",
    "TaskIdentity",
    "VerificationResult",
    "WriterHandover",
    "WriterSettings",
    "checkpoints",
    "materialise",
    "open_account",
    "open_state",
    "plan_sweep",
    "restore",
    "rocksdb_checkpoint",
    "set_keep",
    "sweep",
    "verify",
]
