"""Arrays that are made without `pa.array` are what it makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from adjunct_store.encoding.arrays import booleans, constant, flags, large_binaries, rows_or_null


@given(st.lists(st.none() | st.binary(max_size=9), max_size=40), st.integers(0, 12))
def test_binary_values_are_those_of_arrow(values: list[bytes | None], begin: int) -> None:
    made = large_binaries(values)
    made.validate(full=True)
    assert pa.array(values, pa.large_binary()).equals(made)
    assert values[begin:] == made.slice(begin).to_pylist()


def test_a_constant_is_the_scalar_of_arrow() -> None:
    assert [pa.scalar(each, pa.large_binary()) for each in (b"", b"\x00a", None)] == list(
        map(constant, (b"", b"\x00a", None))
    )


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 12))
def test_flags_come_back_from_arrow_and_from_a_slice(values: list[bool], begin: int) -> None:
    made = booleans(np.array(values, np.bool_))
    made.validate(full=True)
    assert pa.array(values, pa.bool_()).equals(made)
    assert values[begin:] == flags(made.slice(begin)).tolist()


@given(st.lists(st.none() | st.integers(0, 99), max_size=40))
def test_rows_are_null_where_there_is_none(values: list[int | None]) -> None:
    there = np.array([each is not None for each in values], np.bool_)
    made = rows_or_null(np.array([each or 0 for each in values], np.int64), there)
    made.validate(full=True)
    assert pa.array(values, pa.int64()).equals(made)
