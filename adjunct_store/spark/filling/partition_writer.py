"""Writes the changes of one partition in a task, and backs the partition up as a checkpoint of its state.

    lock of the host's directory ─► make the directory what the base is ─► apply the changes, with their position
      ─► RocksDB checkpoint ─► open the state with the fill's epoch ─► back up ─► report to the driver

The last attempt that opens the state has it, so it is opened late: of two that run at once, both mostly succeed.
Nothing of it counts before the driver publishes a version with the checkpoint. A task that runs again begins from the
base again, whatever the first attempt has left on this host or in the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adjunct_store.engine import PartitionProgress, PartitionStore
from adjunct_store.host.cache import STORE
from adjunct_store.host.folders import store_folder
from adjunct_store.host.working import Marker, working_directory
from adjunct_store.spark.filling.changes import KEY, ORDER, PARTITION, TIE, VALUE, key_column
from adjunct_store.versions.names import StoreNames
from arrow_avro import first_not_utf8, retyped, well_formed
from azure_account.location import Location
from foundation.errors import ConfigurationError, CorruptError, NotFoundError
from foundation.worker_modules import keep_modules
from state_backup import LEAST_KEPT, TaskIdentity, WriterHandover, WriterSettings, open_state, restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.host.working import WorkingDirectory
    from azure_account.container import BlobContainer
    from state_backup import StateWriter

REPORT = (
    "partition int, checkpoint string, entries long, bytes long, nulls long, upserts long, deletes long, ignored long, "
    "tombstones long"
)
"""The columns of `PartitionReport`, as DDL."""
_SHOWN_BYTES = 40
_REPORT = pa.schema(
    [("partition", pa.int32()), ("checkpoint", pa.string())]
    + [(name, pa.int64()) for name in ("entries", "bytes", "nulls", "upserts", "deletes", "ignored", "tombstones")]
)


@dataclass(frozen=True)
class PartitionReport:
    """What a task did with a partition.

    checkpoint: of the partition's state; empty if there was nothing to write. entries, bytes, tombstones: how many more
    the partition has now than at the base. nulls: rows that were left out since a key column is null. ignored: rows
    that are older than what the store had.
    """

    partition: int
    checkpoint: str
    entries: int
    bytes: int
    nulls: int
    upserts: int = 0
    deletes: int = 0
    ignored: int = 0
    tombstones: int = 0

    def to_arrow(self) -> pa.RecordBatch:
        """One row."""
        return pa.RecordBatch.from_pylist([vars(self)], schema=_REPORT)


@dataclass(frozen=True)
class PartitionWriter:
    """Writes the partition of a task: for `mapInArrow` over `ChangeRows.by_partition()`. Picklable.

    base: the checkpoint of each partition that the batch begins from. in_use: checkpoints of each partition that
    readers may still open. allow_nulls: rows with null keys are counted and left out; else nothing is written
    once there is one, and they are only counted.
    """

    location: Location
    generation: int
    schema: StoreSchema
    epoch: int
    source: str
    batch: int
    base: Mapping[int, str]
    in_use: Mapping[int, frozenset[str]]
    allow_nulls: bool
    cache_dir: str | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the report; nothing if the task has no row."""
        rows = iter(batches)
        first = next((batch for batch in rows if batch.num_rows), None)
        if first is None:
            return
        partition = first.column(PARTITION)[0].as_py()
        keyed = KeyedRows(chain((first,), rows), partition, self.schema, stop_at_null=not self.allow_nulls)
        yield self._written(partition, keyed).to_arrow()

    def _written(self, partition: int, rows: KeyedRows) -> PartitionReport:
        changes = iter(rows)
        try:
            first = next(changes, None)
            if first is None:
                return PartitionReport(partition, "", 0, 0, rows.nulls)
            container = self.location.open()
            keep_modules()
            cache = None if self.cache_dir is None else Path(self.cache_dir)
            folder = store_folder(container, self.location.path, cache)
            with working_directory(folder, self.generation, partition) as work:
                return self._write(container, work, partition, rows, chain((first,), changes))
        except _NullKeyError:
            rows.count_rest()
            return PartitionReport(partition, "", 0, 0, rows.nulls)

    def _write(
        self,
        container: BlobContainer,
        work: WorkingDirectory,
        partition: int,
        rows: KeyedRows,
        changes: Iterable[pa.RecordBatch],
    ) -> PartitionReport:
        names = StoreNames(self.location.path)
        state = Location.in_container(container, names.state(self.generation, partition))
        left, base = work.marker, self.base.get(partition, "")
        _begin_from(base, work, state)
        with PartitionStore(work.directory, self.schema) as opened:
            applied = opened.apply(changes, PartitionProgress(self.source, self.batch))
            with opened.checkpoint() as snapshot:
                size = sum(path.stat().st_size for path in snapshot.rglob("*") if path.is_file())
                writer = self._opened(state, partition, left)
                before = self._offsets_of(base, writer, partition)
                sizes = {"entries": applied.entries, "bytes": size, "tombstones": applied.tombstones}
                place = {"epoch": str(self.epoch), "batch": str(self.batch)}
                offsets = {"source": self.source, **place, **{name: str(number) for name, number in sizes.items()}}
                keep = self._kept(partition, writer)
                checkpoint = writer.back_up({STORE: snapshot}, offsets, keep=keep, trust_times=True)
        work.done(Marker(str(checkpoint.id), writer.settled, writer.read_files))
        return PartitionReport(
            partition,
            str(checkpoint.id),
            nulls=rows.nulls,
            upserts=applied.upserts,
            deletes=applied.deletes,
            ignored=applied.ignored_older,
            **{name: number - int(before.get(name, 0)) for name, number in sizes.items()},
        )

    def _opened(self, state: Location, partition: int, left: Marker | None) -> StateWriter:
        owner = TaskIdentity(self.location.path, task_name=str(partition))
        prior = (
            WriterHandover()
            if left is None
            else WriterHandover(left.checkpoint if left.settled else "", left.read_files)
        )
        return open_state(state, owner, WriterSettings(LEAST_KEPT, self.epoch), prior=prior)

    def _kept(self, partition: int, writer: StateWriter) -> frozenset[str]:
        """Checkpoints that readers may open; and what this fill's attempts of this batch, or of later ones, have made.

        The driver may have published one of these: an attempt that is believed dead may come after it, and again.
        """
        own = [each for each in writer.checkpoints if each.offsets.get("epoch") == str(self.epoch)]
        later = {str(each.id) for each in own if int(each.offsets["batch"]) >= self.batch}
        return self.in_use.get(partition, frozenset()) | later

    def _offsets_of(self, base: str, writer: StateWriter, partition: int) -> Mapping[str, str]:
        """The offsets of the checkpoint from which the batch begins; empty without one."""
        found = {str(each.id): each.offsets for each in writer.checkpoints}
        if base and base not in found:
            step = "See that no other fill has the store; otherwise rebuild the store (rebuild=True)."
            cause = f"checkpoint {base}, from which the batch begins, is gone"
            raise NotFoundError("write", f"partition {partition} of {self.location}", cause, step)
        return found.get(base, {})


