"""Bytes of blobs as their readers ask for them: the right ones, from few requests, and none kept for nothing."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from azure_account.errors import CorruptError
from azure_account.memory.faults import Faults
from azureblob_source.avro.files.gzipped import GunzippedSource
from azureblob_source.read import read_ahead
from azureblob_source.read.blobs import StreamBlob
from azureblob_source.read.read_ahead import BlobBytes, Gets, ReadAhead, plain
from azureblob_source.read.splits import cut
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from azure_account.account import BlobContainer

DATA = bytes(range(256)) * 20


def holding(data: bytes, requests: Faults | None = None) -> BlobContainer:
    account = new_account()
    account.container("container").put("s/1.avro", data)
    return account.restarted(requests).container("container")


def blob_bytes(data: bytes) -> BlobBytes:
    return BlobBytes(Gets(holding(data)), StreamBlob("s/1.avro", len(data)))


reads = st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 900)), max_size=12)


@given(reads, st.integers(100, 2000), st.integers(0, 40))
def test_any_reads_that_go_forward_give_the_blobs_bytes(found: list[tuple[int, int]], piece: int, kept: int) -> None:
    blob = StreamBlob("s/1.avro", len(DATA))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_ahead, "PIECE_BYTES", piece)
        patch.setattr(read_ahead, "FIRST_LOOK", 64)
        with ReadAhead(holding(DATA), list(cut([blob], 2000)), 2, 3000) as ahead:
            for part, source in ahead:
                for start, size in [(part.start + start, size) for start, size in sorted(found)]:
                    source.forget(start - kept)
                    end = source.clip(start + size)
                    assert min(start + size, len(DATA)) == end
                    if start <= end:
                        assert DATA[start:end] == source.read(start, end)
        assert 0 == ahead._held


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), reads)
def test_gzip_is_inflated_as_far_as_it_is_read(members: list[bytes], found: list[tuple[int, int]]) -> None:
    whole = b"".join(members)
    source = plain(blob_bytes(b"".join(gzip.compress(member, mtime=0) for member in members)))
    assert isinstance(source, GunzippedSource)
    for start, size in sorted(found):
        source.forget(start)
        end = source.clip(start + size)
        assert min(start + size, len(whole)) == end
        if start < end:
            assert whole[start:end] == source.read(start, end)


def test_the_end_of_gzip_that_stops_is_damage_where_it_is_reached() -> None:
    data = gzip.compress(b"first", mtime=0) + gzip.compress(DATA, mtime=0)
    source = plain(blob_bytes(data[:-3]))
    assert b"first" == bytes(source.read(0, source.clip(5)))
    with pytest.raises(CorruptError, match=r"s/1\.avro at byte 25 failed: the gzip member that begins there stops"):
        source.clip(1 << 20)


def test_a_look_far_ahead_is_not_kept_and_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 500)
    requests = Faults()
    blob = StreamBlob("s/1.avro", len(DATA))
    with ReadAhead(holding(DATA, requests), list(cut([blob])), 1, 1 << 20) as ahead:
        ((_, source),) = [(part, source) for part, source in ahead._parts]
        assert DATA[:20] == source.read(0, 20)
        assert DATA[4000:4016] == source.read(4000, 4016)
        assert DATA[10:] == source.read(10, len(DATA))
    pieces = -(-len(DATA) // 500)
    assert pieces + 1 == requests.count


def test_a_header_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "FIRST_LOOK", 1000)
    requests = Faults()
    source = BlobBytes(Gets(holding(DATA, requests)), StreamBlob("s/1.avro", len(DATA)))
    assert DATA[:4] == source.read(0, source.clip(4))
    assert DATA[4:900] == source.read(4, 900)
    assert 1 == requests.count
    assert DATA[900:1100] == source.read(900, 1100)
    assert DATA[1100:2000] == source.read(1100, 2000)
    assert 2 == requests.count
