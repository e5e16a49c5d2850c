"""Decimals of any length against Python's integers."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arrow_avro.decoding.decimals import decimals

pytestmark = pytest.mark.usefixtures("each_decoder")

LIMIT = 10**38 - 1
WIDE = Context(prec=60)


@st.composite
def stored(draw: st.DrawFn) -> tuple[int, bytes]:
    """A number, and its bytes with any number of superfluous ones before them."""
    number = draw(st.one_of(st.integers(-LIMIT, LIMIT), st.integers(-300, 300)))
    size = (number.bit_length() + 8) // 8
    return number, number.to_bytes(size + draw(st.integers(0, 9)), "big", signed=True)


def read(values: list[bytes]) -> list[Decimal]:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int32)
    read_values: list[Decimal] = decimals(
        pa.decimal128(38, 4), offsets, np.frombuffer(b"".join(values), np.uint8)
    ).to_pylist()
    return read_values


@given(st.lists(st.one_of(stored(), st.just((0, b""))), max_size=8))
def test_bytes_of_any_length_are_the_number_they_spell(values: list[tuple[int, bytes]]) -> None:
    assert [Decimal(number).scaleb(-4, WIDE) for number, _ in values] == read([each for _, each in values])


@given(st.lists(stored(), max_size=3), st.binary(min_size=17, max_size=20), st.lists(stored(), max_size=3))
def test_more_than_128_bits_are_refused(
    before: list[tuple[int, bytes]], wide: bytes, after: list[tuple[int, bytes]]
) -> None:
    values = [*(each for _, each in before), wide, *(each for _, each in after)]
    number = int.from_bytes(wide, "big", signed=True)
    if -(2**127) <= number < 2**127:
        values[len(before)] = b"\x01" + bytes(16)
    with pytest.raises(pa.ArrowInvalid, match="more than 128 bits"):
        read(values)


@pytest.mark.parametrize("number", [10**38, -(10**38), 2**127 - 1, -(2**127)])
def test_more_digits_than_the_precision_are_refused(number: int) -> None:
    with pytest.raises(pa.ArrowInvalid):
        read([number.to_bytes(16, "big", signed=True)])
