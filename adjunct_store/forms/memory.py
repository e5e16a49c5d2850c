"""Values from arrays, for small stores: at the first look-up, all of the store is read and decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.encoding.arrays import booleans, flags, large_binaries, rows_or_null
from adjunct_store.encoding.keys import encode_keys
from adjunct_store.encoding.values import decode_values
from adjunct_store.engine.entry import DATA, values_in
from adjunct_store.forms.key_index import KeyIndex
from adjunct_store.forms.limit import ByteBudget, growth, row_bytes
from arrow_avro import stored_values
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.forms.partitions import PartitionDatabases

_READ_AT_ONCE = 50_000
"""Entries."""
ENTRY_BYTES = 40
"""Of an entry beside its key and its value: hash, row, bucket, size, offset of the key."""


class InMemoryLookup:
    """Finds values in arrays. Memory: the decoded values, the keys, and `ENTRY_BYTES` for each."""

    def __init__(self, partitions: PartitionDatabases, schema: StoreSchema) -> None:
        self._partitions, self._schema = partitions, schema
        self._index: KeyIndex | None = None
        self._values = pa.nulls(0, schema.value_type)
        self._sizes = np.array([], np.int64)

    def __call__(self, batch: pa.RecordBatch, at_most: int | None = None) -> pa.StructArray:
        """The value of each key, in the order of rows; null where there is none. at_most: see `View.lookup`."""
        limit = ByteBudget(at_most)
        limit.add(batch.num_rows * row_bytes(self._values.type))
        index = self._index or self._load()
        keys = encode_keys(batch)
        if not keys.null_count:
            rows = index.rows(keys)
        else:
            rows = np.full(len(keys), -1, np.int64)
            rows[flags(keys.is_valid())] = index.rows(keys.drop_null())
        there = rows >= 0
        limit.add(growth(self._values.type) * int(self._sizes[rows[there]].sum()))
        return self._values.take(rows_or_null(rows, there))

    def _load(self) -> KeyIndex:
        try:
            return self._read_all()
        except pa.ArrowInvalid as error:  # offsets of 32 bits
            text = f"The store is too large for the form memory: {error}. Use the form rocksdb."
            raise ConfigurationError(text) from error

    def _read_all(self) -> KeyIndex:
        keys, values, sizes = [pa.nulls(0, pa.large_binary())], [self._values], [self._sizes]
        self._partitions.fetch(range(self._partitions.count))
        for partition in range(self._partitions.count):
            for some in self._partitions.all_of(partition, _READ_AT_ONCE):
                records = large_binaries([record for _, record in some])
                there, datums = values_in(records, ordered=self._schema.ordered)
                of_data = large_binaries([key for key, _ in some])
                keys.append(pc.binary_replace_slice(of_data, 0, len(DATA), b"").filter(booleans(there)))
                sizes.append(stored_values(pc.binary_length(datums), np.int64))
                values.append(decode_values(datums, self._schema, "values of an adjunct store"))
        self._values, self._sizes = pa.concat_arrays(values), np.concatenate(sizes)
        self._index = KeyIndex(pa.concat_arrays(keys))
        return self._index
