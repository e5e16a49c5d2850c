"""Files joined without decoding rows: all rows in order, each source's where its placement says, damage refused."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blob
from arrow_avro.encoding.encode import RowEncoder
from arrow_avro.files import block_codecs
from arrow_avro.files.block_codecs import CODECS, codec
from arrow_avro.files.container_file import SYNC_SIZE, block, blocks, header, read_header
from arrow_avro.files.placing import Placement
from arrow_avro.joining import JoinedFormat, join_files, joined_sync
from arrow_avro.schema import arrow_schema, infer
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError
from tests.arrow_avro.arrow_tables import batches
from tests.arrow_avro.joined_files import (
    FORM,
    SCHEMA,
    Joined,
    datum,
    decoded,
    file_of,
    joined,
    numbered,
    rows_file,
    sources,
)
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("each_decoder")

EMPTY_ROWS = '{"type":"record","name":"row","fields":[]}'


@settings(deadline=None)
@given(sources())
def test_the_joined_rows_are_those_of_all_sources_in_their_order(given: tuple[JoinedFormat, list[bytes]]) -> None:
    form, files = given
    assert [row for data in files for row in decoded(data)] == decoded(joined(files, form).data)


@settings(deadline=None)
@given(sources())
def test_each_placement_selects_the_rows_of_its_source_and_no_others(given: tuple[JoinedFormat, list[bytes]]) -> None:
    form, files = given
    found = joined(files, form)
    assert [decoded(data) for data in files] == [found.rows_at(each) for each in found.placements]


@settings(deadline=None)
@given(sources())
def test_a_placement_has_only_blocks_with_rows_of_its_source(given: tuple[JoinedFormat, list[bytes]]) -> None:
    found = joined(given[1], given[0])
    rows = {each.offset: each.rows for each in found.blocks}
    ends = {each.offset: each.end for each in found.blocks}
    for one in found.placements:
        if not one.rows:
            assert (one.start, 0) == (one.end, one.skip)
            assert one.start in {*rows, len(found.data)}
            continue
        own = [rows[offset] for offset in rows if one.start <= offset < one.end]
        assert one.end == ends[max(offset for offset in rows if offset < one.end)]
        assert 0 <= one.skip < own[0]
        assert sum(own[:-1]) < one.skip + one.rows <= sum(own)


@settings(deadline=None)
@given(sources())
def test_placements_follow_each_other_and_cover_the_file(given: tuple[JoinedFormat, list[bytes]]) -> None:
    found = joined(given[1], given[0])
    before = dict(zip((each.offset for each in found.blocks), _sums(found), strict=True))
    covered = [(before[one.start] + one.skip, one.rows) for one in found.placements if one.rows]
    assert all(first + rows == following for (first, rows), (following, _) in pairwise(covered))
    assert sum(each.rows for each in found.blocks) == sum(rows for _, rows in covered)
    assert all(one.start <= other.start for one, other in pairwise(found.placements))


def _sums(found: Joined) -> Iterator[int]:
    total = 0
    for each in found.blocks:
        yield total
        total += each.rows


@settings(deadline=None)
@given(sources())
def test_the_same_sources_give_the_same_bytes(given: tuple[JoinedFormat, list[bytes]]) -> None:
    assert joined(given[1], given[0]) == joined(given[1], given[0])


@settings(deadline=None, max_examples=60)
@given(st.lists(batches(), min_size=1, max_size=1), st.sampled_from(CODECS))
def test_rows_of_any_type_are_joined(found: list[pa.RecordBatch], name: str) -> None:
    batch = found[0]
    avro = infer(batch.schema, name="row", namespace=None)
    encoded = RowEncoder(batch.schema, avro).encode(batch)
    data = file_of([(batch.num_rows, bytes(encoded.data.data))] if batch.num_rows else [], name, schema=avro.json)
    result = joined([data] * 3, JoinedFormat(avro.json, name, SYNC))
    whole = pa.Table.from_batches(list(decode_blob(data, blob="one")) * 3, arrow_schema(avro))
    read = pa.Table.from_batches(decode_blob(result.data, blob="joined"), arrow_schema(avro))
    assert repr(whole.to_pylist()) == repr(read.to_pylist())  # repr, because of NaN


def test_fastavro_reads_the_joined_file() -> None:
    form = JoinedFormat(SCHEMA, "deflate", SYNC, {"who": b"we"})
    found = joined([rows_file([numbered(at, 3)], "deflate", metadata={"who": b"they"}) for at in (0, 3, 6)], form)
    read = fastavro.reader(io.BytesIO(found.data))
    assert ("we", "deflate") == (read.metadata["who"], read.codec)
    assert [{"n": n, "data": data} for n, data in numbered(0, 9)] == list(read)
    assert SYNC == read_header(found.data).sync


# --- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODECS)
def test_many_small_files_are_joined_in_few_blocks(name: str) -> None:
    files = [rows_file([numbered(at, 10, 50)], name) for at in range(0, 3000, 10)]
    found = joined(files, JoinedFormat(SCHEMA, name, SYNC, block_bytes=20_000))
    sizes = [len(codec(name).decompress(each.body)) for each in found.blocks]
    assert all(20_000 <= size < 20_000 + 600 for size in sizes[:-1])
    assert 8 == len(sizes)
    assert numbered(0, 3000, 50) == decoded(found.data)


def test_a_placement_for_each_case() -> None:
    """Two sources in one block, one that is large, one that fills a block and goes on in the next, an empty one."""
    small, large, more = numbered(0, 3, 10), numbered(3, 1, 400), numbered(4, 12, 18)
    files = [rows_file([small[:2]]), rows_file([small[2:]]), rows_file([large]), rows_file([[each] for each in more])]
    found = joined([*files, rows_file([numbered(16, 1)]), rows_file([])])
    one, two, three, four = (each.offset for each in found.blocks)
    end = len(found.data)
    assert [3, 1, 10, 3] == [each.rows for each in found.blocks]  # 10 rows of 20 bytes are 200
    assert found.placements == [
        Placement(one, two, 0, 2),
        Placement(one, two, 2, 1),
        Placement(two, three, 0, 1),
        Placement(three, end, 0, 12),
        Placement(four, end, 2, 1),
        Placement(four, four, 0, 0),
    ]


def test_a_block_that_is_large_as_it_is_stored_is_carried_over_without_being_inflated() -> None:
    stored = b"this is no deflate stream" * 4
    data = header(SCHEMA, "deflate", SYNC) + b"".join(block(7, stored, SYNC))
    form = JoinedFormat(SCHEMA, "deflate", SYNC, block_bytes=8 * len(stored))
    assert [stored] == [bytes(each.body) for each in joined([data], form).blocks]
    with pytest.raises(CorruptError, match=r"blob s/0\.avro at byte \d+ failed: it is not valid deflate data"):
        joined([data], replace(form, block_bytes=8 * len(stored) + 8))


def test_a_large_block_is_not_copied() -> None:
    data = rows_file([numbered(0, 1, 5000)])
    chunks = [part for part in join_files([("s/0.avro", data)], FORM) if isinstance(part, memoryview)]
    assert [data] == [chunk.obj for chunk in chunks]


def test_a_block_that_is_large_once_it_is_inflated_keeps_its_stored_bytes() -> None:
    body = b"".join(map(datum, numbered(0, 1, 5000)))
    stored = b"".join((codec("deflate").compress(body), b"a checksum, as fastavro leaves it"))
    data = header(SCHEMA, "deflate", SYNC) + b"".join(block(1, stored, SYNC))
    for size, kept in ((2 * len(body) - 2, True), (2 * len(body), False)):
        found = joined([data], JoinedFormat(SCHEMA, "deflate", SYNC, block_bytes=size))
        assert kept == (found.blocks[0].body == stored)
        assert numbered(0, 1, 5000) == decoded(found.data)


def test_rows_without_bytes_are_joined_up_to_a_number_that_can_be_read() -> None:
    files = [file_of([(400_000, b"")], schema=EMPTY_ROWS)] * 8
    many = file_of([(1 << 24, b"")], schema=EMPTY_ROWS)
    found = joined([*files, many], replace(FORM, schema_json=EMPTY_ROWS))
    assert [1_200_000] * 2 + [800_000, 1 << 24] == [each.rows for each in found.blocks]
    read = sum(batch.num_rows for batch in decode_blob(found.data, blob="joined"))
    assert 8 * 400_000 + (1 << 24) == read


@pytest.mark.parametrize("name", CODECS)
def test_blocks_without_rows_are_left_out(name: str) -> None:
    data = file_of([(0, b""), (1, datum((1, b"a"))), (0, b"")], name)
    found = joined([data, file_of([(0, b"")], name)], JoinedFormat(SCHEMA, name, SYNC))
    assert [1] == [each.rows for each in found.blocks]
    assert [1, 0] == [each.rows for each in found.placements]


def test_a_source_that_begins_with_a_block_without_rows_starts_with_its_first_row() -> None:
    found = joined([rows_file([numbered(0, 1)]), file_of([(0, b""), (1, datum((1, bytes(300))))])])
    one, two = found.blocks
    assert [Placement(one.offset, one.end, 0, 1), Placement(two.offset, two.end, 0, 1)] == found.placements


def test_no_source_is_asked_for_before_the_one_in_front_of_it_is_written() -> None:
    asked: list[int] = []

    def files() -> Iterator[tuple[str, bytes]]:
        for number in range(3):
            asked.append(number)
            yield f"s/{number}.avro", rows_file([numbered(number, 1, 300)])

    seen = [(len(asked), part) for part in join_files(files(), FORM)]
    assert [1, 2, 3] == [number for number, part in seen if isinstance(part, Placement)]
    assert 0 == seen[0][0]


def test_memory_is_that_of_one_source_and_one_block() -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        for number in range(60):
            yield f"s/{number}.avro", rows_file([numbered(number, 1)], metadata={"long": bytes(1 << 20)})

    tracemalloc.start()
    try:
        found = sum(isinstance(part, Placement) for part in join_files(files(), JoinedFormat(SCHEMA, "null", SYNC)))
        assert 60 == found
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# --- the marker -------------------------------------------------------------------------------------------------------


def test_a_marker_depends_on_the_names_and_their_order() -> None:
    given = [["a", "b"], ["b", "a"], ["ab"], ["a", "b", ""], []]
    assert len(given) == len({joined_sync(names) for names in given})
    assert {SYNC_SIZE} == {len(joined_sync(names)) for names in given}
    assert joined_sync(["a", "b"]) == joined_sync(iter(["a", "b"]))
    assert bytes.fromhex("852635742d6eb30fdccb0e7c1b53d92f") == joined_sync(["a", "b"])


# --- damage -----------------------------------------------------------------------------------------------------------


def failing(data: bytes, form: JoinedFormat = FORM) -> str:
    """The error for a source between two whole ones. No placement of it or of a later source comes before."""
    before, after = (rows_file([numbered(at, 2)], form.codec) for at in (100, 200))
    parts: list[Any] = []
    with pytest.raises(AzureBlobError) as error:
        parts.extend(join_files([("s/before.avro", before), ("s/bad.avro", data), ("s/after.avro", after)], form))
    assert sum(isinstance(part, Placement) for part in parts) <= 1
    assert "blob s/bad.avro" in str(error.value)
    return f"{type(error.value).__name__}: {error.value}"


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("size", [3, 2000])
def test_a_source_that_stops_within_a_block_is_corrupt_wherever(name: str, size: int) -> None:
    data = rows_file([numbered(0, 3, size), numbered(3, 3, size)], name)
    form = JoinedFormat(SCHEMA, name, SYNC, block_bytes=3000)
    whole = {read_header(data).size, *(each.end for each in blocks(data, read_header(data)))}
    for end in {*range(1, 200), *range(len(data) - 30, len(data)), *range(200, len(data), 97)} - whole:
        if end < len(data):
            assert "CorruptError" in failing(data[:end], form)
    for end in whole:
        assert 2 <= len(joined([data[:end], data], form).placements)


@pytest.mark.parametrize("size", [3, 2000])
@pytest.mark.parametrize("number", [0, 1])
def test_a_wrong_marker_is_corrupt(size: int, number: int) -> None:
    data = bytearray(rows_file([numbered(0, 3, size), numbered(3, 3, size)]))
    data[list(blocks(bytes(data), read_header(bytes(data))))[number].end - 1] ^= 1
    assert "does not end with the file's sync marker" in failing(bytes(data))


BODY = b"".join(map(datum, numbered(0, 3)))


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize(
    ("rows", "body"),
    [(2, BODY), (4, BODY), (3, BODY[:-1]), (3, BODY + b"\0"), (0, BODY), (1, b""), (3, b"\0\xff" + BODY), (99, BODY)],
)
def test_a_body_that_does_not_end_with_its_rows_is_corrupt(name: str, rows: int, body: bytes) -> None:
    form = JoinedFormat(SCHEMA, name, SYNC)
    assert "CorruptError: read blob s/bad.avro" in failing(file_of([(rows, body)], name), form)


def test_counts_that_are_wrong_but_right_together_are_corrupt() -> None:
    files = [file_of([(2, BODY)]), file_of([(4, BODY)])]
    with pytest.raises(CorruptError, match=r"blob s/0\.avro failed: in the block from byte \d+"):
        joined(files)
    with pytest.raises(CorruptError, match=r"blob s/0\.avro failed: in the block from byte \d+"):
        joined([file_of([(2, BODY), (4, BODY)])])


@pytest.mark.parametrize("name", [name for name in CODECS if name != "null"])
def test_a_body_that_cannot_be_inflated_is_corrupt(name: str) -> None:
    data = header(SCHEMA, name, SYNC) + b"".join(block(2, b"\xff" * 30, SYNC))
    at = len(header(SCHEMA, name, SYNC))
    form = JoinedFormat(SCHEMA, name, SYNC)
    assert f"CorruptError: read blob s/bad.avro at byte {at} failed: it is not valid {name} data" in failing(data, form)


def test_a_source_that_is_no_avro_file_is_corrupt() -> None:
    assert "does not begin with the magic bytes" in failing(b"PAR1 and more")
    assert "gzip member" in failing(gzip.compress(rows_file([numbered(0, 500)]))[:-20])


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 1 << 20), st.integers(1, 255))
def test_a_damaged_byte_is_refused_or_changes_only_values_of_its_source(place: int, flip: int) -> None:
    files = [rows_file([numbered(at, 3), numbered(at + 3, 2)]) for at in (0, 100, 200)]
    damaged = bytearray(files[1])
    head = read_header(files[1]).size
    damaged[head + place % (len(damaged) - head)] ^= flip
    try:
        found = joined([files[0], bytes(damaged), files[2]])
    except CorruptError as error:
        assert "blob s/1.avro" in str(error)  # noqa: PT017 - or else the rows are right
        return
    assert [decoded(files[0]), decoded(files[2])] == [found.rows_at(found.placements[at]) for at in (0, 2)]
    assert decoded(bytes(damaged)) == found.rows_at(found.placements[1])


# --- sources that are not alike ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (rows_file([], schema=SCHEMA.replace('"bytes"', '"string"')), "its schema is not that of the joined file"),
        (rows_file([], schema=SCHEMA.replace('"data"', '"date"')), "its schema is not that of the joined file"),
        (
            rows_file([], schema=SCHEMA.replace('"long"', '{"type":"long","logicalType":"timestamp-micros"}')),
            "its schema is not that of the joined file",
        ),
        (
            rows_file([], metadata={"org.apache.spark.legacyDateTime": b""}),
            "another calendar of dates and timestamps",
        ),
    ],
)
def test_a_source_that_is_not_like_the_joined_file_is_refused(data: bytes, cause: str) -> None:
    message = failing(data)
    assert "ConfigurationError: join blob s/bad.avro failed" in message
    assert cause in message


def test_the_same_schema_and_calendar_in_other_words_are_accepted() -> None:
    legacy = {"org.apache.spark.version": b"2.4.8", "org.apache.spark.timeZone": b"UTC"}
    spaced = rows_file([numbered(0, 1)], schema=SCHEMA.replace(",", " , "), metadata=legacy)
    hive = rows_file([numbered(1, 1)], metadata={"writer.date.proleptic": b"false"})
    assert numbered(0, 2) == decoded(joined([spaced, hive], replace(FORM, metadata=legacy)).data)
    with pytest.raises(ConfigurationError, match="calendar"):
        joined([spaced])


def test_what_cannot_be_inflated_of_another_codec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = b"".join((header(SCHEMA, "zstandard", SYNC), *block(1, b"no frame", SYNC)))
    assert "CorruptError: read blob s/bad.avro at byte" in failing(damaged)
    monkeypatch.setattr(block_codecs.Codec.decompress, "__defaults__", (30,))
    assert "ConfigurationError: join blob s/bad.avro failed: it inflates to more" in failing(
        rows_file([numbered(0, 9)], "deflate")
    )


def test_a_codec_that_is_unknown_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is no Avro codec 'lzo'"):
        joined([], replace(FORM, codec="lzo"))


def test_no_sources_give_a_header_alone() -> None:
    assert Joined(header(SCHEMA, "null", SYNC), []) == joined([])
    with pytest.raises(ConfigurationError, match="16 bytes"):
        joined([], replace(FORM, sync=b"short"))
