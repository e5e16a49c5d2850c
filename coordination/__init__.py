"""Processes that share work, with one storage account and nothing else: leases, election, processors, job models.

leadership/     one blob, one holder of its lease at a time, and an epoch in it that rises with every term
processors/     tasks → processors: who is alive, the job model, the barrier, what each processor does next
checkpoints     offsets by task, fenced by epochs
spark/          drivers that run the queries of the tasks assigned to them
cli/            who leads, who runs what; run a program as the leader
"""

from __future__ import annotations

from coordination.checkpoints import CheckpointStore, TaskCheckpoint
from coordination.connect import open_account
from coordination.leadership.leader import LeaderElector, LeaderListener, LeaseLock
from coordination.processors.coordinator import JobCoordinator, JobCoordinatorListener
from coordination.timing import CoordinatorTiming, LeaseTiming

__all__ = [
    "CheckpointStore",
    "CoordinatorTiming",
    "JobCoordinator",
    "JobCoordinatorListener",
    "LeaderElector",
    "LeaderListener",
    "LeaseLock",
    "LeaseTiming",
    "TaskCheckpoint",
    "open_account",
]
