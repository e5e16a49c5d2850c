"""The position of the first damaged row and column in a block that cannot be read, by binary search.

Only slices that have failed are searched, so it costs nothing for other blocks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from arrow_avro.decoding.arrays import columns
from arrow_avro.decoding.plan import Record
from arrow_avro.decoding.scan import BodySlice
from arrow_avro.decoding.scanners import Scanner, scanner_class
from arrow_avro.decoding.value_errors import DamagedValueError, UnrepresentableValueError, UnresolvedError
from arrow_avro.limits import BeyondLimitError
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Callable

    from arrow_avro.types import AvroType


def error_position(avro: AvroType, plan: Record, failed: BodySlice, rows_before: int) -> str:
    """The first damaged row of a slice and its column, as text for a message; empty if all rows can be read.

    rows_before: the rows of its block that come before the slice.
    """
    scanner = scanner_class()(avro, plan)
    row = _first(failed.rows, lambda count: _end(scanner, plan, failed.body, count) is not None)
    if row is None:
        return ""
    start = _end(scanner, plan, failed.body, row) or 0
    rest = failed.body[start:]
    field = _first(len(avro.fields), lambda count: _end(*_prefix(avro, plan, count), rest, 1) is not None)
    column = "" if field is None else f", column {avro.fields[field].column!r}"
    return f"row {rows_before + row} (from 0){column}: "


def _first(count: int, sound: Callable[[int], bool]) -> int | None:
    """The number of the first one that is damaged, below `count`, if `sound(n)` says that the first n are not."""
    low, high = 0, count
    if sound(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sound(middle) else (low, middle)
    return low


def _end(scanner: Scanner, plan: Record, body: memoryview, rows: int) -> int | None:
    """Where the first `rows` rows of a body end; None if one of them is damaged."""
    try:
        scan = scanner.scan([BodySlice(body, rows, whole=False)])
        columns(plan, scan)
    except (CorruptError, DamagedValueError):
        return None
    except (UnresolvedError, UnrepresentableValueError, BeyondLimitError):
        return scan.end
    return scan.end


def _prefix(avro: AvroType, plan: Record, count: int) -> tuple[Scanner, Record]:
    """A scanner and a plan that read only the first `count` fields of a row."""
    keys = {"", *(f"f{place}" for place in range(count))}
    some = tuple(field for field in plan.fields if field[0] in keys)
    fewer = Record(plan.arrow, some)
    return scanner_class()(replace(avro, fields=avro.fields[:count]), fewer), fewer
