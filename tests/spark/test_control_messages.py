"""Emit, reconcile, process and forward in a real Spark. The intermediate stream is a folder of Parquet files."""

from __future__ import annotations

import re
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.checkpoints import to_checkpoint
from control_messages.envelopes import unwrap, wrap
from control_messages.holds import Hold
from control_messages.messages import Drain, EndOfStream, Watermark
from control_messages.partition_tracker import PartitionTracker, receive
from control_messages.producer import ProducerSpec
from control_messages.spark import (
    EmitColumns,
    EnvelopeColumns,
    EventTimeProcessor,
    IdleTimeout,
    control_envelopes,
    emit,
    forward,
    partition_of,
    process,
    read_trackers,
    reconcile,
    run_until_end,
    why_held,
)
from control_messages.spark.event_time import _Runner
from control_messages.spark.reconciliation import FLOW
from tests.spark.parquet_stream import IntermediateStream, announced, wait_for
from tools.spark_session import ROCKSDB_STATE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from control_messages.messages import ControlMessage

START = datetime(2013, 1, 1, tzinfo=UTC)
START_MS = 1356998400000


def unwrapped(frame: DataFrame) -> list[tuple[int, ControlMessage | bytes]]:
    """Partition and content of each envelope, which has a sequence if it is a control message."""
    return [(row.partition, unsequenced(unwrap(bytes(row.value)))) for row in frame.collect()]


def unsequenced(message: ControlMessage | bytes) -> ControlMessage | bytes:
    """The message without its count, and without its sequence, which is a time of the last minutes."""
    if isinstance(message, bytes):
        return message
    assert message.sequence is not None
    assert 0 <= time.time() - message.sequence / 1000 < 600
    if isinstance(message, Watermark):
        return replace(message, sequence=None, writer=None, rows=None)
    return replace(message, sequence=None)


def rows_of(spark: SparkSession, count: int, tasks: int) -> DataFrame:
    """`count` rows with a number, a task, and a time that rises with the number."""
    return spark.range(count).select(
        F.col("id").cast("string").alias("value"),
        F.pmod("id", F.lit(tasks)).cast("int").alias("task"),
        (F.lit(START) + F.make_dt_interval(secs=F.col("id"))).alias("time"),
    )


@pytest.mark.every_spark
def test_every_task_sends_every_partition_its_watermark_after_its_rows(spark: SparkSession) -> None:
    producer = ProducerSpec("numbers", 3, ("even", "odd"), generation=7, lateness_ms=1500)
    frame = rows_of(spark, 100, 2).withColumn(
        "task", F.element_at(F.array(F.lit("even"), F.lit("odd")), F.col("task") + 1)
    )

    envelopes = emit(frame, producer, EmitColumns("time", partition=partition_of(producer, "value"), task="task"))
    by_writer = envelopes.withColumn("writer", F.spark_partition_id()).collect()

    watermarks = {
        "even": producer.watermark("even", START_MS + 98_000 - 1500),
        "odd": producer.watermark("odd", START_MS + 99_000 - 1500),
    }
    messages = [(row.writer, row.partition, unsequenced(unwrap(bytes(row.value)))) for row in by_writer]
    users = [message for _, _, message in messages if isinstance(message, bytes)]
    assert sorted(str(number).encode() for number in range(100)) == sorted(users)
    control = Counter((partition, message) for _, partition, message in messages if not isinstance(message, bytes))
    assert Counter({(partition, mark): 1 for partition in range(3) for mark in watermarks.values()}) == control
    for writer in {writer for writer, _, _ in messages}:
        kinds = [isinstance(message, bytes) for of, _, message in messages if of == writer]
        assert kinds == sorted(kinds, reverse=True)
    of_task = {
        writer: {"even" if int(m) % 2 == 0 else "odd" for w, _, m in messages if w == writer and isinstance(m, bytes)}
        for writer, _, _ in messages
    }
    for writer, _, message in messages:
        if isinstance(message, Watermark):
            assert message.task in of_task[writer]


