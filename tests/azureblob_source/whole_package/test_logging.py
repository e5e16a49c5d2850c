"""What writers and readers log at INFO: a line for each batch, however many blobs and streams it has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from azure_account.location import Location
from azureblob_source.epochs import open_epoch
from azureblob_source.read.source import SnapshotReader, read_plan
from azureblob_source.read.stream_source import stream_reader
from azureblob_source.write import destination
from azureblob_source.write.planning import prepare_write
from azureblob_source.write.sink import BatchWriter, StreamWriter

if TYPE_CHECKING:
    from tools.azurite import Azurite

PAGE = Path(__file__).parents[3] / "docs" / "LOGGING.md"
ROWS = StructType([StructField("id", LongType()), StructField("stream", StringType())])
OF_STREAMS = {"streamColumn": "stream", "partitionColumn": "id", "txnAppId": "load", "txnVersion": "1"}


@pytest.fixture
def options(azurite: Azurite) -> dict[str, str]:
    return {"connectionString": azurite.connection_string}


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    for package in ("azureblob_source", "azure_account"):
        caplog.set_level("DEBUG", package)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged at INFO since the last call; a time is `T`."""
    found = [re.sub(r"\d+\.\d\d s", "T s", each.getMessage()) for each in caplog.records if each.levelname == "INFO"]
    caplog.clear()
    return found


def write(path: str, options: dict[str, str], rows: dict[str, Any], **more: str) -> BatchWriter:
    writer = BatchWriter(prepare_write({"path": path, **options, **more}, ROWS, {}, overwrite=False), overwrite=False)
    writer.commit([writer.write(iter([pa.RecordBatch.from_pydict(rows)]))])
    return writer


def size_in(writer: BatchWriter) -> int:
    return sum(blob.size for blob in destination.container_of(writer.plan).list() if "/_" not in blob.name)


def test_a_write_is_one_line_and_a_stream_that_is_gone_on_with_another_one(
    options: dict[str, str], container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{container_name}/events"
    rows = {"id": [1, 2, 3], "stream": ["a", "b", "b"]}
    written = write(path, options, rows, partitionColumn="stream")
    begun = f"{path}: a write is committed in version 0: 3 rows in 2 blobs with {size_in(written)} bytes, in T s"
    assert [begun] == lines(caplog)
    destination._logs.clear()  # as in another process
    write(path, options, {"id": [], "stream": []})
    assert [] == lines(caplog), "a write without rows commits nothing"
    write(path, options, rows)
    goes_on, committed = lines(caplog)
    assert "events: goes on after version 0, all up to it is published" == goes_on
    assert committed.startswith(f"{path}: a write is committed in version 1: 3 rows in 1 blobs with ")


def test_a_batch_of_fifty_blobs_in_ten_streams_is_one_line(
    options: dict[str, str], container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {"id": [*range(50)], "stream": [f"s{number % 10}" for number in range(50)]}
    written = write(container_name, options, rows, **OF_STREAMS)
    what = f"10 streams: 50 rows in 50 blobs with {size_in(written)} bytes, in T s"
    assert not any(secret in caplog.text for secret in options["connectionString"].split(";") if "Key" in secret)
    assert [f"{container_name}: batch 1 of load is committed in {what}"] == lines(caplog)
    write(container_name, options, rows, **OF_STREAMS)
    assert [f"{container_name}: batch 1 of load was committed in {what}"] == lines(caplog)


def shape(line: str) -> str:
    """A line with `N` for each number."""
    return re.sub(r"\d+(\.\d+)?", "N", line)


def test_the_page_has_the_lines_of_a_micro_batch_as_they_look(
    options: dict[str, str], container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        write(f"{container_name}/flights", options, {"id": [1, 2], "stream": ["a", "b"]})
        write(f"{container_name}/delays", options, {"id": [1, 2], "stream": ["a", "b"]})
    destination._logs.clear()  # as after a restart
    caplog.clear()
    reader: Any = stream_reader({"path": f"{container_name}/flights", **options}, ROWS, {}, None)
    start = reader.initialOffset()
    partitions = reader.partitions(start, reader.latestOffset(start))
    given = {"path": f"{container_name}/delays", **options}
    writer = StreamWriter(prepare_write(given, ROWS, {}, overwrite=False), overwrite=False)
    message = writer.write(batch for partition in partitions for batch in reader.read(partition))
    message.staged = message.staged.replace('"task": 0', '"task": 0, "query": "5f1c"')
    writer.commit([message], 7)

    read, goes_on, committed = lines(caplog)
    size = sum(blob.size for blob in destination.container_of(writer.plan).list("flights/") if "/_" not in blob.name)
    assert read.endswith(f"versions 0 to 1: 2 of 2 blobs are read, {size} bytes, by 1 tasks")
    assert "batch 7 of 5f1c is committed in version 2: 4 rows in 1 blobs with " in committed
    page = PAGE.read_text("utf-8").replace("\n    ", " ").replace("mycontainer", container_name)
    shown = re.findall("^INFO azureblob_source: (.*)$", page, re.MULTILINE)
    expected = [shape(line.replace("T s", "0.41 s")) for line in (read, committed, goes_on)]
    assert expected == [shape(line) for line in shown]


def test_a_batch_read_says_how_many_blobs_it_leaves_out(
    options: dict[str, str], container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = f"{container_name}/events"
    write(path, options, {"id": [*range(50)], "stream": ["a"] * 50}, partitionColumn="id")
    lines(caplog)
    for end, count in (("2100-01-01", 50), ("2000-01-01", 0)):
        plan = read_plan({"path": path, **options, "endTime": end}, {}, streaming=False)
        SnapshotReader(plan, ROWS).partitions()
        size = sum(blob.size for blob in plan.snapshot.blobs)
        tasks = int(count > 0)
        expected = f"{path}: version 0: {count} of 50 blobs are read, {size} bytes, by {tasks} tasks"
        assert [expected] == lines(caplog)


def test_an_epoch_is_one_line_and_opening_it_again_none(
    options: dict[str, str], container_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    where = Location(f"{container_name}/events", options)
    open_epoch(where, 3)
    assert ["events: epoch 3 begins"] == lines(caplog)[:1]
    open_epoch(where, 3)
    assert not any("begins" in line for line in lines(caplog))
