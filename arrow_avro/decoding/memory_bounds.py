"""Upper bounds of the memory that values take while they are decoded, in bytes, before they are read. Pure.

One part of a row's memory depends on the schema alone: tags, numbers, lengths and Arrow values, also of a column that
is null. The other part depends on the bytes: texts, and the items of arrays and maps. The Forth machine appends at most
one number of eight bytes for each byte that it reads. What items take in Arrow is checked when they have been counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from arrow_avro.decoding import plan as plans
from arrow_avro.types import walk

if TYPE_CHECKING:
    from arrow_avro.decoding.plan import Plan
    from arrow_avro.types import AvroType

NUMBER = 8
"""What the machine appends for a number, a tag, a length or a count."""

_OFFSET = 4  # of Arrow's
_SCANNED = {"null": 0, "boolean": 1, "float": 4, "fixed": 0, "reference": 0}
_COPIES = 3  # of a general union: its branches, their concatenation, and the values in the order of the rows


def scanned_bytes(avro: AvroType) -> int:
    """What the machine appends for one value, without the bytes of texts and the items of arrays and maps."""
    match avro.kind:
        case "record":
            return sum(scanned_bytes(member.type) for member in avro.fields)
        case "union":
            return NUMBER + max(map(scanned_bytes, avro.branches), default=0)
    return _SCANNED.get(avro.kind, NUMBER)


def growth_factor(avro: AvroType) -> int:
    """How many bytes the machine appends at most for one byte of texts and items."""
    items = [one for one in walk(avro) if one.kind in ("array", "map")]
    return NUMBER if any(one.kind == "map" or not _is_flat(one.element) for one in items) else 1


def _is_flat(avro: AvroType) -> bool:
    """Whether values take as many bytes in the outputs as they have in the file."""
    return all(one.kind in ("null", "boolean", "float", "double", "fixed", "record") for one in walk(avro))


def arrow_bytes(plan: Plan) -> int:
    """What Arrow needs for one value of a plan, null or not, without texts and items."""
    match plan:
        case plans.Record():
            return 1 + sum(map(arrow_bytes, plans.inner_plans(plan)))
        case plans.DefaultField():
            return max(int(plan.value.nbytes), 1) + _OFFSET
        case plans.Symbols():
            return (pc.max(pc.binary_length(plan.symbols)).as_py() or 0) + 2 * _OFFSET
        case plans.NotNull():
            return arrow_bytes(plan.plan)
        case plans.UnionMember():
            return _width(plan.arrow) + arrow_bytes(plan.plan)
        case plans.Branches():
            # All members have the type of the whole, which is measured once: there may be thousands of them.
            inner = (one.plan if isinstance(one, plans.UnionMember) else one for one in plan.plans.values())
            return _COPIES * (2 * _width(plan.arrow) + max(map(arrow_bytes, inner), default=0))
        case plans.Leaf() | plans.Decimal() | plans.List() | plans.Map() | plans.MapFromArray() | plans.Unresolved():
            return _width(plan.arrow)


def item_bytes(plan: plans.List | plans.Map | plans.MapFromArray) -> int:
    """What Arrow needs for one item, without texts and its own items."""
    key = _OFFSET if isinstance(plan, plans.Map) else 0
    return key + sum(map(arrow_bytes, plans.inner_plans(plan)))


def _width(arrow: pa.DataType) -> int:
    if pa.types.is_struct(arrow):
        return 1 + sum(_width(field.type) for field in arrow)
    if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow):
        return 1 + (int(arrow.bit_width) + 7) // 8
    return 1 + 2 * _OFFSET
