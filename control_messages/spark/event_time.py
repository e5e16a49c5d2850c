"""Operators on flows that need event time: rows first, then the watermark, then the end.

Spark hands the rows of a batch to an operator in no particular order. `process` restores the order that matters, takes
the minimum of the watermarks of several flows, and passes the announcements on after the operator's own rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import IntegralType, LongType, StructField, StructType

from control_messages import combined
from control_messages.announcements import Announcement
from control_messages.combined import CombinedTracker
from control_messages.spark.columns import not_null
from control_messages.spark.reconciliation import FLOW, STREAM_METADATA, announcement_row
from foundation.arguments import checked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues

_IN_ORDER = {"reopened": 0, "active": 1, "watermark": 2, "idle": 3, "endOfStream": 4}
_NUMBERS = ("watermark", "generation", "partitionCount")
LATE_ROWS = "late_rows."
"""The query's progress has the counters `messages` and `late` of an operator under this, its stream and its class."""
_COUNTED, _COUNTS = "counted", ("_messages", "_late")
"""The type of a row that is only counted, and its columns; both are gone once they are counted."""
OWN_STATE = "controlMessages"
"""The state variable of `process`, beside those of the operator."""
_OWN_SCHEMA = (
    "watermarks map<string, bigint>, generations map<string, bigint>, ended array<string>, idle array<string>, "
    "watermark bigint, atEnd boolean, isIdle boolean, partitionCount bigint"
)


class EventTimeProcessor:
    """An operator with state for each partition. Override `schema`, and of the methods those that you need.

    The methods yield pandas frames with the columns of `schema`, or some of them; or they return None. In a batch they
    are called in this order: `on_reopened`, `on_messages`, `on_watermark`, `on_end`. Apply it with `process`.
    """

    schema: str
    """The columns that the operator adds to those of a flow, as DDL."""
    event_time: str | None = None
    """The column of the messages with their event time in milliseconds (bigint). With it the query's progress counts
    the messages of each batch, and those that were late: `observedMetrics["late_rows.<stream>.<class>"]`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Get the variables of the operator's state; before each batch of a task. `controlMessages` is taken."""

    def on_messages(
        self, partition: Any, messages: pd.DataFrame, watermark: int | None
    ) -> Iterable[pd.DataFrame] | None:
        """User messages of a partition, of all flows (column `stream`): any number of calls in a batch.

        watermark: the last one announced; None before the first. A message that is older is late.

        Integers are integers, of dtype `Int64` in a column with nulls. Beyond 2**53 they are not exact in a batch that
        has nulls in the column, if only in its announcements, since pandas holds them as doubles first: pass such ones
        as strings.
        """

    def on_watermark(self, partition: Any, watermark: int) -> Iterable[pd.DataFrame] | None:
        """No older row (ms since 1970 UTC) will follow in any flow, except late ones. At most once in a batch."""

    def on_end(self, partition: Any) -> Iterable[pd.DataFrame] | None:
        """No row will follow: all flows have ended. Once, and again after each `on_reopened`."""

    def on_reopened(self, partition: Any) -> Iterable[pd.DataFrame] | None:
        """The end was announced, and now a flow has begun again in a higher generation."""

    def close(self) -> None:
        """Called at the end of a task."""