def test_without_a_task_column_the_hash_of_the_row_decides_and_one_task_needs_no_column(spark: SparkSession) -> None:
    producer = ProducerSpec("numbers", 1, 3)
    frame = rows_of(spark, 60, 1).select("value", "time", F.lit(0).alias("partition"))

    marks = [
        message
        for _, message in unwrapped(emit(frame, producer, EmitColumns("time"), atomic=True))
        if not isinstance(message, bytes)
    ]
    alone = [
        message for _, message in unwrapped(emit(frame.coalesce(1), ProducerSpec("numbers", 1), EmitColumns("time")))
    ]

    assert set(producer.names) == {mark.task for mark in marks}
    assert START_MS + 59_000 == max(mark.timestamp for mark in marks if isinstance(mark, Watermark))
    assert ProducerSpec("numbers", 1).watermark(0, START_MS + 59_000) == alone[-1]


def test_rows_of_an_unknown_partition_or_task_are_refused(spark: SparkSession) -> None:
    frame = rows_of(spark, 3, 3).withColumn("partition", F.col("task"))

    with pytest.raises(PySparkException, match=r"stream numbers is 0 to 1\. .*partition_of\. Found: 2"):
        emit(frame, ProducerSpec("numbers", 2), EmitColumns("time")).collect()
    with pytest.raises(PySparkException, match=r"numbers has no task 2"):
        emit(frame, ProducerSpec("numbers", 3, 2), EmitColumns("time", task="task")).collect()


def test_control_messages_can_be_announced_alone(spark: SparkSession) -> None:
    producer = ProducerSpec("numbers", 2, ("a", "b"), generation=1)

    expected: list[ControlMessage] = [*producer.end_of_stream(["a"]), *producer.idle(["b"])]

    ends = unwrapped(control_envelopes(spark, producer, expected))

    assert [(partition, message) for partition in range(2) for message in expected] == sorted(ends, key=lambda e: e[0])


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_the_watermark_follows_the_slowest_task_and_survives_restarts(stream: IntermediateStream) -> None:
    stream.put((0, b"\0one"), (0, Watermark("a", 2, 10)), (1, Watermark("a", 2, 10)))
    stream.put((0, Watermark("b", 2, 5)), (1, Watermark("b", 2, 7)), (1, b"\0two"))
    first = stream.run(reconcile(stream.frame(), "s"))
    stream.put((0, Watermark("a", 2, 10)), (1, EndOfStream("b", 2, "s")))
    stream.put((0, EndOfStream("a", 2, "s")), (0, EndOfStream("b", 2, "s")), (0, b"\0"))
    stream.put((1, EndOfStream("a", 2)), (0, EndOfStream("a", 2, "s")))
    second = stream.run(reconcile(stream.frame(), "s"))

    assert [(1, 0, "watermark", 5), (1, 1, "watermark", 7)] == announced(first)
    assert [(2, 1, "watermark", 10), (3, 0, "endOfStream", None), (4, 1, "endOfStream", None)] == announced(second)
    users = [(row[0], row[1], row[2], bytes(row[4])) for row in first + second if row[3] == "message"]
    assert [(0, "s", 0, b"one"), (1, "s", 1, b"two"), (3, "s", 0, b"")] == users


