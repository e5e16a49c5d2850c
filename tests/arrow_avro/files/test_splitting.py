"""The splits of a file hold each block once, whatever bytes its rows hold; or reading it in several is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arrow_avro.files.container_file import SYNC_SIZE, InMemorySource, block, blocks, read_header
from arrow_avro.files.splitting import is_splittable, split_blocks
from arrow_avro.varint import encode
from foundation.errors import ConfigurationError, CorruptError
from tests.arrow_avro.files.framed import file_of
from tests.arrow_avro.sync_marker import SYNC

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.usefixtures("each_decoder")

FOUR = b"\x01\x02\x03\x04" * 4


def split_of(data: bytes, start: int, end: int | None) -> list[int]:
    """Where the blocks of a split begin."""
    source = InMemorySource(memoryview(data))
    return [one.offset for one in split_blocks(source, read_header(data), start, end, blob="s/1.avro")]


def splits_of(data: bytes, cuts: Sequence[int]) -> list[int]:
    bounds: list[int | None] = [0, *sorted(cuts), None]
    return [offset for start, end in pairwise(bounds) for offset in split_of(data, start or 0, end)]


def chain_of(data: bytes) -> list[int]:
    return [one.offset for one in blocks(data, read_header(data))]


def imitation(sync: bytes, body: bytes = b"", rows: int = 1) -> bytes:
    """Bytes that look like the end of one block and a whole other one."""
    return sync + b"".join(block(rows, body, sync))


def contents(sync: bytes) -> st.SearchStrategy[bytes]:
    """Bodies made of random bytes, the marker, pieces of it, block-like bytes, and whole files with this marker."""
    pieces = st.one_of(
        st.binary(max_size=40),
        st.just(sync),
        st.integers(1, 15).map(lambda length: sync[:length]),
        st.integers(-2, 60).map(lambda size: sync + encode(size) + encode(size)),
        st.binary(max_size=20).map(lambda body: imitation(sync, body)),
        st.binary(max_size=20).map(lambda body: imitation(sync, body)[:-1]),
        st.binary(max_size=20).map(lambda body: file_of([(1, body), (2, b"")], sync)),
    )
    return st.lists(pieces, max_size=5).map(b"".join)


@st.composite
def files(draw: st.DrawFn) -> bytes:
    sync = draw(st.one_of(st.just(SYNC), st.binary(min_size=SYNC_SIZE, max_size=SYNC_SIZE)))
    return file_of(draw(st.lists(st.tuples(st.integers(0, 300), contents(sync)), max_size=6)), sync)


plain_files = st.lists(st.tuples(st.integers(0, 2**62), st.binary(max_size=300)), max_size=6).map(file_of)


@given(plain_files, st.lists(st.integers(1, 2500), max_size=6))
def test_splits_cut_anywhere_hold_every_block_once(data: bytes, cuts: list[int]) -> None:
    assert chain_of(data) == splits_of(data, cuts)


@given(plain_files, st.integers(1, 60))
def test_splits_of_any_size_hold_every_block_once(data: bytes, size: int) -> None:
    assert chain_of(data) == splits_of(data, range(size, len(data), size))


@settings(max_examples=400)
@given(files(), st.data())
def test_whatever_a_block_holds_no_row_is_lost_or_doubled(data: bytes, draw: st.DataObject) -> None:
    cuts = draw.draw(st.lists(st.integers(1, max(1, len(data) - 1)), max_size=6, unique=True))
    try:
        found = splits_of(data, cuts)
    except ConfigurationError as error:
        assert "maxPartitionBytes" in str(error)  # noqa: PT017 - or else the blocks are right
    else:
        assert chain_of(data) == found


@pytest.mark.parametrize(
    "body",
    [
        SYNC,
        SYNC + b"\x02",
        SYNC + b"\x01\x00" + SYNC,
        imitation(SYNC)[:-1],
        SYNC + encode(1) + encode(1 << 40),
        SYNC[:15],
    ],
)
def test_a_marker_that_no_block_follows_is_not_taken_for_one(body: bytes) -> None:
    data = file_of([(1, b"a" + body + b"b"), (2, body), (3, body + body)])
    for size in range(1, len(data)):
        assert chain_of(data) == splits_of(data, range(size, len(data), size))


def test_an_imitation_is_refused_by_the_split_before_it_wherever_it_would_be_taken_for_a_block() -> None:
    inner = imitation(SYNC, b"rows")
    data = file_of([(1, b"a" * 50), (2, b"b" * 20 + inner + b"c" * 20), (3, b"d")])
    false = data.index(inner)
    chain = chain_of(data)
    for cut in range(1, len(data)):
        mistaken = chain[1] - SYNC_SIZE < cut <= false
        if mistaken:
            with pytest.raises(
                ConfigurationError, match=rf"blob s/1\.avro in several splits failed: from byte {false},"
            ):
                split_of(data, 0, cut)
        else:
            assert chain == splits_of(data, [cut])
    assert chain == splits_of(data, [])


def test_an_imitation_is_refused_if_several_splits_lie_in_one_block() -> None:
    data = file_of([(1, b"a" * 400 + imitation(SYNC) + b"b" * 400), (1, b"z")])
    inside = data.index(b"a" * 400) + 10
    with pytest.raises(ConfigurationError, match="imitate"):
        split_of(data, 0, inside)
    assert [] == split_of(data, inside, inside + 100)
    assert [] == split_of(data, len(data) - 60, len(data) - 40)


def test_splits_inside_a_block_have_no_blocks() -> None:
    data = file_of([(1, bytes(1000)), (1, b"")])
    inside = len(data) - 700
    assert [] == split_of(data, inside, inside + 300)


@pytest.mark.parametrize("sync", [FOUR, bytes(16), bytes(range(7)) * 2 + b"\x00\x00"])
def test_a_marker_of_few_distinct_bytes_is_not_searched_for(sync: bytes) -> None:
    data = file_of([(1, b"abc"), (2, imitation(sync)), (3, b"")], sync)
    assert not is_splittable(read_header(data))
    assert chain_of(data) == split_of(data, 0, 1)
    for start in range(1, len(data)):
        assert [] == split_of(data, start, start + 40)


def test_eight_distinct_bytes_suffice() -> None:
    assert is_splittable(read_header(file_of([], bytes(range(8)) * 2)))


@pytest.mark.parametrize("damage", [0, 1, 2, -1, -SYNC_SIZE])
def test_damage_in_the_first_block_after_a_split_is_not_passed_over(damage: int) -> None:
    data = bytearray(file_of([(5, b"one" * 9), (5, b"two" * 9), (5, b"three" * 9)]))
    second = chain_of(bytes(data))[1]
    offset = second + damage if damage >= 0 else chain_of(bytes(data))[2] + damage
    data[offset] ^= 0xFF
    if damage == 2:  # in the body, which framing does not check
        assert [second] == split_of(bytes(data), second - SYNC_SIZE, second)
        return
    with pytest.raises(CorruptError, match=r"s/1\.avro at byte"):
        split_of(bytes(data), 0, second - SYNC_SIZE - 1)


@given(plain_files, st.integers(0, 2000), st.integers(1, 900))
def test_a_file_cut_short_is_corrupt_in_some_split_or_ends_with_a_whole_block(
    data: bytes, missing: int, size: int
) -> None:
    head = read_header(data)
    stopped = data[: max(head.size, len(data) - missing)]
    if len(stopped) in (head.size, *(one.end for one in blocks(data, head))):
        assert chain_of(stopped) == splits_of(stopped, range(size, len(stopped), size))
    else:
        with pytest.raises(CorruptError, match=r"s/1\.avro"):
            splits_of(stopped, range(size, len(stopped), size))
