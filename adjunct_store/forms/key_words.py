"""The bytes of many keys as numbers of eight bytes, so that numpy works on all keys at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    U64: TypeAlias = NDArray[np.uint64]
    I64: TypeAlias = NDArray[np.int64]

WORD = 8


class PackedKeys(NamedTuple):
    """words: by the place of its first byte, each word in the bytes of all keys, one after the other, and zeros.

    begins, sizes: of each key, in bytes. A word that begins in a key may end in the next one.
    """

    words: U64
    begins: I64
    sizes: I64


def key_words(keys: pa.Array, byte_order: str) -> PackedKeys:
    """keys: `large_binary`, without nulls. byte_order: of the words, as numpy has it."""
    count = len(keys)
    offsets = np.frombuffer(keys.buffers()[1] or bytes(8), np.int64)[keys.offset : keys.offset + count + 1]
    data = bytes(memoryview(keys.buffers()[2] or b"")[offsets[0] : offsets[-1]]) + bytes(WORD)
    words: U64 = np.ndarray(len(data) - WORD + 1, f"{byte_order}u8", data, strides=(1,))
    return PackedKeys(words, offsets[:-1] - offsets[0], np.diff(offsets))


def neighbours_together(keys: pa.Array) -> I64:
    """An order of the keys that is nearly theirs: by the first eight bytes in which they differ.

    It takes a fifth of the time of a sort by all bytes. keys: as above.
    """
    words, begins, sizes = key_words(keys, ">")
    longest = int(sizes.max(initial=0))
    first = words[begins]
    for shared in range(WORD, longest, WORD):
        if not (first == first[:1]).all():
            break
        first = words[np.minimum(begins + shared, len(words) - 1)]
    return np.argsort(first, kind="stable")
