"""Rows of a DataFrame as changes of a store: key columns, a value struct that is null in a deletion, an order."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegralType,
    MapType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from adjunct_store.encoding.schema import StoreSchema
from adjunct_store.spark.partitioning import (
    as_compared,
    check_not_collated,
    column_of,
    one_task_each,
    store_partition,
)
from arrow_avro import arrow_of
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from adjunct_store.spark.filling.fill_spec import FillSpec

PARTITION, VALUE, ORDER = "partition", "value", "order"
KEY, TIE = re.compile("k[0-9]+"), re.compile("t[0-9]+")
"""The names of `key_column` and `tie_column`."""


@dataclass(frozen=True)
class ChangeRows:
    """Rows that change a store of this schema.

    frame: columns `partition`, one for each key (`k0`, `k1`, …), `value`, `order` if the store is ordered, and one for
    each column of `then_by` (`t0`, …). Values are null in a row that deletes; orders have the types of the rows.
    """

    frame: DataFrame
    schema: StoreSchema

    def by_partition(self) -> DataFrame:
        """The frame with each partition of the store in a task of its own, sorted by key, order and `then_by`."""
        frame = one_task_each(self.frame, F.col(PARTITION), self.schema.partitions)
        order = [name for name in self.frame.columns if name == ORDER or TIE.fullmatch(name)]
        return frame.sortWithinPartitions(*(key_column(place) for place in range(len(self.schema.keys))), *order)


def key_column(place: int) -> str:
    """The name of a key column in `ChangeRows.frame`; the store's names could be `value` or `order`."""
    return f"k{place}"


def tie_column(place: int) -> str:
    """The name of a column of `then_by` in `ChangeRows.frame`."""
    return f"t{place}"


def changes_of(rows: DataFrame, spec: FillSpec) -> ChangeRows:
    """The changes that these rows are. Evaluates no row.

    `ConfigurationError` if a column is missing, or of a type that a key, an order or a value cannot have.
    """
    if spec.extractor is not None:
        rows = rows.mapInArrow(spec.extractor.function, spec.extractor.schema)
    orders = [*([] if spec.order_by is None else [spec.order_by]), *spec.ties]
    named = [*spec.keys, *_named_values(spec), *orders]
    compared = as_compared(rows)
    rows = _spelled(rows, named, compared)
    for name in spec.keys:
        check_not_collated(name, rows.schema[name].dataType)
    kind, value = _value(rows, spec)
    _check_once(rows, named if isinstance(spec.values, str) else [*named, *kind.names], compared)
    schema = StoreSchema(
        keys=_arrow(StructType([StructField(name, rows.schema[name].dataType) for name in spec.keys])),
        values=_arrow(kind),
        partitions=spec.partitions,
        ordered=spec.order_by is not None,
        order_by=""
        if spec.order_by is None
        else f"{spec.order_by} {rows.schema[spec.order_by].dataType.simpleString()}",
    )
    keys = [column_of(name) for name in spec.keys]
    columns = [key.alias(key_column(place)) for place, key in enumerate(keys)]
    columns += [_unless_deleted(rows, value, spec.delete_when).alias(VALUE)]
    if spec.order_by is not None:
        columns.append(_order(rows, "order_by", spec.order_by).alias(ORDER))
    columns += [_order(rows, "then_by", name).alias(tie_column(place)) for place, name in enumerate(spec.ties)]
    partition = store_partition(keys, spec.partitions).alias(PARTITION)
    try:
        return ChangeRows(rows.select(partition, *columns), schema)
    except AnalysisException as error:
        if spec.delete_when is None:
            raise
        text = f"Argument delete_when: {spec.delete_when!r} cannot be evaluated for each row by itself: {error}"
        raise ConfigurationError(text) from error


def _spelled(rows: DataFrame, names: Sequence[str], compared: Callable[[str], str]) -> DataFrame:
    """The rows with these columns named as they are given: Spark finds them whatever the case of their letters."""
    given = {compared(name): name for name in names}
    missing = [given[each] for each in given if each not in map(compared, rows.columns)]
    if missing:
        have = ", ".join(rows.columns)
        raise ConfigurationError(f"Column {missing[0]!r} of the fill is not in the DataFrame, which has {have}.")
    spelled = [given.get(compared(name), name) for name in rows.columns]
    return rows if spelled == rows.columns else rows.toDF(*spelled)


def _check_once(rows: DataFrame, names: Sequence[str], compared: Callable[[str], str]) -> None:
    there = Counter(map(compared, rows.columns))
    twice = [name for name in names if there[compared(name)] > 1]
    if twice:
        alike = "" if compared is str else ", if upper and lower case are the same"
        text = f"The DataFrame has column {twice[0]!r} twice{alike}."
        raise ConfigurationError(f"{text} Drop one, or rename it.")


def _named_values(spec: FillSpec) -> list[str]:
    if spec.values is None:
        return []
    return [spec.values] if isinstance(spec.values, str) else list(spec.values)


def _value(rows: DataFrame, spec: FillSpec) -> tuple[StructType, Column]:
    """The value of a row, and its type."""
    if isinstance(spec.values, str):
        kind = rows.schema[spec.values].dataType
        if not isinstance(kind, StructType):
            text = f"Argument values: column {spec.values!r} is of type {kind.simpleString()}, not a struct."
            raise ConfigurationError(f"{text} Give its columns as a list, values=[{spec.values!r}].")
        value = column_of(spec.values)
    else:
        other = [name for name in rows.columns if name not in {*spec.keys, spec.order_by, *spec.ties}]
        names = other if spec.values is None else list(spec.values)
        kind = StructType([rows.schema[name] for name in names])
        value = F.struct(*(column_of(name) for name in names))
    if not len(kind):
        raise ConfigurationError(
            f"Argument values: of columns {', '.join(rows.columns)} no value column is left. Give one."
        )
    return kind, value


def _unless_deleted(rows: DataFrame, value: Column, delete_when: str | None) -> Column:
    """The value, null if the row deletes its key. A condition that is null does not delete."""
    if delete_when is None:
        return value
    try:
        deletes = F.expr(delete_when)
        kind = rows.select(deletes).schema[0].dataType
    except AnalysisException as error:
        text = f"Argument delete_when: {delete_when!r} is not an expression over columns {', '.join(rows.columns)}"
        raise ConfigurationError(f"{text}: {error}") from error
    if not isinstance(kind, BooleanType):
        raise ConfigurationError(
            f"Argument delete_when: {delete_when!r} is of type {kind.simpleString()}. Give a Boolean expression."
        )
    return F.when(~F.coalesce(deletes, F.lit(False)), value)


def _order(rows: DataFrame, option: str, name: str) -> Column:
    kind = rows.schema[name].dataType
    if not isinstance(kind, IntegralType | TimestampType | TimestampNTZType):
        text = f"Argument {option}: column {name!r} is of type {kind.simpleString()}."
        raise ConfigurationError(f"{text} Give an integral or timestamp column, or cast it.")
    return column_of(name)


def _arrow(kind: StructType) -> pa.Schema:
    """The Arrow schema of a struct. All its parts may be null: what Spark knows of nulls differs between batches."""
    return arrow_of(_nullable_fields(kind))


def _nullable_fields(kind: StructType) -> StructType:
    return StructType([StructField(each.name, _nullable(each.dataType), True) for each in kind])


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return _nullable_fields(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind
