"""Which row has a key, for many keys at once: hashes in order, found by their first bits, and the bytes compared.

The hash of a key is made of words of eight bytes, of all keys of a batch at once. Keys with the same hash are
neighbours, and are tried one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from adjunct_store.encoding.arrays import flags
from adjunct_store.forms.key_words import WORD, key_words
from arrow_avro import int64_array

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from adjunct_store.forms.key_words import I64, U64

_HASH_BITS = 64
_FACTOR, _FACTOR_2, _SIZES = (np.uint64(each) for each in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15))
_SHIFT, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_MASKS: U64 = np.array([2 ** (8 * size) - 1 for size in range(WORD + 1)], np.uint64)
"""Of the bytes of a key in a word, by how many there are."""


def key_hashes(keys: pa.Array) -> U64:
    """A hash of each key. keys: `large_binary`, without nulls."""
    words, begins, sizes = key_words(keys, "<")
    hashes = sizes.astype(np.uint64) * _SIZES
    rows, begin = np.arange(len(keys)), 0
    while len(rows := rows[sizes[rows] > begin]):
        word = words[begins[rows] + begin] & _MASKS[np.minimum(sizes[rows] - begin, WORD)]
        hashes[rows] = _mixed(hashes[rows] ^ word)
        begin += WORD
    return hashes


def _mixed(hashes: U64) -> U64:
    """The finalizer of splitmix64: each bit of the result depends on all bits."""
    hashes = (hashes ^ (hashes >> _SHIFT)) * _FACTOR
    hashes = (hashes ^ (hashes >> _SHIFT_2)) * _FACTOR_2
    return hashes ^ (hashes >> _SHIFT_3)


class KeyIndex:
    """Rows of different keys.

    keys: `large_binary`, without nulls. hashed: the hash, of which nothing but the speed depends.
    """

    def __init__(self, keys: pa.Array, hashed: Callable[[pa.Array], U64] = key_hashes) -> None:
        hashes = hashed(keys)
        self._hashed, self._keys = hashed, keys
        self._rows: I64 = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._rows]
        bits = max(1, len(hashes).bit_length())
        self._shift = np.uint64(_HASH_BITS - bits)
        self._begins: I64 = np.searchsorted(self._hashes, np.arange(1 << bits, dtype=np.uint64) << self._shift)

    def rows(self, keys: pa.Array) -> I64:
        """The row of each key, −1 where there is none. keys: without nulls."""
        found = np.full(len(keys), -1, np.int64)
        hashes = self._hashed(keys)
        asked, at = np.arange(len(keys)), self._begins[hashes >> self._shift]
        while len(asked):
            possible = at < len(self._hashes)
            possible[possible] = self._hashes[at[possible]] <= hashes[asked[possible]]
            asked, at = asked[possible], at[possible]
            same = self._hashes[at] == hashes[asked]
            same[same] = self._are_equal(at[same], keys, asked[same])
            found[asked[same]] = self._rows[at[same]]
            asked, at = asked[~same], at[~same] + 1
        return found

    def _are_equal(self, at: I64, keys: pa.Array, asked: I64) -> NDArray[np.bool_]:
        own = self._keys.take(int64_array(self._rows[at]))
        return flags(pc.equal(own, keys.take(int64_array(asked))))
