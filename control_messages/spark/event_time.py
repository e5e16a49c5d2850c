"""Operators on a flow that need event time: rows first, then the watermark, then the end.

Spark hands the rows of a batch to an operator in no particular order. `EventTimeProcessor` restores the order that
matters, and passes the announcements on after the operator's own rows.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from control_messages.spark.reconciliation import FLOW, not_null

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import TimerValues


class EventTimeProcessor(StatefulProcessor):
    """An operator with state for each partition of a flow. Override `schema`, and of the methods those that you need.

    The methods yield pandas frames with the columns of `schema`, or some of them. Apply it with `process`.
    """

    schema: str
    """The columns that the operator adds to those of a flow, as DDL."""
    _columns: tuple[str, ...] = ()

    def on_messages(self, key: tuple[Any, ...], messages: pd.DataFrame) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """User messages of `key`, (stream, partition): any number of calls, all before the watermark of the batch.

        As always in pandas, an integer column with nulls holds doubles; here also if only the announcements of the
        batch have the nulls. Pass 64-bit integers that must be exact as strings.
        """
        return iter(())

    def on_watermark(self, key: tuple[Any, ...], watermark: int) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """No older row (ms since 1970 UTC) will follow, except late ones. At most once in a batch."""
        return iter(())

    def on_end(self, key: tuple[Any, ...]) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """No row will follow. Once in the life of the checkpoint."""
        return iter(())

    def close(self) -> None:
        """Called at the end of a task."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[Any, ...],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Put a batch in order. Not to be overridden."""
        announcements = []
        for frame in rows:
            is_message = frame["type"] == "message"
            if is_message.any():
                yield from self._output(key, self.on_messages(key, frame[is_message]))
            announcements.append(frame.loc[~is_message, list(FLOW)])
        others = pd.concat(announcements)
        # With nulls pandas holds the watermarks as doubles, which are exact up to 2**53: the year 287396.
        others["watermark"] = others["watermark"].clip(upper=2**53)
        risen = others.loc[others["type"] == "watermark", "watermark"]
        if len(risen):
            yield from self._output(key, self.on_watermark(key, int(risen.max())))
        if (others["type"] == "endOfStream").any():
            yield from self._output(key, self.on_end(key))
        if len(others):
            yield self._whole(others.sort_values("type", key=lambda types: types == "endOfStream"))

    def _output(self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame] | None) -> Iterator[pd.DataFrame]:
        """The operator's frames as messages of the flow. `ValueError` for a column that its schema does not have."""
        stream, partition = key
        for frame in frames or ():
            unknown = sorted(set(frame.columns) - set(self._columns))
            if unknown:
                text = (
                    f"{type(self).__name__} returned columns {', '.join(unknown)}, which are not in its schema: "
                    f"{self.schema}."
                )
                raise ValueError(text)
            yield self._whole(frame.assign(stream=stream, partition=partition, type="message"))

    def _whole(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with all columns. `reindex` would fill with NaN, which Spark does not accept in string columns."""
        missing = [name for name in self._columns if name not in frame.columns]
        return frame.assign(**dict.fromkeys(missing))[list(self._columns)]


def process(flow: DataFrame, processor: EventTimeProcessor) -> DataFrame:
    """A flow with the processor's rows in place of the messages, followed by the same announcements."""
    own = cast("StructType", StructType.fromDDL(processor.schema))
    taken = sorted(set(own.names) & set(FLOW))
    if taken:
        text = f"{type(processor).__name__}.schema has {', '.join(taken)}, which every flow has. Choose other names."
        raise ValueError(text)
    whole = StructType([*(flow.schema[name] for name in FLOW), *own.fields])
    applied = copy.copy(processor)
    applied._columns = tuple(whole.names)  # noqa: SLF001 - of this module
    keyed = flow.withColumn("partition", not_null("partition"))
    return keyed.groupBy("stream", "partition").transformWithStateInPandas(applied, whole, "Append", "None")
