"""Streaming queries that write to `azureblob`: every input row is in exactly one blob."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from pyspark.errors import PySparkException

from tests.spark.errors import error_of
from tests.spark.write_job import WriteJob, row

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored


@pytest.fixture
def job(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> WriteJob:
    return WriteJob(spark, options, tmp_path)


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_every_micro_batch_is_one_commit_and_a_restart_continues_after_the_last(
    job: WriteJob, target: str, stored: Stored
) -> None:
    for number in range(3):
        job.feed(f"{number}", row(2 * number), row(2 * number + 1))
    job.run(job.input(), target)
    job.feed("3", row(6))
    job.run(job.input(), target)
    assert list(range(7)) == sorted(each["id"] for each in stored.rows())
    assert list(range(7)) == sorted(each.id for each in job.read(target).collect())

    commits = job.read(target, view="commits").orderBy("version").collect()
    assert [(0, 0, 2), (1, 1, 2), (2, 2, 2), (3, 3, 1)] == [(c.version, c.transactionVersion, c.rows) for c in commits]
    query = json.loads((job.folder / "checkpoint-a" / "metadata").read_text())["id"]
    assert {query} == {c.transactionId for c in commits}
    assert [(query, 3, 1)] == [(w.query, w.batch, w.metrics["messagesSent"]) for w in commits[3].writers]


@pytest.mark.every_spark
def test_complete_mode_keeps_only_the_latest_result(job: WriteJob, target: str, stored: Stored) -> None:
    job.feed("0", row(1, "a"), row(2, "b"), row(3, "a"))
    counts = job.input().groupBy("kind").count()
    job.run(counts, target, "complete")
    job.feed("1", row(4, "a"))
    job.run(counts, target, "complete")
    expected = [{"kind": "a", "count": 3}, {"kind": "b", "count": 1}]
    assert expected == sorted(stored.rows(), key=lambda each: each["kind"])
    assert expected == [each.asDict() for each in job.read(target).orderBy("kind").collect()]
    assert ["overwrite", "overwrite"] == [c.operation for c in job.read(target, view="commits").collect()]


def test_update_mode_is_refused_by_spark(job: WriteJob, target: str, stored: Stored) -> None:
    job.feed("0", row(1, "a"))
    counts = job.input().groupBy("kind").count()
    with pytest.raises(PySparkException, match="azureblob does not support Update mode"):
        job.run(counts, target, "update")
    assert [] == stored.names()


def test_the_rows_of_a_batch_go_to_the_streams_they_name(job: WriteJob, container_name: str, stored: Stored) -> None:
    job.feed("0", row(1, "red"), row(2, "blue"), row(3, "red"))
    job.feed("1", row(4, "blue"))
    job.run(job.input(), container_name, streamColumn="kind", partitionColumn="kind")
    assert [1, 3] == sorted(each["id"] for each in stored.rows("red"))
    assert [2, 4] == sorted(each["id"] for each in stored.rows("blue"))
    assert all(name.startswith("red/red/") for name in stored.data("red"))
    commits = {stream: job.read(f"{container_name}/{stream}", view="commits") for stream in ("red", "blue")}
    assert {"red": [0], "blue": [0, 1]} == {
        stream: sorted(c.transactionVersion for c in view.collect()) for stream, view in commits.items()
    }


def test_a_micro_batch_without_rows_writes_nothing(job: WriteJob, target: str, stored: Stored) -> None:
    job.feed("0", row(1))
    job.run(job.input().where("id < 0"), target)
    assert [] == stored.names()


@pytest.mark.every_spark
def test_foreach_batch_with_a_transaction_is_idempotent(job: WriteJob, target: str) -> None:
    def twice(batch: DataFrame, number: int) -> None:
        for _ in range(2):
            transaction = {"txnAppId": "copy", "txnVersion": str(number)}
            batch.write.format("azureblob").options(**job.options, **transaction).mode("append").save(target)

    job.feed("0", row(1), row(2))
    job.feed("1", row(3))
    checkpoint = str(job.folder / "checkpoint")
    writer = job.input().writeStream.foreachBatch(twice).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [1, 2, 3] == sorted(each.id for each in job.read(target).collect())


def test_two_queries_into_one_stream_share_its_log(job: WriteJob, target: str, stored: Stored) -> None:
    for number in range(4):
        job.feed(f"{number}", row(number))
    queries = [job.start(job.input(), target, job=name) for name in "ab"]
    for query in queries:
        query.awaitTermination()
    assert sorted([*range(4)] * 2) == sorted(each["id"] for each in stored.rows())
    commits = job.read(target, view="commits").orderBy("version").collect()
    assert list(range(8)) == [c.version for c in commits]
    assert [4, 4] == [sum(c.transactionId == query.id for c in commits) for query in queries]


def test_at_least_once_publishes_from_the_tasks_and_logs_afterwards(job: WriteJob, target: str, stored: Stored) -> None:
    job.feed("0", *map(row, range(5)))
    job.run(job.input(), target, deliveryGuarantee="at-least-once", maxMessagesPerBlob="2")
    assert list(range(5)) == sorted(each["id"] for each in stored.rows())
    assert 3 == len(stored.data())
    assert [5] == [c.rows for c in job.read(target, view="commits").collect()]


def test_encoded_datums_are_written_unchanged(spark: SparkSession, job: WriteJob, target: str, stored: Stored) -> None:
    schema = {
        "type": "record",
        "name": "order",
        "fields": [{"name": "id", "type": "long"}, {"name": "kind", "type": "string"}],
    }
    job.feed("0", *({"datum": _datum(schema, row(number)).hex()} for number in range(3)))
    encoded = WriteJob(spark, job.options, job.folder, "datum string").input().selectExpr("unhex(datum) AS datum")
    job.run(encoded, target, valueColumn="datum", avroSchema=json.dumps(schema))
    assert [row(0), row(1), row(2)] == stored.rows()
    assert [row(0), row(1), row(2)] == [each.asDict() for each in job.read(target).orderBy("id").collect()]


def test_a_datum_that_does_not_fit_its_schema_fails_the_batch_and_is_named(
    spark: SparkSession, job: WriteJob, target: str, stored: Stored
) -> None:
    schema = {"type": "record", "name": "order", "fields": [{"name": "kind", "type": "string"}]}
    good = _datum(schema, {"kind": "x"})
    job.feed("0", {"datum": good.hex()}, {"datum": good[:1].hex()})
    encoded = WriteJob(spark, job.options, job.folder, "datum string").input().selectExpr("unhex(datum) AS datum")
    sentence = error_of(lambda: job.run(encoded, target, valueColumn="datum", avroSchema=json.dumps(schema)))
    assert sentence.startswith(
        "ConfigurationError: row 1 of its batch: the 1 bytes in the valueColumn are not one datum"
    )
    assert [] == stored.names()


def test_event_times_of_a_blob_are_kept_in_the_log(job: WriteJob, target: str, stored: Stored) -> None:
    job.feed("0", row(10), row(20))
    frame = job.input().selectExpr("timestamp_seconds(id) AS at", "id")
    job.run(frame, target, eventTimeColumn="at")
    (log,) = stored.names("events/_log/")
    (blob,) = json.loads(stored.bytes(log))["blobs"]
    assert (10_000_000, 20_000_000) == (blob["minEventTime"], blob["maxEventTime"])


def _datum(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()
