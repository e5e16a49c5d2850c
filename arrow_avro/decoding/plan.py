"""Plans: how values of a writer's type become an Arrow array of a reader's type, as `resolve` finds it. Pure values.

A field of the writer's record has a key: `f` and its number; a branch of the writer's union: `b` and its number.

The modules of this package follow one row, `{"id": 3, "name": "ab", "score": null}`. Its writer schema is a record of
`id` int, `name` string and `score` union of null and long; its bytes are

    06           3, zig-zagged
    04 61 62     length 2, zig-zagged, and "ab"
    00           branch 0, null

The reader has `id` as a long. The plan is a `Record` with these fields (continued in `program`):

    ('f0', Leaf(arrow=DataType(int64), kind='int', unit=''))
    ('f1', Leaf(arrow=DataType(string), kind='string', unit=''))
    ('f2', Leaf(arrow=DataType(int64), kind='long', unit=''))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, assert_never

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from arrow_avro.decoding.legacy_calendar import LegacyCalendar
    from arrow_avro.decoding.value_errors import Path, UnresolvedError
    from arrow_avro.types import AvroType


@dataclass(frozen=True, slots=True)
class ValueRules:
    """How the values of one file are read: what is done for a string that is not UTF-8, and by which calendar it is."""

    replace_invalid_utf8: bool = False
    calendar: LegacyCalendar | None = None


PLAIN_RULES = ValueRules()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts, written as a `kind`. `unit` is ms, us or ns if it is a time, else empty."""

    arrow: pa.DataType
    kind: str
    unit: str = ""
    rules: ValueRules = field(default=PLAIN_RULES, repr=False)


@dataclass(frozen=True, slots=True)
class Decimal:
    """Big-endian two's complement bytes of the unscaled value."""

    arrow: pa.DataType


@dataclass(frozen=True, slots=True)
class Symbols:
    """An enum's index. `symbols` are the reader's, by the writer's index, null where it has none."""

    arrow: pa.DataType
    symbols: pa.Array
    path: Path


@dataclass(frozen=True, slots=True)
class List:
    """An Avro array read as a list."""

    arrow: pa.DataType
    item: Plan


@dataclass(frozen=True, slots=True)
class Map:
    """An Avro map."""

    arrow: pa.DataType
    key: Leaf
    value: Plan


@dataclass(frozen=True, slots=True)
class MapFromArray:
    """An Avro array of records read as a map: `entry` has the two fields key and value."""

    arrow: pa.DataType
    entry: Record


@dataclass(frozen=True, slots=True)
class DefaultField:
    """A field that was not written: in every row the reader's default, the one value of array `value`."""

    arrow: pa.DataType
    value: pa.Array


@dataclass(frozen=True, slots=True)
class Record:
    """A record. `fields` are the reader's: the key of the writer's field (empty for a `DefaultField`), and the plan."""

    arrow: pa.DataType
    fields: tuple[tuple[str, Plan], ...]


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A value that becomes member `index` of the struct which represents the reader's general union."""

    arrow: pa.DataType
    index: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Branches:
    """A general union of the writer: `plans` by the key of the branch, all with the same `arrow`."""

    arrow: pa.DataType
    plans: Mapping[str, Plan]


@dataclass(frozen=True, slots=True)
class NotNull:
    """A value that is nullable in the writer's schema and not in the reader's: a null is an error."""

    arrow: pa.DataType
    plan: Plan
    path: Path


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The reader's type cannot hold any such value: `error` is raised if a row has one."""

    arrow: pa.DataType
    error: UnresolvedError


Plan: TypeAlias = (
    Leaf
    | Decimal
    | Symbols
    | List
    | Map
    | MapFromArray
    | DefaultField
    | Record
    | UnionMember
    | Branches
    | NotNull
    | Unresolved
)


def inner_plans(plan: Plan) -> tuple[Plan, ...]:
    """The plans of the parts of a value."""
    match plan:
        case Record():
            return tuple(field for _, field in plan.fields)
        case Branches():
            return tuple(plan.plans.values())
        case List():
            return (plan.item,)
        case Map():
            return (plan.value,)
        case MapFromArray():
            return (plan.entry,)
        case UnionMember() | NotNull():
            return (plan.plan,)
        case Leaf() | Decimal() | Symbols() | DefaultField() | Unresolved():
            return ()
        case _:
            assert_never(plan)


def of_values(wanted: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """The plans for values that are not null, without those that cannot be."""
    return tuple(plan for plan in map(_of_value, wanted) if not isinstance(plan, Unresolved))


def _of_value(plan: Plan) -> Plan:
    while isinstance(plan, NotNull | UnionMember):
        plan = plan.plan
    return plan


def of_fields(avro: AvroType, wanted: tuple[Plan, ...]) -> list[tuple[str, AvroType, tuple[Plan, ...]]]:
    """The fields of a record: the key of each, its type, and the plans for it."""
    by_key: dict[str, tuple[Plan, ...]] = {}
    for plan in wanted:
        for key, inner in plan.fields if isinstance(plan, Record) else ():
            by_key[key] = (*by_key.get(key, ()), inner)
    keyed = ((f"f{place}", member.type) for place, member in enumerate(avro.fields))
    return [(key, inner, by_key.get(key, ())) for key, inner in keyed]


def of_branch(tag: int, wanted: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """The plans for the branch of this number of a general union."""
    key = f"b{tag}"
    return tuple(plan.plans[key] for plan in wanted if isinstance(plan, Branches) and key in plan.plans)


def of_items(wanted: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """The plans for the items of an array, or the values of a map."""
    lists = (plan for plan in wanted if isinstance(plan, List | Map | MapFromArray))
    return tuple(item for plan in lists for item in inner_plans(plan))


def unresolved(plan: Plan) -> UnresolvedError | None:
    """The error for the first values that the reader's type cannot hold, None if it can hold all.

    Records that contain themselves do not count: rows may have fewer levels of them than their schema.
    """
    if isinstance(plan, Unresolved):
        return None if plan.error.recursive else plan.error
    return next((error for each in inner_plans(plan) if (error := unresolved(each)) is not None), None)
