"""Leaves out the blobs of which no row can meet Spark's pushed filters, by the bounds of their columns. Pure.

A filter is a set of intervals of the column's values. Of a blob with bounds 3 … 7 of `a`:

    a > 7            (7, …)            no value from 3 to 7 is in an interval: left out
    a IN (1, 9)      [1, 1] [9, 9]     so is this one
    NOT a IN (1, 9)  [1, 1] [9, 9]     left out if all values from 3 to 7 are in one interval: it is not

A blob is kept if it has no bounds of the column, perhaps because of NaN; if the column has another meaning in its
schema than in that of the read; if the filter has a value of another type; and for all that can hold for nulls.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_is

from arrow_avro import arrow_schema, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from arrow_avro import I64, AvroField, AvroSchema
    from azureblob_source.log.checkpoint.table_columns import TableColumns
    from azureblob_source.read.filters import ColumnFilter

    Edge: TypeAlias = Callable[[pa.Array], pa.Array] | None
    """Which values are on the inner side of an end of an interval; None if it is open."""
    Interval: TypeAlias = tuple[Edge, Edge]
    Mask: TypeAlias = npt.NDArray[np.bool_]

MOST_INTERVALS = 16
"""Intervals of a filter: more values of `IN` share some."""

_WIDE = 16
_TEXT, _DECIMAL = "text", "decimal"
_DECIMALS = {("bytes", "decimal"): _DECIMAL, ("fixed", "decimal"): _DECIMAL}
_NUMBERS = {("int", ""): "<i4", ("long", ""): "<i8", ("float", ""): "<f4", ("double", ""): "<f8"}
_INTEGERS = {avro: form for avro, form in _NUMBERS.items() if "i" in form}


@dataclass(frozen=True)
class _Values:
    """How values of a column are compared.

    compared: as values of this Arrow type. given: the type of a filter's value. forms: how bounds are stored by
    writers of a type, by its kind and logical type: numpy's type, text or decimal.
    """

    compared: pa.DataType
    given: type
    forms: Mapping[tuple[str, str], str]

    def scalar(self, value: Any) -> pa.Scalar:
        """A filter's value. `ValueError` or `OverflowError` if the type does not have it."""
        if type(value) is not self.given or value != value:  # noqa: PLR0124 - NaN
            raise ValueError(f"{value!r} is no {self.compared}")
        if isinstance(value, datetime) and (value.tzinfo is None) != (self.compared.tz is None):
            raise ValueError(f"{value!r} is no {self.compared}")
        return pa.scalar(value.encode() if isinstance(value, str) else value, self.compared)

    def form(self, member: AvroField) -> str | None:
        """How the bounds of a writer's column are stored. None if it has other values than the reader's column."""
        avro = member.type.nullable or member.type
        if avro.logical == "decimal" and avro.scale != getattr(self.compared, "scale", None):
            return None
        return self.forms.get((avro.kind, avro.logical))


def _values_of(kind: pa.DataType) -> _Values | None:
    """How values of a column that Spark has as `kind` are compared. None if its bounds are not used."""
    if arrow_is.is_integer(kind):
        return _Values(pa.int64(), int, _INTEGERS)
    if arrow_is.is_float32(kind):
        return _Values(pa.float64(), float, {("float", ""): "<f4"})
    if arrow_is.is_float64(kind):
        return _Values(pa.float64(), float, _NUMBERS)
    if arrow_is.is_date32(kind):
        return _Values(kind, date, {("int", "date"): "<i4"})
    if arrow_is.is_timestamp(kind) and kind.unit == "us":
        return _Values(kind, datetime, {("long", f"{'local-' if kind.tz is None else ''}timestamp-micros"): "<i8"})
    if arrow_is.is_decimal128(kind):
        return _Values(pa.decimal128(38, kind.scale), Decimal, _DECIMALS)
    return _Values(pa.binary(), str, {("string", ""): _TEXT}) if arrow_is.is_string(kind) else None


