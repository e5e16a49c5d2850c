"""Bytes of blobs: the right ones, from few requests, and freed when they are not needed any more."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro import GunzippedSource
from azure_account.memory.faults import FaultInjector
from azureblob_source.read.blob_bytes import FIRST_REQUEST, BlobBytes, RangeReader, without_gzip
from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.read_ahead import REQUEST_BYTES, ReadAhead
from azureblob_source.read.splits import split_blobs
from foundation.errors import CorruptError
from tests.azureblob_source.read.request_sizes import request_sizes
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from azure_account.container import BlobContainer

DATA = bytes(range(256)) * 20


def holding(data: bytes, requests: FaultInjector | None = None) -> BlobContainer:
    account = new_account()
    account.container("container").put("s/1.avro", data)
    return account.restarted(requests).container("container")


def blob_bytes(data: bytes) -> BlobBytes:
    return BlobBytes(RangeReader(holding(data)), StreamBlob("s/1.avro", len(data)))


reads = st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 900)), max_size=12)


@given(reads, st.integers(100, 2000), st.integers(0, 40))
def test_any_reads_that_go_forward_give_the_blobs_bytes(found: list[tuple[int, int]], piece: int, kept: int) -> None:
    blob = StreamBlob("s/1.avro", len(DATA))
    with request_sizes(piece, 64), ReadAhead(holding(DATA), list(split_blobs([blob], 2000)), 2, 3000) as ahead:
        for split, source in ahead:
            for start, size in [(split.start + start, size) for start, size in sorted(found)]:
                source.forget(start - kept)
                end = source.clip(start + size)
                assert min(start + size, len(DATA)) == end
                if start <= end:
                    assert DATA[start:end] == source.read(start, end)
        assert 0 == ahead.charged


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), reads)
def test_gzip_is_decompressed_as_far_as_it_is_read(members: list[bytes], found: list[tuple[int, int]]) -> None:
    whole = b"".join(members)
    source = without_gzip(blob_bytes(b"".join(gzip.compress(member, mtime=0) for member in members)))
    assert isinstance(source, GunzippedSource)
    for start, size in sorted(found):
        source.forget(start)
        end = source.clip(start + size)
        assert min(start + size, len(whole)) == end
        if start < end:
            assert whole[start:end] == source.read(start, end)


def test_truncated_gzip_is_damage_when_its_end_is_reached() -> None:
    data = gzip.compress(b"first", mtime=0) + gzip.compress(DATA, mtime=0)
    source = without_gzip(blob_bytes(data[:-3]))
    assert b"first" == bytes(source.read(0, source.clip(5)))
    with pytest.raises(CorruptError, match=r"s/1\.avro at byte 25 failed: the gzip member that begins there stops"):
        source.clip(1 << 20)


def test_bytes_far_ahead_are_not_kept_and_are_fetched_again_in_order() -> None:
    requests = FaultInjector()
    blob = StreamBlob("s/1.avro", len(DATA))
    container = holding(DATA, requests)
    with request_sizes(500, FIRST_REQUEST), ReadAhead(container, list(split_blobs([blob])), 1, 1 << 20) as ahead:
        (_, source) = next(iter(ahead))
        assert DATA[:20] == source.read(0, 20)
        assert DATA[4000:4016] == source.read(4000, 4016)
        assert DATA[10:] == source.read(10, len(DATA))
    pieces = -(-len(DATA) // 500)
    assert pieces + 1 == requests.count


def test_a_header_is_one_request() -> None:
    requests = FaultInjector()
    source = BlobBytes(RangeReader(holding(DATA, requests)), StreamBlob("s/1.avro", len(DATA)))
    with request_sizes(REQUEST_BYTES, 1000):
        assert DATA[:4] == source.read(0, source.clip(4))
        assert DATA[4:900] == source.read(4, 900)
        assert 1 == requests.count
        assert DATA[900:1100] == source.read(900, 1100)
        assert DATA[1100:2000] == source.read(1100, 2000)
        assert 2 == requests.count
