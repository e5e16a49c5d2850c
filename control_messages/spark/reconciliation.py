"""Envelopes to a flow of rows and announcements: the downstream side.

    envelopes ─┬─ user messages ────────────────────────────────────────────┬─► flow ─ EventTimeProcessor ─► flow
               └─ control messages ─► trackers (transformWithState, Python) ┘

A *flow* has the columns `FLOW`. Its rows are user messages (`type` message) and announcements: watermark, idle, active,
endOfStream, reopened. The announcements of a micro-batch hold after all of its messages, in whatever order Spark
delivers them; only a `reopened` of a stream that had ended before holds before them.

The tracker of a partition is the state variables `watermark` and `endOfStream`, so Spark saves it in one commit with
the offsets.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore, to_checkpoint
from control_messages.envelopes import count_user_rows, unwrap_all
from control_messages.errors import BadEnvelopeError, ControlMessageError
from control_messages.messages import Drain, MessageType
from control_messages.partition_tracker import (
    IdleTimeout,
    PartitionTracker,
    advance_time,
    next_call,
    receive,
    resume,
)
from control_messages.spark.columns import EnvelopeColumns, not_null
from control_messages.spark.metrics import held_ms, log_rise, measure
from foundation.arguments import checked
from foundation.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

    from control_messages.announcements import Announcement, TrackerUpdate
    from control_messages.messages import ControlMessage

logger = logging.getLogger("control_messages")

FLOW = ("stream", "partition", "type", "message", "watermark", "generation", "partitionCount", "reason")
"""Columns of a flow. They are strings but for `message` (binary), `watermark` (bigint, milliseconds since 1970 UTC),
`generation` and `partitionCount` (bigint, of an announcement) and `partition` (as in the input)."""
OBSERVED = "control_messages."
"""The query's progress has the counters of a flow under this and the stream's name: one for each type of row, `stale`
for the messages of lower generations that were dropped, `partitions`, those that had user messages, `rowsMissing` and
`rowsSurplus`, how the rows read differ from those that the tasks count, and `watermarks`: of each partition that had
control messages the watermark and `heldMs`, how long it has not risen."""
TYPES = ("message", "watermark", "idle", "active", "endOfStream", "reopened", "drain", "rejected")
STREAM_METADATA = "control_messages.stream"
"""The key in the metadata of a flow's column `stream` that has the name of the stream."""
_COUNTED, _COUNTS = "counted", ("_stale", "_missing", "_surplus", "_held")
"""The type of rows that are only counted, and their columns; both are gone once they are counted."""
_LOCATING = ("_blob", "_version", "topic", "offset")
"""Columns of azureblob and Kafka that locate an envelope."""


_COLUMNS = EnvelopeColumns()


@checked
def reconcile(
    envelopes: DataFrame,
    stream: str,
    *,
    columns: EnvelopeColumns = _COLUMNS,
    task_count: int | None = None,
    idle_timeout: IdleTimeout | None = None,
    on_bad: Literal["fail", "keep"] = "fail",
) -> DataFrame:
    """Envelopes to a flow: the user messages; for every partition its watermark when it has risen, and its end, once.

    envelopes: a streaming frame, as a transport reads it.
    stream: the name that its producer gives it.
    columns: which columns have the envelope, its partition and its position.
    task_count: of the producer, for messages without one, such as Samza's.
    idle_timeout: tasks without a message for that time do not hold the watermark. Spark then runs a batch at every
    trigger, so `availableNow` and `processAllAvailable` never end; and an idle timeout cannot be added to an existing
    query, nor removed from it.
    on_bad: with `fail`, an envelope that cannot be read, or that contradicts earlier ones, fails the query with a
    `BadEnvelopeError` or a `ContradictionError`. With `keep` it becomes a row of type `rejected`, with its bytes in
    `message` and the cause in `reason`.

    The user messages are read in one scan of the input, the control messages in another. Spark must be configured to
    keep state in RocksDB.
    """
    if on_bad not in ("fail", "keep"):
        raise ValueError(f"on_bad is {on_bad!r}, it must be 'fail' or 'keep'.")
    _check_state_store(envelopes.sparkSession)
    data, key = F.col(columns.value).cast("binary"), not_null(columns.partition)
    is_user = F.coalesce(F.substring(data, 1, 1) == F.lit(bytes([MessageType.USER])), F.lit(True))
    users = envelopes.where(is_user).select(
        F.lit(stream).alias("stream", metadata={STREAM_METADATA: stream}),
        key.alias("partition"),
        F.lit("message").alias("type"),
        F.substring(data, 2, 2**31 - 1).alias("message"),
        *(F.lit(None).cast("bigint").alias(name) for name in ("watermark", "generation", "partitionCount")),
        F.lit(None).cast("string").alias("reason"),
        *(F.lit(None).cast("bigint").alias(name) for name in _COUNTS),
    )
    announced = (
        _control(envelopes, columns, is_user)
        .groupBy("partition")
        .transformWithStateInPandas(
            _Reconciler(stream, task_count, idle_timeout, fails=on_bad == "fail"),
            users.schema,
            "Append",
            "None" if idle_timeout is None else "ProcessingTime",
        )
    )
    counted = users.unionByName(announced).observe(OBSERVED + stream, *_counters())
    return counted.where(F.col("type") != _COUNTED).drop(*_COUNTS)


