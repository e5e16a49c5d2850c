"""Spark's batch readers: the rows of a snapshot, or another view of the stream; and the base of all readers.

driver:   take_snapshot or Follower ─► blobs ─► splits ─► partitions
executor: read(partition) ─► read_splits (fetches ahead, decodes) ─► Arrow batches of Spark's own Arrow schema
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from arrow_avro import arrow_of, arrow_schema, batch_of, retyped, spark_of, superset
from azure_account import connect
from azureblob_source.log.commit_log import CommitLog
from azureblob_source.log.live_state import added_at, check_version
from azureblob_source.options import METADATA_COLUMNS
from azureblob_source.read import views
from azureblob_source.read.following import Follower, new_blobs, version_at
from azureblob_source.read.options import SourceOptions, source_options
from azureblob_source.read.snapshot import (
    ListingRules,
    Snapshot,
    kept_history,
    newest_generation,
    take_snapshot,
    writer_schemas,
)
from azureblob_source.read.splits import Split, pack_splits, split_blobs
from foundation.errors import ConfigurationError, NotFoundError
from foundation.worker_modules import keep_modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from arrow_avro import AvroSchema, ReadLimits
    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import BlobEntry
    from azureblob_source.log.stream_notes import LogFacts
    from azureblob_source.read.blob_table import BlobTable
    from azureblob_source.read.blobs import StreamBlob
    from azureblob_source.read.bounds_pruning import BoundsPruning
    from azureblob_source.read.filters import ColumnFilter

logger = logging.getLogger("azureblob_source")

_METADATA = pa.schema(
    [
        pa.field("_blob", pa.string(), nullable=False),
        pa.field("_version", pa.int64()),
        pa.field("_partition", pa.string()),
    ]
)


@dataclass(frozen=True)
class SplitsPartition(InputPartition):
    """The splits that one task reads, in this order, and the schema that their rows are resolved to."""

    splits: tuple[Split, ...]
    reader: AvroSchema


@dataclass(frozen=True)
class PackedPartition(InputPartition):
    """What one task reads, with the splits as a pack of `BlobTable`: where there are many blobs."""

    pack: bytes
    reader: AvroSchema

    @property
    def splits(self) -> Sequence[Split]:
        """The splits that the task reads."""
        from azureblob_source.read.blob_table import splits_of  # noqa: PLC0415 - few reads have packs

        return splits_of(self.pack)


@dataclass(frozen=True)
class EntriesPartition(InputPartition):
    """The log entries `first … last` of a log, of which a streaming read shows a view without those taken back."""

    first: int
    last: int
    taken_back: frozenset[int]
    log_id: str | None


@dataclass
class ReadPlan:
    """One read. What it covers is looked up once, when it is first needed."""

    options: SourceOptions
    inferred: AvroSchema | None = None
    """The schema that Spark's was derived from, for a streaming query, which keeps it for as long as it runs."""
    facts: LogFacts | None = None
    """What the process that returned the schema has found of the log."""
    pruning: BoundsPruning | None = None
    """The pushed filters by which blobs are left out."""

    @cached_property
    def snapshot(self) -> Snapshot:
        """The stream's blobs."""
        options = self.options
        return take_snapshot(
            self.log,
            self.version,
            selection=replace(options.selection, pruning=self.pruning),
            publish_timeout=options.publish_timeout,
            listing=ListingRules(options.ignore_corrupt, options.any_extension),
        )

    @cached_property
    def version(self) -> int | None:
        """The version that is read; None for the head."""
        moment = self.options.as_of_time
        return self.options.version if moment is None else version_at(self.log, moment)

    @cached_property
    def container(self) -> BlobContainer:
        """The container, over this process's connections."""
        options = self.options
        return connect(options.account).container(options.address.container).relocated(*options.log_place)

    @cached_property
    def log(self) -> CommitLog:
        """The stream's log: one object for the whole read, so that its head is searched for once."""
        return CommitLog(self.container, self.options.stream, facts=self.facts)

    @cached_property
    def reader_schema(self) -> AvroSchema:
        """The schema that rows are resolved to: the superset of the writers', in the columns that are read."""
        options = self.options
        given = options.avro_schema or self.inferred
        known = self._logged_schemas() if given is None else [given]
        if known:
            return superset(known, options.columns, options.recursion)
        return self._schema_of_blobs()

    def _logged_schemas(self) -> list[AvroSchema]:
        """The writer schemas that the entry of the version names, for which no other entry is read."""
        log, version = self.log, self.version
        entry = log.head()
        if entry is not None and version is not None:
            entry = log.read(version) if version <= entry.version else None
        return [] if entry is None or not entry.schemas else writer_schemas(log, entry.schemas)

    def _schema_of_blobs(self) -> AvroSchema:
        if not self.snapshot.schemas:  # the entries open epochs only
            place = f"{self.container.url}/{self.options.stream}"
            step = "Write rows first, or set option `avroSchema` to read none until then."
            raise NotFoundError("read", place, "nothing has been written yet", step)
        return self.snapshot.reader_schema_of(self.options.columns, self.options.recursion)

    def arrow_schema(self) -> pa.Schema:
        """The schema of the rows: the requested columns, then the metadata columns."""
        if self.options.view != "data":
            return views.VIEWS[self.options.view]
        whole = arrow_schema(self.reader_schema)
        columns = self.options.columns or whole.names
        if self.options.body_schema is not None:
            from azureblob_source.read.bodies import with_bodies  # noqa: PLC0415 - few reads have bodies

            whole = with_bodies(whole, self.options.body_schema, self.options.columns)
        unknown = [column for column in columns if column not in whole.names]
        if unknown:
            schemas = () if self.options.avro_schema else self._logged_schemas() or self.snapshot.schemas
            known = dict.fromkeys([*whole.names, *(field.column for each in schemas for field in each.row.fields)])
            raise ConfigurationError(f"Option `columns` names {', '.join(unknown)}; the stream has {', '.join(known)}.")
        metadata = [METADATA_COLUMNS[name] for name in self.options.metadata_columns]
        taken = [name for name in metadata if name in columns]
        if taken:
            message = f"The stream has a column {taken[0]} of its own. Leave it out of `metadataColumns` or `columns`."
            raise ConfigurationError(message)
        return pa.schema([*map(whole.field, columns), *map(_METADATA.field, metadata)])


