"""What holds a watermark is said, by an error, a counter, a line in the log, or `why_held`; the advice works."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from control_messages.messages import EndOfStream, Watermark
from control_messages.producer import ProducerSpec
from control_messages.spark import (
    EnvelopeColumns,
    control_envelopes,
    progress,
    read_trackers,
    reconcile,
    run_until_end,
    stop_at_end,
    why_held,
)
from tests.spark.parquet_stream import IntermediateStream, announced, wait_for
from tools import reporting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

PRODUCER = ProducerSpec("s", 2, ["a", "b"])


def wait_for_end(query: StreamingQuery) -> None:
    """Wait until a query has failed."""
    with pytest.raises(PySparkException):
        query.awaitTermination(60)


def counters(query: StreamingQuery) -> list[dict[str, Any]]:
    """What the progress of a query has of stream `s`, by batch."""
    found = (each["observedMetrics"].get("control_messages.s") for each in query.recentProgress)
    return [row.asDict() for row in found if row is not None]


def test_another_stream_s_messages_fail_the_first_batch_and_its_name_helps(stream: IntermediateStream) -> None:
    stream.put((0, PRODUCER.watermark("a", 5)), (0, PRODUCER.watermark("b", 7)))
    with pytest.raises(
        PySparkException, match="is of stream 's', but `reconcile` was called with 't'. If .* give this"
    ) as bad:
        stream.run(reconcile(stream.frame(), "t"))
    assert "on_bad='keep'" not in str(bad.value)

    assert [(0, 0, "watermark", 5)] == announced(stream.run(reconcile(stream.frame(), "s")))


def test_a_column_that_is_not_the_producer_s_partition_is_an_error_and_the_right_one_helps(
    stream: IntermediateStream,
) -> None:
    stream.put((0, PRODUCER.watermark("a", 5)), (0, PRODUCER.watermark("b", 7)))
    wrong = stream.frame().withColumn("other", F.col("partition") + 2)
    with pytest.raises(PySparkException, match=r"count of 2, so there is no such partition\. Give `reconcile`"):
        stream.run(reconcile(wrong, "s", columns=EnvelopeColumns(partition="other")))

    assert [(0, 0, "watermark", 5)] == announced(stream.run(reconcile(wrong, "s")))


def test_two_task_counts_in_a_generation_fail_every_restart_but_with_keep_and_a_new_generation_goes_on(
    stream: IntermediateStream,
) -> None:
    stream.put((0, Watermark("a", 2, 5)), (0, Watermark("b", 2, 6)))
    stream.put((0, Watermark("a", 3, 9)))
    advice = r"Raise the generation when the number of tasks changes\. .*start it with on_bad='keep'"
    for _ in range(2):
        with pytest.raises(PySparkException, match=advice):
            stream.run(reconcile(stream.frame(), "s"))

    kept = stream.run(reconcile(stream.frame(), "s", on_bad="keep"))
    assert [(1, 0, "rejected", None)] == announced(kept)
    stream.put(*((0, Watermark(task, 3, 9, generation=1)) for task in "abc"))
    assert [(2, 0, "watermark", 9)] == announced(stream.run(reconcile(stream.frame(), "s")))


def test_a_checkpoint_of_another_stream_is_refused_and_its_name_helps(stream: IntermediateStream) -> None:
    stream.put((0, Watermark("a", 1, 5)))
    stream.run(reconcile(stream.frame(), "old"))
    stream.put((0, Watermark("a", 1, 6)))
    with pytest.raises(PySparkException, match=r"is of stream old, the query reconciles new\. Give `reconcile`"):
        stream.run(reconcile(stream.frame(), "new"))

    assert [(1, 0, "watermark", 6)] == announced(stream.run(reconcile(stream.frame(), "old")))


def test_messages_of_a_lower_generation_are_counted_and_a_higher_one_goes_on(stream: IntermediateStream) -> None:
    stream.put((0, Watermark("a", 1, 5, generation=3)))
    stream.put((0, Watermark("a", 1, 8)), (0, Watermark("a", 1, 9)))
    found: list[tuple[Any, ...]] = []
    query = stream.start(reconcile(stream.frame(), "s"), found)
    wait_for(lambda: len(read_trackers(query)) == 1 and read_trackers(query)[0].stale == 2, query)

    assert [0, 2] == [counted["stale"] for counted in counters(query)][:2]
    (held,) = why_held(query)
    text = "2 messages of lower generations were dropped, the last of generation 0: a producer that is to go on needs a"
    assert f"{text} generation above 3" in str(held)
    stream.put((0, Watermark("a", 1, 10, generation=4)))
    wait_for(lambda: len(found) == 2, query)
    query.stop()
    assert [(0, 0, "watermark", 5), (2, 0, "watermark", 10)] == announced(found)


def test_partitions_with_rows_and_without_control_messages_are_named(stream: IntermediateStream) -> None:
    stream.put((0, b"\0x"), (2, b"\0y"))
    found: list[tuple[Any, ...]] = []
    query = stream.start(reconcile(stream.frame(), "s"), found)
    wait_for(lambda: len(found) == 2, query)
    wait_for(lambda: query.lastProgress is not None, query)

    (nothing,) = why_held(query)
    assert str(nothing).startswith("Partitions 0, 2 of s have no watermark: no control message was read, and 2 user")
    stream.put((0, PRODUCER.watermark("a", 5)), (0, PRODUCER.watermark("b", 5)))
    wait_for(lambda: len(found) == 3, query)
    wait_for(lambda: len(query.recentProgress) > 1, query)
    query.stop()
    held, nothing = why_held(query)
    assert "Partition 0 of s is at 1970" in str(held)
    assert str(nothing).startswith("Partitions 1, 2 of s have no watermark")


def test_a_query_that_has_read_nothing_says_so(stream: IntermediateStream) -> None:
    stream.folder.joinpath("empty").mkdir()
    query = stream.start(reconcile(stream.frame(), "s"), [])
    try:
        wait_for(lambda: query.status["message"].startswith("Waiting for"), query)
        (nothing,) = why_held(query)
        assert str(nothing).startswith("All partitions of s have no watermark: no control message was read, and 0 user")
    finally:
        query.stop()


def test_while_the_first_batch_is_read_nobody_is_sent_to_the_upstream_job(stream: IntermediateStream) -> None:
    stream.put((0, PRODUCER.watermark("a", 5)), (0, PRODUCER.watermark("b", 5)))
    taken, told = threading.Event(), threading.Event()

    def take(rows: DataFrame, _: int) -> None:
        rows.collect()
        taken.set()
        told.wait(60)

    writer = reconcile(stream.frame(), "s").writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", stream.checkpoint).start()
    try:
        wait_for(taken.is_set, query)
        (nothing,) = why_held(query)
        assert "Of s nothing is known yet: the query has not finished its first batch." == str(nothing)
        told.set()
        wait_for(lambda: query.lastProgress is not None, query)
        assert "Partition 0 of s is at 1970" in str(why_held(query)[0])
    finally:
        told.set()
        query.stop()


def test_an_end_of_some_partitions_is_none_of_the_stream_if_their_number_is_unknown(stream: IntermediateStream) -> None:
    end = EndOfStream("a", 1)
    stream.put((0, end))
    query = stream.start(reconcile(stream.frame(), "s"), [])
    with pytest.raises(ValueError, match=r"stream s: 1 partitions have ended, .* Name the number: .*\{'s': \.\.\.\}"):
        run_until_end(query)
    assert query.isActive
    stream.put((1, end))
    assert run_until_end(query, {"s": 2})
    assert 2 == len(read_trackers(query))


def test_a_task_whose_end_was_deleted_is_waited_for_until_the_end_is_appended_again(stream: IntermediateStream) -> None:
    stream.put((0, PRODUCER.watermark("b", 7)))  # what a vacuum has left; the end of `a` was before
    found: list[tuple[Any, ...]] = []
    query = stream.start(reconcile(stream.frame(), "s"), found)
    wait_for(lambda: len(read_trackers(query)) == 1, query)
    advice = "if they have ended, and retention or a vacuum has deleted that, append it again: `control_envelopes("
    assert advice in str(why_held(query)[0])

    again = control_envelopes(stream.spark, PRODUCER, PRODUCER.end_of_stream(["a"])).collect()
    stream.put(*((row.partition, bytes(row.value)) for row in again))
    wait_for(lambda: len(found) == 1, query)
    query.stop()
    assert [(1, 0, "watermark", 7)] == announced(found)


def test_an_end_that_cannot_come_is_not_waited_for(stream: IntermediateStream) -> None:
    stream.put(*((number, end) for number in range(2) for end in PRODUCER.end_of_stream()))
    query = stream.start(reconcile(stream.frame(), "s"), [])
    with pytest.raises(ValueError, match="The query does not read stream 'flights'; it reads 's'"):
        run_until_end(query, ["flights"])
    with pytest.raises(ValueError, match="stream s has 2 partitions, not 3"):
        run_until_end(query, {"s": 3})
    assert query.isActive
    assert run_until_end(query, ["s"])


def test_a_query_that_stops_at_its_end_looks_like_one_that_has_ended_by_itself(stream: IntermediateStream) -> None:
    query = stop_at_end(stream.start(reconcile(stream.frame(), "s"), []))
    stream.put(*((number, PRODUCER.watermark("a", 5)) for number in range(2)))
    wait_for(lambda: len(read_trackers(query.query)) == 2, query.query)
    assert query.isActive
    stream.put(*((number, end) for number in range(2) for end in PRODUCER.end_of_stream()))
    reporting.wait_for(lambda: not query.isActive, 60)
    assert not query.query.isActive
    assert query.exception() is None


def test_a_query_that_is_stopped_before_its_end_has_failed_unless_it_was_told_to_stop(
    stream: IntermediateStream,
) -> None:
    query = stop_at_end(stream.start(reconcile(stream.frame(), "s"), []))
    query.query.stop()  # by something else, such as a session that ends
    reporting.wait_for(lambda: not query.isActive, 60)
    assert "was stopped before its inputs have ended" in str(query.exception())

    told = stop_at_end(stream.start(reconcile(stream.frame(), "s"), []))
    told.stop()
    assert not told.isActive
    assert told.exception() is None


def test_a_query_whose_end_cannot_come_is_stopped_and_says_why(stream: IntermediateStream) -> None:
    query = stop_at_end(stream.start(reconcile(stream.frame(), "s"), []), ["flights"])
    reporting.wait_for(lambda: not query.isActive, 60)
    assert isinstance(query.exception(), ValueError)
    assert not query.query.isActive


def test_whoever_waits_is_told_what_for(
    stream: IntermediateStream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_REPORT_SECONDS", 0.5)
    stream.put((0, PRODUCER.watermark("a", 5)), (1, PRODUCER.watermark("b", 5)))
    query = stream.start(reconcile(stream.frame(), "s"), [])

    def end_once_told() -> None:
        wait_for(lambda: "waits for the end of its inputs: Partition 0 of s" in caplog.text, query)
        stream.put(*((number, end) for number in range(2) for end in PRODUCER.end_of_stream()))

    upstream = threading.Thread(target=end_once_told)
    upstream.start()
    with caplog.at_level(logging.WARNING, logger="control_messages"):
        assert run_until_end(query)
    upstream.join()
    assert "1 of 2 tasks have sent no message" in caplog.text
    assert "(these have: 'a')" in caplog.text


def test_a_query_that_has_failed_holds_nothing_but_says_why(stream: IntermediateStream) -> None:
    stream.put((0, b"\x09"))
    query = stream.start(reconcile(stream.frame(), "s"), [])
    wait_for_end(query)
    with pytest.raises(PySparkException, match="The type byte is 9"):
        why_held(query)
