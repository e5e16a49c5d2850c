"""The backup of a fill's checkpoints, which are on a disk of the driver: what was lost with it is restored.

    offsets/n on the driver's disk ─► tasks write ─► the backup of the checkpoint ─► the version of batch n

So a checkpoint that is restored has planned every batch that the store has. Spark repeats at most one of them, with the
same offsets, and the store knows it by its number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from state_backup.spark import back_up_batch, local_path, restore_checkpoint

if TYPE_CHECKING:
    from adjunct_store.spark.filling.query_checkpoint import CheckpointFolder
    from azure_account.location import Location


@dataclass(frozen=True)
class FillBackup:
    """Where the checkpoints of a fill are backed up: that of each generation has a state of its own, `g<generation>`.

    epoch: of the task whose fill this is. `ConfigurationError` unless the folder is on a disk of this machine.
    """

    where: Location
    folder: CheckpointFolder
    epoch: int | None

    def __post_init__(self) -> None:
        """Validate."""
        local_path(self.folder.path)

    def restore(self, generation: int) -> None:
        """Before its query starts: the checkpoint of a generation, unless this machine has it. Errors as there."""
        restore_checkpoint(self._state(generation), self.folder.location(generation))

    def back_up(self, generation: int, batch: int) -> None:
        """Back up the checkpoint with a batch that is to be published. Errors as of `back_up_batch`."""
        back_up_batch(self._state(generation), self.folder.location(generation), batch, epoch=self.epoch)

    def _state(self, generation: int) -> Location:
        return replace(self.where, where=f"{self.where.where.rstrip('/')}/g{generation}")
