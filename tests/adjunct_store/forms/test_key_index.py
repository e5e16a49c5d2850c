"""Rows of keys by hash: every key finds its row, and no other key does, whatever hash it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjunct_store.forms.key_index import KeyHashes, KeyIndex, key_hashes


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.large_binary())


def one_for_all(keys: pa.Array) -> KeyHashes:
    return KeyHashes(np.full(len(keys), 2**64 - 1, np.uint64))


def by_first_byte(keys: pa.Array) -> KeyHashes:
    return KeyHashes(np.array([(key.as_py() or b"\x00")[0] % 2 for key in keys], np.uint64))


def of_sizes(*sizes: int) -> Any:
    return st.sampled_from(sizes).flatmap(lambda size: st.binary(min_size=size, max_size=size))


def lists(keys: Any, *, unique: bool = False) -> Any:
    return st.lists(keys, max_size=12, unique=unique)


# Of few different bytes, so that keys are similar: one word short of eight bytes, one of eight, and all kinds.
SIMILAR = st.lists(st.sampled_from(b"\x00\x01\xff"), max_size=10).map(bytes)
KINDS: list[Any] = [st.binary(max_size=5), of_sizes(8), of_sizes(0, 7, 8), of_sizes(7, 8, 9, 16, 17), SIMILAR]
KEYS: Any = st.one_of([lists(each, unique=True) for each in KINDS])
OTHERS: Any = st.one_of([lists(each) for each in KINDS])


@pytest.mark.parametrize("hashed", [key_hashes, one_for_all, by_first_byte])
@given(KEYS, OTHERS)
def test_keys_are_found_in_their_rows_and_others_are_not(
    hashed: Callable[[pa.Array], KeyHashes], keys: list[bytes], others: list[bytes]
) -> None:
    index = KeyIndex(binary(keys), hashed)
    for asked in ([*others, *keys[::-1], *keys], keys, others):
        assert [keys.index(key) if key in keys else -1 for key in asked] == index.rows(binary(asked)).tolist()


@given(OTHERS, OTHERS)
def test_keys_of_one_word_with_the_same_hash_are_the_same(some: list[bytes], others: list[bytes]) -> None:
    (hashes, one_word), (of_others, other_word) = key_hashes(binary(some)), key_hashes(binary(others))
    if one_word is not None and one_word == other_word:
        same = [[hashed == other for other in of_others.tolist()] for hashed in hashes.tolist()]
        assert [[key == other for other in others] for key in some] == same
    sizes = {len(key) for key in some}
    assert one_word == (7 if max(sizes, default=0) < 8 else 8 if sizes == {8} else None)


def test_a_key_of_eight_bytes_with_the_hash_of_a_shorter_one_is_another() -> None:
    """The size of a shorter key is where the last byte of a longer one is."""
    short, long = b"ab", bytes(a ^ b for a, b in zip(b"ab" + bytes(6), bytes(7) + bytes([2 ^ 8]), strict=True))
    assert key_hashes(binary([short])).values == key_hashes(binary([long])).values
    index = KeyIndex(binary([short]))
    assert [-1, 0, -1] == index.rows(binary([long, short, b"ac"])).tolist()
    assert [-1] == index.rows(binary([long])).tolist()


@given(KEYS, st.integers(0, 5))
def test_a_hash_depends_on_the_key_alone(keys: list[bytes], begin: int) -> None:
    """Not on its neighbours: a column of one size takes another way than one of several."""
    whole = key_hashes(binary(keys)).values.tolist()
    assert whole == [key_hashes(binary([key])).values[0] for key in keys]
    assert whole[begin:] == key_hashes(binary(keys).slice(begin)).values.tolist()


def test_similar_and_long_keys_have_different_hashes() -> None:
    numbers = [number.to_bytes(8, "big") for number in range(16, 50_016)]  # below 16 some have hashes of shorter keys
    texts = [f"plane-{number}".encode() for number in range(50_000)]
    zeros = [bytes(size) for size in range(3_000)]
    hashes = [key_hashes(binary(each)).values for each in (numbers, texts, zeros)]
    assert 103_000 == len(np.unique(np.concatenate(hashes)))