def read_plan(
    raw: Mapping[str, str],
    env: Mapping[str, str],
    *,
    streaming: bool | None = None,
    inferred: AvroSchema | None = None,
    facts: LogFacts | None = None,
) -> ReadPlan:
    """The plan of a read with these options of Spark; `streaming` if it is known which kind of read it is."""
    return ReadPlan(source_options(raw, env, streaming=streaming), inferred, facts)


def spark_schema(plan: ReadPlan) -> StructType:
    """The plan's schema in Spark's types."""
    return spark_of(plan.arrow_schema())


class BaseReader:
    """The base of all readers. It is pickled to the executors without what was looked up on the driver.

    schema: the columns that are decoded. returned: the names of those that `read` returns; others are for filters.
    limit: rows of a partition that are enough.
    """

    def __init__(self, plan: ReadPlan, schema: StructType) -> None:
        self.options: SourceOptions = plan.options
        self.schema: StructType = schema
        self.returned: list[str] = schema.names
        self.filters: list[ColumnFilter] = []
        self.limit: int | None = None
        self.plan = plan
        unknown = set(schema.names) - set(views.VIEWS[plan.options.view].names) if plan.options.view != "data" else ()
        if unknown:
            message = (
                f"The view {plan.options.view} has no column {', '.join(sorted(unknown))}. Leave out `.schema(…)`."
            )
            raise ConfigurationError(message)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "plan": ReadPlan(self.options)}

    @property
    def metadata(self) -> list[str]:
        """The requested metadata columns."""
        return [METADATA_COLUMNS[name] for name in self.options.metadata_columns]

    def partitions_of(
        self, blobs: Sequence[StreamBlob] | BlobTable, what: str, there: int
    ) -> list[SplitsPartition | PackedPartition]:
        """Partitions over blobs: a large blob is split, and small ones share a partition. In name order, if not many.

        what, there: for the log: of which versions, and how many blobs these have.
        """
        about_blobs = [each for each in self.filters if each.column in self.metadata]
        size, reader = self.options.split_bytes, self.plan.reader_schema
        self._check_columns(arrow_schema(reader).names)
        found: list[SplitsPartition | PackedPartition] = []
        if about_blobs:
            blobs = (
                [blob for blob in blobs if _may_have(blob, about_blobs)]
                if isinstance(blobs, Sequence)
                else blobs.where(lambda batch: _mask(batch, about_blobs))
            )
        if self.options.allow_overwrites:
            from azureblob_source.read.overwritten import as_they_are  # noqa: PLC0415 - few reads allow it

            blobs = as_they_are(self.plan.container, blobs)
        if isinstance(blobs, Sequence):
            large: Sequence[StreamBlob] = blobs
            stored = sum(blob.bytes_read for blob in blobs)
        else:
            large, small = blobs.divided(size)
            found += [PackedPartition(pack, reader) for pack in small.packs(size)]
            stored = blobs.size
        found += [SplitsPartition(splits, reader) for splits in pack_splits(split_blobs(large, size), size)]
        text = "%s: %s: %d of %d blobs are read, %d bytes, by %d tasks"
        logger.info(text, self.options.address, what, len(blobs), there, stored, len(found))
        return found

    def _check_columns(self, known: Sequence[str]) -> None:
        """`ConfigurationError` for a column that only `.schema(…)` can have named: `columns` is validated before."""
        for name in self.schema.names:
            if name not in known and name not in self.metadata:
                step = f"it has {', '.join(known)}. Correct the name, or leave it out"
                raise ConfigurationError(f"`.schema(…)` names {name!r}, which the stream has not in this case: {step}.")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, as Arrow batches of exactly the schema that Spark expects."""
        expected, left = arrow_of(self.schema), None if self.filters else self.limit
        if left == 0:
            return
        if isinstance(partition, SplitsPartition | PackedPartition):
            found = self._rows(partition)
        else:
            found = self._view(partition)
        for batch in found:
            rows = _selected(_as(expected, batch.select(self.schema.names)), self.filters).select(self.returned)
            if left is not None:
                rows = rows.slice(0, left)
                left -= rows.num_rows
            if rows.num_rows:
                yield rows
            if left == 0:
                return

    def _rows(self, partition: SplitsPartition | PackedPartition) -> Iterator[pa.RecordBatch]:
        from azureblob_source.read.relocating import read_moving_splits  # noqa: PLC0415 - planning needs no decoder
        from azureblob_source.read.split_reader import SplitSettings  # noqa: PLC0415

        names: list[str] = self.schema.names
        metadata = [name for name in names if name in self.metadata]
        columns = [name for name in names if name not in metadata]
        settings = SplitSettings(
            reader=partition.reader,
            columns=columns,
            ignore_corrupt=self.options.ignore_corrupt,
            limits=self.options.limits,
        )
        log, by_version = self.plan.log, self.options.selection.by_version
        keep_modules()
        body = self.options.body_schema
        for split, first, read in read_moving_splits(log, partition.splits, settings, by_version=by_version):
            batch = read if body is None else _with_bodies(read, body, split.blob.name, settings.limits)
            if not metadata:
                yield batch
                continue
            origin = _origin(split.blob, first, batch.num_rows)
            by_name = {**dict(zip(columns, batch, strict=True)), **dict(zip(origin.schema.names, origin, strict=True))}
            yield pa.RecordBatch.from_arrays([by_name[name] for name in names], names)

    def _view(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        log, view = self.plan.log, self.options.view
        if isinstance(partition, EntriesPartition):
            follower = Follower(log, self.options.publish_timeout, log_id=partition.log_id)
            found = follower.entries(partition.first - 1, partition.last)
            entries = [entry for entry in found if entry.version not in partition.taken_back]
        elif log.refresh() is None and view in ("blobs", "schemas"):
            yield self._view_of_listing()
            return
        elif view in ("blobs", "schemas"):
            version = self.plan.version
            head = check_version(log, version)
            yield self._view_of_blobs(added_at(log, head.version if version is None else version))
            return
        elif self.options.newest_generation:
            entries = newest_generation(log)
        else:
            entries = kept_history(log, self.plan.version)
        match view:
            case "commits":
                yield views.commits(entries)
            case "control":
                yield from views.control(entries)
            case _:
                yield self._view_of_blobs([(of.version, of.timestamp, blob) for of, blob in new_blobs(entries)])

    def _view_of_blobs(self, added: list[tuple[int, str, BlobEntry]]) -> pa.RecordBatch:
        """The view `blobs` or `schemas` of blobs, each with version and timestamp of its entry."""
        if self.options.view == "blobs":
            return views.blobs(sorted(added, key=lambda each: each[2].name))
        used = dict.fromkeys(blob.schema for _, _, blob in added)
        texts = [schema.json for schema in writer_schemas(self.plan.log, used)]
        return views.schemas(added, dict(zip(used, texts, strict=True)))

    def _view_of_listing(self) -> pa.RecordBatch:
        if self.options.view == "blobs":
            return views.blobs_without_log(list(self.plan.snapshot.blobs))
        return views.schemas_without_log(self.plan.snapshot.schemas)


class SnapshotReader(BaseReader, DataSourceReader):
    """`spark.read.format("azureblob")`."""

    def partitions(self) -> Sequence[InputPartition]:
        """One partition for each task."""
        if self.options.view != "data":
            return [InputPartition(None)]
        found = self.plan.snapshot
        what = "the files of a listing" if found.version is None else f"version {found.version}"
        partitions = self.partitions_of(found.blobs, what, len(found.blobs) + found.left_out)
        return partitions or [SplitsPartition((), self.plan.reader_schema)]

    def pruneColumns(self, schema: StructType | pa.Schema) -> StructType:  # noqa: N802
        """Return these columns only, in this order, and decode no others but for filters that were pushed.

        Spark does not call this, up to 4.3; other engines do before `partitions`, with a schema of theirs. It returns
        the columns in Spark's types. `ConfigurationError` for a column that the reader does not have.
        """
        from pyspark.sql.types import StructType  # noqa: PLC0415 - few engines call this

        columns = {field.name: field for field in self.schema.fields}
        unknown = [name for name in schema.names if name not in columns]
        if unknown:
            message = f"pruneColumns names {', '.join(unknown)}; there are {', '.join(columns)}. Correct the schema."
            raise ConfigurationError(message)
        self.returned = list(schema.names)
        decoded = dict.fromkeys([*self.returned, *(each.column for each in self.filters)])
        self.schema = StructType([columns[name] for name in decoded])
        return StructType([columns[name] for name in self.returned])

    def pushLimit(self, limit: int) -> bool:  # noqa: N802
        """End each partition after `limit` rows; False, and it is not applied, if filters were pushed.

        Spark does not call this, up to 4.3. The engine applies the limit to all partitions together.
        """
        self.limit = limit
        return not self.filters


class FilteringReader(SnapshotReader):
    """A reader that takes filters. Spark refuses it if `spark.sql.python.filterPushdown.enabled` is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the filters that can be applied here, and return the others to Spark.

        By all of them, blobs are left out whose bounds say that they have no row for Spark.
        """
        from azureblob_source.read.bounds_pruning import BoundsPruning  # noqa: PLC0415 - see `_selected`
        from azureblob_source.read.filters import column_filter, named_filter  # noqa: PLC0415 - see `_selected`

        schema = arrow_of(self.schema)
        if self.options.view == "data":
            named = (named_filter(each, schema) for each in filters)
            on_columns = [each for each in named if each is not None]
            self.plan.pruning = BoundsPruning.of(on_columns, self.plan.reader_schema, schema)
        others = []
        for each in filters:
            found = column_filter(each, schema)
            if found is None:
                others.append(each)
            else:
                self.filters.append(found)
        return others


def _with_bodies(batch: pa.RecordBatch, body: AvroSchema, blob: str, limits: ReadLimits) -> pa.RecordBatch:
    from azureblob_source.read.bodies import decoded_bodies  # noqa: PLC0415 - see `ReadPlan.arrow_schema`

    return decoded_bodies(batch, body, blob, limits)


def _selected(batch: pa.RecordBatch, filters: Sequence[ColumnFilter]) -> pa.RecordBatch:
    if not filters:
        return batch
    from azureblob_source.read.filters import selected  # noqa: PLC0415 - loads Arrow's functions, for few reads

    return selected(batch, filters)


def _mask(batch: pa.RecordBatch, filters: Sequence[ColumnFilter]) -> pa.Array:
    from azureblob_source.read.filters import mask  # noqa: PLC0415 - see `_selected`

    return mask(batch, filters)


def _origin(blob: StreamBlob, first: int, rows: int) -> pa.RecordBatch:
    """The metadata columns of `rows` rows of a blob or of its part, from row `first` on."""
    values = {"_blob": blob.name, "_version": blob.version, "_partition": blob.partition}
    arrays = [pa.repeat(pa.scalar(values[field.name], field.type), rows) for field in _METADATA]
    if blob.part is not None:
        import numpy as np  # noqa: PLC0415 - the driver needs it seldom

        versions, counts = zip(*blob.part.versions, strict=True)
        place = np.searchsorted(np.cumsum(counts), np.arange(first, first + rows), side="right")
        arrays[1] = pa.array(np.array(versions)[place])
    return pa.RecordBatch.from_arrays(arrays, schema=_METADATA)


def _may_have(blob: StreamBlob, filters: Sequence[ColumnFilter]) -> bool:
    """Whether a row of the blob can meet the filters on metadata columns."""
    return bool(_selected(_origin(blob, 0, 1 if blob.part is None else blob.part.rows), filters).num_rows)


def _as(expected: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` in Spark's own Arrow types, which differ from ours in the unit of TIME values."""
    columns = [_cast(column, to) for column, to in zip(batch, expected, strict=True)]
    return batch_of(columns, expected, batch.num_rows)


def _cast(column: pa.Array, to: pa.Field) -> pa.Array:
    try:
        return retyped(column, to.type)
    except pa.ArrowException as cause:
        step = (
            "If the type has changed since, load the DataFrame again; if you gave `.schema(…)`, change or leave it out."
        )
        becomes = f"the DataFrame has it as {to.type}, the stream as {column.type}: {cause}"
        raise ConfigurationError("read", f"column {to.name!r}", becomes, step) from cause
