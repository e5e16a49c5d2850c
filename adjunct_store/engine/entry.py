"""What RocksDB holds: an entry for each key, and one with the position of the source. Pure.

00                                   position, JSON
01 <key>          01 <datum>         a value
01 <key>          01 <order> <datum> a value of an ordered store: 8 bytes, big-endian, sign bit flipped
01 <key>          00 <order>         a deleted key, which an older change must not bring back
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.encoding.arrays import booleans, constant, flags
from arrow_avro import int64_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

I64: TypeAlias = "NDArray[np.int64]"

POSITION_KEY = b"\x00"
DATA = b"\x01"
AFTER_DATA = b"\x02"
VALUE, DELETED = 1, 0
_SIGN = np.uint64(1 << 63)
_ORDER_BYTES = 8


@dataclass(frozen=True)
class PartitionProgress:
    """How far a partition has come: the batch of its source, and how many keys it has. tombstones: deleted keys."""

    source: str
    batch: int
    entries: int = 0
    tombstones: int = 0

    def to_bytes(self) -> bytes:
        """As it is stored."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> PartitionProgress:
        """The inverse."""
        return cls(**json.loads(data))


@dataclass(frozen=True)
class Changes:
    """Changes: keys of entries, and their records. orders: of an ordered store."""

    keys: pa.Array
    records: pa.Array
    orders: I64 | None

    def take(self, rows: I64) -> Changes:
        """Some of them."""
        orders = None if self.orders is None else self.orders[rows]
        return Changes(self.keys.take(int64_array(rows)), self.records.take(int64_array(rows)), orders)


def data_keys(keys: pa.Array) -> pa.Array:
    """Keys of entries for encoded keys; null for null."""
    return pc.binary_join_element_wise(constant(DATA), keys, constant(b""))


def records(datums: pa.Array, orders: I64 | None) -> pa.Array:
    """Records of datums; of null, a deleted key. orders: by row, in an ordered store."""
    kinds = pc.if_else(datums.is_valid(), constant(bytes([VALUE])), constant(bytes([DELETED])))
    content = pc.fill_null(datums, constant(b""))
    if orders is None:
        return pc.binary_join_element_wise(kinds, content, constant(b""))
    stored = (orders.view(np.uint64) ^ _SIGN).astype(">u8").tobytes()
    offsets = pa.py_buffer(np.arange(0, len(stored) + 1, _ORDER_BYTES, dtype=np.int64))
    order = pa.Array.from_buffers(pa.large_binary(), len(orders), [None, offsets, pa.py_buffer(stored)])
    return pc.binary_join_element_wise(kinds, order, content, constant(b""))


def values_in(found: pa.Array, *, ordered: bool) -> tuple[NDArray[np.bool_], pa.Array]:
    """Which records are values, by row, and the datums of those. False for deleted keys and for null."""
    there = are_values(found)
    begins, ends, data = _bounds(found.filter(booleans(there)))
    head = 1 + (_ORDER_BYTES if ordered else 0)
    kept = np.ones(len(data), bool)
    kept[: begins[0] if len(begins) else None] = False
    kept[ends[-1] if len(ends) else 0 :] = False
    for byte in range(head):
        kept[begins + byte] = False
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - begins - head)])
    content = data[kept]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    return there, pa.Array.from_buffers(pa.large_binary(), len(begins), buffers)


def are_values(found: pa.Array) -> NDArray[np.bool_]:
    """Whether records are values, by row; false for deleted keys and for null."""
    valid = flags(found.is_valid())
    begins, _, data = _bounds(found)
    there = np.zeros(len(found), bool)
    there[valid] = data[begins[valid]] == VALUE
    return there


def orders_of(found: pa.Array) -> I64:
    """The orders of records without nulls, of an ordered store."""
    begins, _, data = _bounds(found)
    stored = data[begins[:, None] + np.arange(1, 1 + _ORDER_BYTES)]
    return (stored.view(">u8").reshape(-1).astype(np.uint64) ^ _SIGN).view(np.int64)


def _bounds(found: pa.Array) -> tuple[I64, I64, NDArray[np.uint8]]:
    """Begin and end of each record in the bytes of all."""
    offsets = np.frombuffer(found.buffers()[1] or bytes(8), np.int64)[found.offset : found.offset + len(found) + 1]
    return offsets[:-1], offsets[1:], np.frombuffer(found.buffers()[2] or b"", np.uint8)