def _begin_from(base: str, work: WorkingDirectory, state: Location) -> None:
    """Restore the base into the directory, unless it is there; clear the directory without a base."""
    if not base:
        work.clear()
        return
    at = work.at
    work.begin()
    if at != base:
        restore(state, {STORE: work.directory}, checkpoint_id=base)


class _NullKeyError(Exception):
    """A key column is null, and must not be."""


class KeyedRows:
    """The rows of a task as the engine takes them, without those that have a null key. To be iterated once.

    batches: sorted by key, order and `then_by`; of rows that differ in the last one only, the last is left.
    """

    def __init__(
        self, batches: Iterable[pa.RecordBatch], partition: int, schema: StoreSchema, *, stop_at_null: bool
    ) -> None:
        self._batches, self._partition, self._schema = iter(batches), partition, schema
        self._stop_at_null = stop_at_null
        self.nulls: int = 0
        """Rows with a null key so far."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (self._changes(batch) for batch in last_of_ties(self._keyed()) if batch.num_rows)

    def _keyed(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            present = self._count(batch)
            if self._stop_at_null and self.nulls:
                raise _NullKeyError
            yield well_formed(batch).filter(present)

    def count_rest(self) -> None:
        """Read the rest of the rows for `nulls`."""
        for batch in self._batches:
            self._count(batch)

    def _count(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Which rows have a key. Counts the others."""
        valid = [batch.column(key_column(place)).is_valid() for place in range(len(self._schema.keys))]
        present = reduce(pc.and_, valid)
        self.nulls += batch.num_rows - (present.sum().as_py() or 0)
        return present

    def _changes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        strangers = batch.num_rows - pc.sum(pc.equal(batch.column(PARTITION), self._partition)).as_py()
        if strangers:
            cause = f"its task has {strangers} rows of other partitions"
            step = "Report this: Spark and the store do not distribute rows alike."
            raise CorruptError("write", f"partition {self._partition}", cause, step)
        names, columns = list(self._schema.keys.names), []
        for place, field in enumerate(self._schema.keys):
            columns.append(_key(batch.column(key_column(place)).cast(field.type), field))
        names.append(VALUE)
        columns.append(retyped(batch.column(VALUE), pa.struct(list(self._schema.values))))
        if self._schema.ordered:
            names.append(ORDER)
            columns.append(_order(batch.column(ORDER)))
        return pa.RecordBatch.from_arrays(columns, names=names)