def test_the_checkpoint_holds_the_records_of_samza_s_proposal(spark: SparkSession, stream: IntermediateStream) -> None:
    messages: list[ControlMessage] = [
        Watermark("a", 3, 10, generation=2),
        Watermark("b", 3, -5, generation=2),
        Watermark("c", 3, -(2**63), generation=2, idle=True),
        EndOfStream("b", 3, "s", generation=2),
    ]
    stream.put(*((partition, message) for message in messages for partition in (0, 1)))
    stream.put((1, Watermark("a", 3, 20, generation=2)))
    stream.run(reconcile(stream.frame(), "s"))

    def state(name: str) -> dict[Any, dict[str, Any]]:
        reader = spark.read.format("statestore").option("stateVarName", name)
        return {row.key.partition: row.value.asDict() for row in reader.load(stream.checkpoint).collect()}

    assert {"streamId": "s", "totalTasks": 3, "tasks": ["b"], "generation": 2, "ended": False} == state("endOfStream")[
        0
    ]
    kept = state("watermark")
    assert ("s", 3, {"a": 10, "b": -5, "c": -(2**63)}, 10) == tuple(
        kept[0][name] for name in ("streamId", "totalTasks", "tasksToEventTime", "timestampOfLastEmission")
    )
    trackers = read_trackers(stream.checkpoint)
    for tracker in trackers:
        said = messages if tracker.partition == 0 else [*messages, Watermark("a", 3, 20, generation=2)]
        pure = receive(PartitionTracker("s", tracker.partition), said, 0).tracker
        end, watermark = to_checkpoint(pure)
        assert vars(end) == state("endOfStream")[tracker.partition]
        times = {name: kept[tracker.partition][name] for name in ("heard", "since", "risenAt")}
        assert vars(watermark) | times == kept[tracker.partition]
    assert [0, 1] == [tracker.partition for tracker in trackers]
    found = [hold for hold in why_held(stream.checkpoint) if isinstance(hold, Hold)]
    assert [["a"], ["a"]] == [[task.task for task in hold.lowest] for hold in found]


def test_a_silent_task_times_out_by_a_timer(stream: IntermediateStream) -> None:
    stream.put((0, Watermark("a", 3, 10)), (0, Watermark("b", 3, 5)), (0, EndOfStream("c", 3)))
    marks: list[int] = []
    idle_timeout = IdleTimeout(timeout_ms=3_000, quorum=0.3)

    flow = reconcile(stream.frame(), "s", idle_timeout=idle_timeout).where("type = 'watermark'")
    writer = flow.writeStream.foreachBatch(lambda rows, _: marks.extend(row.watermark for row in rows.collect()))
    writer = writer.option("checkpointLocation", stream.checkpoint).trigger(processingTime="200 milliseconds")
    query = writer.start()

    def b_has_timed_out_though_a_goes_on() -> bool:
        stream.put((0, Watermark("a", 3, 20)))
        return 20 in marks

    wait_for(lambda: 5 in marks, query)
    wait_for(b_has_timed_out_though_a_goes_on, query)
    wait_for(lambda: "timed out: 'b'" in str(why_held(query)[0]), query)  # once the batch is committed
    query.stop()

    # The timer may go off before the first 20 of a is read: then 10 comes first.
    assert marks in ([5, 20], [5, 10, 20])


def test_a_query_with_an_idle_timeout_stops_too_when_its_end_was_read_before(stream: IntermediateStream) -> None:
    stream.put((0, EndOfStream("a", 1)))
    stream.put((0, EndOfStream("a", 1, generation=1)))
    query = stream.start(reconcile(stream.frame(), "s", idle_timeout=IdleTimeout(60_000)), [])
    wait_for(lambda: query.lastProgress is not None and query.lastProgress["batchId"] > 2, query)

    assert run_until_end(query, {"s": 1})


def test_the_message_with_the_highest_sequence_says_whether_a_task_is_idle(stream: IntermediateStream) -> None:
    awake, idle, back = (Watermark("b", 2, 7, idle=number == 2, sequence=number) for number in (1, 2, 3))
    stream.put((0, Watermark("a", 2, 10)), (0, idle), (0, awake))
    stream.put((1, Watermark("a", 2, 10, sequence=4)), (1, back), (1, idle), (1, awake))
    stream.put((1, Watermark("b", 2, 8, sequence=4)), (0, awake), (0, Watermark("a", 2, 11)))

    rows = announced(stream.run(reconcile(stream.frame(), "s")))

    assert [(0, 0, "watermark", 10), (1, 1, "watermark", 7), (2, 0, "watermark", 11), (2, 1, "watermark", 8)] == rows


BAD: dict[bytes, str] = {
    b"": "zero bytes",
    b"\x09x": "type byte is 9",
    b"\x01{": "no JSON",
    b'\x01{"version":2,"timestamp":1}': "version 2",
    b'\x01{"timestamp":5,"taskName":"Partition 0","version":1}': "taskCount",
    wrap(Watermark("b", 3, 1)): "task count of 3",
}


