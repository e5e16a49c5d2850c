"""Rows of keys by hash: every key finds its row, and no other key does, whatever hash it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjunct_store.forms.key_index import KeyIndex, key_hashes


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.large_binary())


def one_for_all(keys: pa.Array) -> Any:
    return np.full(len(keys), 2**64 - 1, np.uint64)


def by_first_byte(keys: pa.Array) -> Any:
    return np.array([(key.as_py() or b"\x00")[0] % 2 for key in keys], np.uint64)


KEYS = st.lists(st.binary(max_size=5), max_size=12, unique=True)


@pytest.mark.parametrize("hashed", [key_hashes, one_for_all, by_first_byte])
@given(KEYS, st.lists(st.binary(max_size=5), max_size=12))
def test_keys_are_found_in_their_rows_and_others_are_not(
    hashed: Callable[[pa.Array], Any], keys: list[bytes], others: list[bytes]
) -> None:
    index = KeyIndex(binary(keys), hashed)
    asked = [*others, *keys[::-1], *keys]
    assert [keys.index(key) if key in keys else -1 for key in asked] == index.rows(binary(asked)).tolist()


@given(KEYS, st.integers(0, 5))
def test_a_hash_depends_on_the_key_alone(keys: list[bytes], begin: int) -> None:
    """Not on its neighbours: a column of one size takes another way than one of several."""
    whole = key_hashes(binary(keys)).tolist()
    assert whole == [key_hashes(binary([key]))[0] for key in keys]
    assert whole[begin:] == key_hashes(binary(keys).slice(begin)).tolist()


def test_similar_and_long_keys_have_different_hashes() -> None:
    numbers = [number.to_bytes(8, "big") for number in range(1, 50_001)]
    texts = [f"plane-{number}".encode() for number in range(50_000)]
    zeros = [bytes(size) for size in range(3_000)]
    assert 103_000 == len(np.unique(np.concatenate([key_hashes(binary(each)) for each in (numbers, texts, zeros)])))
