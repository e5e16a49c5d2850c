"""Values from RocksDB: one multi-get of the different keys of a batch for each partition, in key order.

In key order neighbours are in one block, which is found once: twice as fast as in the order of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.encoding.arrays import flags, large_binaries, rows_or_null
from adjunct_store.encoding.keys import encode_keys
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.encoding.values import decode_values
from adjunct_store.engine.entry import data_keys, values_in
from adjunct_store.forms.key_index import neighbours_together
from adjunct_store.forms.limit import ByteBudget, growth, row_bytes
from arrow_avro import int64_array, stored_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.forms.partitions import PartitionDatabases

_GET_AT_ONCE = 1_000
"""Keys. The fastest of those measured; longer lists only take more memory."""
_NONE = pa.nulls(0, pa.large_binary())


class RocksDbLookup:
    """Finds values in RocksDB."""

    def __init__(self, partitions: PartitionDatabases, schema: StoreSchema) -> None:
        self._partitions, self._schema = partitions, schema
        self._row_bytes, self._growth = row_bytes(schema.value_type), growth(schema.value_type)

    def __call__(self, batch: pa.RecordBatch, at_most: int | None = None) -> pa.StructArray:
        """The value of each key, in the order of rows; null where there is none. at_most: see `View.lookup`."""
        limit = ByteBudget(at_most)
        limit.add(batch.num_rows * self._row_bytes)
        different = data_keys(encode_keys(batch)).dictionary_encode()
        found = self._records(different, batch, ByteBudget(at_most))
        limit.add(self._growth * (pc.sum(pc.binary_length(found).take(different.indices)).as_py() or 0))
        there, datums = values_in(found, ordered=self._schema.ordered)
        values = decode_values(datums, self._schema, "values of an adjunct store")
        row_of_key = rows_or_null(np.cumsum(there) - 1, there)
        return values.take(row_of_key.take(different.indices))

    def _records(self, different: pa.DictionaryArray, batch: pa.RecordBatch, limit: ByteBudget) -> pa.Array:
        """The record of each different key, as `large_binary`; null where there is none."""
        keys = different.dictionary
        order = neighbours_together(keys)
        if self._partitions.count == 1:
            found = list(self._get(0, keys.take(int64_array(order)), limit))
        else:
            partitions = partition_of(batch.take(int64_array(_first_rows(different))), self._partitions.count)[order]
            by_partition = np.argsort(partitions, kind="stable")
            order, partitions = order[by_partition], partitions[by_partition]
            sorted_keys = keys.take(int64_array(order))
            numbers, begins, sizes = np.unique(partitions, return_index=True, return_counts=True)
            self._partitions.fetch(numbers.tolist())
            found = []
            for number, begin, size in zip(numbers.tolist(), begins.tolist(), sizes.tolist(), strict=True):
                found += self._get(number, sorted_keys.slice(begin, size), limit)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return pa.concat_arrays(found or [_NONE]).take(int64_array(place))

    def _get(self, partition: int, keys: pa.Array, limit: ByteBudget) -> Iterator[pa.Array]:
        for begin in range(0, len(keys), _GET_AT_ONCE):
            some = keys.slice(begin, _GET_AT_ONCE).to_pylist()
            found = large_binaries(self._partitions.get_many(partition, some))
            limit.add(found.nbytes)
            yield found


def _first_rows(different: pa.DictionaryArray) -> NDArray[np.int64]:
    """For each different key, a row that has it."""
    indices = different.indices
    rows = np.flatnonzero(flags(indices.is_valid()))
    first = np.zeros(len(different.dictionary), np.int64)
    first[stored_values(indices.drop_null(), np.int32)] = rows
    return first
