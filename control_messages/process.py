"""Operators behind `reconcile`, in Spark: rows first, then the watermark, then the end.

Spark hands the rows of a batch to an operator in no particular order. `EventTimeProcessor` restores the one that
matters, and hands on the announcements behind whatever the operator has made of them.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StructType

from control_messages.reconcile import FLOW, required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import TimerValues


class EventTimeProcessor(StatefulProcessor):
    """One operator with state for each partition of a flow. Override `schema`, `init` and what of the rest is of use.

    The methods yield pandas frames with the columns of `schema`, or some of them. Apply it with `process`.
    """

    schema: str
    """The columns that it makes, beside those of a flow, as DDL."""
    _columns: tuple[str, ...] = ()

    def on_messages(self, key: tuple[Any, ...], messages: pd.DataFrame) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """User messages of stream and partition `key`: any number of calls, all before the batch's watermark.

        As everywhere in pandas, integers stand beside nulls as doubles, also where announcements of the batch have the
        nulls: let 64-bit numbers that must be exact come as strings.
        """
        return iter(())

    def on_watermark(self, key: tuple[Any, ...], watermark: int) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """No row older than this (ms since 1970 UTC) comes after, except late ones. Once at most in a batch."""
        return iter(())

    def on_end(self, key: tuple[Any, ...]) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        """No row comes after. Once in the life of the checkpoint."""
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
        told = []
        for frame in rows:
            is_message = frame["type"] == "message"
            if is_message.any():
                yield from self._made(key, self.on_messages(key, frame[is_message]))
            told.append(frame.loc[~is_message, list(FLOW)])
        others = pd.concat(told)
        # Beside nulls pandas has the watermarks as doubles, which are exact up to 2**53: the year 287396.
        others["watermark"] = others["watermark"].clip(upper=2**53)
        risen = others.loc[others["type"] == "watermark", "watermark"]
        if len(risen):
            yield from self._made(key, self.on_watermark(key, int(risen.max())))
        if (others["type"] == "endOfStream").any():
            yield from self._made(key, self.on_end(key))
        if len(others):
            yield self._whole(others.sort_values("type", key=lambda types: types == "endOfStream"))

    def _made(self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame] | None) -> Iterator[pd.DataFrame]:
        stream, partition = key
        for frame in frames or ():
            unknown = sorted(set(frame.columns) - set(self._columns))
            if unknown:
                text = f"{type(self).__name__} made {', '.join(unknown)}, which its schema has not: {self.schema}."
                raise ValueError(text)
            yield self._whole(frame.assign(stream=stream, partition=partition, type="message"))

    def _whole(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with all columns. Not by `reindex`: its columns of NaN are none that Spark takes for strings."""
        missing = [name for name in self._columns if name not in frame.columns]
        return frame.assign(**dict.fromkeys(missing))[list(self._columns)]


def process(flow: DataFrame, processor: EventTimeProcessor) -> DataFrame:
    """A flow of what the processor makes of another flow's messages, with the same announcements behind it."""
    own = cast("StructType", StructType.fromDDL(processor.schema))
    taken = sorted(set(own.names) & set(FLOW))
    if taken:
        text = f"{type(processor).__name__}.schema has {', '.join(taken)}, which every flow has. Choose other names."
        raise ValueError(text)
    whole = StructType([*(flow.schema[name] for name in FLOW), *own.fields])
    applied = copy.copy(processor)
    applied._columns = tuple(whole.names)  # noqa: SLF001 - of this module
    keyed = flow.withColumn("partition", required("partition"))
    return keyed.groupBy("stream", "partition").transformWithStateInPandas(applied, whole, "Append", "None")
