"""Reads stores in queries: joins, and readers for functions that run in tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructField, StructType

from adjunct_store.forms.limit import TooManyBytesError
from adjunct_store.spark.partitioning import as_compared, check_not_collated, column_of, one_task_each, store_partition
from adjunct_store.spark.reading.pinning import has_plan, kept, plan
from adjunct_store.spark.reading.settings import JoinColumns, JoinSettings, ReadSettings
from adjunct_store.spark.reading.task_reader import StoreReadSpec
from arrow_avro import arrow_of, batch_of, retyped, spark_of, well_formed
from azure_account.location import Location
from foundation.arguments import checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from adjunct_store.encoding.schema import StoreSchema
    from adjunct_store.view import View

ROWS_AT_ONCE = 500_000
BYTES_AT_ONCE = 32 << 20
"""Rows are looked up together up to these limits. Spark passes 10,000, which take up to twice the time for each row."""
BYTES_FOUND = 64 << 20
"""Limit of the values that are added to rows at once, so that large values do not fill the memory of a worker."""
_GROWTH = 8
"""After a look-up within the limit the next one takes 1/8 more rows; one above the limit is repeated with half."""
How: TypeAlias = Literal["left", "inner", "semi", "anti"]
Compared: TypeAlias = "Callable[[str], str]"
"""A name of a column as the session compares it."""
_HOW: Mapping[str, How] = {
    "left": "left",
    "leftouter": "left",
    "inner": "inner",
    "semi": "semi",
    "leftsemi": "semi",
    "anti": "anti",
    "leftanti": "anti",
}
"""Kinds of joins by Spark's names for them, without underscores."""
_ROWS_ONLY = ("semi", "anti")
_OTHER_SCHEMA = (
    "The store was rebuilt with another schema: start the query again. If it fails again, its last batch has pinned "
    "an older version: call release_pins(store, query id)."
)


@checked
def join(
    rows: DataFrame,
    store: Location,
    on: Sequence[str] | Mapping[str, str],
    how: str = "left",
    columns: JoinColumns = JoinColumns(),
    settings: JoinSettings = JoinSettings(),
) -> DataFrame:
    """Add the values of a store to the rows that have its keys.

    rows: a batch or streaming DataFrame.
    store: where the store is.
    on: the columns of `rows` that have the keys: the names of the store's keys in any order, other columns in the order
    of the keys, or a mapping from each key to a column. A row with a null in one of them has no entry.
    how: `left` gives all rows, with null where the store has no entry; `inner` only those with an entry; `semi` and
    `anti` the rows with and without an entry, without values. Spark's spellings, such as `left_anti`, are possible too.
    columns: the value columns to add, a prefix for their names, and an indicator; by default all value columns.
    settings: version, form, cache directory, shuffle.

    Spark reads all columns of `rows`, and moves no later filter before the join: select and filter first.

    `ConfigurationError` if a column is missing, of another type than its key, or in the result twice. `NotFoundError`
    if the store has no version yet: see `wait_until_ready`.
    """
    kind = _how(how)
    _check_added(kind, columns)
    if settings.shuffle and settings.form == "auto":
        settings = replace(settings, form="rocksdb")
    planned = plan(store, settings, streaming=rows.isStreaming)
    compared = as_compared(rows)
    places = key_places(planned.schema, rows, _key_columns(planned.schema, on, compared), compared)
    values = _values(planned.schema, [] if kind in _ROWS_ONLY else columns.names, compared)
    added = [StructField(columns.prefix + each.name, each.dataType, True) for each in spark_of(values)]
    if columns.indicator is not None:
        added.append(StructField(columns.indicator, BooleanType(), False))
    _check_names(rows, added, store, compared)
    names = [*rows.columns, *(each.name for each in added)]
    schema = _by_place([*rows.schema, *added])
    joiner = Joiner(planned.pinned, planned.schema.keys, places, values, arrow_of(schema), kind)
    if settings.shuffle:
        partitions = planned.schema.partitions
        where = store_partition([column_of(rows.columns[place]) for place in places], partitions)
        rows = one_task_each(rows, where, partitions)
    joined = rows.toDF(*schema.names[: len(rows.columns)]).mapInArrow(joiner.join, schema)
    if planned.hold is not None:
        planned.hold.until(has_plan(joined))
    return joined.toDF(*names)