def test_bad_envelopes_are_kept_with_position_and_reason_on_request(stream: IntermediateStream) -> None:
    stream.put((0, Watermark("a", 2, 10)), (0, b"\0user"))
    stream.put(*((0, envelope) for envelope in BAD), (0, Watermark("b", 2, 3)))

    frame = stream.frame().withColumn("file", F.lit("file-1")).withColumn("offset", F.lit(42))
    rows = stream.run(reconcile(frame, "s", columns=EnvelopeColumns(position=["file", "offset"]), on_bad="keep"))

    kept = {bytes(row[4]): row[-1] for row in rows if row[3] == "rejected"}
    assert BAD.keys() == kept.keys()
    for envelope, reason in BAD.items():
        assert reason in kept[envelope]
        assert "stream s, partition 0 (file file-1, offset 42): " in kept[envelope]
    assert (1, 0, "watermark", 3) in announced(rows)


@pytest.mark.parametrize(
    "envelope", [pytest.param(b"\x09x", id="unknown"), pytest.param(list(BAD)[-1], id="contradiction")]
)
def test_a_bad_envelope_fails_the_query_with_its_position(stream: IntermediateStream, envelope: bytes) -> None:
    stream.put((0, Watermark("a", 2, 10)))
    stream.put((0, envelope))

    with pytest.raises(PySparkException, match=rf"stream s, partition 0: .*{BAD[envelope]}"):
        stream.run(reconcile(stream.frame(), "s"))


def test_a_checkpoint_path_that_spark_misreads_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use a path without spaces"):
        read_trackers(str(tmp_path / "my checkpoint"))


def test_samza_s_messages_are_reconciled_if_the_reader_gives_the_task_count(stream: IntermediateStream) -> None:
    stream.put(
        (0, b'\x01{"timestamp":5,"taskName":"Partition 0","version":1}'),
        (0, b'\x01{"timestamp":7,"task-name":"Partition 1","version":1}'),
        (1, b'\x01{"timestamp":4,"taskName":null,"version":1}'),
        (1, b'\x03{"taskName":"t","version":1,"runId":"run1"}'),
    )

    rows = announced(stream.run(reconcile(stream.frame(), "s", task_count=2)))

    assert [(0, 0, "watermark", 5), (0, 1, "drain", None), (0, 1, "watermark", 4)] == rows


def test_a_row_with_a_null_as_partition_is_refused(stream: IntermediateStream) -> None:
    stream.put((0, Watermark("b", 2, 5)))
    frame = stream.frame().withColumn("partition", F.when(F.col("partition") > 0, 1))

    with pytest.raises(
        PySparkException, match="column 'partition', which is the partition, has a value in every row. Found: null"
    ):
        stream.run(reconcile(frame, "s"))


