"""Framing of Avro object container files."""

from __future__ import annotations

import io
import json
from itertools import islice

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.files.container_file import (
    SYNC_SIZE,
    FileHeader,
    InMemorySource,
    after_sync,
    block,
    blocks,
    header,
    is_block,
    read_header,
)
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError, CorruptError
from tests.arrow_avro.files.framed import SCHEMA, file_of
from tests.arrow_avro.sync_marker import SYNC

LONGS = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long"}]}
BODIES = [(3, b"abc"), (0, b""), (100_000, bytes(70_000)), (1, b"z")]

bodies = st.lists(st.tuples(st.integers(0, 2**62), st.binary(max_size=300)), max_size=6)


def bodies_of(data: bytes) -> list[tuple[int, bytes]]:
    return [(one.rows, bytes(one.body)) for one in blocks(data, read_header(data))]


@given(
    sync=st.binary(min_size=SYNC_SIZE, max_size=SYNC_SIZE),
    metadata=st.dictionaries(st.text().filter(lambda key: not key.startswith("avro.")), st.binary(max_size=200)),
)
def test_a_header_is_read_as_it_was_written(sync: bytes, metadata: dict[str, bytes]) -> None:
    data = header(SCHEMA, "zstandard", sync, metadata)
    assert FileHeader(SCHEMA, "zstandard", sync, len(data), metadata) == read_header(data + b"blocks")


@given(bodies)
def test_blocks_are_read_as_they_were_written(found: list[tuple[int, bytes]]) -> None:
    assert found == bodies_of(file_of(found))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50))
def test_fastavro_reads_our_framing(numbers: list[int]) -> None:
    stream = io.BytesIO()
    for number in numbers:
        fastavro.schemaless_writer(stream, LONGS, {"n": number})
    framed = block(len(numbers), stream.getvalue(), SYNC)
    data = b"".join((header(json.dumps(LONGS), "null", SYNC, {"who": b"we"}), *framed))
    read = fastavro.reader(io.BytesIO(data))
    assert "we" == read.metadata["who"]
    assert [{"n": number} for number in numbers] == list(read)


def test_our_reader_reads_the_framing_of_fastavro() -> None:
    stream = io.BytesIO()
    rows = [{"n": number} for number in range(5000)]
    fastavro.writer(stream, LONGS, rows, metadata={"who": "they"}, sync_marker=SYNC, sync_interval=500)
    found = read_header(stream.getvalue())
    assert LONGS == json.loads(found.schema_json)
    assert ("null", SYNC, b"they") == (found.codec, found.sync, found.metadata["who"])
    assert 5000 == sum(one.rows for one in blocks(stream.getvalue(), found))


def test_an_absent_codec_means_null() -> None:
    data = b"Obj\x01\x02\x16avro.schema\x0e" + b'"bytes"' + b"\x00" + SYNC
    assert FileHeader('"bytes"', "null", SYNC, len(data)) == read_header(data)


def test_metadata_may_come_in_blocks_with_sizes() -> None:
    data = b"Obj\x01\x01\x28\x16avro.schema\x0e" + b'"bytes"' + b"\x02\x02k\x02v\x00" + SYNC
    assert FileHeader('"bytes"', "null", SYNC, len(data), {"k": b"v"}) == read_header(data)


def test_a_file_with_only_a_header_has_no_blocks() -> None:
    assert [] == bodies_of(file_of([]))


def test_a_blocks_body_is_a_view_of_the_data() -> None:
    data = file_of([(1, b"abc")])
    (only,) = blocks(data, read_header(data))
    assert only.body.obj is data


@given(bodies)
def test_each_block_begins_where_the_one_before_it_ends(found: list[tuple[int, bytes]]) -> None:
    data = file_of(found)
    head = read_header(data)
    framed = list(blocks(data, head))
    assert [head.size, *(one.end for one in framed)] == [*(one.offset for one in framed), len(data)]
    for one in framed:
        assert is_block(InMemorySource(memoryview(data)), SYNC, one.offset)
        assert one.end == after_sync(data, SYNC, one.end - SYNC_SIZE)


