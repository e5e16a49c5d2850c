"""What Spark's tasks do with a store, without Spark: write the partitions of a batch, read the version of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.encoding.spark_hash import partition_of
from adjunct_store.host.cache import HostCache
from adjunct_store.host.directories import LazyDirectories
from adjunct_store.spark.filling.partition_writer import PartitionReport, PartitionWriter
from adjunct_store.versions.pins import pin_version
from adjunct_store.versions.transitions import Publication
from adjunct_store.view import View
from azure_account.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from adjunct_store.versions.manifest import Generation, Version
    from adjunct_store.versions.manifest_store import Fill
    from azure_account.container import BlobContainer

Content = dict[int, dict[str, Any]]
"""Values by key."""


@dataclass(frozen=True)
class _OneContainer:
    """The account of a container that is open already, such as one with scripted faults."""

    opened: BlobContainer

    def container(self, name: str) -> BlobContainer:
        """The container."""
        assert name == self.opened.name
        return self.opened


def location_of(container: BlobContainer, store: str) -> Location:
    account: Any = _OneContainer(container)
    return Location.in_account(account, f"{container.name}/{store}")


@dataclass
class BatchWriter:
    """Makes versions of a fill, as `VersionWriter` does with tasks of Spark. Keys are longs."""

    location: Location
    fill: Fill
    schema: StoreSchema
    cache_dir: Path

    def run(self, batch: int, values: Mapping[int, dict[str, Any] | None], order: int = 0, **flags: Any) -> Version:
        """Write the partitions that have keys, and publish. A value of None deletes the key."""
        base = self.fill.base
        reports = self.write(batch, values, order)
        entries = sum(each.entries for each in reports) + (0 if base is None else base.entries)
        size = sum(each.bytes for each in reports) + (0 if base is None else base.bytes)
        return self.fill.publish(
            Publication(batch, {each.partition: each.checkpoint for each in reports}, entries, size, **flags)
        )

    def write(self, batch: int, values: Mapping[int, dict[str, Any] | None], order: int = 0) -> list[PartitionReport]:
        """Write the partitions that have keys."""
        base, count = self.fill.base, self.schema.partitions
        writer = PartitionWriter(
            location=self.location,
            generation=self.fill.generation.number,
            schema=self.schema,
            epoch=self.fill.epoch,
            source=self.fill.generation.source,
            batch=batch,
            base={} if base is None else dict(enumerate(base.checkpoints)),
            in_use={each: self.fill.in_use(each) for each in range(count)},
            allow_nulls=False,
            cache_dir=str(self.cache_dir),
        )
        reports = (writer.write(iter([rows])) for rows in changes(values, order, self.schema))
        return [PartitionReport(**row) for found in reports for each in found for row in each.to_pylist()]


def changes(values: Mapping[int, dict[str, Any] | None], order: int, schema: StoreSchema) -> Iterator[pa.RecordBatch]:
    """For each partition its rows, as `Changes.by_partition` gives them to a task."""
    keys = pa.array(sorted(values), pa.int64())
    where = partition_of(pa.RecordBatch.from_arrays([keys], names=["id"]), schema.partitions)
    for partition in np.unique(where).tolist():
        own = keys.filter(pa.array(where == partition))
        columns: dict[str, pa.Array] = {
            "partition": pa.array([partition] * len(own), pa.int32()),
            "k0": own,
            "value": pa.array([values[key] for key in own.to_pylist()], pa.struct(list(schema.values))),
        }
        if schema.ordered:
            columns["order"] = pa.array([order] * len(own), pa.int64())
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@dataclass(frozen=True)
class Read:
    """What a task has read: its version, and all that is in it."""

    version: Version
    generation: Generation
    content: Content


def read(location: Location, reader: str, batch: int, cache_dir: Path, *, threads: int = 1) -> Read:
    """What a task does that reads all partitions of the version of its batch."""
    container = location.open()
    version, generation = pin_version(container, location.path, reader, batch)
    cache = HostCache(container, location.path, cache_dir, threads=threads)
    directories = LazyDirectories(cache, version)
    try:
        with View(directories, StoreSchema.from_json(generation.schema)) as view:
            content = {key: value for (key,), value in view.scan()}
            assert content == dict(zip(content, view.get_many([(key,) for key in content]), strict=True))
            assert view.entries == len(content) == version.entries
    finally:
        directories.close()
    return Read(version, generation, content)