@checked
def task_reader(store: Location, *, streaming: bool = True, settings: ReadSettings = ReadSettings()) -> StoreReadSpec:
    """A reader for functions that run in tasks: `mapInArrow`, UDFs, `foreachPartition`. Make it on the driver.

    store: where the store is.
    streaming: whether tasks of a streaming query use it. If not, the version is pinned now.
    settings: version, form, cache directory.

    In a task `reader.view()` is the store in the version of the task's micro-batch, with `get`, `get_many`, `lookup`,
    `prefix` and `scan`. Errors: see `join`.
    """
    return kept(plan(store, settings, streaming=streaming))


@dataclass(frozen=True)
class Joiner:
    """Adds the values of a store to rows: for `mapInArrow`. Picklable.

    keys: places of columns of the rows, in the order of the store's keys, whose fields are `key_fields`. schema: of the
    result: the rows, the values, and if there is one more field, whether the store has the key.
    """

    store: StoreReadSpec
    key_fields: pa.Schema
    keys: Sequence[int]
    values: pa.Schema
    schema: pa.Schema
    how: How = "left"

    def join(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields larger batches than it is given, unless values are large. A task without rows opens nothing."""
        rows = most = 2 * ROWS_AT_ONCE
        for batch in gathered(batches):
            begin = 0
            while begin < batch.num_rows:
                piece = batch.slice(begin, rows)
                try:
                    joined = self._joined(piece, BYTES_FOUND if piece.num_rows > 1 else None)
                except TooManyBytesError:
                    rows = piece.num_rows // 2
                else:
                    yield joined
                    begin += piece.num_rows
                    rows = min(most, rows + rows // _GROWTH + 1)

    def _joined(self, batch: pa.RecordBatch, at_most: int | None) -> pa.RecordBatch:
        found = values_of(self.store, [batch.column(each) for each in self.keys], self.key_fields, at_most)
        present = found.is_valid()
        columns = [*batch.columns, *picked(found, self.values), present][: len(self.schema)]
        rows = batch.num_rows
        if self.how != "left":
            wanted = pc.invert(present) if self.how == "anti" else present
            columns, rows = [column.filter(wanted) for column in columns], wanted.true_count
        typed = [retyped(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return batch_of(typed, self.schema, rows)


def _how(how: str) -> How:
    found = _HOW.get(how.lower().replace("_", ""))
    if found is None:
        raise ConfigurationError(f"Argument how: {how!r} is not possible. Give left, inner, semi or anti.")
    return found


def _check_added(how: How, columns: JoinColumns) -> None:
    """`ConfigurationError` for columns that a join of this kind does not add."""
    if how in _ROWS_ONLY and (columns.names is not None or columns.prefix):
        raise ConfigurationError(f"Argument columns: a join with how={how!r} adds none. Leave out names and prefix.")
    if columns.indicator is not None and how != "left":
        text = f"Argument indicator: it would be the same in all rows of a join with how={how!r}."
        raise ConfigurationError(f"{text} Leave it out, or use a left join.")


def _check_names(rows: DataFrame, added: Sequence[StructField], store: Location, compared: Compared) -> None:
    """`ConfigurationError` if a column that is added is there already."""
    taken = set(map(compared, rows.columns))
    for each in added:
        if compared(each.name) in taken:
            text = f"Value column {each.name!r} of store {store.path} is also a column of the DataFrame."
            if not each.nullable:
                text = f"Argument indicator: {each.name!r} is also another column of the result."
            raise ConfigurationError(f"{text} Rename or drop one, or give a prefix.")
        taken.add(compared(each.name))


def _by_place(fields: Sequence[StructField]) -> StructType:
    """With other names: `mapInArrow` takes no column whose name has a dot, or that is there twice."""
    return StructType(
        [StructField(f"c{place}", each.dataType, each.nullable, each.metadata) for place, each in enumerate(fields)]
    )


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches into larger ones, whose keys have more neighbours in the store. Skips batches without rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(well_formed(batch))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield _one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _one(waiting)


def _one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.concat_arrays([batch.to_struct_array() for batch in batches]))


def values_of(
    store: StoreReadSpec, keys: Sequence[pa.Array], fields: pa.Schema, at_most: int | None = None
) -> pa.StructArray:
    """The values of keys. fields: of the keys for which the query was planned. at_most: see `View.lookup`.

    `ConfigurationError` if the store was rebuilt with other keys, or columns are of other types.
    """
    batch = pa.RecordBatch.from_arrays(list(keys), names=fields.names)

    def find(view: View) -> pa.StructArray:
        if not view.schema.keys.equals(fields):
            planned, now = (
                ", ".join(f"{each.name} {each.type}" for each in some) for some in (fields, view.schema.keys)
            )
            raise ConfigurationError(
                f"The store's keys were {planned} when the query started, and are {now}. {_OTHER_SCHEMA}"
            )
        return view.lookup(batch, at_most)

    return store.read(find)


def picked(values: pa.StructArray, fields: pa.Schema) -> list[pa.Array]:
    """These fields of the values, null where the value is.

    `ConfigurationError` if the store was rebuilt without one of them, or with another type of it.
    """
    by_name = dict(zip((field.name for field in values.type), values.flatten(), strict=True))
    columns = []
    for field in fields:
        found = by_name.get(field.name)
        if found is None or found.type != field.type:
            now = "gone" if found is None else f"of type {found.type}"
            text = f"Value column {field.name!r} was of type {field.type} when the query started, and is {now}."
            raise ConfigurationError(f"{text} {_OTHER_SCHEMA}")
        columns.append(found)
    return columns


def key_places(schema: StoreSchema, rows: DataFrame, columns: Sequence[str], compared: Compared) -> list[int]:
    """The places of these columns in the rows.

    `ConfigurationError` unless they are there and have the types of the store's keys.
    """
    places = []
    for field, name in zip(schema.keys, columns, strict=True):
        found = [place for place, each in enumerate(rows.columns) if compared(each) == compared(name)]
        if not found:
            have = ", ".join(rows.columns)
            text = f"Column {name!r}, for key {field.name!r} of the store, is not in the DataFrame, which has {have}."
            raise ConfigurationError(text)
        if len(found) > 1:
            raise ConfigurationError(f"The DataFrame has column {name!r} twice. Drop one, or rename it.")
        its = rows.schema[found[0]]
        check_not_collated(name, its.dataType)
        given = arrow_of(StructType([its])).field(0).type
        if given != field.type:
            wanted = spark_of(pa.schema([field]))[0].dataType.simpleString()
            text = f"Column {name!r} is of type {its.dataType.simpleString()}, key {field.name!r} of the"
            raise ConfigurationError(f"{text} store is {wanted}. Cast it: F.col({name!r}).cast({wanted!r}).")
        places += found
    return places


def _key_columns(schema: StoreSchema, on: Sequence[str] | Mapping[str, str], compared: Compared) -> list[str]:
    """The name of a column of the rows for each key."""
    names = list(schema.keys.names)
    keys = list(map(compared, names))
    if isinstance(on, Mapping):
        columns = {compared(key): column for key, column in on.items()}
        if set(columns) != set(keys):
            raise ConfigurationError(
                f"Argument on: it maps keys {', '.join(on)}; the store has {', '.join(names)}. Map each of these."
            )
        return [columns[key] for key in keys]
    given = [on] if isinstance(on, str) else list(on)
    if len(given) != len(names):
        raise ConfigurationError(
            f"Argument on: it has {len(given)} columns; the store has {len(names)} keys: {', '.join(names)}."
        )
    if set(map(compared, given)) == set(keys):
        return names
    for key, name in zip(names, given, strict=True):
        if compared(name) in keys and compared(name) != compared(key):
            text = f"Argument on: column {name!r}, which has the name of a key, is in the place of key {key!r}."
            raise ConfigurationError(f"{text} Map each key to its column: on={dict(zip(names, given, strict=True))}.")
    return given


def _values(schema: StoreSchema, columns: Sequence[str] | None, compared: Compared) -> pa.Schema:
    """The value columns that are added."""
    if columns is None:
        return schema.values
    have = schema.values.names
    if isinstance(columns, str):
        raise ConfigurationError(f"Argument names: {columns!r} is not a list. Give one, such as [{columns!r}].")
    if len(set(map(compared, columns))) < len(columns):
        raise ConfigurationError(f"Argument names: {list(columns)} has a column twice. Name each once.")
    fields = []
    for name in columns:
        found = [field for field in schema.values if compared(field.name) == compared(name)]
        if len(found) != 1:
            cause = f"has value columns {', '.join(field.name for field in found)}, which Spark takes for one"
            cause = cause if found else f"has no value column {name!r}; it has {', '.join(have)}"
            raise ConfigurationError(f"Argument names: the store {cause}.")
        fields += found
    return pa.schema(fields)
