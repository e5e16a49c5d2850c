"""Codecs of Avro blocks."""

from __future__ import annotations

import builtins
import io
import sys
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.files.block_codecs import CODECS, codec
from arrow_avro.files.container_file import block, blocks, header, read_header
from arrow_avro.limits import BeyondLimitError
from foundation.errors import ConfigurationError, CorruptError
from tests.arrow_avro.decoding.bounded import MIB

if TYPE_CHECKING:
    from azure_account.values import Bytes

BODY = b"What is compressed is restored. " * 400
BYTES = {"type": "record", "name": "row", "fields": [{"name": "body", "type": "bytes"}]}
each_codec = pytest.mark.parametrize("name", CODECS)


@each_codec
@given(body=st.one_of(st.binary(max_size=2000), st.binary(max_size=8).map(lambda part: part * 500)))
def test_decompressing_restores_what_was_compressed(name: str, body: bytes) -> None:
    stored = codec(name).compress(body)
    assert body == bytes(codec(name).decompress(stored))


@each_codec
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda body: np.frombuffer(body, np.uint8)])
def test_any_kind_of_buffer_can_be_compressed(name: str, kind: Any) -> None:
    stored: Bytes = codec(name).compress(kind(BODY))
    assert BODY == bytes(codec(name).decompress(kind(bytes(stored))))


def test_codec_null_copies_nothing() -> None:
    body = bytearray(BODY)
    assert codec("null").compress(body) is body
    assert codec("null").decompress(body) is body


@each_codec
def test_fastavro_reads_what_we_compress(name: str) -> None:
    ours = _file(name, BODY)
    assert [{"body": BODY}] == list(fastavro.reader(io.BytesIO(ours)))


@each_codec
def test_our_reader_reads_what_fastavro_compresses(name: str) -> None:
    stream = io.BytesIO()
    fastavro.writer(stream, BYTES, [{"body": BODY}], codec=name)
    found = read_header(stream.getvalue())
    (only,) = blocks(stream.getvalue(), found)
    assert [{"body": BODY}] == [_datum(codec(found.codec).decompress(only.body))]


@pytest.mark.parametrize("name", [name for name in CODECS if name != "null"])
def test_damaged_data_is_corrupt(name: str) -> None:
    stored = bytes(codec(name).compress(BODY))
    for damaged in (b"", b"x", b"nonsense" * 9, stored[: len(stored) // 2]):
        with pytest.raises(CorruptError, match=name):
            codec(name).decompress(damaged)


def test_the_checksum_of_snappy_is_checked() -> None:
    stored = bytes(codec("snappy").compress(BODY))
    with pytest.raises(CorruptError, match="checksum"):
        codec("snappy").decompress(stored[:-1] + bytes([stored[-1] ^ 1]))


def test_an_absurd_length_in_snappy_is_refused() -> None:
    with pytest.raises(CorruptError, match="cannot hold"):
        codec("snappy").decompress(b"\xff\xff\xff\xff\x0f" + bytes(8))


def test_an_unknown_codec_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean zstandard"):
        codec("zstd")


def test_xz_is_refused_in_a_python_without_lzma(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_lzma(name: str, *rest: Any) -> Any:
        if name == "lzma":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "lzma", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_lzma)
    with pytest.raises(ConfigurationError, match="lzma"):
        codec("xz")
    assert "bzip2" == codec("bzip2").name


def _datum(body: Bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(body), BYTES, None)


def _file(name: str, body: bytes) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, BYTES, {"body": body})
    sync = bytes(range(16))
    text = '{"type":"record","name":"row","fields":[{"name":"body","type":"bytes"}]}'
    framed = block(1, codec(name).compress(stream.getvalue()), sync)
    return b"".join((header(text, name, sync), *framed))


@pytest.mark.parametrize("name", [name for name in CODECS if name != "null"])
@pytest.mark.parametrize("size", [4 * MIB, 4 * MIB + 1, 12 * MIB])
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
