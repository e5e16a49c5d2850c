"""Spark's `hash`: Murmur3 of the key columns, one after the other, so that Spark and Python agree on partitions.

A number of up to 32 bits is one word, a longer one two. A string is its words of four bytes, and then, unlike in the
published algorithm, each remaining byte as a word of its own with its sign. The hash of a column is the seed of the
next (org.apache.spark.sql.catalyst.expressions.Murmur3Hash, org.apache.spark.unsafe.hash.Murmur3_x86_32).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from adjunct_store.encoding.arrays import flags

if TYPE_CHECKING:
    from numpy.typing import NDArray

U32: TypeAlias = "NDArray[np.uint32]"
_SEED = 42
_C1, _C2, _M, _N = (np.uint32(each) for each in (0xCC9E2D51, 0x1B873593, 5, 0xE6546B64))
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)


def partition_of(keys: pa.RecordBatch, partitions: int) -> NDArray[np.int32]:
    """The partition of each row: `pmod(hash(columns), partitions)` of Spark. Rows with nulls have one, too."""
    return np.mod(spark_hash(keys), np.int32(partitions)).astype(np.int32)


def spark_hash(keys: pa.RecordBatch) -> NDArray[np.int32]:
    """`hash(columns)` of Spark. A null leaves the hash as it is."""
    hashes = np.full(keys.num_rows, _SEED, np.uint32)
    with np.errstate(over="ignore"):
        for column in keys.columns:
            hashed = _hashed(column, hashes)
            hashes = np.where(flags(column.is_valid()), hashed, hashes) if column.null_count else hashed
    return hashes.view(np.int32)


def _hashed(column: pa.Array, seeds: U32) -> U32:
    types = pa.types
    if types.is_string(column.type) or types.is_binary(column.type):
        return _hashed_bytes(column.cast(pa.large_binary()), seeds)
    if types.is_large_string(column.type) or types.is_large_binary(column.type):
        return _hashed_bytes(column.cast(pa.large_binary()), seeds)
    if types.is_boolean(column.type):
        column = column.cast(pa.int8())
    width = column.type.bit_width // 8
    numbers = np.frombuffer(column.buffers()[1] or b"", f"i{width}")[column.offset : column.offset + len(column)]
    if width < 8:  # noqa: PLR2004 - bytes of a long
        return _finished(_mixed(seeds, numbers.astype(np.int32).view(np.uint32)), np.uint32(4))
    words = np.ascontiguousarray(numbers).view(np.uint32).reshape(-1, 2)
    return _finished(_mixed(_mixed(seeds, words[:, 0]), words[:, 1]), np.uint32(8))


def _hashed_bytes(column: pa.Array, seeds: U32) -> U32:
    """All values at once, word by word: the longest value decides how often."""
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    begins, sizes = offsets[:-1], np.diff(offsets)
    hashes = seeds.copy()
    longest_first = np.argsort(-sizes, kind="stable")
    falling = -sizes[longest_first]
    for word in range(int(-falling[0]) // 4 if len(falling) else 0):
        rows = longest_first[: int(np.searchsorted(falling, -(4 * word + 4), side="right"))]
        hashes[rows] = _mixed(hashes[rows], _words(data, begins[rows] + 4 * word))
    for rest in range(3):
        rows = np.flatnonzero(sizes % 4 > rest)
        last = data[begins[rows] + sizes[rows] // 4 * 4 + rest].view(np.int8)
        hashes[rows] = _mixed(hashes[rows], last.astype(np.int32).view(np.uint32))
    return _finished(hashes, sizes.astype(np.uint32))


def _words(data: NDArray[np.uint8], at: NDArray[Any]) -> U32:
    word = data[at].astype(np.uint32)
    for byte in range(1, 4):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _mixed(hashes: U32, words: U32) -> U32:
    mixed = _rotated(words * _C1, 15) * _C2
    return _rotated(hashes ^ mixed, 13) * _M + _N


def _rotated(words: U32, bits: int) -> U32:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def _finished(hashes: U32, sizes: Any) -> U32:
    hashes = hashes ^ sizes
    hashes = (hashes ^ (hashes >> np.uint32(16))) * _F1
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _F2
    return hashes ^ (hashes >> np.uint32(16))
