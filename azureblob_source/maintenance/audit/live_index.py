"""Live blobs by name, and what pages of a listing show of them. Pure.

    live table ─► sorted by name ─► page by page: seen? size and attempt as in the entry? ─► what differs
                                                                                          └► extra names

A page is compared with the part of the table between its first and its last name. So a sorted listing takes little
time, and any other order finds the same.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.log.checkpoint.sorted_names import places_of
from azureblob_source.log.entry import DISCARDED, BlobEntry, attempt_of
from azureblob_source.log.folder import is_avro
from azureblob_source.log.naming import (
    checkpoint_version,
    log_stream,
    log_version,
    may_be_data,
    of_replaced,
    schema_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure_account.values import BlobProperties

AUDITED = ("name", "attempt", "blocks", "rows", "size", "etag", "version", "moved_in", "committed")
"""The columns of a live table that an audit needs."""
EXTRA = pa.schema([("name", pa.string()), ("attempt", pa.string())])
"""Blobs of a listing that are not live under their names; the attempt that their metadata names, or null."""


def empty() -> pa.Table:
    """A live table without rows, in the columns `AUDITED`."""
    return LIVE.empty_table().select(AUDITED)


class LiveIndex:
    """A live table in the columns `AUDITED`, by name."""

    def __init__(self, live: pa.Table) -> None:
        named = live.set_column(0, "name", live["name"].cast(pa.large_string()))
        self.table: pa.Table = named.take(pc.sort_indices(named["name"])).combine_chunks()
        self._names = self.table["name"].combine_chunks() if len(live) else pa.array([], pa.large_string())
        if isinstance(self._names, pa.ChunkedArray):
            self._names = self._names.chunk(0)
        self.sizes: np.ndarray[Any, np.dtype[np.int64]]
        self.rows_of: np.ndarray[Any, np.dtype[np.int64]]
        self.committed: np.ndarray[Any, Any]
        self.sizes, self.rows_of, self.committed = (
            self.table[column].to_numpy() for column in ("size", "version", "committed")
        )
        self.versions: np.ndarray[Any, np.dtype[np.int64]] = pc.coalesce(
            self.table["moved_in"], self.table["version"]
        ).to_numpy()
        """Of the entries that name the blobs; `rows_of` and `committed` are of those that added the newest rows."""
        self.adopts = bool(len(live)) and self.table["etag"].null_count == 0
        """Whether the blobs are of another program: an adopted one is known by its ETag, another by its attempt."""

    def __len__(self) -> int:
        """How many blobs are live."""
        return int(self.table.num_rows)

    def places(self, names: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Where these names are in the table; -1 for one that is not live."""
        return places_of(names, self._names)

    def place(self, name: str) -> int | None:
        """Where one name is."""
        found = int(self.places([name])[0]) if len(self) else -1
        return None if found < 0 else found

    def marks(self, places: np.ndarray[Any, Any]) -> pa.Array:
        """The attempts of the blobs at these places; the ETags of adopted ones."""
        found = self.table["etag" if self.adopts else "attempt"].take(pa.array(places))
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def blob(self, place: int, stream: str) -> BlobEntry:
        """The blob at a place, as far as an audit needs it."""
        row = self.table.slice(place, 1).to_pylist()[0]
        return BlobEntry(
            row["name"],
            stream,
            None,
            row["attempt"],
            row["blocks"],
            row["rows"],
            0,
            row["size"],
            "",
            "audited",
            etag=row["etag"],
        )


class Sweep:
    """What the pages of a stream's listing show: of live blobs, of the log, and which other data blobs are there."""

    def __init__(self, index: LiveIndex, stream: str) -> None:
        self.index: LiveIndex = index
        self.stream: str = stream
        self.listed: int = 0
        self.seen: np.ndarray[Any, np.dtype[np.bool_]] = np.zeros(len(index), bool)
        self.modified: np.ndarray[Any, np.dtype[np.float64]] = np.zeros(len(index), np.float64)
        """When live blobs were written last, in seconds since 1970 by the service's clock; 0 if not seen."""
        self.odd: list[int] = []
        """Places of live blobs that have not the size or the attempt of their entry."""
        self.versions: array[int] = array("q")
        self.put_at: array[float] = array("d")
        """The versions of entries, and when they were put."""
        self.checkpoints: dict[int, float] = {}
        """When the checkpoints of versions were put."""
        self.schemas: set[str] = set()
        self.kept: dict[str, tuple[int, str | None]] = {}
        """Sizes and attempts of the copies of removed blobs, by their names."""
        self._nested: set[str] = set()
        self._extra: list[pa.RecordBatch] = []

    def page(self, blobs: Sequence[BlobProperties]) -> None:
        """Take in some more blobs of the listing."""
        self.listed += len(blobs)
        data = [blob for blob in blobs if self._is_data(blob)]
        if not data:
            return
        places = self.index.places([blob.name for blob in data])
        live = places >= 0
        at = places[live]
        found = [blob for blob, is_live in zip(data, live, strict=True) if is_live]
        self.seen[at] = True
        self.modified[at] = [blob.last_modified.timestamp() for blob in found]
        same = self.index.sizes[at] == np.array([blob.size for blob in found], np.int64)
        mark = (lambda blob: blob.etag) if self.index.adopts else (lambda blob: attempt_of(blob.metadata))
        marks = pa.array(map(mark, found), pa.string())
        same &= pc.equal(self.index.marks(at), marks).fill_null(False).to_numpy(zero_copy_only=False)
        self.odd += at[~same].tolist()
        extra = [blob for blob, is_live in zip(data, live, strict=True) if not is_live]
        if extra:
            columns = [blob.name for blob in extra], [attempt_of(blob.metadata) for blob in extra]
            self._extra.append(
                pa.RecordBatch.from_arrays([pa.array(each, pa.string()) for each in columns], schema=EXTRA)
            )

    def _is_data(self, blob: BlobProperties) -> bool:
        """Whether a blob may hold rows of the stream. What it says of the log is noted."""
        name = blob.name
        if may_be_data(name, self.stream):
            return bool(blob.size) or (is_avro(name) and attempt_of(blob.metadata) != DISCARDED)
        if (version := log_version(name)) is not None:
            if log_stream(name) == self.stream:
                self.versions.append(version)
                self.put_at.append(blob.last_modified.timestamp())
            else:
                self._nested.add(f"{log_stream(name)}/")
        elif (version := checkpoint_version(name)) is not None:
            self.checkpoints[version] = blob.last_modified.timestamp()
        elif of_replaced(self.stream, name) is not None:
            self.kept[name] = (blob.size, attempt_of(blob.metadata))
        elif name.endswith(".avsc"):
            self.schemas.add(name)
        return False

    def extra(self) -> pa.Table:
        """The data blobs that are not live under their names, but for those of streams below this one: see `EXTRA`."""
        table = pa.Table.from_batches(self._extra, EXTRA)
        for prefix in self._nested:
            table = table.filter(pc.invert(pc.starts_with(table["name"], prefix)))
        return table

    def missing(self, published: int) -> np.ndarray[Any, Any]:
        """Places of live blobs of versions up to `published` that are not in the listing."""
        return np.flatnonzero(~self.seen & (self.index.versions <= published))

    def unlisted_schemas(self, fingerprints: Sequence[str]) -> list[str]:
        """Names of the writer schemas that are not in the listing."""
        return [name for each in fingerprints if (name := schema_name(self.stream, each)) not in self.schemas]
