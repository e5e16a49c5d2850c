"""How much memory values take while they are decoded, known before they are read. Upper bounds, in bytes. Pure.

Of a row's memory one part depends on the schema alone: places for tags, numbers, lengths and Arrow values, also of a
column that is null. The other depends on the bytes: texts, and the items of arrays and maps. The machine that scans
datums appends at most one number of eight bytes for each byte that it reads; what Arrow makes of items is counted when
they are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from azureblob_source.avro.decoding.plan import (
    Branches,
    Constant,
    Decimal,
    Leaf,
    Listed,
    Mapped,
    Member,
    Never,
    Paired,
    Plan,
    Present,
    Record,
    Symbols,
)
from azureblob_source.avro.types import walk

if TYPE_CHECKING:
    from azureblob_source.avro.types import AvroType

NUMBER = 8
"""What the machine appends for a number, a tag, a length or a count."""

_PLACE = 4  # an offset of Arrow's
_SCANNED = {"null": 0, "boolean": 1, "float": 4, "fixed": 0, "reference": 0}
_COPIES = 3  # of a general union: its branches, the same in one array, and in their places


def scanned_bytes(avro: AvroType) -> int:
    """What the machine appends for one value, without the bytes of texts and the items of arrays and maps."""
    match avro.kind:
        case "record":
            return sum(scanned_bytes(member.type) for member in avro.fields)
        case "union":
            return NUMBER + max(map(scanned_bytes, avro.branches), default=0)
    return _SCANNED.get(avro.kind, NUMBER)


def growth(avro: AvroType) -> int:
    """By how much the bytes of texts and items grow at most when they are scanned."""
    items = [one for one in walk(avro) if one.kind in ("array", "map")]
    return NUMBER if any(one.kind == "map" or not _is_flat(one.element) for one in items) else 1


def _is_flat(avro: AvroType) -> bool:
    """Whether values take as many bytes when they are scanned as they have."""
    return all(one.kind in ("null", "boolean", "float", "double", "fixed", "record") for one in walk(avro))


def arrow_bytes(plan: Plan) -> int:
    """What Arrow needs for one value of a plan, null or not, without texts and items."""
    match plan:
        case Record():
            return 1 + sum(arrow_bytes(field) for _, field in plan.fields)
        case Constant():
            return max(int(plan.value.nbytes), 1) + _PLACE
        case Symbols():
            return (pc.max(pc.binary_length(plan.symbols)).as_py() or 0) + 2 * _PLACE
        case Present():
            return arrow_bytes(plan.plan)
        case Member():
            return _width(plan.arrow) + arrow_bytes(plan.plan)
        case Branches():
            # The members have the width of the whole: it is not asked for again, since there may be thousands.
            inner = (one.plan if isinstance(one, Member) else one for one in plan.plans.values())
            return _COPIES * (2 * _width(plan.arrow) + max(map(arrow_bytes, inner), default=0))
        case Leaf() | Decimal() | Listed() | Mapped() | Paired() | Never():
            return _width(plan.arrow)


def item_bytes(plan: Listed | Mapped | Paired) -> int:
    """What Arrow needs for one item, without texts and its own items."""
    match plan:
        case Listed():
            return arrow_bytes(plan.item)
        case Mapped():
            return _PLACE + arrow_bytes(plan.value)
        case Paired():
            return arrow_bytes(plan.entry)


def _width(arrow: pa.DataType) -> int:
    if pa.types.is_struct(arrow):
        return 1 + sum(_width(field.type) for field in arrow)
    if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow):
        return 1 + (int(arrow.bit_width) + 7) // 8
    return 1 + 2 * _PLACE
