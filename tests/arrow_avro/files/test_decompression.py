"""Gzip members, inflated in steps as their bytes are fed."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.files.decompression import GzipMembers
from arrow_avro.files.gzipped import is_gzip
from foundation.errors import CorruptError

MIB = 1 << 20


def ungzip(data: bytes, blob: str = "") -> bytes:
    members = GzipMembers(blob)
    parts = list(members.feed(memoryview(data)))
    members.close()
    assert max(map(len, parts), default=0) <= MIB
    return b"".join(parts)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8))
def test_all_gzip_members_are_inflated(parts: list[bytes]) -> None:
    data = b"".join(gzip.compress(part, mtime=0) for part in parts)
    assert is_gzip(data)
    assert b"".join(parts) == ungzip(data)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4), st.integers(1, 40))
def test_members_may_be_fed_in_pieces(parts: list[bytes], step: int) -> None:
    data = memoryview(b"".join(gzip.compress(part, mtime=0) for part in parts))
    members = GzipMembers()
    plain = b"".join(piece for at in range(0, len(data), step) for piece in members.feed(data[at : at + step]))
    members.close()
    assert b"".join(parts) == plain


def test_large_members_are_inflated() -> None:
    parts = [b"sixteen bytes   " * 300_000, b"", bytes(range(256)) * 9000]
    assert b"".join(parts) == ungzip(b"".join(gzip.compress(part, compresslevel=0) for part in parts))


def test_an_empty_blob_has_no_gzip_members() -> None:
    assert not is_gzip(b"")
    assert b"" == ungzip(b"")


@pytest.mark.parametrize("garbage", [b"\x00", b"\x00" * 512, b"trailing", b"\x1f\x8b"])
def test_garbage_after_the_members_is_corrupt(garbage: bytes) -> None:
    member = gzip.compress(b"abc")
    with pytest.raises(CorruptError, match=f"blob a.avro.gz at byte {len(member)}"):
        ungzip(member + garbage, blob="a.avro.gz")


@given(st.data())
def test_a_member_that_is_incomplete_or_damaged_is_corrupt(data: st.DataObject) -> None:
    member = gzip.compress(b"abc" * 50, mtime=0)
    with pytest.raises(CorruptError):
        ungzip(member + member[: data.draw(st.integers(1, len(member) - 1))])
    checksum = bytearray(member)
    checksum[-8 + data.draw(st.integers(0, 7))] ^= 1
    with pytest.raises(CorruptError):
        ungzip(bytes(checksum))
