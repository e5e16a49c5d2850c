"""Streaming reads that adopt a folder, called as Spark calls them, in this process and on the emulator."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from azure_account import connect
from azureblob_source.datasource import AzureBlobDataSource
from azureblob_source.write.options import sink_options
from foundation.errors import ConfigurationError, ConflictError, NotFoundError
from tests.azureblob_source.adoption.folder_writer import FOLDER, NOON, SCHEMA, avro, capture_name, fill

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from tools.azurite import Azurite


class Query:
    """A query that reads in this process, with what Spark keeps of it in its checkpoint."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.at: Any = None
        self.start()

    def start(self) -> None:
        """Another driver."""
        self.source = AzureBlobDataSource(self.options)
        self.schema = self.source.schema()
        self.reader: Any = self.source.streamReader(self.schema)

    def trigger(self) -> list[int]:
        """One micro-batch: its numbers."""
        if self.at is None:
            self.at = self.reader.initialOffset()
        end = self.reader.latestOffset(self.at)
        parts = [] if end == self.at else self.reader.partitions(self.at, end)
        found = [number for part in parts for batch in self.reader.read(part) for number in batch["n"].to_pylist()]
        self.at = end
        return found


@pytest.fixture
def container(azurite: Azurite, container_name: str) -> BlobContainer:
    options = {"connectionString": azurite.connection_string, "path": f"{container_name}/{FOLDER}"}
    made = connect(sink_options(options, {}).account).container(container_name)
    made.create()
    return made


@pytest.fixture
def options(azurite: Azurite, container: BlobContainer) -> dict[str, str]:
    path = f"{container.name}/{FOLDER}"
    return {
        "connectionString": azurite.connection_string, "path": path, "adoptFolder": "true", "minBlobAgeMs": "0",
    }  # fmt: skip


def test_each_row_is_read_once_from_the_earliest_blob_on_over_restarts(
    container: BlobContainer, options: dict[str, str]
) -> None:
    written = fill(container, 3, 4)
    query = Query({**options, "maxBlobsPerTrigger": "5"})
    assert ["n"] == query.schema.names
    seen = [query.trigger() for _ in range(2)]
    assert [5, 5] == [len(found) for found in seen]
    query.start()
    seen += [query.trigger() for _ in range(2)]
    assert [2, 0] == [len(found) for found in seen[2:]]
    assert sorted(range(written)) == sorted(number for found in seen for number in found)
    container.put(capture_name(1, NOON + timedelta(minutes=2, seconds=30)), avro([100]))
    container.put(f"{FOLDER}/1/notes.txt", b"other")
    query.start()
    assert [100] == query.trigger()
    assert [] == query.trigger()
    report = query.reader.reportLatestOffset()
    assert {"versions": 0, "blobs": 0, "rows": 0, "bytes": 0} == report["backlog"]
    assert {"other format by its name": 1} == report["discovery"]["leftOut"]
    other = Query(options)
    assert 13 == len(other.trigger()), "another query reads what the log has"


def test_a_query_that_begins_with_the_latest_blob_has_the_schema_of_those_before(
    container: BlobContainer, options: dict[str, str]
) -> None:
    fill(container, 1, 3)
    query = Query({**options, "startingTimestamp": "2100-01-01T00:00:00Z"})
    assert ["n"] == query.schema.names
    assert [] == query.trigger()
    latest = {**options, "path": f"{options['path']}/0", "startingVersion": "latest"}
    container.put(capture_name(0, NOON + timedelta(minutes=9)), avro([9]))
    query = Query(latest)
    assert set(query.trigger()) <= {9}, "the time of the last modification is in whole seconds"
    container.put(capture_name(0, NOON + timedelta(minutes=10)), avro([10]))
    assert [10] == query.trigger()


def test_available_now_reads_what_is_there_when_it_begins(container: BlobContainer, options: dict[str, str]) -> None:
    fill(container, 2, 2)
    query = Query({**options, "maxBlobsPerTrigger": "1"})
    query.at = query.reader.initialOffset()
    query.reader.prepareForTriggerAvailableNow()
    container.put(capture_name(0, NOON + timedelta(minutes=9)), avro([9]))
    seen = [query.trigger() for _ in range(5)]
    assert [1, 1, 1, 1, 0] == [len(found) for found in seen]
    query.start()
    assert [9] == query.trigger()


def test_a_blob_that_was_replaced_is_read_once_and_as_it_is(container: BlobContainer, options: dict[str, str]) -> None:
    fill(container, 1, 2)
    strict = Query({**options, "maxBlobsPerTrigger": "1"})
    query = Query({**strict.options, "allowOverwrites": "true"})
    assert [0] == query.trigger() == strict.trigger()
    for minute in range(2):
        container.put(capture_name(0, NOON + timedelta(minutes=minute)), avro(range(10 * minute, 10 * minute + 3)))
    with pytest.raises(ConflictError, match="replaced"):
        strict.trigger()
    assert [10, 11, 12] == query.trigger()
    query.start()
    assert [] == query.trigger()
    batch = {name: options[name] for name in ("connectionString", "path")} | {"allowOverwrites": "true"}
    source = AzureBlobDataSource(batch)
    reader: Any = source.reader(source.schema())
    found = [number for part in reader.partitions() for rows in reader.read(part) for number in rows["n"].to_pylist()]
    assert [0, 1, 2, 10, 11, 12] == sorted(found)


def test_blobs_that_are_too_young_are_counted_in_the_log(
    container: BlobContainer, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    fill(container, 1, 2)
    query = Query({**options, "minBlobAgeMs": "1h", "avroSchema": json.dumps(SCHEMA)})
    with caplog.at_level("INFO", "azureblob_source"):
        assert [] == query.trigger() == query.trigger()
    said = [each.getMessage() for each in caplog.records if "blobs wait" in each.getMessage()]
    assert [f"{FOLDER}: 2 blobs wait: they are leased or modified just now"] == said


def test_a_folder_without_a_log_that_has_blobs_can_be_adopted(
    container: BlobContainer, options: dict[str, str]
) -> None:
    fill(container, 1, 1)
    with pytest.raises(NotFoundError, match=r"there is no commit log\. Set option `adoptFolder`"):
        Query({**options, "adoptFolder": "false"}).trigger()


def test_a_folder_is_followed_whose_log_is_elsewhere(
    azurite: Azurite, container: BlobContainer, options: dict[str, str]
) -> None:
    written = fill(container, 2, 3)
    names = {blob.name for blob in container.list()}
    logs = connect(sink_options(options, {}).account).container(f"{container.name}-logs")
    logs.create()
    elsewhere = {**options, "logPath": f"{logs.name}/of/hub"}
    query = Query(elsewhere)
    assert list(range(written)) == sorted(query.trigger())
    container.put(capture_name(1, NOON + timedelta(minutes=9)), avro([100]))
    query.start()
    assert [100] == query.trigger()
    assert names | {capture_name(1, NOON + timedelta(minutes=9))} == {blob.name for blob in container.list()}


def test_without_the_option_a_folder_is_not_followed(container: BlobContainer, options: dict[str, str]) -> None:
    fill(container, 1, 1)
    query = Query({name: value for name, value in options.items() if name not in ("adoptFolder", "minBlobAgeMs")})
    with pytest.raises(NotFoundError, match="`adoptFolder`"):
        query.trigger()
    source = AzureBlobDataSource(options)
    with pytest.raises(ConfigurationError, match=r"`adoptFolder` belongs to spark\.readStream"):
        source.reader(source.schema())
