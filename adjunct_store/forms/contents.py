"""What a partition has: all of its entries, counted and compared with the rules of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adjunct_store.encoding.keys import decode_keys, encode_keys, readable_key
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.encoding.values import decode_values
from adjunct_store.engine.entry import DATA, DELETED, VALUE, values_in
from adjunct_store.forms.partitions import PartitionDatabases
from adjunct_store.host.directories import KnownDirectories
from foundation.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.engine.entry import PartitionProgress

_READ_AT_ONCE = 10_000
_MOST_FAULTS = 20
_HEAD_BYTES = {False: 1, True: 9}
"""Of a record before its datum: its kind, and its order if the store is ordered."""


@dataclass(frozen=True)
class Contents:
    """entries: keys with a value. tombstones: deleted keys. faults: the first of them."""

    position: PartitionProgress | None
    entries: int
    tombstones: int
    faults: tuple[str, ...]


def contents(directory: Path, schema: StoreSchema, partition: int) -> Contents:
    """Read all of a partition. `CorruptError` if a block is damaged."""
    partitions = PartitionDatabases(KnownDirectories({partition: directory}), schema.partitions)
    try:
        entries = tombstones = 0
        faults: list[str] = []
        for some in partitions.all_of(partition, _READ_AT_ONCE):
            values = sum(record[:1] == bytes([VALUE]) for _, record in some)
            entries, tombstones = entries + values, tombstones + len(some) - values
            if len(faults) < _MOST_FAULTS:
                faults += _faults(some, schema, partition)
        return Contents(partitions.position(partition), entries, tombstones, tuple(faults[:_MOST_FAULTS]))
    finally:
        partitions.close()


def _faults(rows: Sequence[tuple[bytes, bytes]], schema: StoreSchema, partition: int) -> Iterator[str]:
    allowed = {VALUE, DELETED} if schema.ordered else {VALUE}
    shortest = _HEAD_BYTES[schema.ordered]
    strange = [key for key, record in rows if len(record) < shortest or record[0] not in allowed]
    if strange:
        yield f"{len(strange)} records are neither value nor deleted, the first of key {strange[0].hex()}"
        return
    encoded = pa.array([key[len(DATA) :] for key, _ in rows], pa.large_binary())
    try:
        keys = decode_keys(encoded, schema.keys)
    except (ValueError, IndexError, OverflowError, pa.ArrowException) as error:
        yield f"a key between {rows[0][0].hex()} and {rows[-1][0].hex()} cannot be read: {error!r}"
        return
    if not encode_keys(keys).equals(encoded):
        yield f"keys between {rows[0][0].hex()} and {rows[-1][0].hex()} are not encoded as they should be"
    elsewhere = np.flatnonzero(partition_of(keys, schema.partitions) != partition)
    if len(elsewhere):
        first = readable_key(keys.slice(int(elsewhere[0]), 1))
        yield f"{len(elsewhere)} keys belong to other partitions, the first is {first}"
    _, datums = values_in(pa.array([record for _, record in rows], pa.large_binary()), ordered=schema.ordered)
    try:
        if len(datums):
            decode_values(datums, schema, "values of an adjunct store")
    except (CorruptError, ConfigurationError) as error:
        yield f"a value of the keys {rows[0][0].hex()} to {rows[-1][0].hex()} cannot be decoded: {error}"
