"""Rows of a part of a joined blob: they are those of its versions, what they cost, and what damage does."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro import CODECS, SYNC_SIZE, JoinedFormat, ReadLimits
from azureblob_source.read.blobs import BlobPart, StreamBlob
from azureblob_source.read.read_ahead import REQUEST_BYTES
from azureblob_source.read.split_reader import SplitSettings, read_splits
from azureblob_source.read.splits import Split, split_blobs
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from tests.arrow_avro.joined_files import SCHEMA, Joined, decoded, joined, numbered, rows_file, sources
from tests.arrow_avro.sync_marker import SYNC
from tests.azureblob_source.read.request_sizes import request_sizes
from tests.azureblob_source.read.test_split_reader import RecordedGets, holding, watched
from tests.azureblob_source.write.sink_rows import new_account

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.container import BlobContainer
    from tests.arrow_avro.joined_files import Row

NAME = "flights/joined.avro"


def part_of(found: Joined, first: int, last: int, name: str = NAME) -> StreamBlob:
    """The rows of the sources `first … last-1`, which are of versions with these numbers."""
    there = [(version, each) for version, each in enumerate(found.placements) if first <= version < last and each.rows]
    counts = tuple((version, each.rows) for version, each in there)
    _, start = there[0]
    part = BlobPart(start.start, there[-1][1].end, start.skip, sum(rows for _, rows in counts), counts)
    return StreamBlob(name, len(found.data), last - 1, first_version=first, moved_in=9999, part=part)


def rows_of_parts(container: BlobContainer, splits: Sequence[Split], **options: Any) -> list[Row]:
    found = read_splits(container, splits, SplitSettings(**options))
    return [(row["n"], row["data"]) for _, batch in found for row in batch.to_pylist()]


@settings(deadline=None)
@given(sources(), st.data(), st.sampled_from([100, 1000, 1 << 22]), st.booleans())
def test_any_part_has_the_rows_of_its_sources(
    given: tuple[JoinedFormat, list[bytes]], data: st.DataObject, size: int, ignore: bool
) -> None:
    form, files = given
    found = joined(files, form)
    there = [number for number, each in enumerate(found.placements) if each.rows]
    if not there:
        return
    cuts = sorted(data.draw(st.sets(st.sampled_from(there))) | {there[0]})
    runs = [(cut, end) for cut, end in zip(cuts, [*cuts[1:], len(files)], strict=True) if data.draw(st.booleans())]
    splits = list(split_blobs(part_of(found, *run) for run in runs))
    expected = [row for first, end in runs for each in files[first:end] for row in decoded(each)]
    container = holding(found.data, NAME)
    with request_sizes(size, data.draw(st.sampled_from([60, 1 << 14]))):
        assert expected == rows_of_parts(container, splits, ignore_corrupt=ignore)
        assert expected == [row for split in splits for row in rows_of_parts(container, [split])]


# --- requests ---------------------------------------------------------------------------------------------------------


def small_sources(count: int, size: int = 100) -> Joined:
    """Ten rows each."""
    form = JoinedFormat(SCHEMA, "null", SYNC, block_bytes=100_000)
    return joined([rows_file([numbered(at, 10, size)]) for at in range(0, count * 10, 10)], form)


def requests(found: Joined, *parts: StreamBlob) -> list[int]:
    """The sizes of the requests for these parts, whose rows are compared."""
    account, watch = new_account(), RecordedGets()
    account.container("container").put(NAME, found.data)
    rows = rows_of_parts(watched(account, watch), list(split_blobs(parts)))
    versions = [version for each in parts if each.part for version, _ in each.part.versions]
    assert [n for version in versions for n in range(10 * version, 10 * version + 10)] == [n for n, _ in rows]
    return sorted(size for _, size in watch.sizes)


def test_a_part_costs_the_header_and_its_blocks_and_not_a_byte_more() -> None:
    found = small_sources(1000)
    assert len(found.blocks) > 10
    blob = part_of(found, 500, 501)
    assert [1 << 14, blob.bytes_read + SYNC_SIZE] == requests(found, blob)


def test_a_part_near_the_beginning_costs_one_request() -> None:
    found = small_sources(1000)
    assert [found.placements[4].end] == requests(found, part_of(found, 3, 5))


def test_parts_of_one_blob_read_its_header_once() -> None:
    found = small_sources(1000)
    near, far = part_of(found, 3, 300), part_of(found, 600, 900)
    assert near.part is not None
    assert sorted([near.part.end, far.bytes_read + SYNC_SIZE]) == requests(found, near, far)


def test_a_large_part_is_read_in_requests_of_the_usual_size() -> None:
    large = joined([rows_file([numbered(at, 50, 40_000) for at in range(0, 300, 50)])])
    account, watch = new_account(), RecordedGets()
    account.container("container").put(NAME, large.data)
    assert 300 == len(rows_of_parts(watched(account, watch), list(split_blobs([part_of(large, 0, 1)]))))
    assert [len(large.data) - 2 * REQUEST_BYTES, REQUEST_BYTES, REQUEST_BYTES] == sorted(s for _, s in watch.sizes)


def test_parts_of_several_blobs_have_the_header_of_their_own() -> None:
    account = new_account()
    splits = []
    for number, name in enumerate(CODECS):
        form = JoinedFormat(SCHEMA, name, bytes([number]) + SYNC[1:], block_bytes=900)
        found = joined([rows_file([numbered(at, 5, 100)], name) for at in range(0, 300, 5)], form)
        account.container("container").put(f"s/{number}.avro", found.data)
        parts = [part_of(found, at, at + 10, f"s/{number}.avro") for at in range(0, 60, 10)]
        splits.append(list(split_blobs(parts)))
    for order in (zip_longest(*splits), splits):
        found_rows = rows_of_parts(account.container("container"), [split for each in order for split in each])
        assert sorted(numbered(0, 300, 100) * len(CODECS)) == sorted(found_rows)


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_joined_blob_that_is_gone_shortened_empty_or_no_avro_file_is_an_error() -> None:
    found = small_sources(20)
    blob = part_of(found, 3, 9)
    with pytest.raises(NotFoundError, match="the blob is gone"):
        rows_of_parts(new_account().container("container"), list(split_blobs([blob])))
    for data in (found.data[:-1], b""):
        with pytest.raises(CorruptError, match="by the log it has"):
            rows_of_parts(holding(data, NAME), list(split_blobs([blob])))
    unknown = list(split_blobs([replace(blob, version=None)]))
    for data in (b"", b"\x1f\x8b" + found.data[2:], b"PAR1" + found.data[4:], found.data[: len(found.data) // 2]):
        with pytest.raises(CorruptError, match=NAME):
            rows_of_parts(holding(data, NAME), unknown)


def test_a_part_that_is_not_of_this_blob_is_corrupt_and_gives_no_fewer_rows() -> None:
    found = small_sources(100)
    blob = part_of(found, 20, 30)
    assert blob.part is not None
    beyond = replace(blob.part, rows=blob.part.rows + 10_000)
    elsewhere = replace(blob.part, start=blob.part.start + 1)
    for part in (beyond, elsewhere):
        splits = list(split_blobs([replace(blob, part=part)]))
        with pytest.raises(CorruptError, match=rf"blob {NAME} at byte \d+ failed"):
            rows_of_parts(holding(found.data, NAME), splits)


def test_rows_before_the_damage_are_kept_on_request() -> None:
    form = JoinedFormat(SCHEMA, "snappy", SYNC, block_bytes=3000)
    found = joined([rows_file([numbered(at, 10, 100)], "snappy") for at in range(0, 200, 10)], form)
    third = found.blocks[2].offset
    data = bytearray(found.data)
    data[third + 20] ^= 0xFF
    splits = list(split_blobs([part_of(found, 1, 19)]))
    with pytest.raises(CorruptError, match=rf"blob {NAME} failed: in the block from byte {third},"):
        rows_of_parts(holding(bytes(data), NAME), splits)
    assert numbered(10, 50, 100) == rows_of_parts(holding(bytes(data), NAME), splits, ignore_corrupt=True)


def test_a_block_above_the_limit_is_refused() -> None:
    found = joined([rows_file([numbered(at, 2, 400)]) for at in (0, 2)])
    splits = list(split_blobs([part_of(found, 1, 2)]))
    with pytest.raises(ConfigurationError, match="more than the 500 bytes of option maxBlockBytes"):
        rows_of_parts(holding(found.data, NAME), splits, limits=ReadLimits(block_bytes=500))
