"""The open databases of a view, one for each partition. Each is opened when it is first read."""

from __future__ import annotations

import heapq
import os
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from adjunct_store.engine.entry import AFTER_DATA, DATA, POSITION_KEY, PartitionProgress
from adjunct_store.engine.rocks import Database, RawBytes
from adjunct_store.host.directories import KeyCounts
from foundation.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adjunct_store.engine.rocks import Entry
    from adjunct_store.host.directories import PartitionDirectories, PartitionDirectory

_MERGED_AT_ONCE = 1_000
OnDamage: TypeAlias = "Callable[[int, CorruptError], object]"
"""Is called with the partition before the error of a damaged file in its directory is raised."""


class PartitionDatabases:
    """Read-only databases. `ConfigurationError` in a forked child, which would hang."""

    def __init__(self, directories: PartitionDirectories, count: int, on_damage: OnDamage = lambda _, __: None) -> None:
        self._directories, self._on_damage = directories, on_damage
        self.count: int = count
        self._process = os.getpid()
        self._open: dict[int, Database | None] = {}

    def fetch(self, partitions: Iterable[int]) -> None:
        """Fetch at the same time those that are about to be read; else each is fetched when it is read."""
        self._check_process()
        self._directories.fetch([each for each in partitions if each not in self._open])

    def get_many(self, partition: int, keys: Sequence[bytes]) -> list[bytes | None]:
        """The records of keys of one partition, in their order. Sorted keys are found in half the time."""
        database = self._database(partition)
        if database is None:
            return [None] * len(keys)
        with self._reporting_damage(partition):
            return database.get_many(keys)

    @property
    def expected_keys(self) -> KeyCounts:
        """How many there are, as published. If that is not known, all partitions are fetched and counted."""
        known = self._directories.keys
        return self.keys if known is None else known

    @property
    def keys(self) -> KeyCounts:
        """How many there are in all partitions, which are fetched."""
        self.fetch(range(self.count))
        found = [each for each in map(self.position, range(self.count)) if each is not None]
        return KeyCounts(sum(each.entries for each in found), sum(each.tombstones for each in found))

    @property
    def raw_bytes(self) -> RawBytes:
        """What keys and records take, uncompressed, in all partitions, which are fetched."""
        self.fetch(range(self.count))
        databases = (self._database(each) for each in range(self.count))
        each = [database.raw_bytes for database in databases if database is not None]
        return RawBytes(sum(some.keys for some in each), sum(some.records for some in each))

    def position(self, partition: int) -> PartitionProgress | None:
        """Source and batch of a partition; None if it was never written."""
        return None if (database := self._database(partition)) is None else _position(database)

    def scan(self, start: bytes, stop: bytes | None) -> Iterator[Entry]:
        """Entries of all partitions, in the order of keys."""
        self.fetch(range(self.count))
        each = (self._scanned(number, start, stop, _MERGED_AT_ONCE) for number in range(self.count))
        return heapq.merge(*map(chain.from_iterable, each))

    def all_of(self, partition: int, at_once: int) -> Iterator[list[Entry]]:
        """All entries of one partition that have a key, in the order of keys, in lists of `at_once`."""
        return self._scanned(partition, DATA, AFTER_DATA, at_once, caches_blocks=False)

    def close(self) -> None:
        """Close the files."""
        for database in self._open.values():
            if database is not None:
                database.close()
        self._open.clear()

    def _scanned(
        self, partition: int, start: bytes, stop: bytes | None, at_once: int, *, caches_blocks: bool = True
    ) -> Iterator[list[Entry]]:
        database = self._database(partition)
        if database is not None:
            with self._reporting_damage(partition):
                yield from database.scan(start, stop, at_once, caches_blocks=caches_blocks)

    def _database(self, partition: int) -> Database | None:
        """That of a partition. `CorruptError` if it cannot be opened since a file is damaged or missing."""
        self._check_process()
        if partition not in self._open:
            directory = self._directories.directory(partition)
            if directory is None:
                self._open[partition] = None
            else:
                with self._reporting_damage(partition):
                    self._open[partition] = _opened(directory)
        return self._open[partition]

    def _check_process(self) -> None:
        if self._process != os.getpid():
            step = "Open the store in the process that uses it."
            raise ConfigurationError("read", "an adjunct store", "it was opened before a fork", step)

    @contextmanager
    def _reporting_damage(self, partition: int) -> Iterator[None]:
        try:
            yield
        except CorruptError as error:
            self._on_damage(partition, error)
            raise


def _opened(directory: PartitionDirectory) -> Database:
    database = Database(directory.path, read_only=True)
    try:
        _check_position(database, directory)
    except BaseException:
        database.close()
        raise
    return database


def _check_position(database: Database, directory: PartitionDirectory) -> None:
    """RocksDB takes a MANIFEST that ends too early for an older state of the database: its position shows it."""
    if directory.batch is None:
        return
    position = _position(database)
    if position is None or position.batch != directory.batch:
        now = "no position" if position is None else f"the position of batch {position.batch}"
        cause = f"it has {now}, and batch {directory.batch} wrote it"
        raise CorruptError("open", f"store {directory.path}", cause, "It is fetched again.")


def _position(database: Database) -> PartitionProgress | None:
    found = database.get_many([POSITION_KEY])[0]
    return None if found is None else PartitionProgress.from_bytes(found)
