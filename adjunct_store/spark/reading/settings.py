"""How a store is read: which version, in which form, where on the host, and what a join adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adjunct_store.view import check_form
from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from adjunct_store.view import Form


@dataclass(frozen=True)
class ReadSettings:
    """Settings of every read. `ConfigurationError` for a value that is not possible.

    version: the number of a version. By default all tasks of a micro-batch read the version that was the newest when it
    began, and those of a batch job the one that is the newest now.
    form: `auto`, `rocksdb`, or `memory`, which each worker process loads whole. With `auto` look-ups are in RocksDB,
    and in memory once a worker has looked up 0.4 rows for each entry of the version, if these take at most 128 MiB.
    cache_dir: a folder on a local disk where hosts keep what they have fetched; by default a folder of the user in the
    temporary folder.
    """

    version: int | None = None
    form: Form = "auto"
    cache_dir: Path | str | None = None

    def __post_init__(self) -> None:
        """Validate."""
        check_form(self.form)
        if self.version is not None and type(self.version) is not int:
            given = f"Argument version: {self.version!r} is not a number."
            raise ConfigurationError(f"{given} Give the number of a version, as `ls` shows it.")

    @property
    def folder(self) -> str | None:
        """`cache_dir` as text, for tasks."""
        return None if self.cache_dir is None else str(self.cache_dir)


@dataclass(frozen=True)
class JoinSettings(ReadSettings):
    """Settings of `join`: those of every read, and the following one.

    shuffle: bring the rows of a store partition into one task, which then opens that partition only: so `auto` is
    `rocksdb`. Without it every task may open all partitions.
    """

    shuffle: bool = False


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
