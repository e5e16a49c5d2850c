"""How a store is read: which version, in which form, where on the host, and what a join adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from adjunct_store.view import Form
from foundation.arguments import Natural, checked


@checked
@dataclass(frozen=True)
class ReadSettings:
    """Settings of every read. `ConfigurationError` for a value that is not possible.

    version: the number of a version. By default all tasks of a micro-batch read the version that was the newest when it
    began, and those of a batch job the one that is the newest now.
    form: `auto`, `rocksdb`, or `memory`, which each worker process loads whole. With `auto` look-ups are in RocksDB,
    and in memory once a worker has looked up 0.4 rows for each key of the version, as far as 128 MiB are enough for all
    stores that it has in memory.
    cache_dir: a folder on a local disk where hosts keep what they have fetched; by default a folder of the user in the
    temporary folder.
    """

    version: Natural | None = None
    form: Form = "auto"
    cache_dir: Path | str | None = None

    @property
    def folder(self) -> str | None:
        """`cache_dir` as text, for tasks."""
        return None if self.cache_dir is None else str(self.cache_dir)


@checked
@dataclass(frozen=True)
class JoinSettings(ReadSettings):
    """Settings of `join`: those of every read, and the following one.

    shuffle: bring the rows of a store partition into one task, which then opens that partition only: so `auto` is
    `rocksdb`. Without it every task may open all partitions.
    """

    shuffle: bool = False


@checked
@dataclass(frozen=True)
class JoinColumns:
    """The columns that a join adds.

    names: value columns of the store; by default all.
    prefix: comes before their names.
    indicator: the name of a Boolean column that a left join adds: whether the store has the key. The values of a key
    that the store has may be null. By default no such column is added.
    """

    names: Sequence[str] | None = None
    prefix: str = ""
    indicator: str | None = None
