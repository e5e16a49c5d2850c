"""A stream as a reader of the listing sees it: its blobs, listed with the Azure SDK and decoded with fastavro.

Nothing of this project is imported here: it is the judge.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
from azure.storage.blob import BlobServiceClient

from tests.crash.flights import ROW_NUMBER

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_LOG_NAME = re.compile(r"[^/]+/_log/(\d{20})\.json")


@dataclass(frozen=True)
class StreamState:
    """The names of the published and of the staged data blobs, and the entries of the log in order."""

    published: frozenset[str]
    staged: frozenset[str]
    entries: list[dict[str, Any]]


def blob_names(container: ContainerClient, stream: str) -> tuple[set[str], set[str]]:
    """The names of a stream's published blobs, and of those that have staged blocks only."""
    if not container.exists():
        return set(), set()
    # The listing shows a blob that has both published and staged blocks as published.
    every = {blob.name for blob in container.list_blobs(f"{stream}/", include="uncommittedblobs")}
    published = {blob.name for blob in container.list_blobs(f"{stream}/")}
    return published, every - published


@dataclass
class VisibleBlobs:
    """The blobs of the stream `stream`, whose rows have `schema`. Blobs and entries that were read are kept."""

    container: ContainerClient
    stream: str
    schema: pa.Schema
    _tables: dict[tuple[str, str], pa.Table] = field(default_factory=dict)
    _entries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @staticmethod
    def of(connection_string: str, container: str, stream: str, schema: pa.Schema) -> VisibleBlobs:
        """The blobs of a stream, whose container need not exist yet."""
        service = BlobServiceClient.from_connection_string(connection_string)
        return VisibleBlobs(service.get_container_client(container), stream, schema)

    def has_version(self, version: int) -> bool:
        """Whether the log has this entry."""
        return bool(self.container.get_blob_client(f"{self.stream}/_log/{version:020d}.json").exists())

    def state(self) -> StreamState:
        """The state as of now. Asserts that the versions of the log are consecutive."""
        published, staged = blob_names(self.container, self.stream)
        log = sorted(name for name in published if _LOG_NAME.fullmatch(name))
        assert [int(_LOG_NAME.fullmatch(name)[1]) for name in log] == list(range(len(log)))  # type: ignore[index]
        return StreamState(
            frozenset(filter(_is_data, published)),
            frozenset(filter(_is_data, staged)),
            [self._entry(name) for name in log],
        )

    def rows(self) -> pa.Table:
        """All rows of all published data blobs, by row number. Asserts that blobs are complete and named right."""
        blobs = [blob for blob in self.container.list_blobs(f"{self.stream}/") if _is_data(blob.name)]
        tables = [self._table(blob.name, blob.etag) for blob in blobs]
        return pa.concat_tables([self.schema.empty_table(), *tables]).sort_by(ROW_NUMBER)

    def assert_no_row_twice(self) -> None:
        """Assert that no row is in two published blobs, at any moment."""
        if not self.container.exists():
            return
        twice = [row for row, count in Counter(self.rows()[ROW_NUMBER].to_pylist()).items() if count > 1]
        assert [] == twice[:10]

    def _entry(self, name: str) -> dict[str, Any]:
        if name not in self._entries:
            self._entries[name] = json.loads(self.container.download_blob(name).readall())
        return self._entries[name]

    def _table(self, name: str, etag: str) -> pa.Table:
        if (name, etag) not in self._tables:
            data = self.container.download_blob(name).readall()
            table = pa.Table.from_pylist(list(fastavro.reader(io.BytesIO(data))), self.schema)
            assert table.num_rows > 0, f"{name} is empty"
            assert set(table["origin"].to_pylist()) == {name.split("/")[1]}
            self._tables[name, etag] = table
        return self._tables[name, etag]


def assert_exactly_once(visible: VisibleBlobs, expected: pa.Table, batches: int) -> None:
    """Each row of `expected` is in one published blob; the log names those blobs alone, and each batch once.

    There are `batches`, or fewer: a kill between two logs of Spark's, the one of the files and the one of the offsets,
    leaves it with the files of two batches for the next one.
    """
    state = visible.state()
    assert list(range(len(state.entries))) == [entry["transaction"]["version"] for entry in state.entries]
    assert len(state.entries) <= batches
    assert 1 == len({entry["transaction"]["id"] for entry in state.entries})
    assert state.published == {blob["name"] for entry in state.entries for blob in entry["blobs"]}
    rows = visible.rows()
    assert expected.num_rows == rows.num_rows
    assert expected.equals(rows)


def _is_data(name: str) -> bool:
    return "/_" not in name
