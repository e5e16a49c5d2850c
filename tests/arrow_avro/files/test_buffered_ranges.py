"""Which bytes of a blob are in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.files.buffered_ranges import BufferedRanges

DATA = bytes(range(256))


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=8), st.integers(0, 100))
def test_ranges_know_how_far_they_reach_without_a_gap(found: list[tuple[int, int]], start: int) -> None:
    ranges = BufferedRanges()
    for first, size in found:
        ranges.add(first, DATA[first : first + size])
    buffered = {place for first, size in found for place in range(first, first + size)}
    until = next(place for place in range(start, 200) if place not in buffered)
    assert until == ranges.until(start)
    if until > start:
        assert DATA[start:until] == ranges.view(start, until)


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=8), st.integers(0, 130))
def test_dropping_ranges_returns_the_sum_of_their_charges(found: list[tuple[int, int]], before: int) -> None:
    ranges = BufferedRanges()
    for first, size in found:
        ranges.add(first, DATA[first : first + size], size)
    assert sum(size for first, size in found if first + size <= before) == ranges.drop(before)
    assert sum(size for first, size in found if first + size > before) == ranges.drop(1000)
