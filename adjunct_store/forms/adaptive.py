"""Values from RocksDB at first, and from arrays once enough rows have been looked up to pay for reading all keys.

A version that seldom changes, or large batches: arrays. Small batches of a version each, and large stores: RocksDB.
All arrays of a process share one budget: a worker of Spark serves whatever join comes.
"""

from __future__ import annotations

import logging
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adjunct_store.forms.disk import RocksDbLookup
from adjunct_store.forms.limit import growth, row_bytes
from adjunct_store.forms.memory import ENTRY_BYTES, InMemoryLookup

if TYPE_CHECKING:
    import pyarrow as pa

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.forms.partitions import PartitionDatabases

logger = logging.getLogger("adjunct_store")

ROWS_PER_KEY = 0.4
"""Rows that are looked up before all keys are read, deleted ones too: one takes as long as 0.4 to 0.8 look-ups."""


@dataclass
class ArrayBudget:
    """How many bytes the arrays of a process may take together. taken: by those that there are."""

    limit: int
    taken: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int, owner: object) -> bool:
        """Whether there is room; then it is the owner's as long as that lives."""
        with self._lock:
            if self.taken + size > self.limit:
                return False
            self.taken += size
        weakref.finalize(owner, self._give_back, size).atexit = False
        return True

    def _give_back(self, size: int) -> None:
        with self._lock:
            self.taken -= size


BUDGET = ArrayBudget(128 << 20)
"""Of this process. The blocks of RocksDB that it keeps have the same."""


class AdaptiveLookup:
    """Finds values in RocksDB or in arrays."""

    def __init__(self, partitions: PartitionDatabases, schema: StoreSchema, budget: ArrayBudget = BUDGET) -> None:
        self._partitions, self._schema, self._budget = partitions, schema, budget
        self._find: RocksDbLookup | InMemoryLookup = RocksDbLookup(partitions, schema)
        self._asked, self._chosen = 0, False

    def __call__(self, batch: pa.RecordBatch, at_most: int | None = None) -> pa.StructArray:
        """The value of each key, in the order of rows; null where there is none. at_most: see `View.lookup`."""
        self._asked += batch.num_rows
        if not self._chosen and self._asked >= ROWS_PER_KEY * sum(self._partitions.expected_keys):
            self._choose()
        return self._find(batch, at_most)

    def _choose(self) -> None:
        self._chosen = True
        if self._size(self._partitions.expected_keys.entries) > self._budget.limit:
            return  # no partition is fetched for the exact size
        raw = self._partitions.raw_bytes
        size = self._size(self._partitions.keys.entries) + raw.keys + growth(self._schema.value_type) * raw.records
        in_memory = InMemoryLookup(self._partitions, self._schema)
        if self._budget.take(size, in_memory):
            self._find = in_memory
            logger.info("An adjunct store is read into memory after %d look-ups: at most %d bytes", self._asked, size)
        elif size <= self._budget.limit:
            self._asked, self._chosen = 0, False  # after as many look-ups others may have given their arrays back

    def _size(self, entries: int) -> int:
        """What this number of entries takes, whatever is in them."""
        return entries * (row_bytes(self._schema.value_type) + ENTRY_BYTES)
