"""A RocksDB store, and a changelog of such records.

Records are those of RocksDB's own `db_bench`: a key of 16 bytes and a value of 100, both random, so that nothing can be
compressed. The changelog is a file of records, each with the lengths of key and value, in an order that is not sorted.
"""

from __future__ import annotations

import shutil
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from rocksdict import Options, Rdict, SstFileWriter, WriteBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

KEY_BYTES, VALUE_BYTES = 16, 100
STORED_BYTES = 126
"""What a record takes in the store, as measured: key, value, and RocksDB's own."""
BATCH = 500
"""Samza's `write.batch.size`."""
_RECORD = np.dtype(
    [("key_length", ">u4"), ("key", "u1", KEY_BYTES), ("value_length", ">u4"), ("value", f"V{VALUE_BYTES}")]
)
_CHUNK = (64 << 20) // STORED_BYTES
"""Records of a file of the store, which are 64 MiB, as RocksDB's compactions make them."""
_CHANGED_EVERY = 100
_SEED = 14


def write_changelog(file: Path, records: int) -> None:
    """Write a changelog."""
    with file.open("wb") as out:
        for chunk in _chunks(records):
            out.write(chunk.tobytes())


def records_in(pieces: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a changelog whose bytes come in pieces of any size."""
    rest = b""
    for piece in pieces:
        data = rest + piece
        at, end = 0, len(data)
        while at + 4 <= end:
            key = at + 4
            value = key + int.from_bytes(data[at:key], "big") + 4
            if value > end:
                break
            after = value + int.from_bytes(data[value - 4 : value], "big")
            if after > end:
                break
            yield data[key : value - 4], data[value:after]
            at = after
        rest = data[at:]


def put_singly(store: Path, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Put records into a store one by one."""
    database = _opened(store)
    for key, value in records:
        database[key] = value
    database.close()


def put_in_batches(store: Path, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Put records into a store by write batches."""
    database = _opened(store)
    each = iter(records)
    while some := list(islice(each, BATCH)):
        batch = WriteBatch(raw_mode=True)
        for key, value in some:
            batch[key] = value
        database.write(batch)
    database.close()


def write_store(store: Path, records: int) -> None:
    """Make a store as it is when all has been compacted: sorted files without overlaps on its lowest level."""
    database = _opened(store)
    file = store.with_name("ingested.sst")
    for chunk in _sorted_ranges(records):
        keys, values = chunk["key"].tobytes(), chunk["value"].tobytes()
        writer = SstFileWriter(Options(raw_mode=True))
        writer.open(str(file))
        each = sorted(keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES))
        for number, key in enumerate(each):
            writer[key] = values[number * VALUE_BYTES : (number + 1) * VALUE_BYTES]
        writer.finish()
        database.ingest_external_file([str(file)])
        file.unlink()
    database.close()


def changed_copy(store: Path, target: Path, records: int) -> None:
    """Copy a store, and give 1 % of its keys, spread over all of them, new values in the copy."""
    shutil.copytree(store, target)
    values = np.random.default_rng(_SEED + 1)

    def changes() -> Iterator[tuple[bytes, bytes]]:
        for chunk in _sorted_ranges(records):
            for key in chunk["key"][::_CHANGED_EVERY]:
                yield key.tobytes(), values.bytes(VALUE_BYTES)

    put_in_batches(target, changes())


def size_of(store: Path) -> int:
    """Bytes of all files."""
    return sum(file.stat().st_size for file in store.iterdir())


def _chunks(records: int) -> Iterator[NDArray[Any]]:
    """Records; the same ones at every call."""
    random = np.random.default_rng(_SEED)
    for begin in range(0, records, _CHUNK):
        chunk = np.frombuffer(random.bytes(min(_CHUNK, records - begin) * _RECORD.itemsize), _RECORD).copy()
        chunk["key_length"], chunk["value_length"] = KEY_BYTES, VALUE_BYTES
        yield chunk


def _sorted_ranges(records: int) -> Iterator[NDArray[Any]]:
    """The records of the store: those of each file have a range of keys of their own."""
    for number, chunk in enumerate(_chunks(records)):
        chunk["key"][:, :2] = divmod(number, 256)
        yield chunk


def _opened(store: Path) -> Rdict:
    return Rdict(str(store), Options(raw_mode=True))
