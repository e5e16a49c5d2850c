"""Rows that are lost or doubled between two jobs, in a real Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account.location import Location
from control_messages.producer import ProducerSpec
from control_messages.spark import (
    AzureBlobTransport,
    EmitColumns,
    EnvelopeColumns,
    emit,
    partition_of,
    reconcile,
    run_bounded,
    run_until_end,
    why_held,
)
from tests.spark.parquet_stream import IntermediateStream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PRODUCER = ProducerSpec("s", 2, 2)
START = datetime(2013, 1, 1, tzinfo=UTC)


def columns() -> EmitColumns:
    return EmitColumns("time", partition=partition_of(PRODUCER, "value"), task="task")


def rows_of(frame: DataFrame) -> DataFrame:
    """Rows by the numbers in column `id`, of two tasks."""
    return frame.select(
        F.col("id").cast("string").alias("value"),
        F.pmod("id", F.lit(2)).cast("int").alias("task"),
        (F.lit(START) + F.make_dt_interval(secs=F.col("id"))).alias("time"),
    )


def envelopes(spark: SparkSession, *, atomic: bool) -> list[tuple[int, bytes]]:
    """What one batch of `emit` writes: 40 rows, and the watermarks of each Spark task."""
    emitted = emit(rows_of(spark.range(0, 40, 1, 4)), PRODUCER, columns(), atomic=atomic)
    return [(row.partition, bytes(row.value)) for row in emitted.collect()]


def counted(query: StreamingQuery) -> list[tuple[int, int]]:
    """Missing and surplus rows of each batch with input."""
    found = [each["observedMetrics"]["control_messages.s"] for each in query.recentProgress if each["numInputRows"]]
    return [(each["rowsMissing"], each["rowsSurplus"]) for each in found]


@pytest.mark.parametrize("atomic", [False, True], ids=["one Spark task for each task", "several"])
def test_a_lost_and_a_doubled_row_are_each_noticed(
    spark: SparkSession, stream: IntermediateStream, atomic: bool
) -> None:
    whole = envelopes(spark, atomic=atomic)
    assert (4 if atomic else 2) * 2 <= sum(value[0] == 1 for _, value in whole)
    of_both = [next(each for each in whole if each == (number, each[1]) and each[1][0] == 0) for number in (0, 1)]
    lost = [each for each in whole if each != of_both[0]]
    stream.put(*whole)
    stream.put(*later(lost))
    stream.put(*later([*whole, of_both[1]], 2))

    query = stream.start(reconcile(stream.frame(), "s"), [])
    query.processAllAvailable()

    assert [(0, 0), (1, 0), (1, 1)] == counted(query)
    texts = list(map(str, why_held(query)))
    assert "1 of the " in texts[0]
    assert "rows that its tasks count were not read: they are lost" in texts[0]
    assert "1 rows more were read than the" in texts[1]
    marks = query.recentProgress[-1]["observedMetrics"]["control_messages.s"]["watermarks"]
    assert [("0", True), ("1", True)] == sorted((mark["partition"], mark["heldMs"] >= 0) for mark in marks)
    query.stop()


def later(written: list[tuple[int, bytes]], by: int = 1) -> list[tuple[int, bytes]]:
    """The same as another batch, which has a later sequence."""
    made = []
    for partition, value in written:
        head, found, tail = value.partition(b'"sequence":')
        number, _, rest = tail.partition(b",")
        made.append((partition, b"%s%s%d,%s" % (head, found, int(number) + by, rest) if found else value))
    return made


def test_a_reader_may_leave_the_rows_uncounted(spark: SparkSession, stream: IntermediateStream) -> None:
    stream.put(*envelopes(spark, atomic=True)[1:])
    query = stream.start(reconcile(stream.frame(), "s", columns=EnvelopeColumns(counts=False)), [])
    query.processAllAvailable()
    query.stop()


@pytest.mark.usefixtures("rocksdb_state")
def test_a_bounded_job_loses_and_doubles_no_row(
    spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path
) -> None:
    spark.range(0, 500, 1, 4).write.parquet(str(tmp_path / "input"))
    transport = AzureBlobTransport(Location(target, options))
    frame = rows_of(spark.readStream.schema("id long").parquet(str(tmp_path / "input")))
    run_bounded(frame, PRODUCER, columns(), transport, str(tmp_path / "upstream"))
    found: list[Any] = []
    writer = reconcile(transport.read(spark), "s").writeStream.foreachBatch(
        lambda rows, _: found.extend(rows.collect())
    )
    query = writer.option("checkpointLocation", str(tmp_path / "downstream")).start()
    assert run_until_end(query)
    assert 500 == sum(row.type == "message" for row in found)
    assert {(0, 0)} == set(counted(query))
    assert ["Partition 0 of s has ended.", "Partition 1 of s has ended."] == list(map(str, why_held(query)))
