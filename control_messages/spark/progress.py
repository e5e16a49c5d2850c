"""How far the input of a query has come: the trackers in its checkpoint, what holds them, and the end of its inputs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from control_messages import holds
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore
from control_messages.errors import ControlMessageError, listed
from control_messages.holds import Hold, NoControlMessages
from control_messages.partition_tracker import IdleTimeout, PartitionTracker
from control_messages.spark.reconciliation import OBSERVED
from foundation.arguments import checked
from foundation.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from pyspark.sql import Row


logger = logging.getLogger("control_messages")

_POLL_SECONDS = 0.1
_REPORT_SECONDS = 60.0
_FIRST_BATCH_SECONDS = 10.0
_SHOWN = 5
"""Partitions in a report."""
_STATES, _IDLE = ("endOfStream", "watermark"), "idleTimeout"


@checked
def read_trackers(query: StreamingQuery | str) -> list[PartitionTracker]:
    """The trackers of a query, or in the checkpoint at a path, as of the last committed batch; none before the first.

    May be called while the query runs. `ValueError` for a path that Spark's reader of state cannot read.
    """
    return [tracker for tracker, _ in _saved(query)]


def _saved(query: StreamingQuery | str) -> list[tuple[PartitionTracker, IdleTimeout | None]]:
    """The trackers of a query, with its idle timeout."""
    spark, checkpoint = SparkSession.active(), _checkpoint(query)
    if " " in checkpoint or "%" in checkpoint:
        text = f"Spark cannot read the state of checkpoint {checkpoint!r}: use a path without spaces and percent signs."
        raise ValueError(text)
    found = []
    for operator in _reconcilers(spark, checkpoint):
        ends, watermarks = (operator.values(name) for name in _STATES)
        idle = operator.values(_IDLE)
        for partition, watermark in watermarks.items():
            tracker = restore(EndOfStreamCheckpoint(**ends[partition]), WatermarkCheckpoint(**watermark), partition)
            if tracker.generation < 0:  # it has only user messages so far
                continue
            saved = idle.get(partition)
            found.append((tracker, None if saved is None else IdleTimeout(saved["timeoutMs"], saved["quorum"])))
    return sorted(found, key=lambda each: (each[0].stream, str(each[0].partition)))


@checked
def why_held(query: StreamingQuery | str, *, clock: Clock = SYSTEM_CLOCK) -> list[Hold | NoControlMessages]:
    """What holds the watermark of each partition of a query; `str(hold)` is a text for people.

    query: a query, or the path of a checkpoint. Only a query knows the streams and partitions from which no control
    message has come: these are `NoControlMessages`. Raises what a query has failed with.
    `control_messages.holds.why_held` does the same for one tracker and any time.
    """
    failure = None if isinstance(query, str) else query.exception()
    if failure is not None:
        raise failure
    now = clock.now_ns() // 1_000_000
    saved = _saved(query)
    trackers = [tracker for tracker, _ in saved]
    found: list[Hold | NoControlMessages] = [holds.why_held(tracker, now, idle) for tracker, idle in saved]
    for each in [] if isinstance(query, str) else _inputs(query):
        known = {str(tracker.partition) for tracker in trackers if tracker.stream == each.stream}
        counts = {tracker.partition_count for tracker in trackers if tracker.stream == each.stream}
        expected = {str(number) for number in range(max(counts, default=0))} | each.partitions
        silent = sorted(expected - known, key=lambda name: (len(name), name))
        if silent or not known:
            found.append(NoControlMessages(each.stream, tuple(silent), each.messages, each.first_batch))
    return found


@checked
def run_until_end(query: StreamingQuery, inputs: Iterable[str] | Mapping[str, int] | None = None) -> bool:
    """Wait until every input of a query has ended, then stop the query. Raises what the query fails with.

    inputs: the streams to wait for, with the number of partitions of each if their messages do not have it, as Samza's;
    by default all that the query reconciles. What cannot become true is a `ValueError`: a stream that the query does
    not read, another number of partitions, or an unknown one when every partition that has sent something has ended,
    as others may follow. The query then runs on.

    A query whose input has ended before reads all that is there first, so it goes on when the input was reopened.
    Once a minute a line is logged that says what it waits for. Returns False if the query was stopped by something
    else before.
    """
    wait = _Wait(query, _awaited(query, inputs))
    while query.isActive and not wait.over():
        wait.clock.sleep(_POLL_SECONDS)
    if query.isActive:
        query.stop()
    query.awaitTermination()
    return wait.is_over or wait.ended()


@checked
def stop_at_end(query: StreamingQuery, inputs: Iterable[str] | Mapping[str, int] | None = None) -> EndingQuery:
    """Have a query stopped when every input of it has ended, and return at once: for a coordinated task.

    The arguments are those of `run_until_end`.
    """
    return EndingQuery(query, inputs)


class EndingQuery:
    """A query that is stopped when its inputs have ended, and looks like a query. `stop_at_end` makes it."""

    def __init__(self, query: StreamingQuery, inputs: Iterable[str] | Mapping[str, int] | None) -> None:
        self.query = query
        """Stop it by `stop` of this object alone."""
        self._failure: Exception | None = None
        self._told_to_stop = threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(inputs,), name=f"end-of-{query.id}", daemon=True)
        self._thread.start()

    @property
    def id(self) -> str:
        """The id of the query."""
        return str(self.query.id)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether the query runs."""
        return self._thread.is_alive() and not self._told_to_stop.is_set()

    def exception(self) -> Exception | None:
        """What the query, or the wait for its end, has failed with; None if it runs, has ended, or `stop` was called.

        A query that something else has stopped before its inputs have ended has failed: `ControlMessageError`. If the
        wait fails, the query is stopped.
        """
        return self._failure

    def stop(self) -> None:
        """Stop the query, whose inputs have not ended. Returns when it has stopped."""
        self._told_to_stop.set()
        self.query.stop()

    def _wait(self, inputs: Iterable[str] | Mapping[str, int] | None) -> None:
        try:
            wait = _Wait(self.query, _awaited(self.query, inputs))
            while self.query.isActive and not wait.over():
                if self._told_to_stop.wait(_POLL_SECONDS):
                    return
            self.query.stop()
            self.query.awaitTermination()  # raises what it has failed with
            if not wait.is_over and not self._told_to_stop.is_set():
                text = f"query {self.query.id} was stopped before its inputs have ended. Start it again."
                raise ControlMessageError(text)  # noqa: TRY301 - as one that `run_until_end` raises
        except Exception as error:  # noqa: BLE001 - whoever watches the query gets it
            if not self._told_to_stop.is_set():
                self._failure = error
                self.query.stop()


