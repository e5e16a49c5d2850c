"""Write one partition: changes and the position of their source, all of it or nothing.

changes ─► sorted ─► last of each key ─► not older than what is there ─► files of 64 MiB ─► one ingestion
                                                              position ─┘
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adjunct_store.engine.changes import ApplyResult, effective, encoded, last_changes
from adjunct_store.engine.entry import POSITION_KEY, VALUE, PartitionProgress
from adjunct_store.engine.rocks import Database, IngestExternalFileOptions, SstFileWriter, options, storage_errors
from adjunct_store.engine.sorting import RUN_BYTES, in_order
from foundation.clock import SYSTEM_CLOCK, Clock
from state_backup import rocksdb_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Self

    import pyarrow as pa

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.engine.entry import Changes

FILE_BYTES = 64 << 20
_SETTLE_SECONDS = 600.0
_SETTLE_POLL = 0.02


class PartitionStore:
    """A partition in a directory, which this process alone writes. A context manager."""

    def __init__(
        self, directory: Path, schema: StoreSchema, *, file_bytes: int = FILE_BYTES, run_bytes: int = RUN_BYTES
    ) -> None:
        """file_bytes: of a sorted file, about. run_bytes: of changes that are sorted in memory."""
        self._directory, self._schema = directory, schema
        self._file_bytes, self._run_bytes = file_bytes, run_bytes
        self._files = directory.with_name(f"{directory.name}.sst")
        shutil.rmtree(self._files, ignore_errors=True)
        self._database = Database(directory, read_only=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._database.close()
        finally:
            shutil.rmtree(self._files, ignore_errors=True)

    @property
    def position(self) -> PartitionProgress | None:
        """Source and batch of the last run; None before the first."""
        found = self._database.get_many([POSITION_KEY])[0]
        return None if found is None else PartitionProgress.from_bytes(found)

    def apply(
        self, changes: Iterable[pa.RecordBatch], position: PartitionProgress, *, are_sorted: bool = False
    ) -> ApplyResult:
        """Apply the changes of a batch of a source, all of them with the position, or nothing.

        changes: batches with the key columns, a struct `value` (null: delete the key) and, in an ordered store, an
        int64 `order`. are_sorted: by key and order; the default takes them in any order and sorts them, on disk what
        exceeds 64 MiB. position: its counts are set here.

        After an error, or the death of the process, the partition is as before. `ConfigurationError` for two different
        changes of a key of which none is the later one, for an entry that is too large, and if the disk is full;
        `CorruptError` if what is there is damaged; `ValueError` if changes are not sorted that are said to be.
        """
        before = self.position
        stored = self._database.get_many if before else None
        applied = ApplyResult() if before is None else ApplyResult(before.entries, before.tombstones)
        with self._folder() as folder:
            found = encoded(changes, self._schema)
            files = _SortedFiles(folder, self._file_bytes, deletes=not self._schema.ordered)
            for each in last_changes(found if are_sorted else in_order(found, folder, self._run_bytes), self._schema):
                files.add(effective(each, stored, applied))
            files.finish(replace(position, entries=applied.entries, tombstones=applied.tombstones))
            with storage_errors("write", self._directory):
                moving = IngestExternalFileOptions()
                moving.set_move_files(True)
                self._database.rdict.ingest_external_file([str(path) for path in files.written], moving)
        self._settle()
        return applied

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """An empty folder for the files of a run."""
        with storage_errors("write", self._files):
            shutil.rmtree(self._files, ignore_errors=True)
            self._files.mkdir()
        try:
            yield self._files
        finally:
            shutil.rmtree(self._files, ignore_errors=True)

    def checkpoint(self) -> AbstractContextManager[Path]:
        """A directory that has the partition as it is now, as long as the block lasts."""
        return rocksdb_checkpoint(self._database.rdict)

    def _settle(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Wait for compactions, so that the files of many runs become few before they are uploaded."""
        end = clock.monotonic() + _SETTLE_SECONDS
        while self._database.compacts and clock.monotonic() < end:
            clock.sleep(_SETTLE_POLL)


@dataclass
class _SortedFiles:
    """Files that RocksDB can take in. The first one has the position too, so a small run is one file.

    The position is known at the end, and its key is the lowest: so the entries of the first file wait for it.
    """

    folder: Path
    file_bytes: int
    deletes: bool
    written: list[Path] = field(default_factory=list)
    _first: list[Changes] = field(default_factory=list)
    _first_bytes: int = 0
    _writer: SstFileWriter | None = None

    def add(self, changes: Changes) -> None:
        """Add entries whose keys are above all earlier ones."""
        if not len(changes.keys):
            return
        if self._first_bytes < self.file_bytes:
            self._first.append(changes)
            self._first_bytes += changes.keys.nbytes + changes.records.nbytes
            return
        with storage_errors("write", self.folder):
            self._write(changes, self._writer or self._begin())
            if self._writer is not None and self._writer.file_size() >= self.file_bytes:
                self._end()

    def finish(self, position: PartitionProgress) -> None:
        """Write what is left, with the position."""
        with storage_errors("write", self.folder):
            self._end()
            writer = self._begin()
            writer[POSITION_KEY] = position.to_bytes()
            for changes in self._first:
                self._write(changes, writer)
            self._end()

    def _write(self, changes: Changes, writer: SstFileWriter) -> None:
        for key, record in zip(changes.keys.to_pylist(), changes.records.to_pylist(), strict=True):
            if self.deletes and record[0] != VALUE:
                del writer[key]
            else:
                writer[key] = record

    def _begin(self) -> SstFileWriter:
        path = self.folder / f"{len(self.written):06}.sst"
        self.written.append(path)
        self._writer = SstFileWriter(options())
        self._writer.open(str(path))
        return self._writer

    def _end(self) -> None:
        if self._writer is not None:
            self._writer.finish()
        self._writer = None