@dataclass(frozen=True)
class _Condition:
    """What rows must meet: their value of a column is in one of the intervals; negated, in none of them."""

    column: AvroField
    values: _Values
    intervals: Sequence[Interval]
    negated: bool

    def may_hold(self, lower: _Bounds, upper: _Bounds) -> Mask:
        """For each blob, whether a row can meet the condition."""
        first, second, unknown = (lower, upper, False) if self.negated else (upper, lower, True)
        found = np.zeros(len(lower.column), np.bool_)
        for start, end in self.intervals:
            found |= first.within(start, unknown=unknown) & second.within(end, unknown=unknown)
        return ~found if self.negated else found


@dataclass(frozen=True)
class BoundsPruning:
    """The pushed filters by which blobs are left out."""

    conditions: tuple[_Condition, ...]
    needed: ClassVar[tuple[str, ...]] = ("schema", "lower_bounds", "upper_bounds")
    """The columns of a live table that it needs."""

    @classmethod
    def of(cls, filters: Iterable[ColumnFilter], reader: AvroSchema, schema: pa.Schema) -> BoundsPruning | None:
        """That of filters on columns of `schema`, Spark's; None if bounds can say nothing of them.

        reader: the schema that rows are resolved to.
        """
        fields, kinds = {each.column: each for each in reader.row.fields}, arrow_schema(reader)
        found = []
        for each in filters:
            column = fields.get(each.column)
            if column is None or column.aliases or kinds.field(each.column).type != schema.field(each.column).type:
                continue
            values = _values_of(kinds.field(each.column).type)
            intervals = None if values is None else _intervals(each, values)
            if values is not None and intervals:
                found.append(_Condition(column, values, intervals, each.negated))
        return cls(tuple(found)) if found else None

    def left_of(self, table: pa.Table, columns: TableColumns) -> pa.Table:
        """The blobs that can have a row that meets all filters, without the columns that are `needed` for it.

        columns: the ids by which the table has bounds.
        """
        keep = self.may_hold(table, columns)
        found = table.drop_columns(list(self.needed))
        return found if keep.all() else found.filter(pa.array(keep))

    def may_hold(self, table: pa.Table, columns: TableColumns) -> Mask:
        """For each blob, whether a row can meet all filters."""
        keep, schemas = np.ones(table.num_rows, np.bool_), table["schema"]
        for fingerprint in pc.unique(schemas).to_pylist():
            own = np.flatnonzero(pc.equal(schemas, fingerprint))
            part = table if len(own) == table.num_rows else table.take(pa.array(own))
            members = columns.members(fingerprint)
            for each in self.conditions:
                id_, member = members.get(each.column.column, (0, None))
                form = None if member is None or member.name != each.column.name else each.values.form(member)
                if form is not None:
                    lower, upper = (
                        _Bounds(part[side], id_, form, each.values.compared)
                        for side in ("lower_bounds", "upper_bounds")
                    )
                    keep[own] &= each.may_hold(lower, upper)
        return keep


# --- filters as intervals ---------------------------------------------------------------------------------------------

_EDGES: Mapping[str, tuple[Callable[..., pa.Array] | None, Callable[..., pa.Array] | None]] = {
    "EqualTo": (pc.greater_equal, pc.less_equal),
    "EqualNullSafe": (pc.greater_equal, pc.less_equal),
    "GreaterThan": (pc.greater, None),
    "GreaterThanOrEqual": (pc.greater_equal, None),
    "LessThan": (None, pc.less),
    "LessThanOrEqual": (None, pc.less_equal),
}


