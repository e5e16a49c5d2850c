"""A folder as a tool sees it that lists its data files: which rows it has, how often, and which files it cannot read.

Like Spark, Hive, Trino and Synapse it skips names of which a level begins with `_` or `.`.
"""

from __future__ import annotations

import io
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import fastavro
import numpy as np
import polars as pl
from azure.core.exceptions import ResourceNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt
    from azure.storage.blob import ContainerClient

SECONDS = 1.0
"""Between two looks while the job runs."""


@dataclass(frozen=True)
class Seen:
    """What one look has found. half: files that cannot be read, such as empty ones."""

    rows: int
    different: int
    half: int

    @property
    def doubled(self) -> int:
        """Rows that are there beside the first of the same number."""
        return self.rows - self.different

    def lost(self, expected: int) -> int:
        """Rows that should be there and are not."""
        return expected - self.different


def counted(files: Iterable[npt.NDArray[np.int64] | None]) -> Seen:
    """What files with these row numbers are to who reads them all; None is a file that cannot be read. Pure."""
    found = list(files)
    whole = [numbers for numbers in found if numbers is not None]
    numbers = np.concatenate([np.empty(0, np.int64), *whole])
    return Seen(len(numbers), len(np.unique(numbers)), len(found) - len(whole))


def row_numbers(name: str, data: bytes) -> npt.NDArray[np.int64] | None:
    """The numbers of a file's rows, in its order; None if it cannot be read."""
    try:
        if name.endswith(".parquet"):
            return pl.read_parquet(data, columns=["number"])["number"].to_numpy()
        return np.fromiter((row["number"] for row in fastavro.reader(io.BytesIO(data))), np.int64)
    except (ValueError, EOFError, KeyError, IndexError, pl.exceptions.PolarsError):
        return None


def is_data(name: str, suffix: str) -> bool:
    """Whether a tool takes this name for a data file."""
    return name.endswith(suffix) and not any(level.startswith(("_", ".")) for level in name.split("/"))


@dataclass
class Lister:
    """Looks at the folder of a container; files that it has read are kept. most: the worst of all looks."""

    container: ContainerClient
    folder: str
    suffix: str
    most_doubled: int = 0
    most_half: int = 0
    looks: int = 0
    _files: dict[tuple[str, str], npt.NDArray[np.int64] | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def names(self) -> dict[str, str]:
        """The data files and their ETags; none if there is no container."""
        try:
            blobs = list(self.container.list_blobs(f"{self.folder}/"))
        except ResourceNotFoundError:
            return {}
        return {blob.name: str(blob.etag) for blob in blobs if is_data(blob.name, self.suffix)}

    def staged(self) -> int:
        """Names that have staged blocks only, which no listing of blobs shows unless it asks for them."""
        every = {blob.name for blob in self.container.list_blobs(f"{self.folder}/", include="uncommittedblobs")}
        return len(every - {blob.name for blob in self.container.list_blobs(f"{self.folder}/")})

    def look(self) -> Seen:
        """What is there now. A file that is deleted meanwhile is not."""
        with self._lock:
            files = {key: self._read(*key) for key in self.names().items()}
            self._files = {key: numbers for key, numbers in files.items() if not isinstance(numbers, _Gone)}
            seen = counted(self._files.values())
            self.most_doubled, self.most_half = max(self.most_doubled, seen.doubled), max(self.most_half, seen.half)
            self.looks += 1
            return seen

    @contextmanager
    def watching(self, seconds: float = SECONDS) -> Iterator[None]:
        """Look again and again, for as long as the block runs."""
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop, seconds), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _watch(self, stop: threading.Event, seconds: float) -> None:
        while not stop.wait(seconds):
            self.look()

    def _read(self, name: str, etag: str) -> npt.NDArray[np.int64] | _Gone | None:
        if (name, etag) in self._files:
            return self._files[name, etag]
        try:
            return row_numbers(name, self.container.download_blob(name).readall())
        except ResourceNotFoundError:
            return _Gone()


class _Gone:
    """Of a file that was deleted between the listing and its read."""