@checked
def process(flows: DataFrame | Sequence[DataFrame], processor: EventTimeProcessor, name: str = "") -> DataFrame:
    """A flow with the processor's rows in place of the messages, followed by the announcements.

    flows: one flow or several, which have the same number of partitions and the same types of columns. Several have one
    watermark, the minimum, and one end, when all have ended. A column that a flow does not have is null in its rows.
    Streams with different numbers of partitions fail the query with a `ContradictionError`.
    name: the stream of the result; by default the names of the flows, joined by "+".
    """
    inputs = [flows] if isinstance(flows, DataFrame) else list(flows)
    streams = tuple(map(_stream_of, inputs))
    if len(set(streams)) < len(streams):
        raise ValueError(f"The flows are of {', '.join(streams)}; each must be of another stream.")
    united = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), inputs)
    own = cast("StructType", StructType.fromDDL(processor.schema))
    taken = sorted(set(own.names) & set(FLOW))
    if taken:
        text = f"{type(processor).__name__}.schema has {', '.join(taken)}, which every flow has. Choose other names."
        raise ValueError(text)
    stream = name or "+".join(streams)
    columns = [united.schema[column] for column in FLOW]
    columns[0] = StructField("stream", columns[0].dataType, columns[0].nullable, {STREAM_METADATA: stream})
    integers = [field.name for field in united.schema if isinstance(field.dataType, IntegralType)]
    _check_event_time(processor, integers)
    runner = _Runner(processor, streams, stream, [*FLOW, *own.names], [name for name in integers if name not in FLOW])
    # As numbers, pandas would hold them as doubles, beside the nulls of the messages.
    exact = {name: F.col(name).cast("string") for name in _NUMBERS}
    keyed = united.withColumns({"partition": not_null("partition"), **exact})
    counts = [StructField(name, LongType()) for name in _COUNTS] if processor.event_time else []
    processed = keyed.groupBy("partition").transformWithStateInPandas(
        runner, StructType([*columns, *own.fields, *counts]), "Append", "None"
    )
    if processor.event_time:
        counters = (F.coalesce(F.sum(name), F.lit(0)).alias(name.removeprefix("_")) for name in _COUNTS)
        observed = processed.observe(f"{LATE_ROWS}{stream}.{type(processor).__name__}", *counters)
        processed = observed.where(F.col("type") != _COUNTED).drop(*_COUNTS)
    return processed.withColumn("stream", F.col("stream").alias("stream", metadata={STREAM_METADATA: stream}))


def _check_event_time(processor: EventTimeProcessor, integers: Sequence[str]) -> None:
    if processor.event_time is not None and processor.event_time not in integers:
        raise ValueError(
            f"{type(processor).__name__}.event_time is {processor.event_time!r}, which is no integer column of the "
            "flows. Add it, in milliseconds: `F.unix_millis(...)`."
        )


def _stream_of(flow: DataFrame) -> str:
    """The stream of a flow, by the metadata that `reconcile` and `process` leave."""
    metadata = flow.schema["stream"].metadata if "stream" in flow.columns else {}
    if STREAM_METADATA not in metadata:
        text = "this is no flow: it lacks the column `stream` as `reconcile` and `process` make it. Leave it as it is."
        raise ValueError(text)
    return str(metadata[STREAM_METADATA])


