"""How far the input of a query has come: the trackers in its checkpoint, what holds them, and the end of its inputs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from control_messages import holds
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore
from control_messages.spark.reconciliation import OBSERVED
from control_messages.stream_tracker import all_ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from control_messages.holds import Hold
    from control_messages.partition_tracker import IdleTimeout, PartitionTracker

_POLL_SECONDS = 0.1
_STATES = ("endOfStream", "watermark")


def read_trackers(spark: SparkSession, checkpoint: str) -> list[PartitionTracker]:
    """The trackers in a query's checkpoint as of its last committed batch; none before the first.

    May be called while the query runs. `ValueError` for a path that Spark's reader of state cannot read.
    """
    if " " in checkpoint or "%" in checkpoint:
        text = f"Spark cannot read the state of checkpoint {checkpoint!r}: use a path without spaces and percent signs."
        raise ValueError(text)
    trackers = []
    for operator, batch in _reconcilers(spark, checkpoint):
        ends, watermarks = (_state(spark, checkpoint, operator, batch, name) for name in _STATES)
        for partition, watermark in watermarks.items():
            end = EndOfStreamCheckpoint(**ends[partition])
            trackers.append(restore(end, WatermarkCheckpoint(**watermark), partition))
    return sorted(trackers, key=lambda tracker: (tracker.stream, str(tracker.partition)))


def why_held(spark: SparkSession, checkpoint: str, idle_timeout: IdleTimeout | None = None) -> list[Hold]:
    """What holds the watermark of each partition; `str(hold)` is a text for people.

    idle_timeout: the one of the query. `control_messages.holds.why_held` does the same for one tracker and any time.
    """
    now = time.time_ns() // 1_000_000
    return [holds.why_held(tracker, now, idle_timeout) for tracker in read_trackers(spark, checkpoint)]


def run_until_end(query: StreamingQuery, checkpoint: str, inputs: Mapping[str, int]) -> bool:
    """Wait until every input has ended, then stop the query. Raises what the query fails with.

    inputs: the streams that the query reconciles, at least one, and the number of partitions of each; `ValueError` if
    a stream has more. The query is stopped once the batch with the last end is committed, and at once if an earlier run
    of it has committed that. Returns False if the query was stopped by something else before.
    """
    if not inputs:
        text = "no input is named, so there is no end to wait for. Give the streams with their numbers of partitions."
        raise ValueError(text)
    spark = SparkSession.active()
    seen = -1
    ended = _all_ended(spark, checkpoint, inputs)
    while query.isActive and not ended:
        time.sleep(_POLL_SECONDS)
        batches = [each for each in query.recentProgress if each["batchId"] > seen]
        seen = max((each["batchId"] for each in batches), default=seen)
        if any(_has_end(each) for each in batches):
            ended = _all_ended(spark, checkpoint, inputs)
    if ended:
        query.stop()
    query.awaitTermination()
    return ended or _all_ended(spark, checkpoint, inputs)


def _has_end(progress: Any) -> bool:
    """Whether a batch has announced the end of a partition."""
    observed = progress["observedMetrics"]
    return any(observed[name]["endOfStream"] for name in observed if name.startswith(OBSERVED))


def _all_ended(spark: SparkSession, checkpoint: str, inputs: Mapping[str, int]) -> bool:
    trackers = read_trackers(spark, checkpoint)
    of_input = {stream: [tracker for tracker in trackers if tracker.stream == stream] for stream in inputs}
    for stream, partitions in inputs.items():
        if len(of_input[stream]) > partitions:
            text = f"stream {stream} has at least {len(of_input[stream])} partitions, not {partitions}."
            raise ValueError(text)
    return all(len(of_input[stream]) == inputs[stream] and all_ended(of_input[stream]) for stream in inputs)


def _reconcilers(spark: SparkSession, checkpoint: str) -> list[tuple[int, int]]:
    """The operators of the query that keep trackers, and the last committed batch of each."""
    operators = spark.read.format("state-metadata").load(checkpoint).collect()
    return [
        (operator.operatorId, operator.maxBatchId)
        for operator in operators
        if operator.maxBatchId >= 0 and _variables(operator.operatorProperties).issuperset(_STATES)
    ]


def _variables(properties: str) -> set[str]:
    variables = json.loads(properties or "{}").get("stateVariables", [])
    return {variable["stateName"] for variable in variables}


def _state(spark: SparkSession, checkpoint: str, operator: int, batch: int, name: str) -> dict[Any, dict[str, Any]]:
    """The values of a state variable after a batch, by partition."""
    reader = spark.read.format("statestore").options(operatorId=operator, batchId=batch, stateVarName=name)
    return {row.key.partition: row.value.asDict() for row in reader.load(checkpoint).collect()}
