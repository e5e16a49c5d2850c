"""Several streams in one operator: a join, a union, their watermark and their end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.envelopes import unwrap
from control_messages.messages import EARLIEST, EndOfStream, Watermark
from control_messages.partition_tracker import PartitionTracker, receive
from control_messages.producer import ProducerSpec
from control_messages.spark import EventTimeProcessor, forward, process, reconcile, run_until_end
from tests.spark.parquet_stream import IntermediateStream, announced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

DAY = 86_400_000
GUIDE = Path(__file__).parents[2] / "docs" / "CONTROL_MESSAGES.md"


@pytest.fixture
def other(spark: SparkSession, tmp_path: Path, stream: IntermediateStream) -> IntermediateStream:
    (tmp_path / "other").mkdir()
    return IntermediateStream(spark, tmp_path / "other")


class Join(EventTimeProcessor):
    """Pairs the messages of two streams by their text, once the watermark or the end allows no other."""

    schema = "what string"

    def init(self, handle: Any) -> None:
        self._seen = handle.getMapState("seen", "text string", "streams string")

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> Iterator[pd.DataFrame]:
        for stream, message in messages[["stream", "message"]].itertuples(index=False):
            key = (bytes(message).decode(),)
            before = self._seen.getValue(key)[0] if self._seen.containsKey(key) else ""
            self._seen.updateValue(key, (before + stream,))
        yield pd.DataFrame({"what": [f"at {watermark}"]})

    def on_watermark(self, partition: Any, watermark: int) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"what": [f"up to {watermark}: {self._pairs()}"]})

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"what": [f"end: {self._pairs()}"]})

    def on_reopened(self, partition: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"what": ["reopened"]})

    def _pairs(self) -> str:
        return ",".join(sorted(key[0] for key, value in self._seen.iterator() if sorted(value[0]) == ["s", "t"]))


def both(stream: IntermediateStream, other: IntermediateStream) -> list[DataFrame]:
    return [reconcile(stream.frame(), "s"), reconcile(other.frame(), "t")]


@pytest.mark.every_spark
def test_a_join_gets_the_minimum_of_two_watermarks_and_one_end(
    stream: IntermediateStream, other: IntermediateStream
) -> None:
    stream.put((0, b"\0x"), (0, Watermark("a", 1, 50)), (1, Watermark("a", 1, 7)))
    other.put((0, b"\0y"))
    other.put((0, b"\0x"), (0, Watermark("b", 1, 20)))
    stream.put((0, EndOfStream("a", 1)))
    other.put((0, b"\0z"), (0, Watermark("b", 1, 70)))
    other.put((0, EndOfStream("b", 1)))

    rows = stream.run(process(both(stream, other), Join(), name="joined"))

    texts = sorted({(row[0], row[-1]) for row in rows if row[3] == "message"})
    assert [
        (0, "at None"),
        (1, "at None"),
        (1, "up to 20: x"),
        (2, "at 20"),
        (2, "up to 70: x"),
        (3, "end: x"),
    ] == texts
    marks = [row for row in announced(rows) if row[1] == 0]
    assert [(1, 0, "watermark", 20), (2, 0, "watermark", 70), (3, 0, "endOfStream", None)] == marks
    assert not [row for row in announced(rows) if row[1] == 1], "one of the streams has nothing for partition 1"
    assert {"joined"} == {row[1] for row in rows}


def test_an_idle_stream_does_not_hold_a_join_and_the_next_job_knows_when_both_are_idle(
    stream: IntermediateStream, other: IntermediateStream
) -> None:
    stream.put((0, b"\0x"), (0, Watermark("a", 1, 50, sequence=1)))
    other.put((0, Watermark("b", 1, 20, sequence=1)))
    stream.put((0, Watermark("a", 1, 60, sequence=2)))
    other.put((0, Watermark("b", 1, 20, sequence=2, idle=True)))
    stream.put((0, Watermark("a", 1, 60, sequence=3, idle=True)))
    other.put((0, b"\0x"))
    stream.put((0, Watermark("a", 1, 70, sequence=4)))
    other.put((0, Watermark("b", 1, 65, sequence=4)))
    next_one = ProducerSpec("next", 1, 1)

    joined = forward(process(both(stream, other), Join()), next_one, value="what", partition=F.lit(0))
    rows = stream.run(joined)

    sent = [unwrap(bytes(value)) for _, _, value in rows]
    marks = [(each.timestamp, each.idle) for each in sent if isinstance(each, Watermark)]
    assert [(20, False), (60, False), (EARLIEST, True), (EARLIEST, False), (65, False)] == marks
    tracker = PartitionTracker("next")
    for message in sent:
        if isinstance(message, Watermark):
            tracker = receive(tracker, [message], 0).tracker
            assert tracker.is_idle == message.idle


def test_a_union_has_the_columns_of_both_and_one_watermark(
    stream: IntermediateStream, other: IntermediateStream
) -> None:
    class Union(EventTimeProcessor):
        schema = "text string, size bigint"

        def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> Iterator[pd.DataFrame]:
            yield messages[["text", "size"]]

    stream.put((0, b"\0one"), (0, Watermark("a", 1, 5)))
    other.put((0, b"\0three"), (0, Watermark("b", 1, 3)))
    texts = reconcile(stream.frame(), "s").withColumn("text", F.col("message").cast("string"))
    sizes = reconcile(other.frame(), "t").withColumn("size", F.length("message").cast("bigint"))

    rows = stream.run(process([texts, sizes], Union()))

    assert {("one", None), (None, 5)} == {row[-2:] for row in rows if row[3] == "message"}
    assert [("watermark", 3)] == [row[2:] for row in announced(rows)]
    assert {"s+t"} == {row[1] for row in rows}


def guide_s_days() -> EventTimeProcessor:
    """The operator of the guide."""
    (code,) = re.findall(r"^DAY = .*?(?=^row = )", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {"EventTimeProcessor": EventTimeProcessor, "pd": pd}
    exec(code, names)  # noqa: S102 - a file of this repository
    operator = names["Days"]()
    assert isinstance(operator, EventTimeProcessor)
    return operator


def flown(*days: float | None) -> list[tuple[int, bytes]]:
    """Messages of partition 0, each with the day of its departure."""
    return [(0, b"\0" + (b"" if day is None else str(int(day * DAY)).encode())) for day in days]


def test_the_guide_s_windows_keep_nulls_count_late_rows_and_have_times_that_the_next_job_can_use(
    stream: IntermediateStream,
) -> None:
    stream.put(*flown(1.5, 1.6, None, 2.1), (0, Watermark("a", 1, int(1.6 * DAY))))
    stream.put(*flown(2.2, 1.7, 1.2, None), (0, Watermark("a", 1, int(2.5 * DAY))))
    stream.put(*flown(3.2, 1.8), (0, Watermark("a", 1, 3 * DAY)))
    stream.put((0, EndOfStream("a", 1)))
    departure = F.col("message").cast("string").try_cast("bigint").alias("departure")
    flow = reconcile(stream.frame(), "s").select("*", departure)
    flow = flow.withColumn("day", F.floor(F.col("departure") / DAY) * DAY)
    found: list[tuple[Any, ...]] = []
    query = stream.start(process(flow, guide_s_days()), found)
    assert run_until_end(query, {"s": 1})

    days = {(row[-3], row[-2]) for row in found if row[3] == "message"}
    assert {(DAY, 4), (2 * DAY, 2), (3 * DAY, 1), (None, 2)} == days, "all but the last flight of day 1"
    watermarks = {row[0]: row[5] for row in found if row[3] == "watermark"}
    times = [(row[0], row[-1]) for row in found if row[3] == "message" and row[-1] is not None]
    assert all(at >= watermarks.get(batch - 1, 0) for batch, at in times), "none is late for the next job"
    assert any(at - DAY + 1 < watermarks.get(batch - 1, 0) for batch, at in times), "as the first moment would be"
    counted = [each["observedMetrics"].get("late_rows.s.Days") for each in query.recentProgress]
    assert [(4, 0), (4, 1), (2, 1)] == [tuple(row) for row in counted if row is not None][:3]
    assert "stale" in query.recentProgress[0]["observedMetrics"]["control_messages.s"].asDict()


def test_the_event_time_of_an_operator_is_a_column_of_integers(stream: IntermediateStream) -> None:
    class Timed(EventTimeProcessor):
        schema = "text string"
        event_time = "at"

    flow = reconcile(stream.frame(), "s")
    with pytest.raises(ValueError, match=r"Timed.event_time is 'at', which is no integer column .*F.unix_millis"):
        process(flow, Timed())
    process(flow.withColumn("at", F.lit(1)), Timed())


def test_an_operator_is_told_when_an_ended_stream_goes_on(
    stream: IntermediateStream, other: IntermediateStream
) -> None:
    stream.put((0, EndOfStream("a", 1)))
    other.put((0, EndOfStream("b", 1)))
    flow = process(both(stream, other), Join())
    assert [(0, 0, "endOfStream", None)] == announced(stream.run(flow))
    other.put((0, b"\0x"), (0, Watermark("b", 1, 9, generation=1)))
    other.put((0, EndOfStream("b", 1, generation=1)))

    rows = stream.run(flow)

    assert [(1, "reopened"), (1, "at None"), (1, "up to 9: "), (2, "end: ")] == [
        (row[0], row[-1]) for row in rows if row[3] == "message"
    ]
    assert [(1, 0, "reopened", None), (1, 0, "watermark", 9), (2, 0, "endOfStream", None)] == announced(rows)


def test_streams_with_different_numbers_of_partitions_are_not_joined(
    stream: IntermediateStream, other: IntermediateStream
) -> None:
    stream.put((0, ProducerSpec("s", 2).watermark(0, 5)), (1, ProducerSpec("s", 2).watermark(0, 5)))
    other.put((0, ProducerSpec("t", 1).watermark(0, 5)))
    with pytest.raises(PySparkException, match=r"t has 1 partitions, another stream of s, t has 2\. Write them again"):
        stream.run(process(both(stream, other), Join()))


def test_numbers_beyond_the_exact_doubles_pass_an_operator(stream: IntermediateStream) -> None:
    large = 2**62 + 1
    stream.put((0, b"\0x"), (0, Watermark("a", 1, large, generation=large)))
    rows = stream.run(process(reconcile(stream.frame(), "s"), Join()))
    assert [(large, large)] == [row[5:7] for row in rows if row[3] == "watermark"]


def test_what_is_no_flow_or_comes_twice_is_refused(stream: IntermediateStream) -> None:
    stream.put((0, b"\0x"))
    flow = reconcile(stream.frame(), "s")
    with pytest.raises(ValueError, match="each must be of another stream"):
        process([flow, flow], Join())
    with pytest.raises(ValueError, match="this is no flow"):
        process(stream.frame(), Join())

    class Wrong(EventTimeProcessor):
        schema = "partition int, what string"

    with pytest.raises(ValueError, match=r"Wrong\.schema has partition, which every flow has"):
        process(flow, Wrong())
