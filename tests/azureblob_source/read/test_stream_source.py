"""Streaming readers, called as Spark calls them, in this process and on the emulator."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from arrow_avro import spark_of
from azure_account import connect
from azureblob_source import metrics
from azureblob_source.log.entry import Transaction
from azureblob_source.log.publishing.publish import Publisher
from azureblob_source.maintenance.drafts import new_draft
from azureblob_source.maintenance.reverting import carry_out, plan_revert
from azureblob_source.read.stream_source import RefusedReader, stream_reader
from azureblob_source.read.views import VIEWS
from azureblob_source.write.options import sink_options
from foundation.clock import SYSTEM_CLOCK
from foundation.errors import ConfigurationError, ConflictError
from tests.azureblob_source.write.sink_rows import committer, plan_of, stage_rows
from tests.exported import Exported, exporting
from tests.spark.versions import append_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.azurite import Azurite

ROWS = StructType([StructField("id", LongType())])
BEGIN = {"version": -1, "start": -1, "log": None}


@pytest.fixture
def stream(azurite: Azurite, container_name: str) -> dict[str, str]:
    """The options of a read of a stream of two versions."""
    options = {"connectionString": azurite.connection_string}
    for id_ in (1, 2):
        append_version(options, f"{container_name}/events", pa.RecordBatch.from_pydict({"id": [id_]}))
    return {**options, "path": f"{container_name}/events"}


@pytest.mark.parametrize("limit", ["maxBlobsPerTrigger", "maxBytesPerTrigger"])
def test_one_warning_says_that_limits_have_no_effect_on_a_spark_without_them(
    stream: dict[str, str], caplog: pytest.LogCaptureFixture, limit: str
) -> None:
    reader: Any = stream_reader({**stream, limit: "1"}, ROWS, {}, None)
    for _ in range(2):
        assert 1 == reader.latestOffset()["version"]
    (warning,) = (record.getMessage() for record in caplog.records)
    assert "`maxBlobsPerTrigger` and `maxBytesPerTrigger` have no effect" in warning
    assert warning.endswith("Upgrade to Spark 4.2 or later")


def test_default_limits_and_limits_that_take_effect_cause_no_warning(
    stream: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    unlimited: Any = stream_reader(stream, ROWS, {}, None)
    assert 1 == unlimited.latestOffset()["version"]
    limited: Any = stream_reader({**stream, "maxBlobsPerTrigger": "1"}, ROWS, {}, None)
    assert 0 == limited.latestOffset(BEGIN)["version"]
    assert [] == caplog.records


def test_an_offset_carries_the_identity_of_its_log(stream: dict[str, str]) -> None:
    reader: Any = stream_reader(stream, ROWS, {}, None)
    end = reader.latestOffset(reader.initialOffset())
    log_id = reader.plan.log.read(0).write_id
    assert {"version": 1, "start": -1, "log": log_id} == end
    assert end == reader.latestOffset(end)


def test_an_offset_with_an_unknown_field_needs_a_newer_release(stream: dict[str, str]) -> None:
    reader: Any = stream_reader(stream, ROWS, {}, None)
    with pytest.raises(ConfigurationError, match=r"has the field 'rows', so it needs a newer release of pyspark-azur"):
        reader.latestOffset({**BEGIN, "rows": 3})


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    monkeypatch.setattr(metrics.METERS, "_observed", {})  # readers of other tests of this process do not stop
    with exporting(monkeypatch, metrics.METERS) as found:
        yield found


def shown(exported: Exported, path: str) -> tuple[float, ...]:
    """The gauges of the versions, blobs and rows that are left; empty if none is exported."""
    points = [exported.points(f"backlog{each}") for each in ("Versions", "Blobs", "Rows")]
    assert all(path == point.attributes["stream"] for gauge in points for point in gauge)
    return tuple(point.value for gauge in points for point in gauge)


def test_spark_and_the_gauges_get_the_backlog_until_the_query_stops(stream: dict[str, str], exported: Exported) -> None:
    reader: Any = stream_reader({**stream, "maxBlobsPerTrigger": "1"}, ROWS, {}, None)
    assert None is reader.reportLatestOffset(), "nothing is planned yet"
    (size,) = {blob.size for version in (0, 1) for blob in reader.plan.log.read(version).blobs}
    start = reader.initialOffset()
    for left in (1, 0):
        end = reader.latestOffset(start)
        backlog = {"versions": left, "blobs": left, "rows": left, "bytes": left * size}
        assert {"version": 1, "backlog": backlog} == reader.reportLatestOffset()
        assert (left, left, left) == shown(exported, stream["path"])
        assert left * size == exported.of("backlogBytes")
        reader.partitions(start, end)
        assert (left, left, left) == shown(exported, stream["path"])
        reader.commit(start)
        start = end
    reader.stop()
    assert () == shown(exported, stream["path"])


def test_the_gauges_are_set_by_a_batch_that_is_planned_again_after_a_restart(
    stream: dict[str, str], exported: Exported
) -> None:
    for view in ("data", "commits", "blobs"):
        schema = ROWS if view == "data" else spark_of(VIEWS[view])
        reader: Any = stream_reader({**stream, "view": view}, schema, {}, None)
        reader.partitions(BEGIN, {**BEGIN, "version": 0})
        assert (1, 1, 1) == shown(exported, stream["path"])
        reader.stop()


def test_a_spark_without_limits_sets_the_gauges_too(stream: dict[str, str], exported: Exported) -> None:
    reader: Any = stream_reader(stream, ROWS, {}, None)
    end = reader.latestOffset()
    assert (0, 0, 0) == shown(exported, stream["path"])
    append_version(stream, stream["path"], pa.RecordBatch.from_pydict({"id": [3, 4]}))
    reader.partitions(BEGIN, end)
    assert (0, 0, 0) == shown(exported, stream["path"]), "as of when the batch was planned"
    reader.stop()


@pytest.mark.parametrize("view", ["data", "commits"])
def test_a_batch_that_was_planned_is_not_read_from_another_log(stream: dict[str, str], view: str) -> None:
    schema = ROWS if view == "data" else StructType()
    begun: Any = stream_reader({**stream, "view": view}, schema, {}, None)
    start, end = BEGIN, {**BEGIN, "version": 1}
    assert 1 <= len(begun.partitions(start, end))
    for offsets in ((start, {**end, "log": "deleted"}), ({**start, "log": "deleted"}, end)):
        restarted: Any = stream_reader({**stream, "view": view}, schema, {}, None)
        with pytest.raises(ConflictError, match=r"the log deleted.*begun again, or the checkpoint.*a new checkpoint"):
            restarted.partitions(*offsets)
    restarted = stream_reader({**stream, "view": view}, schema, {}, None)
    with pytest.raises(ConflictError, match=r"begun again.*with a new checkpoint"):
        restarted.latestOffset({**start, "version": 0, "log": "deleted"})


@pytest.mark.parametrize("offset", [{"logOffset": 3}, {"topic": {"0": 7}}, {"version": "7"}, 5, [], None])
def test_the_offset_of_another_kind_of_source_is_refused_with_what_to_set(stream: dict[str, str], offset: Any) -> None:
    reader: Any = stream_reader(stream, ROWS, {}, None)
    right = {**BEGIN, "version": 1}
    for start, end in ((offset, right), (right, offset)):
        with pytest.raises(ConfigurationError, match="of another kind of source. Set option `checkpointLocation` to"):
            reader.partitions(start, end)
    if offset is not None:  # which is what Spark before 4.2 passes
        with pytest.raises(ConfigurationError, match="of another kind of source. Set option `checkpointLocation` to"):
            reader.latestOffset(offset)


@pytest.mark.parametrize(("view", "shown"), [("control", 1), ("blobs", 1), ("commits", 4)])
def test_a_view_has_nothing_of_batches_that_are_taken_back_but_in_the_history(
    azurite: Azurite, container_name: str, view: str, shown: int
) -> None:
    options = {"connectionString": azurite.connection_string, "path": f"{container_name}/events"}
    container = connect(sink_options(options, {}).account).container(container_name)
    container.create()
    plan = plan_of(pa.schema([("id", pa.int64())]), f"{container_name}/events")
    for batch in range(3):
        staged = stage_rows(container, plan, [pa.RecordBatch.from_pydict({"id": [batch]})], seed=batch)
        control = {"type": "watermark", "stream": "events", "taskName": "t", "timestamp": 1000 * batch}
        committer(container, plan, batch).commit([replace(staged, control=(control,))], Transaction("q", batch))
    schema = spark_of(VIEWS[view])
    before: Any = stream_reader({**options, "view": view}, schema, {}, None)
    start, end = BEGIN, {**BEGIN, "version": 2}
    reverting = plan_revert(container, "events", Transaction("q", 0))
    carry_out(container, reverting, lambda: new_draft(SYSTEM_CLOCK, None), Publisher(container))
    if view == "commits":
        end = {**end, "version": 3}
    after: Any = stream_reader({**options, "view": view}, schema, {}, None)
    for reader in (before, after):
        (partition,) = reader.partitions(start, end)
        assert shown == sum(rows.num_rows for rows in reader.read(partition))


def test_a_view_that_was_planned_is_not_read_from_another_log(stream: dict[str, str]) -> None:
    schema = spark_of(VIEWS["commits"])
    reader: Any = stream_reader({**stream, "view": "commits"}, schema, {}, None)
    (partition,) = reader.partitions(BEGIN, {**BEGIN, "version": 1})
    container = reader.plan.container
    for blob in list(container.list("events/")):
        container.delete(blob.name)
    for id_ in (1, 2):
        append_version(stream, stream["path"], pa.RecordBatch.from_pydict({"id": [id_]}))
    executor: Any = stream_reader({**stream, "view": "commits"}, schema, {}, None)
    with pytest.raises(ConflictError, match=r"begun again.*with a new checkpoint"):
        list(executor.read(partition))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("initialOffset", ()),
        ("latestOffset", ()),
        ("latestOffset", ({**BEGIN, "version": 0}, None)),
        ("partitions", ({**BEGIN, "version": 0}, {**BEGIN, "version": 1})),
        ("getDefaultReadLimit", ()),
        ("prepareForTriggerAvailableNow", ()),
        ("reportLatestOffset", ()),
    ],
    ids=str,
)
def test_a_query_that_cannot_start_raises_the_cause_whichever_method_spark_calls_first(
    stream: dict[str, str], method: str, arguments: tuple[object, ...]
) -> None:
    reader = stream_reader({**stream, "versionAsOf": "0"}, ROWS, {}, None)
    assert isinstance(reader, RefusedReader)
    with pytest.raises(ConfigurationError, match=r"`versionAsOf` belongs to spark.read. Leave it out here."):
        getattr(reader, method)(*arguments)
    reader.stop()


def test_a_query_reads_the_blobs_of_its_partitions(stream: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    rows = pa.RecordBatch.from_pydict({"id": [1, 2, 3, 4]})
    for _ in range(2):
        append_version(stream, stream["path"], rows, partitionColumn="id")
    reader: Any = stream_reader({**stream, "partitions": "1,4"}, ROWS, {}, None)
    start = reader.initialOffset()
    with caplog.at_level(logging.INFO):
        partitions = reader.partitions(start, reader.latestOffset(start))
    read = [id_ for each in partitions for batch in reader.read(each) for id_ in batch["id"].to_pylist()]
    assert [1, 1, 4, 4] == sorted(read)
    assert "versions 0 to 3: 4 of 10 blobs are read" in caplog.text
