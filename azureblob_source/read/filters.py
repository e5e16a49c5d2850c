"""Applies Spark's pushed-down filters to Arrow batches, if the result is exactly Spark's. Pure.

Spark pushes the conjuncts of a WHERE clause down (`pyspark.sql.datasource.Filter`), and does not apply again what is
applied here. So a filter is accepted only if its result is the same for every value: on booleans, integers, strings,
binary, dates, timestamps and decimals, not on floating-point numbers, as Arrow compares NaN differently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_is

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_COMPARISONS: dict[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
_TEXT: dict[str, Callable[..., pa.Array]] = {
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}
_EXACT = (
    arrow_is.is_boolean,
    arrow_is.is_integer,
    arrow_is.is_string,
    arrow_is.is_binary,
    arrow_is.is_date32,
    arrow_is.is_timestamp,
    arrow_is.is_decimal128,
)


@dataclass(frozen=True)
class ColumnFilter:
    """One filter on one column, negated or not. `operation` is the name of Spark's filter class."""

    column: str
    operation: str
    value: Any = None
    negated: bool = False

    def holds(self, batch: pa.RecordBatch) -> pa.Array:
        """For each row true, false or null, as in SQL."""
        found = self._plain(batch.column(self.column))
        return pc.invert(found) if self.negated else found

    def _plain(self, column: pa.Array) -> pa.Array:
        match self.operation:
            case "IsNull":
                return column.is_null()
            case "IsNotNull":
                return column.is_valid()
            case "EqualNullSafe" if self.value is None:
                return column.is_null()
            case "EqualNullSafe":
                return pc.and_kleene(column.is_valid(), pc.equal(column, self._scalar(column.type)))
            case "In":
                values = pa.array([value for value in self.value if value is not None], column.type)
                known = pc.is_in(column, value_set=values)
                # SQL: `null IN (…)` is null, and so is `x IN (…, null)` if x is not among the values.
                unknown = pc.or_(column.is_null(), pc.invert(known)) if None in self.value else column.is_null()
                return pc.if_else(unknown, pa.scalar(None, pa.bool_()), known)
            case text if text in _TEXT:
                return _TEXT[text](column, pattern=self.value)
        return _COMPARISONS[self.operation](column, self._scalar(column.type))

    def _scalar(self, kind: pa.DataType) -> pa.Scalar:
        return pa.scalar(self.value, kind)


def column_filter(spark_filter: Any, schema: pa.Schema) -> ColumnFilter | None:
    """The filter as one on a column of `schema`, or None if only Spark can apply it."""
    found = named_filter(spark_filter, schema)
    return found if found is not None and _is_exact(found, schema) else None


def named_filter(spark_filter: Any, schema: pa.Schema) -> ColumnFilter | None:
    """The filter as one on a column of `schema`, if it is on one, whoever can apply it."""
    name, negated = type(spark_filter).__name__, False
    if name == "Not":
        spark_filter, negated = spark_filter.child, True
        name = type(spark_filter).__name__
    path: tuple[str, ...] = getattr(spark_filter, "attribute", ())
    if len(path) != 1 or schema.names.count(path[0]) != 1:
        return None
    return ColumnFilter(path[0], name, getattr(spark_filter, "value", None), negated)


def _is_exact(found: ColumnFilter, schema: pa.Schema) -> bool:
    kind = schema.field(found.column).type
    if found.operation in ("IsNull", "IsNotNull"):
        return True
    if not any(is_kind(kind) for is_kind in _EXACT):
        return False
    if found.operation in _TEXT:
        return arrow_is.is_string(kind) and isinstance(found.value, str)
    if found.operation not in (*_COMPARISONS, "EqualNullSafe", "In"):
        return False
    if found.value is None and found.operation != "EqualNullSafe":
        return False
    try:  # on one row, to see whether the value has the column's type
        found.holds(pa.RecordBatch.from_arrays([pa.nulls(1, kind)], [found.column]))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def selected(batch: pa.RecordBatch, filters: Sequence[ColumnFilter]) -> pa.RecordBatch:
    """The rows for which every filter holds."""
    return batch.filter(mask(batch, filters)) if filters else batch


def mask(batch: pa.RecordBatch, filters: Sequence[ColumnFilter]) -> pa.Array:
    """For each row whether every filter holds; null as in SQL. One filter at least."""
    found = filters[0].holds(batch)
    for each in filters[1:]:
        found = pc.and_kleene(found, each.holds(batch))
    return found