def last_of_ties(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches without rows that a later one of the same key replaces, as its `then_by` says.

    batches: with the columns of `ChangeRows.frame`, sorted by key, order and `then_by`.
    """
    last: pa.RecordBatch | None = None
    for batch in batches:
        ties = [name for name in batch.column_names if TIE.fullmatch(name)]
        if not ties:
            yield batch
        elif batch.num_rows:
            joined = batch if last is None else pa.concat_batches([last, batch])
            yield joined.slice(0, joined.num_rows - 1).filter(_not_followed(joined, ties))
            last = joined.slice(joined.num_rows - 1)
    if last is not None:
        yield last


def _not_followed(batch: pa.RecordBatch, ties: list[str]) -> pa.BooleanArray:
    """For each row but the last: whether it has another key than the next one, or the same `then_by`."""
    for name in ties:
        if batch.column(name).null_count:
            text = "Argument then_by: a column is null in a row that has a key."
            raise ConfigurationError(f"{text} Fill it, for example with coalesce, or filter such rows.")
    keys = [name for name in batch.column_names if KEY.fullmatch(name)]
    return pc.or_(pc.invert(_equal_to_next(batch, keys)), _equal_to_next(batch, ties))


def _equal_to_next(batch: pa.RecordBatch, names: list[str]) -> pa.BooleanArray:
    count = batch.num_rows - 1
    columns = [batch.column(name) for name in names]
    equal = [pc.equal(each.slice(0, count), each.slice(1)).fill_null(False) for each in columns]
    return reduce(pc.and_, equal)


def _key(column: pa.Array, field: pa.Field) -> pa.Array:
    """`ConfigurationError` for a key that is not UTF-8: Spark allows any bytes in a string."""
    row = first_not_utf8(column) if pa.types.is_string(field.type) else None
    if row is not None:
        found = column[row].cast(pa.binary()).as_py()[:_SHOWN_BYTES]
        text = f"Key column {field.name!r} has a string that is not UTF-8, which begins with {found!r}."
        raise ConfigurationError(f"{text} Replace such bytes by make_valid_utf8, or cast the column to binary.")
    return column


def _order(column: pa.Array) -> pa.Array:
    """Orders as 64 bits: numbers as they are, timestamps as microseconds."""
    if column.null_count:
        text = "Argument order_by: the column is null in a row that has a key."
        raise ConfigurationError(f"{text} Fill it, for example with coalesce, or filter such rows.")
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    return column.cast(pa.int64())
