"""Control messages written by the sink: after the rows of every partition, and listed in the log."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import fastavro
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it

from azure_account import Location
from control_messages.envelopes import unwrap, without_count, wrap
from control_messages.messages import to_fields
from control_messages.producer import FOR_THE_SINK, ProducerSpec
from control_messages.spark import AzureBlobTransport, EmitColumns, emit

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored

PRODUCER = ProducerSpec("events", 3, ("first", "second"), generation=2, lateness_ms=500)
START_MS = 1_359_633_600_000


def emitted(spark: SparkSession, rows: int = 10) -> DataFrame:
    """Rows of two Spark tasks, each one task of the producer; partition 2 has no row."""
    return spark.range(0, rows, numPartitions=2).select(
        F.concat(F.lit(b"\0"), F.col("id").cast("string").cast("binary")).alias("value"),
        F.timestamp_millis(F.lit(START_MS) + 1000 * F.col("id")).alias("eventTime"),
        F.element_at(F.array(F.lit("first"), F.lit("second")), F.spark_partition_id() + 1).alias("task"),
        (F.col("id") % 2).cast("int").alias("partition"),
    )


def control_of(frame: DataFrame) -> list[tuple[str, str]]:
    """Partition and JSON of each control message in a stream's data."""
    rows = frame.where(F.substring("value", 1, 1) != F.lit(b"\0")).select("_partition", "value").collect()
    found = []
    for row in rows:
        message = unwrap(without_count(bytes(row.value)))  # which the log does not list
        assert not isinstance(message, bytes)
        found.append((row._partition, json.dumps(to_fields(message), sort_keys=True)))
    return sorted(found)


def control_of_view(view: DataFrame) -> list[tuple[str, str]]:
    """The same from the view `control`."""
    found = []
    for row in view.collect():
        fields = json.loads(row.message)
        assert row.type == fields.pop("type")
        found.append((row.partition, json.dumps(fields, sort_keys=True)))
    return sorted(found)


def test_the_sink_writes_the_watermarks_and_a_copy_of_the_stream_has_them_too(
    spark: SparkSession, options: dict[str, str], target: str, tmp_path: Path, stored: Stored
) -> None:
    def read(path: str, **more: str) -> DataFrame:
        return spark.read.format("azureblob").options(**options, **more).load(path)

    writer = emitted(spark).write.format("azureblob").options(**options, emission=PRODUCER.to_json())
    writer.option("partitionColumn", "partition").mode("append").save(target)
    data = read(target, metadataColumns="partition")
    assert ["partition", "value", "_partition"] == data.columns
    assert 10 + 2 * 3 == data.count()
    in_data = control_of(data)
    assert [str(n) for n in range(3) for _ in range(2)] == [partition for partition, _ in in_data]
    latest = {fields["taskName"]: fields["timestamp"] for _, text in in_data for fields in [json.loads(text)]}
    assert {"first": START_MS + 3500, "second": START_MS + 8500} == latest
    assert in_data == control_of_view(read(target, view="control"))

    copy = f"{target}-copy"
    envelopes = spark.readStream.format("azureblob").options(**options).load(target)
    query = envelopes.writeStream.format("azureblob").options(
        **options, partitionColumn="partition", envelopeColumn="value", checkpointLocation=str(tmp_path)
    )
    query.trigger(availableNow=True).start(copy).awaitTermination()
    assert in_data == control_of(read(copy, metadataColumns="partition")) == control_of_view(read(copy, view="control"))
    for name in stored.data("events-copy"):
        kinds = [row["value"][0] > 0 for row in fastavro.reader(io.BytesIO(stored.bytes(name)))]
        assert sorted(kinds) == kinds


@pytest.mark.parametrize(
    ("tasks_of_rows", "by_spark_task", "of_the_sink"),
    [
        ("id % 3", [3, 3, 3, 3], 96),
        ("least(spark_partition_id(), 2)", [1, 1, 1, 1], 32),
        ("if(spark_partition_id() < 2, id % 3, 1)", [3, 3, 1, 1], 64),
    ],
)
def test_a_batch_has_a_watermark_for_each_partition_and_each_task_of_a_spark_task(
    spark: SparkSession,
    options: dict[str, str],
    target: str,
    tasks_of_rows: str,
    by_spark_task: list[int],
    of_the_sink: int,
) -> None:
    producer = ProducerSpec("events", 8, 3)
    rows = spark.range(0, 12, numPartitions=4).select(
        F.col("id").cast("string").alias("value"),
        F.timestamp_seconds("id").alias("time"),
        F.expr(tasks_of_rows).cast("int").alias("task"),
        F.lit(0).alias("partition"),
    )
    having = rows.groupBy(F.spark_partition_id().alias("of")).agg(F.countDistinct("task").alias("tasks"))
    assert by_spark_task == [row.tasks for row in having.orderBy("of").collect()]
    assert of_the_sink == 8 * sum(by_spark_task)

    def watermarks(envelopes: DataFrame) -> int:
        return envelopes.where(F.substring("value", 1, 1) != F.lit(b"\0")).count()

    transport = AzureBlobTransport(Location(target, options))
    transport.append(emit(rows, producer, EmitColumns("time", task="task"), by_sink=True))
    control = transport.control(spark)
    assert control is not None
    assert 8 * 3 == control.count(), "the log has only the highest of each task"
    assert of_the_sink == watermarks(spark.read.format("azureblob").options(**options).load(target))
    for atomic, expected in ((True, of_the_sink), (False, 8 * 3)):
        assert expected == watermarks(emit(rows, producer, EmitColumns("time", task="task"), atomic=atomic))


