"""Spark's `checkpointLocation` on a local disk: backed up while its query runs, restored on another machine.

snapshot      hard links of a checkpoint at the end of a batch, from which the query can go on exactly there
writers       the writer of the state, opened or resumed from what a process before has noted
checkpoints   back snapshots up in the background; restore; which of two machines has the newer batches
batches       back a checkpoint up within the commit of each batch

Nothing here imports pyspark: a query is anything with `id`, `isActive` and `stop()`.
"""

from __future__ import annotations

from state_backup.spark.batches import back_up_batch
from state_backup.spark.checkpoints import (
    CheckpointBackup,
    CheckpointSettings,
    RestoredCheckpoint,
    back_up_checkpoint,
    restore_checkpoint,
)
from state_backup.spark.position import local_path

__all__ = [
    "CheckpointBackup",
    "CheckpointSettings",
    "RestoredCheckpoint",
    "back_up_batch",
    "back_up_checkpoint",
    "local_path",
    "restore_checkpoint",
]