def _awaited(query: StreamingQuery, inputs: Iterable[str] | Mapping[str, int] | None) -> dict[str, int]:
    """The streams to wait for, and the number of their partitions or 0. `ValueError` if the query reads no such one."""
    reconciled = _reconciled(query)
    if not reconciled:
        raise ValueError("The query reconciles no stream, so no end will come. Apply `reconcile` to its input.")
    stated = inputs if isinstance(inputs, Mapping) else dict.fromkeys(reconciled if inputs is None else inputs, 0)
    wrong = sorted(stated.keys() - reconciled)
    if not stated:
        raise ValueError("No stream to wait for is named. Leave `inputs` out to wait for all.")
    if wrong:
        raise ValueError(f"The query does not read stream {wrong[0]!r}; it reads {listed(sorted(reconciled))}.")
    return dict(stated)


@dataclass
class _Wait:
    """Waits for the end of the inputs of a query.

    seen: batch and time of the progress that was looked at last. caught_up: the query has read all that there was, or
    has not ended; until then an end may be one of an earlier run. is_over: the inputs have ended. reported: when
    (monotonic seconds) it was last said what the wait is for.
    """

    query: StreamingQuery
    expected: dict[str, int]
    seen: tuple[int, str] | None = None
    caught_up: bool = False
    is_over: bool = False
    clock: Clock = SYSTEM_CLOCK
    reported: float = field(init=False)

    def __post_init__(self) -> None:
        self.reported = self.clock.monotonic()

    def over(self) -> bool:
        """Look at the batches since the last call. `ValueError` if the end that is awaited cannot come.

        The state, which takes jobs of Spark to read, is read at first, and after that only if a batch had an end, or
        Spark has dropped what it had of a batch.
        """
        recent = [(each["batchId"], each["timestamp"], each) for each in reversed(self.query.recentProgress)]
        new = list(takewhile(lambda each: each[:2] != self.seen, recent))  # times may go back
        dropped, idle = len(new) == len(recent) > 0, _is_idle(self.query)
        self.seen = new[0][:2] if new else self.seen
        if self.clock.monotonic() - self.reported >= _REPORT_SECONDS:
            self._report()
        if not (dropped or any(self._has_end(each) for *_, each in new) if self.caught_up else new or idle):
            return False
        ended = self.ended()
        self.is_over = ended and (self.caught_up or idle)
        self.caught_up = self.caught_up or idle or not ended
        return self.is_over

    def _has_end(self, progress: Any) -> bool:
        """Whether a batch had the end of a partition of one of the inputs."""
        counted = (progress["observedMetrics"].get(OBSERVED + stream) for stream in self.expected)
        return any(each is not None and each["endOfStream"] for each in counted)

    def ended(self) -> bool:
        """Whether the last committed batch has the end of all partitions of all inputs."""
        trackers = read_trackers(self.query)
        for stream, stated in self.expected.items():
            own = [tracker for tracker in trackers if tracker.stream == stream]
            count = max((tracker.partition_count for tracker in own), default=0)
            if stated and (len(own) > stated or count not in (0, stated)):
                raise ValueError(f"stream {stream} has {max(len(own), count)} partitions, not {stated}.")
            if not own or len(own) < (count or stated) or not all(tracker.at_end for tracker in own):
                return False
            if not count and not stated:
                raise ValueError(
                    f"stream {stream}: {len(own)} partitions have ended, but its messages do not say how many there "
                    f"are, as Samza's do not. Name the number: `run_until_end(query, {{{stream!r}: ...}})`."
                )
        return True

    def _report(self) -> None:
        """Say what the wait is for."""
        self.reported = self.clock.monotonic()
        waiting = [each for each in why_held(self.query) if isinstance(each, NoControlMessages) or not each.at_end]
        text = " ".join(map(str, waiting[:_SHOWN]))
        more = f" And {len(waiting) - _SHOWN} more partitions." if len(waiting) > _SHOWN else ""
        if waiting:
            logger.warning("query %s waits for the end of its inputs: %s%s", self.query.id, text, more)
        else:
            logger.warning("query %s reads what its inputs have, all of which have ended", self.query.id)


