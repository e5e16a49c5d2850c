"""Batch reads of `azureblob`: snapshots, views, time ranges, metadata, filters, splits, and blobs of other writers."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from arrow_avro import arrow_of, block, header
from arrow_avro.limits import MAX_LEVELS
from azureblob_source.log.naming import log_name
from tests.spark.errors import error_of
from tests.spark.versions import append_anyway, append_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.stored import Stored

SAMZA = Path(__file__).resolve().parents[1] / "fixtures" / "samza"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True)
class StoredStream:
    """A stream that a test writes and reads."""

    spark: SparkSession
    options: dict[str, str]
    target: str

    def write(self, rows: list[tuple[Any, ...]], schema: str, mode: str = "append", **more: str) -> None:
        """Append one version: one blob, or one for each partition."""
        fields = StructType.fromDDL(schema)
        assert isinstance(fields, StructType)
        kinds = arrow_of(fields)
        columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), kinds, strict=True)]
        append_version(self.options, self.target, pa.RecordBatch.from_arrays(columns, schema=kinds), mode, **more)

    def read(self, **more: Any) -> DataFrame:
        """The stream as a DataFrame."""
        return self.spark.read.format("azureblob").options(**self.options, **more).load(self.target)

    def ids(self, **more: Any) -> list[int]:
        """The column `id` of a read, sorted."""
        return sorted(row.id for row in self.read(**more).select("id").collect())


@pytest.fixture
def stream(spark: SparkSession, options: dict[str, str], target: str) -> StoredStream:
    return StoredStream(spark, options, target)


@pytest.mark.every_spark
@pytest.mark.oldest_spark
def test_every_version_can_be_read(stream: StoredStream) -> None:
    stream.write([(1,)], "id long")
    stream.write([(2,), (3,)], "id long")
    stream.write([(4,)], "id long")
    assert [1, 2, 3, 4] == stream.ids()
    assert ([1], [1, 2, 3], [1, 2, 3, 4]) == tuple(stream.ids(versionAsOf=version) for version in range(3))
    commits = sorted(stream.read(view="commits").select("version", col("timestamp").cast("double")).collect())
    times = [datetime.fromtimestamp(time, UTC).isoformat() for _, time in commits]
    assert ([1], [1, 2, 3], [1, 2, 3, 4]) == tuple(stream.ids(timestampAsOf=time) for time in times)
    assert 2 == stream.read(view="blobs", timestampAsOf=times[1]).count()


def test_a_loaded_frame_and_its_view_stay_at_their_version_and_the_next_load_has_later_rows_and_columns(
    stream: StoredStream, spark: SparkSession
) -> None:
    stream.write([(1,)], "id bigint")
    frame = stream.read()
    frame.createOrReplaceTempView("stays")
    stream.write([(2,)], "id bigint")
    assert 2 == frame.count()
    stream.write([(3, "c")], "id bigint, later string")
    assert [(1,), (2,)] == sorted(tuple(row) for row in frame.collect())
    spark.catalog.refreshTable("stays")
    assert [(1,), (2,)] == sorted(tuple(row) for row in spark.table("stays").collect())
    stream.read().createOrReplaceTempView("stays")
    assert [(1, None), (2, None), (3, "c")] == sorted((tuple(row) for row in spark.table("stays").collect()), key=str)


def test_an_overwrite_may_change_the_schema_completely(stream: StoredStream) -> None:
    stream.write([(1,)], "id long")
    stream.write([("one", 1.5)], "id string, price double", mode="overwrite")
    assert [("one", 1.5)] == [tuple(row) for row in stream.read().collect()]
    stream.write([("two",)], "id string")
    assert [("one", 1.5), ("two", None)] == sorted(tuple(row) for row in stream.read().collect())


def test_blobs_of_several_schemas_are_read_as_one_table(stream: StoredStream) -> None:
    stream.write([(1,)], "id int")
    stream.write([(2, "x")], "id long, kind string")
    stream.write([(3, 0.5)], "id long, price double")
    expected = [(1, None, None), (2, "x", None), (3, None, 0.5)]
    assert expected == sorted(tuple(row) for row in stream.read().select("id", "kind", "price").collect())
    schema = '{"type":"record","name":"r","fields":[{"name":"number","aliases":["id"],"type":"double"}]}'
    assert [1.0, 2.0, 3.0] == sorted(row.number for row in stream.read(avroSchema=schema).collect())


def test_incompatible_schemas_are_both_named_with_the_column(stream: StoredStream) -> None:
    stream.write([(1,)], "id long")
    append_anyway(stream.options, stream.target, pa.RecordBatch.from_pydict({"id": ["x"], "other": [1]}))
    sentence = error_of(stream.read)
    assert sentence.startswith("ConfigurationError: ")
    assert "column 'id' is " in sentence
    assert "long" in sentence
    assert "string" in sentence
    assert [(None,), (1,)] == [tuple(row) for row in stream.read(columns="other").orderBy("other").collect()]


def test_a_schema_that_rows_do_not_resolve_to_names_blob_and_column(stream: StoredStream) -> None:
    stream.write([(1, "x")], "id long, kind string")
    schema = '{"type":"record","name":"r","fields":[{"name":"kind","type":"long"}]}'
    sentence = error_of(stream.read(avroSchema=schema).collect)
    assert sentence.startswith("ConfigurationError: read blob events/")
    assert "column 'kind'" in sentence
    assert "avroSchema" in sentence


def test_views_are_tables(stream: StoredStream, spark: SparkSession) -> None:
    stream.write([(1, "a"), (2, "b")], "id long, kind string", partitionColumn="kind")
    stream.write([(3,)], "id long", commitInfo="late rows of Zürich")
    for view in ("blobs", "commits", "schemas", "control"):
        stream.read(view=view).createOrReplaceTempView(view)
    per_version = spark.sql(
        "SELECT c.version, operation, commitInfo, count(b.name) blobs, sum(b.rows) rows, "
        "sum(b.bytes) = first(c.bytes) same FROM commits c JOIN blobs b USING (version) GROUP BY ALL ORDER BY 1"
    )
    assert [(0, "append", None, 2, 2, True), (1, "append", "late rows of Zürich", 1, 1, True)] == [
        tuple(row) for row in per_version.collect()
    ]
    used = spark.sql("SELECT firstVersion, lastVersion, blobs, rows, schema FROM schemas ORDER BY 1").collect()
    assert [(0, 0, 2, 2), (1, 1, 1, 1)] == [tuple(row)[:4] for row in used]
    assert [["id", "kind"], ["id"]] == [[field["name"] for field in json.loads(row.schema)["fields"]] for row in used]
    assert 0 == spark.table("control").count()
    assert 1 == stream.read(view="commits", versionAsOf=0).count()
    assert 2 == stream.read(view="blobs", versionAsOf=0).count()


def test_control_messages_are_listed_without_reading_a_blob(stream: StoredStream, stored: Stored) -> None:
    stream.write([(1,)], "id long")
    entry = json.loads(stored.bytes(log_name("events", 0)))
    message = {"type": "watermark", "taskName": "t", "taskCount": 2, "timestamp": 1_359_633_605_000}
    entry["control"] = [message | {"partitions": ["0"]}]
    stored.client.upload_blob(log_name("events", 0), json.dumps(entry), overwrite=True)
    for name in stored.data():
        stored.client.delete_blob(name)
    (row,) = stream.read(view="control").collect()
    assert (0, "0", "watermark", "t", 2) == (row.version, row.partition, row.type, row.taskName, row.taskCount)
    assert datetime(2013, 1, 31, 12, 0, 5) == row.watermark.replace(tzinfo=None)  # noqa: DTZ001 - as Spark gives it
    assert message == json.loads(row.message)


def test_metadata_columns_name_the_source_of_each_row(stream: StoredStream, stored: Stored) -> None:
    stream.write([(1, "a"), (2, None)], "id long, kind string", partitionColumn="kind")
    stream.write([(3, "b")], "id long, kind string", partitionColumn="kind")
    rows = stream.read(metadataColumns="blob,version,partition").orderBy("id").collect()
    assert ["id", "kind", "_blob", "_version", "_partition"] == rows[0].__fields__
    assert [(1, 0, "a"), (2, 0, None), (3, 1, "b")] == [(row.id, row._version, row._partition) for row in rows]
    assert set(stored.data()) == {row._blob for row in rows}
    few = stream.read(metadataColumns="version", columns="kind")
    assert [("kind", "_version")] == [tuple(few.columns)]
    assert Counter([("a", 0), (None, 0), ("b", 1)]) == Counter(map(tuple, few.collect()))
    stream.write([(4, 7)], "id long, _version int", mode="overwrite")
    assert "has a column _version of its own" in error_of(lambda: stream.read(metadataColumns="version"))


def test_a_time_range_leaves_out_blobs_by_their_event_times(stream: StoredStream) -> None:
    for day in (1, 2, 3):
        rows = [(10 * day + hour, datetime(2013, 1, day, hour, tzinfo=UTC)) for hour in (1, 5)]
        stream.write(rows, "id long, at timestamp", eventTimeColumn="at")
    assert [21, 25, 31, 35] == stream.ids(startTime="2013-01-02")
    assert [11, 15] == stream.ids(endTime="2013-01-02T01:00:00Z")
    assert [21, 25] == stream.ids(startTime="2013-01-02T05:00:00Z", endTime="2013-01-02T05:00:00.000001Z")
    assert [] == stream.ids(startTime="2013-01-02T06:00:00Z", endTime="2013-01-03T01:00:00Z")
    assert ["id", "at"] == stream.read(startTime="2014-01-01").columns


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.unset(PUSHDOWN)


needs_pushdown = pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.1 brings the push-down of filters")
FILTERS = [
    "id > 10 AND id <= 20", "kind = 'name-1'", "kind IS NULL OR id = 1", "kind IS NULL", "kind LIKE 'name-1%'",
    "NOT kind = 'name-1'", "kind NOT IN ('name-1', 'name-2')", "kind IN ('name-1', NULL)", "price > 40",
    "price = double('nan')", "kind <=> NULL", "id IN (1, 2, 3) AND price < 1.25", "_version = 0", "_version > 0",
]  # fmt: skip


def answers(stream: StoredStream, **more: str) -> dict[str, list[int]]:
    def ids(where: str) -> list[int]:
        frame = stream.read(metadataColumns="version", **more).where(where)
        return sorted(row.id for row in frame.select("id").collect())

    return {where: ids(where) for where in FILTERS}


@needs_pushdown
def test_pushed_filters_select_the_same_rows_as_spark_and_none_breaks_a_read_without_the_setting(
    stream: StoredStream, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    rows = [(n, None if n % 3 == 0 else f"name-{n % 5}", float("nan") if n == 7 else n / 2) for n in range(100)]
    stream.write(rows, "id long, kind string, price double")
    expected = answers(stream)
    assert expected == answers(stream, pushFilters="true")
    request.getfixturevalue("pushdown")
    assert expected == answers(stream, pushFilters="true")
    assert expected == answers(stream)
    frame = stream.read(pushFilters="true").where("id > 95 AND price > 0")
    assert 4 == frame.count()
    (scan,) = re.findall(r"BatchScan.*|PushedFilters: .*", frame._jdf.queryExecution().executedPlan().toString())[:1]
    assert "id" in scan


TYPED = (
    "id int, kind string, price double, ratio float, day date, at timestamp, clock timestamp_ntz, "
    "amount decimal(10,2), part tinyint"
)
OF_ONE_VERSION = [
    "id >= 20", "ID > 19", "id IN (25, 21, 1000)", "id <=> 22", "kind LIKE 'c%'", "kind > 'bz'", "ratio = 20.5",
    "price > 20 AND price < 30", "day = DATE'2013-01-03'", "at >= TIMESTAMP'2013-01-02 12:00:00Z'", "amount > 19.99",
    "clock = TIMESTAMP_NTZ'2013-01-03 00:00:00'", "part = 2", "part NOT IN (0, 1)", "NOT part = 0 AND part != 1",
]  # fmt: skip


@needs_pushdown
def test_blobs_that_have_no_row_for_a_filter_are_not_read(
    stream: StoredStream, stored: Stored, request: pytest.FixtureRequest
) -> None:
    """The blobs of the first two versions of three are deleted, so a query that reads one of them fails."""
    for version, start in enumerate((0, 10, 20)):
        day = datetime(2013, 1, 1 + version)  # noqa: DTZ001 - without a zone
        some = [
            (n, f"{'abc'[version]}{n}", n + 0.5, n + 0.5, day.date(), day.replace(tzinfo=UTC), day, Decimal(n), version)
            for n in range(start, start + 9)
        ]
        stream.write([*some, (None,) * 9], TYPED if version < 2 else TYPED.replace("id int", "id long"))

    def rows(where: str, **more: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, stream.read(**more).where(where).collect()))

    request.getfixturevalue("pushdown")
    expected = {where: rows(where) for where in OF_ONE_VERSION}
    gone = [json.loads(stored.bytes(log_name("events", version)))["blobs"][0]["name"] for version in range(2)]
    for name in gone:
        stored.client.delete_blob(name)
    assert expected == {where: rows(where, pushFilters="true") for where in OF_ONE_VERSION}
    assert all(expected.values())
    sentence = error_of(lambda: rows("id >= 0", pushFilters="true"))
    assert any(name in sentence for name in gone)


@needs_pushdown
def test_a_frame_that_is_used_twice_has_all_rows_unless_filters_are_pushed(
    stream: StoredStream, pushdown: None
) -> None:
    """Spark keeps the read with the filters of the first query, and uses it for a later query that pushes none."""
    stream.write([(1,), (2,), (3,)], "id long")
    frame = stream.read()
    assert (1, 3) == (frame.where("id = 1").count(), frame.count())
    filtering = stream.read(pushFilters="true")
    assert 1 == filtering.where("id = 1").count()
    assert 1 == filtering.count(), "this Spark has mended it: pushFilters can become the default (decision 8)"


@pytest.mark.parametrize("size", ["1", "1000", "7k", "1m"])
@pytest.mark.parametrize("codec", ["null", "zstandard"])
def test_large_blobs_are_read_in_splits_each_row_once(stream: StoredStream, size: str, codec: str) -> None:
    rows = [(n, f"text number {n} " * (n % 7)) for n in range(2000)]
    stream.write(rows, "id long, text string", codec=codec, maxFlushThresholdSize="8k")
    read = stream.read(maxPartitionBytes="100k" if size == "1" else size)
    assert rows == sorted(tuple(row) for row in read.collect())
    if (size, codec) == ("7k", "null"):
        assert read.rdd.getNumPartitions() > 3


def test_a_damaged_blob_is_an_error_that_names_it_or_is_skipped(stream: StoredStream, stored: Stored) -> None:
    stream.write([(1,)], "id long")
    stream.write([(2,)], "id long")
    damaged = stored.data()[0]
    whole = stored.bytes(damaged)
    stored.client.upload_blob(damaged, whole[:-20], overwrite=True)
    sentence = error_of(stream.read().collect)
    assert sentence.startswith("CorruptError: ")
    assert damaged in sentence
    assert "ignoreCorruptBlobs" in sentence
    assert 1 == len(stream.ids(ignoreCorruptBlobs="true"))


def test_a_blob_that_is_deleted_during_a_read_is_named(stream: StoredStream, stored: Stored) -> None:
    stream.write([(1,)], "id long")
    (name,) = stored.data()
    stream.write([(2,)], "id long")
    frame = stream.read()
    stored.client.delete_blob(name)
    sentence = error_of(frame.collect)
    assert sentence.startswith("NotFoundError: ")
    assert name in sentence


def test_a_missing_permission_to_read_is_reported(stream: StoredStream, azurite: Any) -> None:
    stream.write([(1,)], "id long")
    wrong = {"endpoint": azurite.endpoint, "accountKey": "d3Jvbmcga2V5"}
    sentence = error_of(lambda: stream.spark.read.format("azureblob").options(**wrong).load(stream.target))
    assert sentence.startswith("ConfigurationError: ")
    assert "403" in sentence
    assert "d3Jvbmcga2V5" not in sentence


# --- blobs that others wrote ------------------------------------------------------------------------------------------


def test_blobs_of_samza_are_read(stream: StoredStream, stored: Stored) -> None:
    stored.client.create_container()
    expected = 0
    for file in sorted(SAMZA.glob("*.avro*")):
        if file.suffix != ".json":
            about = json.loads(file.with_name(f"{file.name}.json").read_text())
            stored.client.upload_blob(f"events/{file.name}", file.read_bytes())
            expected += about["expected_rows"]
    assert expected == stream.read().count()


def avro(schema: dict[str, Any], *rows: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, schema, rows)
    return file.getvalue()


CAPTURE = {
    "type": "record", "name": "EventData", "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [
        {"name": "SequenceNumber", "type": "long"},
        {"name": "Offset", "type": "string"},
        {"name": "EnqueuedTimeUtc", "type": "string"},
        {"name": "SystemProperties", "type": {"type": "map", "values": ["long", "double", "string", "bytes"]}},
        {"name": "Properties", "type": {"type": "map", "values": ["long", "double", "string", "bytes", "null"]}},
        {"name": "Body", "type": ["null", "bytes"]},
    ],
}  # fmt: skip


def test_a_folder_of_event_hubs_capture_is_read(stream: StoredStream, stored: Stored) -> None:
    stored.client.create_container()
    event = {
        "SequenceNumber": 1, "Offset": "0", "EnqueuedTimeUtc": "1/31/2013 12:00:05 PM",
        "SystemProperties": {"x-opt-sequence-number": 7, "key": "k"}, "Properties": {"price": 1.5, "none": None},
        "Body": b"hello",
    }  # fmt: skip
    stored.client.upload_blob("events/0/2013/01/31/12/00/05.avro", avro(CAPTURE, event))
    stored.client.upload_blob("events/1/2013/01/31/12/05/05.avro", avro(CAPTURE))
    stored.client.upload_blob("events/1/2013/01/31/12/10/05.avro", b"")
    (row,) = stream.read(metadataColumns="partition").collect()
    assert (1, b"hello", "0") == (row.SequenceNumber, bytes(row.Body), row._partition)
    assert [7, "k"] == [row.SystemProperties["x-opt-sequence-number"].member0, row.SystemProperties["key"].member2]
    assert 0 == stream.read(startTime="2113-01-31").count()
    names = [each.name for each in stream.read(view="blobs").collect()]
    assert ["events/0/2013/01/31/12/00/05.avro", "events/1/2013/01/31/12/05/05.avro"] == names


def foreign(schema: dict[str, Any] | str, *rows: bytes) -> bytes:
    """A blob with a schema that fastavro would refuse."""
    sync = bytes(range(16))
    return b"".join((header(json.dumps(schema), "null", sync), *block(len(rows), b"".join(rows), sync)))


def test_files_whose_schemas_violate_the_specification_are_read(stream: StoredStream, stored: Stored) -> None:
    stored.client.create_container()
    twice = b"\x04\x02a\x02\x02a\x04\x00"
    fields = [
        {"name": "größe", "type": ["int", "null"], "default": "large"},
        {"name": "a-b", "type": {"type": "enum", "name": "$", "symbols": ["x-y", "z"]}},
        {"name": "map", "type": {"type": "map", "values": "int"}},
        {"name": "day", "type": {"type": "string", "logicalType": "date"}},
    ]
    schema = {"type": "record", "name": "top level", "fields": fields}
    stored.client.upload_blob("events/1.avro", foreign(schema, b"\x00\x0a\x02" + twice + b"\x02d"))
    frame = stream.read(ignoreCorruptBlobs="true")
    assert [(5, "z", {"a": 2}, "d")] == [tuple(row) for row in frame.collect()]
    assert [(2,)] == [tuple(row) for row in frame.selectExpr("map['a']").collect()]


def test_files_without_columns_or_records_are_read(stream: StoredStream, stored: Stored) -> None:
    stored.client.create_container()
    stored.client.upload_blob("events/1.avro", foreign("long", b"\x02", b"\x04"))
    assert [1, 2] == sorted(row.value for row in stream.read().collect())
    stored.client.upload_blob(
        "events/1.avro", foreign({"type": "record", "name": "r", "fields": []}, b"", b"", b""), overwrite=True
    )
    assert (3, 3) == (stream.read().count(), len(stream.read().collect()))


def test_a_value_that_does_not_fit_is_not_skipped_as_damaged_and_the_advice_helps(
    stream: StoredStream, stored: Stored
) -> None:
    stored.client.create_container()
    column = {"name": "v", "type": {"type": "int", "logicalType": "time-millis"}}
    schema = {"type": "record", "name": "r", "fields": [column, {"name": "id", "type": "long"}]}
    stored.client.upload_blob("events/1.avro", foreign(schema, b"\x80\xf0\xb2\x52\x02"))
    sentence = error_of(stream.read(ignoreCorruptBlobs="true").collect)
    assert sentence.startswith("ConfigurationError: ")
    assert "column 'v'" in sentence and "Give option avroSchema with plain int" in sentence
    plain = json.dumps({**schema, "fields": [{"name": "v", "type": "int"}, schema["fields"][1]]})
    assert [(86_400_000, 1)] == [tuple(row) for row in stream.read(avroSchema=plain).collect()]
    assert [(1,)] == [tuple(row) for row in stream.read(columns="id").collect()]


def nested(levels: int) -> dict[str, Any]:
    """A record with one column of nested arrays, `levels` deep."""
    avro: Any = "int"
    for _ in range(levels - 1):
        avro = ["null", {"type": "array", "items": avro}]
    return {"type": "record", "name": "row", "fields": [{"name": "v", "type": avro}]}


@pytest.mark.every_spark
def test_spark_can_process_the_deepest_schema_that_is_accepted(stream: StoredStream, stored: Stored) -> None:
    stored.client.create_container()
    value: Any = 7
    for _ in range(MAX_LEVELS - 1):
        value = [value]
    stored.client.upload_blob("events/a.avro", avro(nested(MAX_LEVELS), {"v": value}))
    assert [value] == [row.v for row in stream.read().collect()]
    assert 1 == stream.read().where("v is not null").count()
    stored.client.upload_blob("events/a.avro", avro(nested(MAX_LEVELS + 1)), overwrite=True)
    assert f"nested more than {MAX_LEVELS} levels deep" in error_of(lambda: stream.read().collect())


def test_a_block_beyond_the_limit_is_refused_and_the_option_helps(stream: StoredStream, stored: Stored) -> None:
    stored.client.create_container()
    schema = {"type": "record", "name": "row", "fields": [{"name": "v", "type": "string"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"v": "x" * 3_000_000}], codec="deflate")
    stored.client.upload_blob("events/a.avro", out.getvalue())
    sentence = error_of(lambda: stream.read(maxBlockBytes="2MiB", ignoreCorruptBlobs="true").collect())
    assert "more than the 2,097,152 bytes of option maxBlockBytes. Raise option maxBlockBytes" in sentence
    assert sentence.startswith("ConfigurationError: read blob events/a.avro, block from byte ")
    assert [3_000_000] == [len(row.v) for row in stream.read(maxBlockBytes="4MiB", maxBatchBytes="16MiB").collect()]
