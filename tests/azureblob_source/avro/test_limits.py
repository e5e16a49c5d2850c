"""What is read stays within the limits of the read, whatever the bytes claim; measured in processes of their own."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from azure_account.errors import ConfigurationError, CorruptError
from azureblob_source.avro.compression import NAMES, codec
from azureblob_source.avro.container_file import block, header
from azureblob_source.avro.decode import decode_blob
from azureblob_source.avro.limits import BeyondLimitError, ReadLimits
from azureblob_source.avro.varint import encode
from tests.azureblob_source.avro.bounded import MIB, Case, outcomes
from tests.azureblob_source.avro.test_scan import SYNC, record

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = ReadLimits(block_bytes=8 * MIB)
SIZE = 256 * MIB


def deflated(size: int) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"".join([*(stream.compress(bytes(MIB)) for _ in range(size // MIB)), stream.flush()])


BOMBS: dict[str, Callable[[int], bytes]] = {
    "deflate": deflated,
    "snappy": lambda size: bytes(codec("snappy").compress(bytes(size))),
    "zstandard": lambda size: pa.Codec("zstd").compress(bytes(size), asbytes=True),
    "bzip2": lambda size: bz2.compress(bytes(size)),
    "xz": lambda size: lzma.compress(bytes(size), preset=1),
}


def of_codec(name: str, rows: int, stored: bytes, schema: Any = None) -> bytes:
    return b"".join((header(json.dumps(schema or record(v="long")), name, SYNC), *block(rows, stored, SYNC)))


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_a_block_that_inflates_beyond_the_limit_is_refused_and_takes_no_memory() -> None:
    blobs = {name: of_codec(name, SIZE, bomb(SIZE)) for name, bomb in BOMBS.items()}
    blobs["gzip"] = gzip.compress(header(json.dumps(record(v="long")), "null", SYNC) + encode(SIZE) * 2 + bytes(SIZE))
    found = dict(zip(blobs, outcomes([Case(blob, SMALL) for blob in blobs.values()]), strict=True))
    for name, outcome in found.items():
        assert "ConfigurationError" == outcome.error, (name, outcome)
        assert "read blob b, block from byte " in outcome.message
        assert "more than the 8,388,608 bytes of option maxBlockBytes" in outcome.message
        assert outcome.peak < 48 * MIB, (name, outcome)
        assert 0 == outcome.rows
    assert 20 * len(blobs["bzip2"]) < SIZE


def test_the_limit_can_be_raised_as_the_error_says() -> None:
    body = bytes(9 * MIB)
    for name in NAMES:
        blob = of_codec(name, len(body), bytes(codec(name).compress(body)))
        with pytest.raises(ConfigurationError, match="Raise option maxBlockBytes"):
            list(decode_blob(blob, blob="b", limits=SMALL))
        batches = decode_blob(blob, blob="b", limits=ReadLimits(block_bytes=9 * MIB))
        assert len(body) == sum(batch.num_rows for batch in batches)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "null"])
@pytest.mark.parametrize("size", [4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 12 * MIB])
def test_a_body_of_exactly_the_limit_is_read(name: str, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    stored = codec(name).compress(body)
    assert body == bytes(codec(name).decompress(stored, size))
    with pytest.raises(BeyondLimitError, match=f"more than the {size - 1:,} bytes"):
        codec(name).decompress(stored, size - 1)


@pytest.mark.parametrize("name", ["bzip2", "xz"])
def test_streams_that_follow_each_other_count_together(name: str) -> None:
    stored = bytes(codec(name).compress(bytes(MIB)))
    assert bytes(3 * MIB) == bytes(codec(name).decompress(stored * 3, 3 * MIB))
    assert bytes(MIB) == bytes(codec(name).decompress(stored + b"what is no stream", 3 * MIB))
    with pytest.raises(BeyondLimitError):
        codec(name).decompress(stored * 3, 2 * MIB)
    with pytest.raises(CorruptError):
        codec(name).decompress(stored + stored[:-9], 3 * MIB)


def test_a_dictionary_that_takes_more_than_the_limit_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    stored = lzma.compress(b"few", format=lzma.FORMAT_XZ, filters=filters)
    with pytest.raises(BeyondLimitError, match="to inflate it takes more than"):
        codec("xz").decompress(stored, 8 * MIB)
    assert b"few" == bytes(codec("xz").decompress(stored, 1 << 30))