def _is_idle(query: StreamingQuery) -> bool:
    """Whether a query has read all that there was at its last trigger.

    With an idle timeout it runs batches also then, which read nothing.
    """
    status, last = query.status, query.lastProgress
    if status["message"].startswith("Waiting for") and not status["isDataAvailable"]:
        return True
    return last is not None and all(source["startOffset"] == source["endOffset"] for source in last["sources"])


@dataclass(frozen=True)
class _Input:
    """What a query has read of a stream in the batches that Spark remembers."""

    stream: str
    messages: int
    partitions: frozenset[str]
    first_batch: bool


def _inputs(query: StreamingQuery) -> list[_Input]:
    """What a query has read of the streams that it reconciles, by the counters in its progress."""
    found, first_batch = [], query.lastProgress is None and not _is_idle(query)
    for stream in sorted(_reconciled(query)):
        counted = [each["observedMetrics"].get(OBSERVED + stream) for each in query.recentProgress]
        batches = [each for each in counted if each is not None]
        partitions = frozenset(name for batch in batches for name in batch["partitions"])
        messages = sum(batch["message"] for batch in batches)
        found.append(_Input(stream, messages, partitions, first_batch))
    return found


def _reconciled(query: StreamingQuery) -> set[str]:
    """The streams that a query reconciles, by the names of the counters in its plan."""
    found, nodes = set(), [_java(query).analyzedPlan()]
    while nodes:
        node = nodes.pop()
        if node.nodeName() == "CollectMetrics" and node.name().startswith(OBSERVED):
            found.add(node.name()[len(OBSERVED) :])
        children = node.children()
        nodes += [children.apply(number) for number in range(children.size())]
    return found


def _checkpoint(query: StreamingQuery | str) -> str:
    """The path of a query's checkpoint."""
    return query if isinstance(query, str) else str(_java(query).resolvedCheckpointRoot())


def _java(query: StreamingQuery) -> Any:
    """Spark's own object of a query: only it knows checkpoint and plan."""
    java = getattr(query, "_jsq", None)
    if java is None:
        raise ControlMessageError("Spark Connect does not expose the checkpoint of a query. Use a classic session.")
    return java.streamingQuery()


@dataclass(frozen=True)
class _OperatorState:
    """The state of an operator of a query, after its last committed batch."""

    spark: SparkSession
    checkpoint: str
    number: int
    batch: int
    variables: frozenset[str]

    def values(self, variable: str) -> dict[Any, dict[str, Any]]:
        """The values of a state variable, by partition."""
        reader = self.spark.read.format("statestore")
        reader = reader.options(operatorId=self.number, batchId=self.batch, stateVarName=variable)
        return {row.key.partition: row.value.asDict() for row in reader.load(self.checkpoint).collect()}


def _reconcilers(spark: SparkSession, checkpoint: str) -> list[_OperatorState]:
    """The operators of the query that keep trackers."""
    found = [
        _OperatorState(spark, checkpoint, row.operatorId, row.maxBatchId, _variables(row.operatorProperties))
        for row in _operators(spark, checkpoint)
    ]
    return [operator for operator in found if operator.batch >= 0 and operator.variables.issuperset(_STATES)]


def _operators(spark: SparkSession, checkpoint: str, clock: Clock = SYSTEM_CLOCK) -> list[Row]:
    """What Spark has written of the operators with state. It does so when the first batch begins, not in one step."""
    deadline = clock.monotonic() + _FIRST_BATCH_SECONDS
    while True:
        try:
            return spark.read.format("state-metadata").load(checkpoint).collect()
        except PySparkException as error:
            if error.getCondition() != "STDS_FAILED_TO_READ_OPERATOR_METADATA" or clock.monotonic() > deadline:
                raise
        clock.sleep(_POLL_SECONDS)


def _variables(properties: str) -> frozenset[str]:
    variables = json.loads(properties or "{}").get("stateVariables", [])
    return frozenset(variable["stateName"] for variable in variables)