def test_reconcile_names_the_state_store_that_it_needs(spark: SparkSession, stream: IntermediateStream) -> None:
    ((setting, rocksdb),) = ROCKSDB_STATE.items()
    spark.conf.set(setting, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")

    with pytest.raises(ValueError, match=f"Set {setting} to {rocksdb}") as refused:
        reconcile(stream.frame(), "s")
    name, value = re.findall(r"Set (\S+) to (\S+)\.$", str(refused.value))[0]  # as the message says
    spark.conf.set(name, value)
    reconcile(stream.frame(), "s")


class MessageCounter(EventTimeProcessor):
    """Counts messages, and returns how many there were at each announcement."""

    schema = "what string, count bigint"

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "count bigint")

    def on_messages(self, partition: Any, messages: pd.DataFrame, watermark: int | None) -> None:
        before = self._count.get()[0] if self._count.exists() else 0
        self._count.update((before + len(messages),))

    def on_watermark(self, partition: Any, watermark: int) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame([{"what": f"up to {watermark}", "count": self._count.get()[0]}])

    def on_end(self, partition: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame([{"what": "all", "count": self._count.get()[0]}])


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_an_operator_gets_rows_first_and_its_flow_can_be_forwarded(stream: IntermediateStream) -> None:
    users = [(0, b"\0" + bytes([letter])) for letter in range(20)]
    stream.put(*users[:10], (0, Watermark("a", 1, 10)), *users[10:])
    stream.put((0, Watermark("a", 1, 15)), *users[:3], (0, Drain("a", 1, "run1")))  # which is not forwarded
    stream.put((0, EndOfStream("a", 1, "s")), *users[:2])
    producer = ProducerSpec("counts", 2, 1, generation=4)

    counted = process(reconcile(stream.frame(), "s"), MessageCounter())
    value = F.concat_ws("=", "what", "count")
    rows = stream.run(forward(counted, producer, value=value, partition=F.lit(1)))

    messages = [(row[0], row[1], unsequenced(unwrap(bytes(row[2])))) for row in rows]
    mark, last = (producer.watermark(0, timestamp) for timestamp in (10, 15))
    assert [(0, 1, b"up to 10=20"), (0, 0, mark), (0, 1, mark)] == [row for row in messages if row[0] == 0]
    assert (1, 1, b"up to 15=23") == next(row for row in messages if row[0] == 1)
    assert {(p, last) for p in range(2)} == {row[1:] for row in messages if row[0] == 1} - {(1, b"up to 15=23")}
    (end,) = producer.end_of_stream()
    assert [(2, 1, b"all=25"), (2, 0, end), (2, 1, end)] == [row for row in messages if row[0] == 2]


def test_a_flow_with_fewer_partitions_than_the_next_stream_has_tasks_is_not_forwarded(
    stream: IntermediateStream,
) -> None:
    stream.put((0, ProducerSpec("s", 2).watermark(0, 5)))
    flow = reconcile(stream.frame(), "s")
    with pytest.raises(PySparkException, match="a task of stream counts, which has 3.* Set its `tasks` to .*Found: 2"):
        stream.run(forward(flow, ProducerSpec("counts", 1, 3), partition=F.lit(0)))

    assert 1 == len(stream.run(forward(flow, ProducerSpec("counts", 1, 2), partition=F.lit(0))))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (pd.DataFrame({"whta": ["x"]}), r"returned columns whta, which are not in its schema: what string"),
        (pd.DataFrame({"what": ["x"], "count": [1]}), ""),
    ],
)
def test_an_operator_returns_only_columns_of_its_schema(frame: pd.DataFrame, reason: str) -> None:
    columns = [*FLOW, "what", "count"]
    runner = _Runner(MessageCounter(), ("s",), "s", columns)
    if reason:
        with pytest.raises(ValueError, match=reason):
            list(runner._output((0,), [frame]))
    else:
        (made,) = runner._output((0,), [frame])
        assert columns == list(made.columns)


def test_a_query_stops_when_all_inputs_have_ended_and_again_after_a_restart(
    spark: SparkSession, stream: IntermediateStream, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = IntermediateStream(spark, tmp_path / "other")
    stream.put((0, EndOfStream("a", 1, "s")), (0, b"\0x"))
    stream.put((1, EndOfStream("a", 1, "s")), (1, b"\0y"))
    other.put((0, b"\0z"), (0, Watermark("a", 1, 5)))
    found: list[tuple[str, int, str]] = []

    def start() -> Any:
        flow = reconcile(stream.frame(), "s").union(reconcile(other.frame(), "t"))
        writer = flow.writeStream.foreachBatch(lambda rows, _: found.extend(row[:3] for row in rows.collect()))
        return writer.option("checkpointLocation", stream.checkpoint).trigger(processingTime="0 seconds").start()

    query = start()
    wait_for(lambda: len(found) == 6, query)
    assert query.isActive
    other.put((0, EndOfStream("a", 1, "t")))
    assert run_until_end(query, {"s": 2, "t": 1})
    assert run_until_end(start(), {"s": 2, "t": 1})

    assert [("s", 0, "endOfStream"), ("s", 1, "endOfStream"), ("t", 0, "endOfStream")] == sorted(
        row for row in found if row[2] == "endOfStream"
    )
    assert 3 == sum(row[2] == "message" for row in found)
    trackers = read_trackers(stream.checkpoint)
    assert [("s", 0, True), ("s", 1, True), ("t", 0, True)] == [(t.stream, t.partition, t.at_end) for t in trackers]
