"""An order of keys in which neighbours lie together, of whatever lengths and shared beginnings."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjunct_store.forms.key_index import neighbours_together


def ordered(keys: list[bytes]) -> list[bytes]:
    array = pa.array(keys, pa.large_binary())
    rows = neighbours_together(array)
    assert list(range(len(keys))) == sorted(rows.tolist())
    return [keys[row] for row in rows]


@pytest.mark.parametrize("shared", range(0, 40, 3))
def test_keys_that_differ_in_a_word_after_what_they_share_are_in_order(shared: int) -> None:
    keys = [b"x" * shared + f"{number:04}".encode() for number in (7, 3, 1000, 2, 9999, 0)]
    begin = shared % 8
    found = ordered(keys)
    if begin <= 4:  # the digits are in one word
        assert sorted(keys) == found
    else:
        assert sorted(keys, key=lambda key: key[: shared - begin + 8]) == found


@given(st.lists(st.binary(max_size=30)), st.binary(max_size=20))
def test_any_keys_are_all_there_once(keys: list[bytes], shared: bytes) -> None:
    ordered([shared + key for key in keys])


def test_a_slice_has_its_own_keys_only() -> None:
    array = pa.array([b"c", b"b", b"a", b"d"], pa.large_binary()).slice(1, 2)
    assert [1, 0] == neighbours_together(array).tolist()
