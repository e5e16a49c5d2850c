"""Ranges, ETags and errors of a real service that reading splits depends on."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from arrow_avro import JoinedFormat
from azure_account import connect
from azure_account.options.account_options import ACCOUNT_OPTIONS
from azure_account.options.settings import account_settings
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.snapshot import take_snapshot
from azureblob_source.read.splits import Split, split_blobs
from foundation.errors import ConflictError, CorruptError, NotFoundError
from tests.arrow_avro.joined_files import SCHEMA, joined, rows_file
from tests.arrow_avro.joined_files import numbered as numbered_rows
from tests.arrow_avro.sync_marker import SYNC
from tests.azureblob_source.read.test_split_reader import avro_file, numbered, rows_of
from tests.azureblob_source.read.test_split_reader_parts import NAME, part_of, rows_of_parts
from tests.scripted_clock import ActingClock

if TYPE_CHECKING:
    from azure_account.container import BlobContainer
    from azureblob_source.read.snapshot import Snapshot
    from tools.azurite import Azurite


@pytest.fixture
def container(azurite: Azurite, container_name: str) -> BlobContainer:
    settings = account_settings(ACCOUNT_OPTIONS.parse({"connectionString": azurite.connection_string}), None, {})
    made = connect(settings).container(container_name)
    made.create()
    return made


def snapshot(container: BlobContainer) -> Snapshot:
    return take_snapshot(CommitLog(container, "s"), None, ActingClock(lambda _: pytest.fail("waited")))


def test_blobs_large_small_gzipped_and_empty_are_read_by_their_listing(container: BlobContainer) -> None:
    container.put("s/a.avro", avro_file(numbered(3)))
    container.put("s/b.avro", avro_file(numbered(60, 100_000), interval=1 << 18))
    container.put("s/c.avro.gz", gzip.compress(avro_file(numbered(500))))
    container.put("s/d.avro", b"")
    found = snapshot(container)
    assert ["s/a.avro", "s/b.avro", "s/c.avro.gz"] == [blob.name for blob in found.blobs]
    expected = numbered(3) + numbered(60, 100_000) + numbered(500)
    for size in (1 << 20, 5 << 20, 32 << 20):
        assert expected == rows_of(container, list(split_blobs(found.blobs, size)), reader=found.reader_schema)
    assert [] == rows_of(container, [Split(StreamBlob("s/d.avro", 0))])


def test_a_replaced_blob_and_a_deleted_one_are_errors(container: BlobContainer) -> None:
    container.put("s/a.avro", avro_file(numbered(3)))
    (blob,) = snapshot(container).blobs
    container.put("s/a.avro", avro_file(numbered(3, 7)))
    with pytest.raises(ConflictError, match="was replaced"):
        rows_of(container, [Split(blob)])
    assert numbered(3, 7) == rows_of(container, [Split(replace(blob, etag=None))])
    container.delete("s/a.avro")
    with pytest.raises(NotFoundError, match="the blob is gone"):
        rows_of(container, [Split(blob)])


def test_parts_of_a_joined_blob_are_read(container: BlobContainer) -> None:
    files = [rows_file([numbered_rows(at, 10, 1000)]) for at in range(0, 5000, 10)]
    found = joined(files, JoinedFormat(SCHEMA, "null", SYNC))
    assert 5 == len(found.blocks)
    container.put(NAME, found.data)
    parts = [part_of(found, first, last) for first, last in ((0, 3), (90, 240), (499, 500))]
    expected = numbered_rows(0, 30, 1000) + numbered_rows(900, 1500, 1000) + numbered_rows(4990, 10, 1000)
    assert expected == rows_of_parts(container, list(split_blobs(parts)))
    with pytest.raises(CorruptError, match="by the log it has"):
        rows_of_parts(container, list(split_blobs([replace(each, size=1) for each in parts])))