class _Runner(StatefulProcessor):
    """Calls an `EventTimeProcessor` in order. Its own state is what the flows have announced."""

    def __init__(
        self,
        processor: EventTimeProcessor,
        inputs: tuple[str, ...],
        stream: str,
        columns: Sequence[str],
        integers: Sequence[str] = (),
    ) -> None:
        self._processor = processor
        self._inputs = inputs
        self._stream = stream
        self._columns = list(columns)
        self._integers = list(integers)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getValueState(OWN_STATE, _OWN_SCHEMA)
        self._processor.init(handle)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Put a batch in order."""
        before, partition, others = self._load(), key[0], []
        counted = dict.fromkeys(_COUNTS, 0)
        if before.at_end:
            reopened, rows = _reopened(rows)
            if reopened:
                yield from self._output(key, self._processor.on_reopened(partition))
        for frame in rows:
            is_message = frame["type"] == "message"
            if is_message.any():
                messages = self._with_integers(frame[is_message])
                counted["_messages"] += len(messages)
                counted["_late"] += self._late(messages, before.watermark)
                yield from self._output(key, self._processor.on_messages(partition, messages, before.watermark))
            others.append(frame.loc[~is_message, list(FLOW)])
        control = pd.concat(others)
        step = combined.receive(before, _announcements(control))
        if step.watermark is not None:
            yield from self._output(key, self._processor.on_watermark(partition, step.watermark))
        if step.end:
            yield from self._output(key, self._processor.on_end(partition))
        self._save(step.tracker)
        passed = control[~control["type"].isin(_IN_ORDER)]
        if len(passed) or step.announced:
            yield self._whole(pd.concat([passed, self._rows(partition, step.announced)]))
        if self._processor.event_time:
            row = {"stream": self._stream, "partition": partition, "type": _COUNTED, **counted}
            yield self._whole(pd.DataFrame([row], dtype=object))

    def _late(self, messages: pd.DataFrame, watermark: int | None) -> int:
        """How many messages are older than the watermark before the batch."""
        if self._processor.event_time is None or watermark is None:
            return 0
        return int((messages[self._processor.event_time] < watermark).sum())

    def close(self) -> None:
        self._processor.close()

    def _with_integers(self, messages: pd.DataFrame) -> pd.DataFrame:
        """The messages with the integers that pandas holds as doubles, because other rows have nulls, as integers.

        Spark takes a double in a `bigint` of its state for null.
        """
        doubles = [name for name in self._integers if messages[name].dtype.kind == "f"]
        return messages.astype({name: "Int64" if messages[name].hasnans else "int64" for name in doubles})

    def _load(self) -> CombinedTracker:
        if not self._state.exists():
            return CombinedTracker(self._inputs)
        watermarks, generations, ended, idle, *announced = self._state.get() or ()
        return CombinedTracker(self._inputs, watermarks, generations, frozenset(ended), frozenset(idle), *announced)

    def _save(self, tracker: CombinedTracker) -> None:
        maps = (dict(tracker.watermarks), dict(tracker.generations))
        announced = (tracker.watermark, tracker.at_end, tracker.is_idle, tracker.partition_count)
        self._state.update((*maps, sorted(tracker.ended), sorted(tracker.idle), *announced))

    def _rows(self, partition: Any, announced: Iterable[Announcement]) -> pd.DataFrame:
        rows = [announcement_row(self._stream, partition, each) for each in announced]
        return pd.DataFrame(rows, columns=list(FLOW), dtype=object)

    def _output(self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame] | None) -> Iterator[pd.DataFrame]:
        """The operator's frames as messages of the flow. `ValueError` for a column that its schema does not have."""
        for frame in frames or ():
            unknown = sorted(set(frame.columns) - set(self._columns))
            if unknown:
                raise ValueError(
                    f"{type(self._processor).__name__} returned columns {', '.join(unknown)}, which are not in its "
                    f"schema: {self._processor.schema}."
                )
            yield self._whole(frame.assign(stream=self._stream, partition=key[0], type="message"))

    def _whole(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with all columns. `reindex` would fill with NaN, which Spark does not accept in string columns."""
        columns = [*self._columns, *(_COUNTS if self._processor.event_time else ())]
        missing = [name for name in columns if name not in frame.columns]
        return frame.assign(**dict.fromkeys(missing))[columns]


def _reopened(rows: Iterator[pd.DataFrame]) -> tuple[bool, Iterator[pd.DataFrame]]:
    """Whether a batch has a `reopened`, which comes before its messages; and its frames, read up to there."""
    read = []
    for frame in rows:
        read.append(frame)
        if (frame["type"] == "reopened").any():
            return True, chain(read, rows)
    return False, iter(read)


def _announcements(others: pd.DataFrame) -> list[tuple[str, Announcement]]:
    """What the flows announce in a batch, of each flow in order."""
    found = others[others["type"].isin(_IN_ORDER)]
    rows = [
        (
            str(row.stream),
            Announcement(row.type, int(row.generation), _integer(row.watermark), _integer(row.partitionCount)),
        )
        for row in found.itertuples()
    ]
    return sorted(rows, key=lambda each: (each[0], each[1].generation, _IN_ORDER[each[1].type], each[1].watermark or 0))


def _integer(text: Any) -> int | None:
    return None if pd.isna(text) else int(text)
