"""Envelopes to rows and announcements, in Spark: the downstream side.

    envelopes ─┬─ user messages ─────────────────────────────────────────┬─► flow ─ EventTimeProcessor ─► flow
               └─ control messages ─► books (transformWithState, Python) ┘

A *flow* has the columns stream, partition, type, message, watermark and reason. Its rows are user messages (`type`
message) and what is announced about them: watermark, endOfStream. A micro-batch is one step, and its announcements hold
after all of its messages, in whatever order it shows them.

The books of a partition are the state variables `watermark` and `endOfStream`, so Spark saves them in one commit with
the offsets.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from control_messages.books import (
    Book,
    EndOfStreamCheckpoint,
    WatermarkCheckpoint,
    checkpoint,
    expire,
    next_expiry,
    receive,
    restore,
    resume,
)
from control_messages.envelopes import unwrap_all
from control_messages.errors import BadEnvelopeError, ControlMessageError
from control_messages.messages import LATEST, Drain, MessageType, Watermark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

    from control_messages.books import IdleRule, Step
    from control_messages.messages import ControlMessage

logger = logging.getLogger(__name__)

FLOW = ("stream", "partition", "type", "message", "watermark", "reason")
"""Columns of a flow: strings but `message` (binary), `watermark` (bigint, milliseconds since 1970 UTC) and `partition`
(as in the input)."""
OBSERVED = "control_messages."
"""The counters of a flow stand in its query's progress, one for each type of row, under this and the stream's name."""
TYPES = ("message", "watermark", "endOfStream", "drain", "rejected")


def reconcile(  # noqa: PLR0913 - which column is what
    envelopes: DataFrame,
    stream: str,
    *,
    value: str = "value",
    partition: str = "partition",
    position: Sequence[str] = (),
    tasks: int | None = None,
    idle: IdleRule | None = None,
    on_bad: Literal["fail", "keep"] = "fail",
) -> DataFrame:
    """Envelopes to a flow: the user messages; for every partition its watermark when it has risen, and its end, once.

    stream: the name that its producer gives it, and ends it by. partition: a column without nulls. tasks: the task
    count for producers that tell none, as Samza's. position: columns that tell where an envelope stands
    (`offset` of Kafka, `_blob` of azureblob), for error messages. idle: leave out tasks that have been silent for some
    time. Spark then runs a batch at every trigger, so `availableNow` and `processAllAvailable` never end; and a rule
    cannot be added to a query that has run without, nor taken away.

    An envelope that cannot be read, or that contradicts earlier ones, ends the query by a `BadEnvelopeError` or a
    `ContradictionError` (on_bad `fail`). With `keep` it becomes a row of type `rejected`, with its bytes in `message`
    and why in `reason`. The user messages of the flow are read in one scan of the input, the control messages in
    another. Spark must be set to keep state in RocksDB.
    """
    if on_bad not in ("fail", "keep"):
        text = f"on_bad is {on_bad!r}, it must be 'fail' or 'keep'."
        raise ValueError(text)
    _check_state_store(envelopes.sparkSession)
    data, place = F.col(value).cast("binary"), required(partition)
    is_user = F.coalesce(F.substring(data, 1, 1) == F.lit(bytes([MessageType.USER])), F.lit(True))
    users = envelopes.where(is_user).select(
        F.lit(stream).alias("stream"),
        place.alias("partition"),
        F.lit("message").alias("type"),
        F.substring(data, 2, 2**31 - 1).alias("message"),
        F.lit(None).cast("bigint").alias("watermark"),
        F.lit(None).cast("string").alias("reason"),
    )
    places = [F.concat(F.lit(f"{name} "), F.col(name).cast("string")) for name in position]
    control = envelopes.where(~is_user).select(
        place.alias("partition"), data.alias("value"), F.concat_ws(", ", *places).alias("position")
    )
    announced = control.groupBy("partition").transformWithStateInPandas(
        _Reconciler(stream, tasks, idle, fails=on_bad == "fail"),
        users.schema,
        "Append",
        "None" if idle is None else "ProcessingTime",
    )
    counters = (F.count_if(F.col("type") == name).alias(name) for name in TYPES)
    return users.unionByName(announced).observe(OBSERVED + stream, *counters)


def required(partition: str) -> Column:
    """A key column; a null in it is an error. Of the others pandas would make doubles, and Spark nulls of these."""
    key = F.col(partition)
    wrong = F.raise_error(F.lit(f"control_messages: a row has a null in {partition!r}, which tells its partition."))
    return F.when(key.isNotNull(), key).otherwise(wrong)


_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def _check_state_store(spark: SparkSession) -> None:
    if "RocksDB" not in str(spark.conf.get(_PROVIDER)):
        text = f"reconcile keeps its books in Spark's RocksDB state store. Set {_PROVIDER} to {_ROCKSDB}."
        raise ValueError(text)


WATERMARK_STATE = (
    "streamId string, totalTasks int, tasksToEventTime map<string, bigint>, generation bigint, "
    "timestampOfLastEmission bigint, idle array<string>, heard map<string, bigint>, since bigint"
)
END_STATE = "streamId string, totalTasks int, tasks array<string>, generation bigint, ended boolean"


class _Reconciler(StatefulProcessor):
    """The books of one stream, one for each partition. Sees control messages and envelopes that nobody can read."""

    def __init__(self, stream: str, tasks: int | None, idle: IdleRule | None, *, fails: bool) -> None:
        self._stream = stream
        self._tasks = tasks
        self._idle = idle
        self._fails = fails

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called before each batch of a task."""
        self._handle = handle
        self._watermark = handle.getValueState("watermark", WATERMARK_STATE)
        self._end = handle.getValueState("endOfStream", END_STATE)
        self._run = handle.getValueState("run", "id string")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Enter the control messages that a batch has for one partition into its book."""
        told = _Told(self._stream, key[0], fails=self._fails)
        messages: dict[ControlMessage, tuple[bytes, str]] = {}
        for frame in rows:
            envelopes, places = frame["value"].tolist(), frame["position"].tolist()
            unwrapped = unwrap_all(pa.array(envelopes, pa.binary()), self._tasks)
            for bad in unwrapped.rejected:
                told.reject(bad.envelope, places[bad.row], BadEnvelopeError(bad.reason))
            for row, message in unwrapped.control:
                if isinstance(message, Drain):
                    told.add("drain", envelopes[row])
                    continue
                messages.setdefault(message, (envelopes[row], places[row]))
        now = _now(timerValues)
        step = receive(
            self._load(key[0], now),
            sorted(messages, key=_order),
            now,
            self._idle,
            lambda bad, error: told.reject(*messages[bad], error),
        )
        yield from self._done(told, step, now)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803, ARG002
    ) -> Iterator[pd.DataFrame]:
        """See whether a task has been silent for too long. Registered only with an `IdleRule`."""
        if self._idle is not None:
            now = _now(timerValues)
            told = _Told(self._stream, key[0], fails=self._fails)
            yield from self._done(told, expire(self._load(key[0], now), now, self._idle), now)

    def _load(self, partition: Any, now: int) -> Book:
        if not self._watermark.exists():
            return Book(self._stream, partition)
        end, watermark = self._end.get() or (), self._watermark.get() or ()
        book = restore(EndOfStreamCheckpoint(*end), WatermarkCheckpoint(*watermark), partition)
        if book.stream != self._stream:
            text = (
                f"the checkpoint has the books of stream {book.stream}, the query reconciles {self._stream}. Give the "
                "stream its name again, or start with a new checkpoint."
            )
            raise ControlMessageError(text)
        return book if self._idle is None or self._run.get() == (_run_id(),) else resume(book, now)

    def _done(self, told: _Told, step: Step[Book], now: int) -> Iterator[pd.DataFrame]:
        end, watermark = checkpoint(step.book)
        self._watermark.update(tuple(vars(watermark).values()))  # astuple would copy the maps
        self._end.update(tuple(vars(end).values()))
        if self._idle is not None:
            self._run.update((_run_id(),))
            for timer in list(self._handle.listTimers()):
                self._handle.deleteTimer(timer)
            due = next_expiry(step.book, now, self._idle)
            if due is not None:
                self._handle.registerTimer(due)
        if step.watermark is not None:
            told.add("watermark", watermark=step.watermark)
        if step.end:
            told.add("endOfStream")
        yield told.frame()


def _order(message: ControlMessage) -> tuple[int, bool]:
    """Puts the watermarks of a batch, whose order Spark has lost, in an order in which a task can have sent them."""
    return (message.timestamp, message.idle) if isinstance(message, Watermark) else (LATEST, True)


def _run_id() -> str:
    """The id of this run of the query, which Spark uses as job group."""
    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty("spark.jobGroup.id") or ""


def _now(timers: TimerValues) -> int:
    """Milliseconds: Spark's time of the batch if it tells one, which it does with timers only."""
    told = timers.getCurrentProcessingTimeInMs()
    return told if told >= 0 else time.time_ns() // 1_000_000


class _Told:
    """The rows of a flow that one partition adds in one batch."""

    def __init__(self, stream: str, partition: Any, *, fails: bool) -> None:
        self._stream = stream
        self._partition = partition
        self._fails = fails
        self._rows: list[dict[str, Any]] = []

    def add(
        self, kind: str, message: bytes | None = None, watermark: int | None = None, reason: str | None = None
    ) -> None:
        row = {"stream": self._stream, "partition": self._partition, "type": kind}
        self._rows.append({**row, "message": message, "watermark": watermark, "reason": reason})

    def reject(self, envelope: bytes, place: str, error: ControlMessageError) -> None:
        """Raise the error, with the place of the envelope; or keep the envelope in the flow."""
        at = f" ({place})" if place else ""
        text = f"stream {self._stream}, partition {self._partition}{at}: {error}"
        if self._fails:
            text += " Option on_bad='keep' goes on without it, and keeps it as a row of type rejected."
            raise type(error)(text)
        logger.warning("envelope rejected: %s", text)
        self.add("rejected", envelope, reason=text)

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self._rows, columns=list(FLOW), dtype=object)