def _control(envelopes: DataFrame, columns: EnvelopeColumns, is_user: Column) -> DataFrame:
    """The control messages with their positions and, if they are counted, rows with the numbers of user messages."""
    data, key = F.col(columns.value).cast("binary"), not_null(columns.partition)
    located = (
        [name for name in _LOCATING if name in envelopes.columns] if columns.position is None else columns.position
    )
    positions = [F.concat(F.lit(f"{name} "), F.col(name).cast("string")) for name in located]
    position = F.concat_ws(", ", *positions).alias("position")
    if not columns.counts:
        none = F.lit(0).cast("bigint").alias("rows")
        return envelopes.where(~is_user).select(key.alias("partition"), data.alias("value"), position, none)
    of_control = (F.when(~is_user, each) for each in (data, position))
    rows = envelopes.select(key.alias("partition"), *of_control).toDF("partition", "value", "position")
    kind = rows.schema["partition"].dataType.simpleString()
    return rows.mapInArrow(count_user_rows, f"partition {kind}, value binary, position string, rows bigint")


def _counters() -> Iterator[Column]:
    """What the query's progress has of a flow."""
    kind, partition = F.col("type"), F.col("partition").cast("string").alias("partition")
    names = ("stale", "rowsMissing", "rowsSurplus")
    sums = (F.coalesce(F.sum(each), F.lit(0)).alias(name) for each, name in zip(_COUNTS, names, strict=False))
    yield from (F.count_if(kind == name).alias(name) for name in TYPES)
    yield from sums
    yield F.collect_set(F.when(kind == "message", partition)).alias("partitions")
    known = F.struct(partition, "watermark", F.col("_held").alias("heldMs"))
    yield F.collect_list(F.when(kind == _COUNTED, known)).alias("watermarks")


_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def _check_state_store(spark: SparkSession) -> None:
    if "RocksDB" not in str(spark.conf.get(_PROVIDER)):
        raise ValueError(f"reconcile keeps its state in Spark's RocksDB state store. Set {_PROVIDER} to {_ROCKSDB}.")


WATERMARK_STATE = (
    "streamId string, totalTasks int, tasksToEventTime map<string, bigint>, generation bigint, "
    "timestampOfLastEmission bigint, idle array<string>, heard map<string, bigint>, since bigint, partitionCount int, "
    "sequences map<string, bigint>, stale bigint, staleGeneration bigint, isIdle boolean, risenAt bigint, "
    "rowsRead bigint, rowsSent bigint, allCounted boolean, counted map<string, bigint>"
)
END_STATE = "streamId string, totalTasks int, tasks array<string>, generation bigint, ended boolean"
IDLE_STATE = "run string, savedAt bigint, timeoutMs bigint, quorum double"
"""With an `IdleTimeout`: its fields, and the run of the query that has saved the tracker, and when."""