def _intervals(of: ColumnFilter, values: _Values) -> Sequence[Interval]:
    """The intervals of values for which a filter holds before it is negated; none if bounds can say nothing of it."""
    if of.value is None or (of.negated and of.operation == "EqualNullSafe"):  # which holds for nulls
        return ()
    try:
        if of.operation == "In":
            return _groups(of, values)
        if of.operation == "StringStartsWith":
            start = values.scalar(of.value)
            length = len(of.value.encode())
            return [
                (_edge(pc.greater_equal, start), lambda ends: pc.less_equal(pc.binary_slice(ends, 0, length), start))
            ]
        if of.operation in _EDGES:
            above, below = _EDGES[of.operation]
            value = values.scalar(of.value)
            return [(above and _edge(above, value), below and _edge(below, value))]
    except (pa.ArrowException, ValueError, OverflowError):
        return ()  # a value that the column cannot have, or of another type
    return ()


def _groups(of: ColumnFilter, values: _Values) -> Sequence[Interval]:
    """The intervals of `IN`: its values, or what is between the least and the greatest of each group of many."""
    known = [value for value in of.value if value is not None]  # a null of the list is equal to nothing
    for each in known:
        values.scalar(each)
    known.sort()
    size = -(-len(known) // MOST_INTERVALS)
    if size > 1 and of.negated:
        return ()
    groups = [known[place : place + size] for place in range(0, len(known), size or 1)]
    return [
        (_edge(pc.greater_equal, values.scalar(group[0])), _edge(pc.less_equal, values.scalar(group[-1])))
        for group in groups
    ]


def _edge(compare: Callable[..., pa.Array], value: pa.Scalar) -> Edge:
    return lambda ends: compare(ends, value)


# --- bounds of a column -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Bounds:
    """The lower or the upper bounds of the column with this id, stored in a form, as values of an Arrow type."""

    column: pa.ChunkedArray
    id: int
    form: str
    kind: pa.DataType

    def within(self, edge: Edge, *, unknown: bool) -> Mask:
        """For each blob, whether its bound is on the inner side of an end of an interval."""
        if edge is None:
            return np.ones(len(self.column), np.bool_)
        places, values = self._known
        found = np.full(len(self.column), unknown)
        found[places] = edge(values).to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def _known(self) -> tuple[I64, pa.Array]:
        """The bounds that are there, and of which blobs they are."""
        maps = pa.concat_arrays(self.column.chunks)  # a copy, whose offsets begin with 0
        offsets, keys = maps.offsets.to_numpy(), maps.keys.to_numpy()
        found = np.flatnonzero(keys == self.id)
        places = np.searchsorted(offsets, found, side="right") - 1
        stored = maps.items.take(pa.array(found))
        if self.form == _TEXT:
            return places, stored
        data, start, length, _ = spans(stored)
        if self.form == _DECIMAL:
            fits = (length > 0) & (length <= _WIDE)
            return places[fits], _decimals(data, start[fits], length[fits], self.kind)
        width = np.dtype(self.form).itemsize
        if (fits := length == width).all():
            numbers = data[: width * len(stored)].view(self.form)
        else:
            numbers = data[start[fits, None] + np.arange(width)].reshape(-1).view(self.form)
            places = places[fits]
        if arrow_is.is_floating(self.kind) and np.isnan(numbers).any():
            places, numbers = places[~np.isnan(numbers)], numbers[~np.isnan(numbers)]
        return places, pa.array(numbers).cast(self.kind, safe=False)  # long becomes double as the decoder makes it


def _decimals(data: npt.NDArray[np.uint8], start: I64, length: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Big-endian numbers of 1 to 16 bytes, which Arrow has as little-endian ones of 16."""
    found = np.empty((len(start), _WIDE), np.uint8)
    for width in np.unique(length).tolist():
        own = length == width
        digits = data[start[own, None] + np.arange(width - 1, -1, -1)]
        found[own, :width] = digits
        found[own, width:] = np.where(digits[:, -1:] > 0x7F, 0xFF, 0)  # noqa: PLR2004 - the sign
    return pa.Array.from_buffers(kind, len(start), [None, pa.py_buffer(found)])
