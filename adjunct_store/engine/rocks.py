"""RocksDB through rocksdict: how stores are opened, and what its errors mean.

Raw mode only: otherwise rocksdict pickles values, and a store from elsewhere could run code. A database that was opened
before a fork hangs in the child, so each one knows the process that has opened it.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from foundation.errors import ConfigurationError, CorruptError

try:
    from rocksdict import (
        AccessType,
        BlockBasedOptions,
        Cache,
        DBCompactionStyle,
        DBCompressionType,
        IngestExternalFileOptions,
        Options,
        Rdict,
        ReadOptions,
        SstFileWriter,
        UniversalCompactOptions,
    )
except ImportError as error:
    text = 'Adjunct stores need the extra `rocksdb`: pip install "pyspark-azureblob[rocksdb]".'
    raise ConfigurationError(text) from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Self

__all__ = ["Database", "Entry", "IngestExternalFileOptions", "RawBytes", "SstFileWriter", "options", "storage_errors"]

_CACHE_BYTES = 128 << 20
"""Of uncompressed blocks; all databases of a process share it."""
_OPEN_FILES = 256
_BLOOM_BITS = 10
_SORTED_RUNS = 8
"""A batch of changes is a sorted run, of one file or few. From this number on a compaction merges some of the newest
into one, and that is uploaded. More would make look-ups slower, though Bloom filters spare most of it."""
_REPLACED_PERCENT = 50
"""All runs are merged into one when the newer ones have this percentage of the bytes of the oldest, which has
most of the store. Until then it stays as it is: with RocksDB's default, compaction by levels, every eighth batch would
write and upload all of a small partition again."""
_LEVELS = 7
Entry: TypeAlias = "tuple[bytes, bytes]"
"""A key and its record."""
_cache: list[tuple[int, Cache]] = []


class RawBytes(NamedTuple):
    """Bytes of keys and of records."""

    keys: int
    records: int


class Database:
    """One open RocksDB. A context manager. Not for a forked child."""

    def __init__(self, directory: Path, *, read_only: bool) -> None:
        self._directory, self._process = directory, os.getpid()
        access = AccessType.read_only(False) if read_only else AccessType.read_write()
        made = options()
        # Of a database that exists, rocksdict takes these options for its columns from `column_families` only.
        columns = {"default": made}
        with storage_errors("open", directory):
            self._open: Rdict | None = Rdict(str(directory), made, column_families=columns, access_type=access)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it. Nothing may be iterating."""
        closing, self._open = self._open, None
        if closing is not None and self._process == os.getpid():
            with storage_errors("close", self._directory):
                closing.close()

    @property
    def rdict(self) -> Any:
        """The database. `ConfigurationError` in a forked child and after `close`."""
        if self._open is None or self._process != os.getpid():
            cause = "it is closed" if self._open is None else "it was opened before this process was forked"
            step = "Open the store in the process, and within the block, that uses it."
            raise ConfigurationError("read", str(self._directory), cause, step)
        return self._open

    @property
    def compacts(self) -> bool:
        """Whether sorted runs are being merged, or will be. Not after an error, such as a full disk: that may last."""
        if self._property("background-errors"):
            return False
        if self._property("num-running-compactions"):
            return True
        # With exactly as many runs as there may be, a compaction can be pending that never comes.
        return bool(self._property("compaction-pending")) and self._sorted_runs() > _SORTED_RUNS

    def _sorted_runs(self) -> int:
        """Each file of level 0 is one; so is each level below that has files."""
        newest, *below = (self._property(f"num-files-at-level{level}") for level in range(_LEVELS))
        return newest + sum(files > 0 for files in below)

    def _property(self, name: str) -> int:
        found: int = self.rdict.property_int_value(f"rocksdb.{name}")
        return found

    @property
    def raw_bytes(self) -> RawBytes:
        """What keys and records take before compression, those that newer ones replace too."""
        text = self.rdict.property_value("rocksdb.aggregated-table-properties")
        sizes = dict(re.findall(r"raw (key|value) size=(\d+)", text))
        return RawBytes(int(sizes["key"]), int(sizes["value"]))

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The records of these keys, in their order. `CorruptError` if a block is damaged."""
        with storage_errors("read", self._directory):
            found: list[bytes | None] = self.rdict.get(keys)
            return found

    def scan(self, start: bytes, stop: bytes | None, at_once: int, *, caches_blocks: bool) -> Iterator[list[Entry]]:
        """Entries from `start` to before `stop`, in order, in lists of `at_once`. `CorruptError` if a block is damaged.

        caches_blocks: whether look-ups and scans after this one will read the same blocks.
        """
        within = ReadOptions()
        within.fill_cache(caches_blocks)  # type: ignore[call-arg]  # in its stub only
        if stop is not None:
            within.set_iterate_upper_bound(stop)
        last = start
        with storage_errors("read", self._directory):
            entries = self.rdict.items(from_key=start, read_opt=within)
            while some := list(islice(entries, at_once)):
                last = some[-1][0]
                yield some
            # A damaged block looks like the end, but not to a seek. Seeks for all entries would take twice the time.
            after = self.rdict.iter(within)
            after.seek(last + b"\x00")
            after.status()
            if after.valid():
                cause = "a scan ended before the last entry"
                raise CorruptError("read", f"store {self._directory}", cause, "Run this again.")


@contextmanager
def storage_errors(operation: str, path: Path) -> Iterator[None]:
    """Errors of RocksDB and of the disk as errors of this project: of damaged files as `CorruptError`."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, OSError):  # rocksdict has no class of its own
            raise
        text = str(error)
        if "orruption" in text or "No such file" in text:
            step = "It is fetched again: run this again. If it stays, run `python -m adjunct_store clean-cache`."
            raise CorruptError(operation, f"store {path}", text, step) from error
        step = "See that there is room on the disk, and that the directory can be written; or give another cache_dir."
        if "Too many open files" in text:
            step = "Raise the limit of open files (`ulimit -n`), or give the store fewer partitions."
        if "lock hold" in text or "/LOCK" in text:
            step = "Another process, or another part of this one, writes the store: wait until it has closed it."
        raise ConfigurationError(operation, f"store {path}", text, step) from error


def options() -> Options:
    """The options of every database and file of a store."""
    made = Options(raw_mode=True)
    made.create_if_missing(True)
    made.set_max_open_files(_OPEN_FILES)
    made.set_keep_log_file_num(1)  # of RocksDB's own log: each opening begins one, and 1,000 are kept otherwise
    made.set_num_levels(_LEVELS)
    made.set_compaction_style(DBCompactionStyle.universal())
    made.set_level_zero_file_num_compaction_trigger(_SORTED_RUNS)
    runs = UniversalCompactOptions()
    runs.max_size_amplification_percent = _REPLACED_PERCENT
    made.set_universal_compaction_options(runs)
    made.set_compression_type(DBCompressionType.lz4())
    blocks = BlockBasedOptions()
    blocks.set_bloom_filter(_BLOOM_BITS, block_based=False)
    blocks.set_block_cache(_shared_cache())
    made.set_block_based_table_factory(blocks)
    return made


def _shared_cache() -> Cache:
    if not _cache or _cache[0][0] != os.getpid():
        _cache[:] = [(os.getpid(), Cache(_CACHE_BYTES))]
    return _cache[0][1]