class _Reconciler(StatefulProcessor):
    """The trackers of a stream, one for each partition. Its input is all envelopes, user messages as their number."""

    def __init__(self, stream: str, task_count: int | None, idle_timeout: IdleTimeout | None, *, fails: bool) -> None:
        self._stream = stream
        self._task_count = task_count
        self._idle_timeout = idle_timeout
        self._fails = fails

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called before each batch of a task."""
        self._handle = handle
        self._watermark = handle.getValueState("watermark", WATERMARK_STATE)
        self._end = handle.getValueState("endOfStream", END_STATE)
        self._idle = handle.getValueState("idleTimeout", IDLE_STATE)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Apply the control messages of a batch to the tracker of their partition."""
        output = _Output(self._stream, key[0], fails=self._fails)
        messages: dict[ControlMessage, tuple[bytes, str]] = {}
        user_rows = 0
        for frame in rows:
            user_rows += int(frame["rows"].sum())
            control = frame[frame["value"].notna()]
            envelopes, positions = control["value"].tolist(), control["position"].tolist()
            unwrapped = unwrap_all(pa.array(envelopes, pa.binary()), self._task_count)
            for bad in unwrapped.rejected:
                output.reject(bad.envelope, positions[bad.row], BadEnvelopeError(bad.reason))
            for row, message in unwrapped.control:
                if isinstance(message, Drain):
                    output.add("drain", envelopes[row])
                    continue
                messages.setdefault(message, (envelopes[row], positions[row]))
        now = _now(timerValues)
        before = self._load(key[0], now)
        step = receive(
            before,
            messages,
            now,
            self._idle_timeout,
            lambda bad, error: output.reject(*messages[bad], error, named=bad.stream in (None, self._stream)),
            user_rows,
        )
        output.count(before, step.tracker, now)
        yield from self._save(output, step, now)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """See whether a task has timed out, and save that the query runs; only with an `IdleTimeout`."""
        if self._idle_timeout is not None:
            now = _now(timerValues)
            output = _Output(self._stream, key[0], fails=self._fails)
            yield from self._save(output, advance_time(self._load(key[0], now), now, self._idle_timeout), now)

    def _load(self, partition: Any, now: int) -> PartitionTracker:
        if not self._watermark.exists():
            return PartitionTracker(self._stream, partition)
        end, watermark = self._end.get() or (), self._watermark.get() or ()
        tracker = restore(EndOfStreamCheckpoint(*end), WatermarkCheckpoint(*watermark), partition)
        if tracker.stream != self._stream:
            raise ControlMessageError(
                f"the checkpoint is of stream {tracker.stream}, the query reconciles {self._stream}. Give `reconcile` "
                "the former name, or start with a new checkpoint."
            )
        if self._idle_timeout is None:
            return tracker
        run, saved_at, *_ = self._idle.get() or ("", now)
        return tracker if run == _run_id() else resume(tracker, max(0, now - saved_at))

    def _save(self, output: _Output, step: TrackerUpdate[PartitionTracker], now: int) -> Iterator[pd.DataFrame]:
        """Keep the tracker as state, set its next timer, and return the output with the announcements of the step."""
        end, watermark = to_checkpoint(step.tracker)
        self._watermark.update(tuple(vars(watermark).values()))  # astuple would copy the maps
        self._end.update(tuple(vars(end).values()))
        if self._idle_timeout is not None:
            self._idle.update((_run_id(), now, self._idle_timeout.timeout_ms, self._idle_timeout.quorum))
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            due = next_call(step.tracker, now, self._idle_timeout)
            if due is not None:
                self._handle.registerTimer(due)
        for each in step.announced:
            output.announce(each)
        yield output.frame()


