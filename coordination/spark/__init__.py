"""Spark drivers that share the tasks of a job, or of which one is active and the others stand by.

Each task is a streaming query with its own checkpoint and its own stream, and the epoch of the task is the epoch of the
stream's writer. This package needs pyspark and no particular sink.
"""

from __future__ import annotations

from coordination.spark.queries import LeaderQuery, QueryLimits, TaskQueries
from coordination.spark.task_states import TaskQuery

__all__ = ["LeaderQuery", "QueryLimits", "TaskQueries", "TaskQuery"]
