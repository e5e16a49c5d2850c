"""Values from RocksDB at first, and from arrays once enough rows have been looked up to pay for reading all entries.

A version that seldom changes, or large batches: arrays. Small batches of a version each, and large stores: RocksDB.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adjunct_store.forms.disk import RocksDbLookup
from adjunct_store.forms.limit import growth, row_bytes
from adjunct_store.forms.memory import ENTRY_BYTES, InMemoryLookup

if TYPE_CHECKING:
    import pyarrow as pa

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.forms.partitions import PartitionDatabases

logger = logging.getLogger(__name__)

ROWS_PER_ENTRY = 0.4
"""Rows that are looked up before all entries are read. To read one takes as long as 0.4 to 0.8 look-ups on disk."""
MEMORY_BYTES = 128 << 20
"""Limit of the arrays. The blocks of RocksDB that a process keeps have the same."""


class AdaptiveLookup:
    """Finds values in RocksDB or in arrays."""

    def __init__(self, partitions: PartitionDatabases, schema: StoreSchema) -> None:
        self._partitions, self._schema = partitions, schema
        self._find: RocksDbLookup | InMemoryLookup = RocksDbLookup(partitions, schema)
        self._asked, self._chosen = 0, False

    def __call__(self, batch: pa.RecordBatch, at_most: int | None = None) -> pa.StructArray:
        """The value of each key, in the order of rows; null where there is none. at_most: see `View.lookup`."""
        self._asked += batch.num_rows
        if not self._chosen and self._asked >= ROWS_PER_ENTRY * self._partitions.expected_entries:
            self._choose()
        return self._find(batch, at_most)

    def _choose(self) -> None:
        self._chosen = True
        if self._size(self._partitions.expected_entries) > MEMORY_BYTES:
            return  # no partition is fetched for the exact size
        raw = self._partitions.raw_bytes
        size = self._size(self._partitions.entries) + raw.keys + growth(self._schema.value_type) * raw.records
        if size <= MEMORY_BYTES:
            self._find = InMemoryLookup(self._partitions, self._schema)
            logger.info("An adjunct store is read into memory after %d look-ups: at most %d bytes", self._asked, size)

    def _size(self, entries: int) -> int:
        """What this number of entries takes, whatever is in them."""
        return entries * (row_bytes(self._schema.value_type) + ENTRY_BYTES)
