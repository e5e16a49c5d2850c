"""How far the input of a query has come: the trackers in its checkpoint, what holds them, and the end of its inputs."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from control_messages import holds
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore
from control_messages.errors import ControlMessageError, listed
from control_messages.holds import NothingRead
from control_messages.spark.reconciliation import OBSERVED

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from control_messages.holds import Hold
    from control_messages.partition_tracker import IdleTimeout, PartitionTracker

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_REPORT_SECONDS = 60.0
_STATES = ("endOfStream", "watermark")


def read_trackers(query: StreamingQuery | str) -> list[PartitionTracker]:
    """The trackers of a query, or in the checkpoint at a path, as of the last committed batch; none before the first.

    May be called while the query runs. `ValueError` for a path that Spark's reader of state cannot read.
    """
    spark, checkpoint = SparkSession.active(), _checkpoint(query)
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


def why_held(query: StreamingQuery | str, idle_timeout: IdleTimeout | None = None) -> list[Hold | NothingRead]:
    """What holds the watermark of each partition of a query; `str(hold)` is a text for people.

    query: a running one, or the path of a checkpoint. Only a running query knows the partitions from which user
    messages have come and no control message: these are `NothingRead`. idle_timeout: the one of the query.
    `control_messages.holds.why_held` does the same for one tracker and any time.
    """
    now = time.time_ns() // 1_000_000
    trackers = read_trackers(query)
    found: list[Hold | NothingRead] = [holds.why_held(tracker, now, idle_timeout) for tracker in trackers]
    inputs = [] if isinstance(query, str) else list(_inputs(query).values())
    for each in inputs:
        known = {str(tracker.partition) for tracker in trackers if tracker.stream == each.stream}
        counts = {tracker.partition_count for tracker in trackers if tracker.stream == each.stream}
        expected = {str(number) for number in range(max(counts, default=0))} | each.partitions
        silent = sorted(expected - known, key=lambda name: (len(name), name))
        if silent or not known:
            found.append(NothingRead(each.stream, tuple(silent), each.messages))
    return found or [NothingRead("every stream of the query")]


def run_until_end(query: StreamingQuery, inputs: Iterable[str] | Mapping[str, int] | None = None) -> bool:
    """Wait until every input of a query has ended, then stop the query. Raises what the query fails with.

    inputs: the streams to wait for, with the number of partitions of each if their messages do not have it, as Samza's;
    by default all that the query reconciles. What cannot become true is refused by `ValueError`: a stream that the
    query does not read, or another number of partitions.

    A query whose input has ended before reads all that is there first, so it goes on when the input was reopened.
    Whoever waits is told what for: once a minute a line is logged. Returns False if the query was stopped by something
    else before.
    """
    if inputs is not None:
        inputs = dict(inputs) if isinstance(inputs, Mapping) else dict.fromkeys(inputs, 0)
    wait = _Wait(query, inputs)
    while query.isActive and not wait.over():
        time.sleep(_POLL_SECONDS)
    if query.isActive:
        query.stop()
    query.awaitTermination()
    return wait.ended()


@dataclass
class _Wait:
    """Waits for the end of the inputs of a query."""

    query: StreamingQuery
    expected: dict[str, int] | None
    seen: int = -1
    caught_up: bool = False
    reported: float = 0.0

    def over(self) -> bool:
        """Look at the batches since the last call. `ValueError` if the end that is awaited cannot come."""
        batches = [each for each in self.query.recentProgress if each["batchId"] > self.seen]
        if batches:
            self.seen = max(each["batchId"] for each in batches)
            self._check(_inputs(self.query))
        idle = not self.query.status["isDataAvailable"] and not self.query.status["isTriggerActive"]
        self.caught_up = self.caught_up or idle or any(not each["numInputRows"] for each in batches)
        if self.caught_up and (batches or idle) and self.ended():
            return True
        self._report()
        return False

    def ended(self) -> bool:
        """Whether the last committed batch has the end of all partitions of all inputs."""
        trackers = read_trackers(self.query)
        expected = self.expected or dict.fromkeys(_inputs(self.query), 0)
        for stream, stated in expected.items():
            own = [tracker for tracker in trackers if tracker.stream == stream]
            count = max((tracker.partition_count for tracker in own), default=0)
            if stated and (len(own) > stated or count not in (0, stated)):
                text = f"stream {stream} has {max(len(own), count)} partitions, not {stated}."
                raise ValueError(text)
            if not own or len(own) < (count or stated or 1) or not all(tracker.at_end for tracker in own):
                return False
        return bool(expected)

    def _check(self, inputs: Mapping[str, _Input]) -> None:
        wrong = sorted((self.expected or {}).keys() - inputs.keys())
        if inputs and wrong:
            text = f"the query does not read stream {wrong[0]!r}; it reads {listed(sorted(inputs))}."
            raise ValueError(text)

    def _report(self) -> None:
        """Say once a minute what the wait is for."""
        now = time.monotonic()
        if not self.reported:
            self.reported = now
        if now - self.reported < _REPORT_SECONDS:
            return
        self.reported = now
        waiting = [each for each in why_held(self.query) if isinstance(each, NothingRead) or not each.at_end]
        logger.warning("query %s waits for the end of its inputs: %s", self.query.id, listed(waiting, 5, str))


@dataclass(frozen=True)
class _Input:
    """What a query has read of a stream in the batches that Spark remembers."""

    stream: str
    messages: int
    partitions: frozenset[str]


def _inputs(query: StreamingQuery) -> dict[str, _Input]:
    """The streams that a query reconciles, by the counters in its progress; none before its first batch."""
    found: dict[str, _Input] = {}
    for progress in query.recentProgress:
        for name, counters in progress["observedMetrics"].items():
            if name.startswith(OBSERVED):
                stream = name[len(OBSERVED) :]
                before = found.get(stream, _Input(stream, 0, frozenset()))
                partitions = before.partitions | frozenset(counters["partitions"] or ())
                found[stream] = _Input(stream, before.messages + counters["message"], partitions)
    return found


def _checkpoint(query: StreamingQuery | str) -> str:
    """The path of a query's checkpoint, which only Spark's own object has."""
    if isinstance(query, str):
        return query
    java = getattr(query, "_jsq", None)
    if java is None:
        text = "Spark Connect does not tell the checkpoint of a query. Give the path of the checkpoint."
        raise ControlMessageError(text)
    return str(java.streamingQuery().resolvedCheckpointRoot())


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