def test_blocks_up_to_a_place_are_those_whose_preceding_marker_begins_before_it() -> None:
    data = file_of(BODIES)
    head = read_header(data)
    markers = [one.offset - SYNC_SIZE for one in blocks(data, head)]
    for number, marker in enumerate(markers):
        assert number == len(list(blocks(data, head, end=marker)))
        assert number + 1 == len(list(blocks(data, head, end=marker + 1)))


@pytest.mark.parametrize("data", [b"", b"\x01\x00" + SYNC, b"\x02\x01" + SYNC, b"\x02\x04ab" + SYNC[:-1], b"\x80" * 30])
def test_bytes_that_only_begin_like_a_block_are_not_one(data: bytes) -> None:
    assert not is_block(InMemorySource(memoryview(data)), SYNC, 0)


WHOLE = [len(file_of(BODIES[:count])) for count in range(len(BODIES) + 1)]


@given(st.integers(0, WHOLE[-1]).filter(lambda size: size not in WHOLE))
def test_a_file_that_is_cut_short_within_a_block_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptError):
        bodies_of(file_of(BODIES)[:size])


@pytest.mark.parametrize("count", range(len(BODIES) + 1))
def test_a_file_that_ends_with_a_block_is_whole(count: int) -> None:
    assert BODIES[:count] == bodies_of(file_of(BODIES)[: WHOLE[count]])


def test_blocks_before_the_incomplete_one_are_read() -> None:
    data = file_of(BODIES)[:-1]
    found = blocks(data, read_header(data), blob="flights/1.avro")
    assert BODIES[:-1] == [(one.rows, bytes(one.body)) for one in islice(found, len(BODIES) - 1)]
    with pytest.raises(
        CorruptError, match=rf"blob flights/1\.avro at byte {len(data) - SYNC_SIZE + 1} failed: it stops"
    ):
        next(found)


def test_blocks_can_be_read_from_any_block_on() -> None:
    data = file_of(BODIES)
    head = read_header(data)
    framed = list(blocks(data, head))
    for number, one in enumerate(framed):
        assert framed[number:] == list(blocks(data, head, one.offset))


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "it stops within the magic bytes"),
        (b"PAR1....", "it does not begin with the magic bytes of an Avro file"),
        (b"Obj\x01\x00" + SYNC, "its header has no avro.schema"),
        (b"Obj\x01\x02\x01", "a metadata key claims -1 bytes"),
        (b"Obj\x01\x02" + encode(1 << 40), "a metadata key claims 1099511627776 bytes"),
        (b"Obj\x01\x02\x02\xff\x00", "a metadata key is not UTF-8"),
        (b"Obj\x01" + b"\xff" * 11, "the count of metadata is longer than 10 bytes"),
        (header(SCHEMA, "null", SYNC)[:-1], "it stops within the sync marker: 16 bytes expected, 15 left"),
    ],
)
def test_bytes_that_are_not_a_header_are_corrupt(data: bytes, cause: str) -> None:
    with pytest.raises(CorruptError) as error:
        read_header(data, blob="a.avro")
    assert "a.avro" in str(error.value)
    assert cause in str(error.value)


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"\x01\x00" + SYNC, "a block claims -1 rows"),
        (b"\x02\x01" + SYNC, "the body of a block claims -1 bytes"),
        (b"\x02\x0212" + SYNC, "does not end with the file's sync marker"),
        (b"\x02\x7fab" + SYNC, "claims -64 bytes"),
        (b"\x02\x80", "it stops within the length of the body of a block"),
    ],
)
def test_bytes_that_are_not_a_block_are_corrupt(data: bytes, cause: str) -> None:
    with pytest.raises(CorruptError, match=cause):
        list(blocks(data, FileHeader("", "null", SYNC, 0)))


def test_a_marker_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="16 bytes, not 3"):
        header(SCHEMA, "null", b"abc")


def test_reserved_metadata_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"avro\.codec"):
        header(SCHEMA, "null", SYNC, {"avro.codec": b"xz"})
