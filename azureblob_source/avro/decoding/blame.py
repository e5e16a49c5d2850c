"""Where in a block that cannot be read the first broken row and column are, by halving.

Only what has failed is looked at again, so that good blocks pay nothing for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from azure_account.errors import CorruptError
from azureblob_source.avro.decoding.arrays import columns
from azureblob_source.avro.decoding.plan import DamagedValueError, Record, UnfitError, UnresolvedError
from azureblob_source.avro.decoding.scan import Part, Scanner
from azureblob_source.avro.limits import BeyondLimitError

if TYPE_CHECKING:
    from collections.abc import Callable

    from azureblob_source.avro.types import AvroType


def place_of(avro: AvroType, plan: Record, part: Part, taken: int) -> str:
    """The first broken row of a part, before which `taken` rows of its block are out, and its column; or nothing."""
    scanner = Scanner(avro, plan)
    row = _first(part.rows, lambda count: _end(scanner, plan, part.body, count) is not None)
    if row is None:
        return ""
    start = _end(scanner, plan, part.body, row) or 0
    rest = part.body[start:]
    field = _first(len(avro.fields), lambda count: _end(*_prefix(avro, plan, count), rest, 1) is not None)
    column = "" if field is None else f", column {avro.fields[field].column!r}"
    return f"row {taken + row} (from 0){column}: "


def _first(count: int, sound: Callable[[int], bool]) -> int | None:
    """The number, below `count`, of the first that is broken, where `sound(n)` says that the first n are not."""
    low, high = 0, count
    if sound(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if sound(middle) else (low, middle)
    return low


def _end(scanner: Scanner, plan: Record, body: memoryview, rows: int) -> int | None:
    """Where so many rows end; None if they are broken."""
    try:
        scan = scanner.scan([Part(body, rows, whole=False)])
        columns(plan, scan)
    except (CorruptError, DamagedValueError):
        return None
    except (UnresolvedError, UnfitError, BeyondLimitError):
        return scan.end
    return scan.end


def _prefix(avro: AvroType, plan: Record, count: int) -> tuple[Scanner, Record]:
    """To read the first fields of a row alone."""
    keys = {"", *(f"f{place}" for place in range(count))}
    some = tuple(field for field in plan.fields if field[0] in keys)
    fewer = Record(plan.arrow, some)
    return Scanner(replace(avro, fields=avro.fields[:count]), fewer), fewer
