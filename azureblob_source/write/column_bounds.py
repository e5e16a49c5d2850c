"""Between which values the columns of a blob lie, so that a reader can leave the blob out. Pure.

    batch, grouped by route ─► extremes of each group and column ─► joined over a blob's batches ─► `BlobEntry.bounds`

numpy finds the extremes of all groups at once: with a call of Arrow for each of some hundred groups they would take
longer than encoding the rows. Texts are compared by *keys*, numbers in the same order: their first seven bytes, then
their length, 8 if it is more than seven. If the least or the greatest has more bytes, Arrow compares the group's texts;
if there are many groups, its first seven bytes are the bound.

    "JFK"       4A 46 4B 00 00 00 00  03
    "New York"  4E 65 77 20 59 6F 72  08
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow.compute as pc
from pyarrow import types as arrow_is

from arrow_avro import spans, stored_values, validity
from azureblob_source.options import MOST_BOUNDS_COLUMNS
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from arrow_avro import I64, AvroSchema, AvroType
    from azureblob_source.log.entry import Bound, Bounds

MOST_OF_BATCH = 256
"""Groups times columns of a batch: its rows have bounds in 16 columns up to 16 groups, in none above 256 groups."""
TEXT_LENGTH = 16
"""Code points of a bound at most."""

Pair: TypeAlias = "tuple[Bound, Bound]"
Extremes: TypeAlias = "Mapping[str, Pair | None]"
"""By column, the least and the greatest value of some rows; None if all are null. Of others nothing is known."""


Found: TypeAlias = "Pair | tuple[()] | None"
"""The extremes of one group: empty if one of its values has no bound, None if all are null."""


@dataclass(frozen=True)
class BoundedColumn:
    """A column, and the function that finds the extremes of groups of its values, which begin at `starts[:-1]`."""

    name: str
    find: Callable[[pa.Array, I64], Iterable[Found]]


@dataclass(frozen=True)
class ColumnBounds:
    """Finds the extremes of some columns in groups of rows."""

    columns: tuple[BoundedColumn, ...] = ()

    @classmethod
    def of(
        cls, arrow: pa.Schema, avro: AvroSchema, names: Sequence[str] | None, partition_column: str | None = None
    ) -> ColumnBounds:
        """The bounds of these columns, by default of the first that can have some. `ConfigurationError` if one cannot.

        arrow, avro: the schemas of the rows that are stored.
        partition_column: is left out if partitions say its values, from which readers have its bounds, and else the
          first by default.
        """
        types = {member.column: member.type for member in avro.row.fields}
        finders = {field.name: _finder(field.type, types[field.name]) for field in arrow if field.name in types}
        able = {name: find for name, find in finders.items() if find is not None}
        for name in names or ():
            if name not in able:
                raise ConfigurationError(
                    f"Option `boundsColumns` names {name!r}, which is no column that can have bounds; these can: "
                    f"{', '.join(able) or 'none'}. Correct the name, or leave it out."
                )
        if partition_column in types and _is_said_by_partitions(types[partition_column]):
            able.pop(partition_column, None)
        first = sorted(able, key=lambda name: name != partition_column)[:MOST_BOUNDS_COLUMNS]
        chosen = first if names is None else [name for name in names if name in able]
        return cls(tuple(BoundedColumn(name, able[name]) for name in chosen))

    def of_groups(self, batch: pa.RecordBatch, starts: I64) -> list[Extremes]:
        """The extremes of each group of rows `starts[i] … starts[i+1]-1`; none is empty."""
        groups: list[dict[str, Pair | None]] = [{} for _ in starts[1:]]
        for column in self.columns[: MOST_OF_BATCH // max(len(groups), 1)]:
            for group, found in zip(groups, column.find(batch.column(column.name), starts), strict=True):
                if found is None or found:
                    group[column.name] = found
        return list(groups)


def _is_said_by_partitions(avro: AvroType) -> bool:
    from azureblob_source.iceberg.partition import PartitionField  # noqa: PLC0415 - only for rows in partitions

    return PartitionField.of(0, avro) is not None


def joined(one: Extremes | None, other: Extremes) -> Extremes:
    """The extremes of the rows of both; `one` is None if there are no rows yet."""
    if one is None:
        return other
    return {name: _joined(found, other[name]) for name, found in one.items() if name in other}


def _joined(one: Pair | None, other: Pair | None) -> Pair | None:
    if one is None or other is None:
        return one or other
    (least, greatest), (low, high) = one, other
    return min(least, low), max(greatest, high)


def bounds_of(extremes: Extremes | None) -> Bounds:
    """The bounds of a blob whose rows have these extremes."""
    return {name: found for name, found in (extremes or {}).items() if found is not None}


# --- numbers ----------------------------------------------------------------------------------------------------------

_MICROSECONDS = {"s": (10**6, 1), "ms": (10**3, 1), "us": (1, 1), "ns": (1, 10**3)}


def _finder(arrow: pa.DataType, avro: AvroType) -> Callable[[pa.Array, I64], Iterable[Found]] | None:
    """What finds the extremes of a column; None if values of its type have no bounds."""
    avro = avro.nullable or avro
    match avro.kind, avro.logical or avro.hint:
        case (("int" | "long"), ("" | "byte" | "short")) if arrow_is.is_integer(arrow):
            return partial(_of_integers, dtype=np.dtype(arrow.to_pandas_dtype()))
        case "int", "date" if arrow_is.is_date32(arrow):
            return partial(_of_integers, dtype=np.dtype(np.int32))
        case "long", ("timestamp-micros" | "local-timestamp-micros") if arrow_is.is_timestamp(arrow):
            times, parts = _MICROSECONDS[arrow.unit]
            return partial(_of_integers, dtype=np.dtype(np.int64), times=times, parts=parts)
        case (("float" | "double"), "") if arrow_is.is_floating(arrow) or arrow_is.is_integer(arrow):
            return partial(_of_floats, dtype=np.dtype(arrow.to_pandas_dtype()))
        case (("bytes" | "fixed"), "decimal") if arrow_is.is_decimal128(arrow):
            return partial(_of_decimals, times=10 ** (avro.scale - arrow.scale))
        case "string", "" if arrow_is.is_string(arrow) or arrow_is.is_large_string(arrow):
            return _of_texts
    return None


def _of_integers(array: pa.Array, starts: I64, dtype: npt.DTypeLike, times: int = 1, parts: int = 1) -> list[Found]:
    """The extremes of whole numbers, which are stored as `times` / `parts` of it, rounded down."""
    pairs = _extremes(stored_values(array, dtype), validity(array), starts)
    return [None if low > high else (low * times // parts, high * times // parts) for low, high in pairs]


def _of_floats(array: pa.Array, starts: I64, dtype: npt.DTypeLike) -> list[Found]:
    pairs = _extremes(stored_values(array, dtype), validity(array), starts)
    return [_of_float(float(low), float(high)) for low, high in pairs]


def _of_float(low: float, high: float) -> Found:
    if low > high:
        return None
    if not (math.isfinite(low) and math.isfinite(high)):
        return ()
    return low or -0.0, high or 0.0  # to readers in Java, -0.0 is less than 0.0


def _extremes(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, starts: I64) -> list[tuple[Any, Any]]:
    """The least and the greatest number of each group; of a group of nulls only, the first is above the second."""
    if valid is None:
        least, greatest = (pick.reduceat(values, starts[:-1]) for pick in (np.minimum, np.maximum))
    else:
        nulls, values = np.flatnonzero(~valid), values.copy()
        values[nulls] = np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).max
        least = np.minimum.reduceat(values, starts[:-1])
        values[nulls] = -np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).min
        greatest = np.maximum.reduceat(values, starts[:-1])
    return list(zip(least.tolist(), greatest.tolist(), strict=True))


def _of_decimals(array: pa.Array, starts: I64, times: int) -> list[Found]:
    """The extremes of 128-bit numbers, stored as `times` of it. Lower halves count where upper ones are the same."""
    halves, valid, sizes = stored_values(array, np.dtype((_u, 2))).reshape(-1, 2), validity(array), np.diff(starts)
    lower, upper = halves[:, 0], halves[:, 1].view(np.int64)
    found: list[list[int]] = []
    for pick, of_null, of_others in ((np.minimum, 2**63 - 1, 2**64 - 1), (np.maximum, -(2**63), 0)):
        tops = upper if valid is None else np.where(valid, upper, of_null)
        top = pick.reduceat(tops, starts[:-1])
        rest = pick.reduceat(np.where(tops == np.repeat(top, sizes), lower, _u(of_others)), starts[:-1])
        found.append([(high << 64) + low for high, low in zip(top.tolist(), rest.tolist(), strict=True)])
    return [None if low > high else (low * times, high * times) for low, high in zip(*found, strict=True)]


# --- texts ------------------------------------------------------------------------------------------------------------

_u = np.uint64
_KEY_BYTES, _WORD = 7, 8
_GROUPS_FOR_ARROW = 32
_LEFT = 0xFF
_OF_NULL = 2**64 - 1
_LAST_CODE_POINT = chr(0x10FFFF)
_SURROGATES = range(0xD800, 0xE000)


def _of_texts(array: pa.Array, starts: I64) -> list[Found]:
    keys, valid = _keys(array), validity(array)
    least = np.minimum.reduceat(keys if valid is None else np.where(valid, keys, _u(_OF_NULL)), starts[:-1])
    greatest = np.maximum.reduceat(keys, starts[:-1])
    found: list[Found] = []
    for group, (low, high) in enumerate(zip(least.tolist(), greatest.tolist(), strict=True)):
        if low == _OF_NULL:
            found.append(None)
        elif (low & _LEFT > _KEY_BYTES or high & _LEFT > _KEY_BYTES) and len(least) <= _GROUPS_FOR_ARROW:
            first, last = starts[group : group + 2].tolist()
            texts = pc.min_max(array.slice(first, last - first)).as_py()
            found.append(_text_bounds(texts["min"], texts["max"], is_whole=True))
        else:
            found.append(_text_bounds(_start(low), _start(high), is_whole=high & _LEFT <= _KEY_BYTES))
    return found


def _keys(array: pa.Array) -> npt.NDArray[np.uint64]:
    """The key of each text; 0 of a null, as of an empty text."""
    data, start, length, valid = spans(array)
    if len(data) < _WORD:
        data = np.concatenate([data, np.zeros(_WORD, np.uint8)])
    last = len(data) - _WORD
    within = int(np.searchsorted(start, last, side="right"))  # so many have their eight bytes within the data
    if valid is None and (length == length[0]).all():
        # Texts of one length, such as codes, follow each other: to read them in this order is four times as fast.
        words = np.empty(len(start), _u)
        words[:within] = np.ndarray((within,), ">u8", data, int(start[0]), (int(length[0]),))
        words[within:] = data[last:].view(">u8")
        length = length[:1]
    else:
        words = np.ndarray((last + 1,), "<u8", data, strides=(1,))[np.minimum(start, last)].byteswap()
    words[within:] <<= (8 * (start[within:] - last)).view(_u)
    cut = _u(64) - _u(8) * np.minimum(length, _u(_KEY_BYTES))
    words >>= cut
    words <<= cut
    words |= np.minimum(length, _u(_WORD))
    return words


def _text_bounds(least: str, greatest: str, *, is_whole: bool) -> Found:
    """The bounds of texts; `greatest` is only the start of the greatest one unless it `is_whole`."""
    upper: str | None = greatest
    if not is_whole or len(greatest) > TEXT_LENGTH:
        upper = above(greatest[:TEXT_LENGTH])
    return () if upper is None else (least[:TEXT_LENGTH], upper)


def _start(key: int) -> str:
    """The text of which this is the first key, or the whole characters in its first seven bytes."""
    return key.to_bytes(_WORD, "big")[: min(key & _LEFT, _KEY_BYTES)].decode(errors="ignore")


def above(start: str) -> str | None:
    """A text that is above all that begin so, and not longer; None if there is none."""
    kept = start.rstrip(_LAST_CODE_POINT)
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)
