"""What a query waits for, in Spark: the books in its checkpoint, who holds them, and whether its input has ended."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from control_messages import holds
from control_messages.books import EndOfStreamCheckpoint, WatermarkCheckpoint, restore
from control_messages.reconcile import OBSERVED
from control_messages.stream_books import all_ended

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from control_messages.books import Book, IdleRule
    from control_messages.holds import Hold

_POLL_SECONDS = 0.1
_STATES = ("endOfStream", "watermark")


def read_books(spark: SparkSession, checkpoint: str) -> list[Book]:
    """The books in a query's checkpoint, as of the last batch that it has committed; none before its first.

    May be called while the query runs. `ValueError` for a path that Spark's reader of state cannot read.
    """
    if " " in checkpoint or "%" in checkpoint:
        text = f"Spark cannot read the state of checkpoint {checkpoint!r}: use a path without spaces and percent signs."
        raise ValueError(text)
    books = []
    for operator, batch in _reconcilers(spark, checkpoint):
        ends, watermarks = (_state(spark, checkpoint, operator, batch, name) for name in _STATES)
        for partition, watermark in watermarks.items():
            end = EndOfStreamCheckpoint(**ends[partition])
            books.append(restore(end, WatermarkCheckpoint(**watermark), partition))
    return sorted(books, key=lambda book: (book.stream, str(book.partition)))


def why_held(spark: SparkSession, checkpoint: str, rule: IdleRule | None = None) -> list[Hold]:
    """For each partition what holds its watermark now; as a text for people, `str(hold)`.

    rule: the one that the query has, if any. `control_messages.holds.why_held` does the same for one book and any time.
    """
    now = time.time_ns() // 1_000_000
    return [holds.why_held(book, now, rule) for book in read_books(spark, checkpoint)]


def run_until_end(query: StreamingQuery, checkpoint: str, inputs: Mapping[str, int]) -> bool:
    """Wait until every input has ended, then stop the query. Raises what the query fails with.

    inputs: how many partitions each stream has that the query reconciles, one stream at least; `ValueError` if there
    are more. The query is stopped when the batch that told the last end is committed; nothing of the input comes after.
    If an earlier run of the query has seen the end, it is stopped at once. Returns False if somebody else has stopped
    it before.
    """
    if not inputs:
        text = "no input is named, so there is no end to wait for. Give the streams with their numbers of partitions."
        raise ValueError(text)
    spark = SparkSession.active()
    seen = -1
    ended = _all_ended(spark, checkpoint, inputs)
    while query.isActive and not ended:
        time.sleep(_POLL_SECONDS)
        told = [each for each in query.recentProgress if each["batchId"] > seen]
        seen = max((each["batchId"] for each in told), default=seen)
        if any(_ends(each) for each in told):
            ended = _all_ended(spark, checkpoint, inputs)
    if ended:
        query.stop()
    query.awaitTermination()
    return ended or _all_ended(spark, checkpoint, inputs)


def _ends(progress: Any) -> bool:
    """Whether a batch has told the end of a partition."""
    observed = progress["observedMetrics"]
    return any(observed[name]["endOfStream"] for name in observed if name.startswith(OBSERVED))


def _all_ended(spark: SparkSession, checkpoint: str, inputs: Mapping[str, int]) -> bool:
    books = read_books(spark, checkpoint)
    of_input = {stream: [book for book in books if book.stream == stream] for stream in inputs}
    for stream, partitions in inputs.items():
        if len(of_input[stream]) > partitions:
            text = f"stream {stream} has {len(of_input[stream])} partitions at least, not {partitions}."
            raise ValueError(text)
    return all(len(of_input[stream]) == inputs[stream] and all_ended(of_input[stream]) for stream in inputs)


def _reconcilers(spark: SparkSession, checkpoint: str) -> list[tuple[int, int]]:
    """The operators of the query whose state is books, and the last batch of each that is committed."""
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
