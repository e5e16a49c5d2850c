"""The blocks of a source in a joined file, compared with its placement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro.decoding.decode import decode_blocks
from arrow_avro.files.container_file import SYNC_SIZE, InMemorySource, block, header, read_header
from arrow_avro.files.placing import Placement, placed_blocks
from foundation.errors import ConfigurationError, CorruptError
from tests.arrow_avro.joined_files import SCHEMA, decoded, joined, numbered, rows_file, sources
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from arrow_avro.joining import JoinedFormat
    from tests.arrow_avro.joined_files import Row

ROWS = [numbered(0, 2, 18), numbered(2, 3, 18), numbered(5, 9, 18)]


def rows_at(data: bytes, placement: Placement, most: int = 1 << 20) -> list[Row]:
    head = read_header(data)
    framed = placed_blocks(InMemorySource(memoryview(data)), head, placement, blob="s/j.avro", most=most)
    rows = [
        (row["n"], row["data"]) for batch in decode_blocks(head, framed, blob="s/j.avro") for row in batch.to_pylist()
    ]
    return rows[placement.skip :][: placement.rows]


@settings(deadline=None)
@given(sources())
def test_the_rows_of_each_source_are_in_the_blocks_of_its_placement(given: tuple[JoinedFormat, list[bytes]]) -> None:
    form, files = given
    found = joined(files, form)
    for data, placement in zip(files, found.placements, strict=True):
        if placement.rows:
            assert decoded(data) == rows_at(found.data, placement)


@settings(deadline=None)
@given(sources(), st.data())
def test_sources_side_by_side_are_a_placement_too(given: tuple[JoinedFormat, list[bytes]], data: st.DataObject) -> None:
    form, files = given
    found = joined(files, form)
    there = [number for number, each in enumerate(found.placements) if each.rows]
    if there:
        first, last = sorted(data.draw(st.sampled_from(there)) for _ in range(2))
        between = found.placements[first : last + 1]
        together = replace(between[0], end=between[-1].end, rows=sum(each.rows for each in between))
        assert [row for each in files[first : last + 1] for row in decoded(each)] == rows_at(found.data, together)


def two_blocks() -> tuple[bytes, list[Placement]]:
    """Sources of 2, 3 and 9 rows in two blocks of 10 and 4 rows; the last one is in both."""
    found = joined([rows_file([[row] for row in rows]) for rows in ROWS])
    assert [10, 4] == [each.rows for each in found.blocks]
    return found.data, found.placements


@pytest.mark.parametrize(
    ("which", "wrong", "cause"),
    [
        (0, {"start": -1}, "2 rows are placed there, where no block begins"),
        (0, {"start": 1}, "2 rows are placed there, where no block begins"),
        (0, {"start": 1 << 30}, "2 rows are placed there, where no block begins"),
        (0, {"skip": 10}, "the block has 10 rows; others are placed after 10 of it"),
        (1, {"rows": 6}, "with 10 rows; .* with 11 at least"),
        (2, {"rows": 1}, "with 14 rows; .* with 15 at least"),
        (2, {"end": -1}, r"with 14 rows; by their placement they end at byte \d+"),
        (2, {"end": 1}, r"with 14 rows; by their placement they end at byte \d+"),
        (2, {"end": -100}, r"with 10 rows; by their placement they end at byte \d+"),
    ],
)
def test_a_placement_that_is_not_of_this_file_is_corrupt(which: int, wrong: dict[str, int], cause: str) -> None:
    data, placements = two_blocks()
    found = placements[which]
    values = {name: value + getattr(found, name) for name, value in wrong.items()}
    with pytest.raises(CorruptError, match=rf"blob s/j\.avro at byte \d+ failed: .*{cause}"):
        rows_at(data, replace(found, **values))


def test_a_file_that_ends_with_an_earlier_block_is_corrupt() -> None:
    data, placements = two_blocks()
    assert ROWS[0] == rows_at(data[: placements[0].end], placements[0])
    with pytest.raises(CorruptError, match="with 10 rows; by their placement"):
        rows_at(data[: placements[0].end], placements[2])


def test_a_block_in_the_header_is_corrupt() -> None:
    """The header's metadata imitates a marker and a block."""
    body = b"".join(block(1, b"\x00\x00", SYNC))
    data = header(SCHEMA, "null", SYNC, {"trap": SYNC + body}) + body
    trap, first = data.index(SYNC + body) + SYNC_SIZE, read_header(data).size
    for start in (0, SYNC_SIZE, trap):
        with pytest.raises(CorruptError, match="no block begins"):
            rows_at(data, Placement(start, trap + len(body), 0, 1))
    assert [(0, b"")] == rows_at(data, Placement(first, len(data), 0, 1))


def test_a_block_above_the_limit_is_refused() -> None:
    data, placements = two_blocks()
    with pytest.raises(ConfigurationError, match="more than the 150 bytes of option maxBlockBytes"):
        rows_at(data, placements[0], 150)


@settings(deadline=None)
@given(st.integers(0, 1 << 20), st.integers(1, 255), st.sampled_from(range(3)))
def test_a_damaged_byte_gives_no_rows_of_others(place: int, flip: int, which: int) -> None:
    data, placements = two_blocks()
    damaged, first = bytearray(data), read_header(data).size
    damaged[first + place % (len(data) - first)] ^= flip
    try:
        found = rows_at(bytes(damaged), placements[which])
    except CorruptError:
        return
    assert len(ROWS[which]) == len(found)
    assert sum(one != other for one, other in zip(ROWS[which], found, strict=True)) <= 1
