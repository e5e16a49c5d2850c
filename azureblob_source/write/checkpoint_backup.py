"""Back the checkpoint of a query up before a batch of it is committed (option `checkpointBackup`).

    offsets/n on the driver's disk ─► tasks stage ─► the backup of the checkpoint ─► the log entry of batch n

So a checkpoint that is restored is at most one batch behind the log. Spark repeats that batch with the offsets that are
in the checkpoint, and the log recognises it by the query's id and the number of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure_account import connect
from azure_account.location import Location
from state_backup.spark import back_up_batch, local_path

if TYPE_CHECKING:
    from azureblob_source.write.commit_plan import BackupPlan


def check(plan: BackupPlan) -> None:
    """`ConfigurationError` unless the checkpoint is on a local disk."""
    local_path(plan.location)


def back_up(plan: BackupPlan, batch: int, epoch: int | None) -> None:
    """Back up the checkpoint of the query that is about to commit `batch`. epoch: of the query's writer."""
    container = connect(plan.account).container(plan.address.container)
    state = Location.in_container(container, plan.address.path or "")
    back_up_batch(state, plan.location, batch, epoch=epoch)
