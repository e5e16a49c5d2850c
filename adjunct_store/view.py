"""Read a version of a store: look up columns of keys, get single keys, scan in key order. Nothing here can write.

    rocksdb   keys ─► bytes ─► different ones ─► their partitions ─► multi-gets ─► datums ─► values, in row order
    memory    keys ─► bytes ─► hashes ─► rows ─► values, in row order
    auto      rocksdb, and memory when many rows have been looked up

A view belongs to the process that opened it. The form `memory` reads all of a store at first: each process then has all
of it in memory, and a look-up takes an eighth of the time. The form `auto` does so when that pays, if it is not large.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from adjunct_store.encoding.arrays import large_binaries
from adjunct_store.encoding.keys import decode_keys, encode_prefix, key_columns
from adjunct_store.encoding.values import decode_values
from adjunct_store.engine.entry import AFTER_DATA, DATA, values_in
from adjunct_store.forms.adaptive import AdaptiveLookup
from adjunct_store.forms.disk import RocksDbLookup
from adjunct_store.forms.memory import InMemoryLookup
from adjunct_store.forms.partitions import PartitionDatabases
from adjunct_store.host.directories import KnownDirectories
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.forms.partitions import OnDamage
    from adjunct_store.host.directories import PartitionDirectories
    from adjunct_store.metrics import StoreMetrics

Form: TypeAlias = Literal["auto", "rocksdb", "memory"]
Key: TypeAlias = tuple[Any, ...]
Value: TypeAlias = dict[str, Any]
_LOOKUPS: dict[Form, type[AdaptiveLookup | RocksDbLookup | InMemoryLookup]] = {
    "auto": AdaptiveLookup,
    "rocksdb": RocksDbLookup,
    "memory": InMemoryLookup,
}
FORMS: tuple[Form, ...] = tuple(_LOOKUPS)
_SCANNED_AT_ONCE = 1_000
_WHAT = "values of an adjunct store"


class View:
    """One version of a store, read-only. A context manager. Not for a forked child, and not thread-safe.

    directories: of the partitions that have entries, or what gives them when the first key of one is looked up.
    metrics: count look-ups there. on_damage: is called before an error of a damaged file is raised.
    `ConfigurationError` for keys of other types than the store's, `CorruptError` if a file is damaged.
    """

    def __init__(
        self,
        directories: Mapping[int, Path] | PartitionDirectories,
        schema: StoreSchema,
        form: Form = "rocksdb",
        metrics: StoreMetrics | None = None,
        on_damage: OnDamage = lambda _, __: None,
    ) -> None:
        if form not in FORMS:
            raise ConfigurationError(f"Argument form: {form!r} is not possible. Give auto, rocksdb or memory.")
        if isinstance(directories, Mapping):
            directories = KnownDirectories(directories)
        self.schema: StoreSchema = schema
        self._metrics = metrics
        self._partitions = PartitionDatabases(directories, schema.partitions, on_damage)
        self._find = _LOOKUPS[form](self._partitions, schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._partitions.close()

    def lookup(self, keys: pa.RecordBatch | pa.Table | pa.StructArray, at_most: int | None = None) -> pa.StructArray:
        """The value of each key, in the order of rows; null where there is none, and for keys with a null.

        keys: the store's key columns, in their order; under other names if these are not those of the store in another
        order. at_most: bytes; `TooManyBytesError`, soon, if the values of all rows take more.
        """
        if isinstance(keys, pa.Table):
            keys = keys.to_struct_array().combine_chunks()
        batch = self._typed(pa.RecordBatch.from_struct_array(keys) if isinstance(keys, pa.StructArray) else keys)
        if self._metrics is None:
            return self._find(batch, at_most)
        with self._metrics.measured("lookupSeconds"):
            found = self._find(batch, at_most)
        self._metrics.count("lookups", len(found))
        self._metrics.count("hits", len(found) - found.null_count)
        self._metrics.count("misses", found.null_count)
        return found

    def get(self, *key: object) -> Value | None:
        """The value of one key, given by its columns; None if there is none."""
        return self.get_many([key])[0]

    def get_many(self, keys: Sequence[Key]) -> list[Value | None]:
        """The values of keys, None for those that are not there."""
        found: list[Value | None] = _in_python(self.lookup(key_columns(keys, self.schema.keys)))
        return found

    def prefix(self, *first: object) -> Iterator[tuple[Key, Value]]:
        """Keys that begin with these columns, with their values, in key order. A last string may be a beginning."""
        start = DATA + encode_prefix(first, self.schema.keys)
        return self._scan(start, _after(start))

    def scan(self, start: Key | None = None, stop: Key | None = None) -> Iterator[tuple[Key, Value]]:
        """Keys from `start` to before `stop`, with values, in key order. A bound may be the first columns only."""
        begin = DATA + (encode_prefix(start, self.schema.keys) if start else b"")
        end = DATA + encode_prefix(stop, self.schema.keys) if stop else AFTER_DATA
        return self._scan(begin, end)

    @property
    def entries(self) -> int:
        """How many keys have a value, in all partitions."""
        return self._partitions.keys.entries

    def _typed(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        wanted = self.schema.keys
        if keys.num_columns != len(wanted):
            text = f"{keys.num_columns} columns are looked up; the store's keys have {len(wanted)}: {wanted.names}."
            raise ConfigurationError(text)
        if keys.schema.names != wanted.names and sorted(keys.schema.names) == sorted(wanted.names):
            given = ", ".join(keys.schema.names)
            raise ConfigurationError(f"Columns {given} are looked up; give them in the store's order: {wanted.names}.")
        columns = [_cast(column, of) for column, of in zip(keys.columns, wanted, strict=True)]
        return pa.RecordBatch.from_arrays(columns, names=wanted.names)

    def _scan(self, start: bytes, stop: bytes | None) -> Iterator[tuple[Key, Value]]:
        rows = self._partitions.scan(start, stop)
        while some := list(islice(rows, _SCANNED_AT_ONCE)):
            yield from self._decoded(some)

    def _decoded(self, rows: Sequence[tuple[bytes, bytes]]) -> Iterator[tuple[Key, Value]]:
        records = large_binaries([record for _, record in rows])
        there, datums = values_in(records, ordered=self.schema.ordered)
        if not len(datums):
            return iter(())
        encoded = large_binaries([rows[row][0][1:] for row in np.flatnonzero(there).tolist()])
        keys = [_in_python(column) for column in decode_keys(encoded, self.schema.keys).columns]
        values = _in_python(decode_values(datums, self.schema, _WHAT))
        return zip(zip(*keys, strict=True), values, strict=True)


def _in_python(column: pa.Array) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        cause = "it has a date or time outside the years 1 to 9999, the range of Python"
        raise ConfigurationError("read", "an entry", cause, "Use lookup or join: Arrow has them.") from error
    return found


def _cast(column: pa.Array, wanted: pa.Field) -> pa.Array:
    """Cast a column to the key's type: a narrower integer is widened, nothing else is converted."""
    given = column.type
    if given.equals(wanted.type) or _same_kind(given, wanted.type):
        return column.cast(wanted.type)
    if pa.types.is_integer(given) and pa.types.is_integer(wanted.type) and given.bit_width <= wanted.type.bit_width:
        return column.cast(wanted.type)
    text = f"Key column {wanted.name!r} of the store has type {wanted.type}; {given} is looked up. Cast it."
    raise ConfigurationError(text)


def _same_kind(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Large and small strings, and timestamps of whatever zone: they are the same values."""
    types = pa.types
    if types.is_timestamp(given) and types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None) and given.unit == wanted.unit
    strings = types.is_string(wanted) and types.is_large_string(given)
    return strings or (types.is_binary(wanted) and types.is_large_binary(given))


def _after(prefix: bytes) -> bytes | None:
    """The lowest bytes above all that begin with the prefix."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