def test_a_bad_envelope_fails_the_write_and_nothing_is_visible(
    spark: SparkSession, options: dict[str, str], target: str, stored: Stored
) -> None:
    rows = [(0, wrap(b"good")), (1, b"\x09bad")]
    frame = spark.createDataFrame(rows, "partition int, value binary")
    writer = frame.write.format("azureblob").options(**options, partitionColumn="partition", envelopeColumn="value")
    with pytest.raises(PySparkException, match=r"envelope for partition '1' of stream events.*The type byte is 9"):
        writer.mode("append").save(target)
    assert [] == stored.names()


def test_what_emit_returns_tells_the_sink_who_the_producer_is(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    rows = spark.range(0, 4, numPartitions=1).select(
        F.col("id").cast("string").alias("value"),
        F.timestamp_seconds("id").alias("time"),
        F.element_at(F.array(F.lit("first"), F.lit("second")), (F.col("id") % 2).cast("int") + 1).alias("task"),
        F.lit(1).alias("partition"),
    )
    envelopes = emit(rows, PRODUCER, EmitColumns("time", task="task"), by_sink=True).where("partition >= 0")
    writer = envelopes.write.format("azureblob").options(**options, partitionColumn="partition").mode("append")

    other = ProducerSpec("events", 4, ("first", "second"))
    with pytest.raises(PySparkException, match="another producer than the rows, which were made for .*Leave the opti"):
        writer.option("emission", other.to_json()).save(target)
    same = json.dumps(json.loads(PRODUCER.to_json()), sort_keys=True)
    assert same != PRODUCER.to_json()
    writer.option("emission", same).save(target)
    envelopes.write.format("azureblob").options(**options, partitionColumn="partition").mode("append").save(target)

    sent = spark.read.format("azureblob").options(**options, view="control").load(target)
    found = [json.loads(row.message) for row in sent.collect()]
    latest = {"first": 2000 - 500, "second": 3000 - 500}
    assert set(latest.items()) == {(each["taskName"], each["timestamp"]) for each in found}
    assert {("events", 3, 2)} == {(each["streamId"], each["partitionCount"], each["generation"]) for each in found}
    assert 2 == len({each["sequence"] for each in found}), "each write has its own"
    assert 3 * 2 * 2 == len(found)


def test_watermarks_that_the_sink_has_to_add_are_not_lost_in_silence(
    spark: SparkSession, options: dict[str, str], target: str
) -> None:
    rows = spark.range(4).select(
        F.col("id").cast("string").alias("value"), F.timestamp_seconds("id").alias("time"), F.lit(1).alias("partition")
    )
    producer = ProducerSpec("events", 3)
    envelopes = emit(rows, producer, EmitColumns("time"), by_sink=True)
    transport = AzureBlobTransport(Location(target, options))
    rebuilt = envelopes.withColumn("value", F.col(f"value.{FOR_THE_SINK}"))
    with pytest.raises(ValueError, match="the sink would add no watermarks. Compute the payload before `emit`"):
        transport.append(rebuilt)
    writer = rebuilt.write.format("azureblob").options(**options, partitionColumn="partition").mode("append")
    with pytest.raises(PySparkException, match="no watermarks would be written. Compute the payload before `emit`"):
        writer.save(target)
    with pytest.raises(ValueError, match="Compute the payload before `emit`"):
        transport.append(rebuilt.select(F.col("partition").cast("int").alias("partition", metadata={}), "value"))
    for by_sink in (True, False):
        late = emit(rows, replace(producer, lateness_ms=5), EmitColumns("time"), by_sink=by_sink)
        union = emit(rows, producer, EmitColumns("time"), by_sink=by_sink).union(late)
        with pytest.raises(ValueError, match=r"of 2 `emit`.*Unite the rows first, then call `emit` once"):
            transport.append(union)
    with pytest.raises(PySparkException, match=FOR_THE_SINK):
        envelopes.select(F.col("value").cast("binary"))

    united = emit(rows.union(rows), producer, EmitColumns("time", value="value"), by_sink=True)
    transport.append(united)
    sent = transport.control(spark)
    assert sent is not None
    assert 3 <= sent.count()
