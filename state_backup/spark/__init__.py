"""Spark's `checkpointLocation` on a local disk: backed up while its query runs, restored on another machine.

snapshot      hard links of a checkpoint at the end of a batch, from which the query can go on exactly there
checkpoints   back snapshots up in the background; restore; which of two machines has the newer batches

Nothing here imports pyspark: a query is anything with `id`, `isActive` and `stop()`.
"""

from __future__ import annotations

from state_backup.spark.checkpoints import (
    CheckpointBackup,
    CheckpointSettings,
    RestoredCheckpoint,
    back_up_checkpoint,
    restore_checkpoint,
)

__all__ = ["CheckpointBackup", "CheckpointSettings", "RestoredCheckpoint", "back_up_checkpoint", "restore_checkpoint"]
