"""Spark's reader: the rows of a snapshot, or a view of the stream's history.

driver:   listing.take_snapshot ─► schema, partitions of blobs
executor: read(partition) ─ get ─ avro.decode ─► Arrow batches in Spark's own Arrow schema
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from azure_account import connect
from azure_account.errors import ConfigurationError, NotFoundError, describe
from azureblob_source import views
from azureblob_source.avro.decode import decode_blob
from azureblob_source.avro.schema import arrow_schema
from azureblob_source.commit_log import CommitLog
from azureblob_source.listing import Snapshot, StreamBlob, kept_history, take_snapshot
from azureblob_source.options import SourceOptions, source_options
from azureblob_source.spark_types import arrow_of, spark_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from azure_account.account import BlobContainer
    from azureblob_source.avro.schema import AvroSchema

_PARTITION_BYTES = 32 << 20


@dataclass(frozen=True)
class BlobsPartition(InputPartition):
    """The blobs that one task reads, in this order."""

    blobs: tuple[StreamBlob, ...]


@dataclass
class ReadPlan:
    """One read: what it covers is looked up once, when it is first asked for."""

    options: SourceOptions

    @cached_property
    def snapshot(self) -> Snapshot:
        """The stream's blobs and schemas."""
        return take_snapshot(self.container, self.options.stream, self.options.version, time.sleep)

    @property
    def container(self) -> BlobContainer:
        """The container, over this process's connections."""
        return connect(self.options.account).container(self.options.location.container)

    @property
    def reader_schema(self) -> AvroSchema:
        """The schema to resolve rows to."""
        return self.options.avro_schema or self.snapshot.reader_schema

    def arrow_schema(self) -> pa.Schema:
        """The rows' schema: the columns that are asked for."""
        if self.options.view == "commits":
            return views.COMMITS
        whole = arrow_schema(self.reader_schema)
        columns = self.options.columns
        if columns is None:
            return whole
        unknown = [column for column in columns if column not in whole.names]
        if unknown:
            message = f"option `columns` names {', '.join(unknown)}; the stream has {', '.join(whole.names)}."
            raise ConfigurationError(message)
        return pa.schema([whole.field(column) for column in columns])


def read_plan(raw: Mapping[str, str], env: Mapping[str, str]) -> ReadPlan:
    """The plan of a read out of Spark's options."""
    return ReadPlan(source_options(raw, env))


def spark_schema(plan: ReadPlan) -> StructType:
    """The plan's schema in Spark's types."""
    return spark_of(plan.arrow_schema())


class SnapshotReader(DataSourceReader):
    """`spark.read.format("azureblob")`. Pickled to the executors without what it has looked up."""

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        self.options = plan.options
        self.schema = schema
        self._planned = plan
        self._reader_schema: AvroSchema | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planned": None}

    def partitions(self) -> Sequence[InputPartition]:
        """Blobs in name order, several small ones to a partition."""
        if self.options.view != "data":
            return [InputPartition(None)]
        self._reader_schema = self._planned.reader_schema
        return [BlobsPartition(tuple(blobs)) for blobs in _packed(self._planned.snapshot.blobs)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one partition, as Arrow batches of exactly the schema that Spark expects."""
        expected = arrow_of(self.schema)
        container = connect(self.options.account).container(self.options.location.container)
        if self.options.view == "commits":
            history = kept_history(CommitLog(container, self.options.stream), self.options.version)
            yield _as(expected, views.commits(history))
        elif isinstance(partition, BlobsPartition):
            for blob in partition.blobs:
                data = _bytes_of(container, blob.name)
                for batch in decode_blob(data, blob=blob.name, reader=self._reader_schema, columns=self.schema.names):
                    yield _as(expected, batch)


def _bytes_of(container: BlobContainer, name: str) -> bytes:
    try:
        return container.get(name).data
    except NotFoundError as error:
        message = describe(
            "read",
            f"blob {name} in {container.url}",
            "the blob is gone; a later overwrite of the stream deletes the blobs of the versions before it",
            "Read again without `versionAsOf`; the view `commits` shows the versions and which of them are overwrites.",
        )
        raise NotFoundError(message) from error


def _as(expected: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` in Spark's own Arrow types, which differ from ours in the unit of TIME values.

    Columns of the right type are not cast: Arrow would refuse a null struct for the nulls below it where a field of
    the struct must not be null.
    """
    columns = (
        column if column.type == to.type else column.cast(to.type) for column, to in zip(batch, expected, strict=True)
    )
    return pa.RecordBatch.from_arrays(list(columns), schema=expected)


def _packed(blobs: Iterable[StreamBlob]) -> Iterator[list[StreamBlob]]:
    waiting: list[StreamBlob] = []
    size = 0
    for blob in sorted(blobs, key=lambda each: each.name):
        if waiting and size + blob.size > _PARTITION_BYTES:
            yield waiting
            waiting, size = [], 0
        waiting.append(blob)
        size += blob.size
    if waiting:
        yield waiting