def _run_id() -> str:
    """The id of this run of the query, which Spark uses as job group."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty("spark.jobGroup.id") or ""


def _now(timers: TimerValues, clock: Clock = SYSTEM_CLOCK) -> int:
    """Milliseconds: Spark's time of the batch, which it has only with timers; else the clock's."""
    batch_time = timers.getCurrentProcessingTimeInMs()
    return batch_time if batch_time >= 0 else clock.now_ns() // 1_000_000


class _Output:
    """The rows of a flow that come from the control envelopes of one partition in one batch."""

    def __init__(self, stream: str, partition: Any, *, fails: bool) -> None:
        self._stream = stream
        self._partition = partition
        self._fails = fails
        self._rows: list[dict[str, Any]] = []
        self._reasons: list[str] = []

    def add(self, kind: str, message: bytes | None = None, **more: Any) -> None:
        row = {"stream": self._stream, "partition": self._partition, "type": kind, "message": message}
        self._rows.append({**row, **more})

    def announce(self, announcement: Announcement) -> None:
        self._rows.append(announcement_row(self._stream, self._partition, announcement))

    def reject(self, envelope: bytes, position: str, error: ControlMessageError, *, named: bool = True) -> None:
        """Raise the error, with the position of the envelope; or add the envelope to the flow.

        named: the message is of the query's stream. Else the stream's name may be wrong, which `keep` would hide.
        """
        at = f" ({position})" if position else ""
        text = f"stream {self._stream}, partition {self._partition}{at}: {error}"
        if self._fails and named:
            text += (
                " A restarted query reads the message again: start it with on_bad='keep', which leaves the message out "
                "and keeps it as a row of type rejected."
            )
        if self._fails:
            raise type(error)(text)
        self._reasons.append(text)
        self.add("rejected", envelope, reason=text)

    def count(self, before: PartitionTracker, tracker: PartitionTracker, now: int) -> None:
        """Count and measure what a batch has changed. Log the first message of a lower generation, and lost rows."""
        missing, surplus, dropped = max(0, -tracker.surplus), max(0, tracker.surplus), tracker.stale - before.stale
        if tracker.generation >= 0:
            numbers = zip(_COUNTS, (dropped, missing, surplus, held_ms(tracker, now)), strict=True)
            counts: dict[str, Any] = {**dict(numbers), "watermark": tracker.watermark}
            self.add(_COUNTED, **counts)
            measure(tracker, now)
            if tracker.watermark != before.watermark:
                log_rise(tracker, now)
        place = f"stream {self._stream}, partition {self._partition}"
        if dropped:
            _warn_once(
                (_run_id(), self._stream, "stale", tracker.stale_generation),
                f"{place}: control messages of generation "
                f"{tracker.stale_generation} are dropped, as generation {tracker.generation} is in effect. If their "
                f"producer is to go on, give it a `generation` above {tracker.generation}; if another one has replaced "
                "it, stop it.",
            )
        if missing or (surplus and tracker.at_end):  # before the end a count may follow its rows
            differ = f"{missing} fewer" if missing else f"{surplus} more"
            _warn_once(
                (_run_id(), self._stream, "rows", self._partition),
                f"{place}: {tracker.rows_read} rows were read, {differ} than its tasks count: some were "
                f"{'lost' if missing else 'doubled, or written without `emit`'}. See `why_held`.",
            )

    def frame(self) -> pd.DataFrame:
        if self._reasons:
            logger.warning("%d envelopes rejected, the first: %s", len(self._reasons), self._reasons[0])
        rows = [{**dict.fromkeys((*FLOW, *_COUNTS)), **row} for row in self._rows]
        return pd.DataFrame(rows, columns=[*FLOW, *_COUNTS], dtype=object)


def announcement_row(stream: str, partition: Any, announcement: Announcement) -> dict[str, Any]:
    """An announcement as a row of a flow; the columns that it lacks are null."""
    return {
        **dict.fromkeys(FLOW),
        "stream": stream,
        "partition": partition,
        "type": announcement.type,
        "watermark": announcement.watermark,
        "generation": announcement.generation,
        "partitionCount": announcement.partition_count,
    }


_warned: set[tuple[object, ...]] = set()


def _warn_once(key: tuple[object, ...], text: str) -> None:
    """Log a warning once in this process."""
    if key not in _warned:
        _warned.add(key)
        logger.warning("%s", text)
