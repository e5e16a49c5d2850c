"""The open databases of a view, one for each partition. Each is opened when it is first read."""

from __future__ import annotations

import heapq
import os
from typing import TYPE_CHECKING, TypeAlias

from adjunct_store.engine.entry import POSITION_KEY, Position
from adjunct_store.engine.rocks import Database
from azure_account.errors import ConfigurationError, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Directories: TypeAlias = "Callable[[int], Path | None]"
"""The directory of a partition; None if it was never written."""


class Partitions:
    """Read-only databases. `ConfigurationError` in a forked child, which would hang."""

    def __init__(self, directories: Directories, count: int) -> None:
        self._directories, self.count, self._process = directories, count, os.getpid()
        self._open: dict[int, Database | None] = {}

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The records of keys of one partition, in their order. Sorted keys are found in half the time."""
        database = self.database(partition)
        return [None] * len(keys) if database is None else database.get_many(keys)

    def position(self, partition: int) -> Position | None:
        """None for a partition that was never written."""
        found = self.get_many(partition, [POSITION_KEY])[0]
        return None if found is None else Position.from_bytes(found)

    def scan(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Entries of all partitions, in the order of keys."""
        return heapq.merge(*(self.scan_one(each, start, stop) for each in range(self.count)))

    def scan_one(self, partition: int, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Entries of one partition, in the order of keys."""
        database = self.database(partition)
        return iter(()) if database is None else database.scan(start, stop)

    def database(self, partition: int) -> Database | None:
        """That of a partition. `CorruptError` if it cannot be opened since a file is damaged or missing."""
        if self._process != os.getpid():
            step = "Open the store in the process that uses it."
            raise ConfigurationError(describe("read", "an adjunct store", "it was opened before a fork", step))
        if partition not in self._open:
            directory = self._directories(partition)
            self._open[partition] = None if directory is None else Database(directory, read_only=True)
        return self._open[partition]

    def close(self) -> None:
        """Close the files."""
        for database in self._open.values():
            if database is not None:
                database.close()
        self._open.clear()
