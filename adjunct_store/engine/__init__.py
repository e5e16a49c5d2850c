"""One partition of a store on disk: entries in RocksDB.

entry      key and record bytes
sorting    changes in any order become sorted ones
changes    what sorted changes do to the entries that are there
rocks      RocksDB: options, opening, errors
partition  write: changes and their position, all or nothing
"""

from __future__ import annotations

from adjunct_store.engine.changes import ApplyResult
from adjunct_store.engine.entry import PartitionProgress
from adjunct_store.engine.partition import PartitionStore

__all__ = ["ApplyResult", "PartitionProgress", "PartitionStore"]
