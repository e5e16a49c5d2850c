"""Plans: how values of a writer's type become an array of a reader's, as `resolve` decides it. Pure values.

Each kind of plan knows the Arrow type of its array. Fields are known by keys: `f` and the place in the writer's record;
branches by `b` and the place in the writer's union.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

Path: TypeAlias = "tuple[str, ...]"


class UnresolvedError(TypeError):
    """What was written cannot be read as the reader's type. `path` leads from the column to the place."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"column {'.'.join(path) or '*'!r}: {reason}")
        self.path = path
        self.reason = reason


class UnfitError(Exception):
    """A value whose bytes are right and that the type it is read as cannot hold. `path` leads inwards to its column.

    `plain` is the Avro type without logical type and hint, as which any value can be read; empty if there is none.
    """

    def __init__(self, reason: str, plain: str, path: Path = ()) -> None:
        super().__init__(f"column {'.'.join(path)!r}: {reason}" if path else reason)
        self.reason = reason
        self.plain = plain
        self.path = path

    def within(self, name: str) -> UnfitError:
        """The same seen from the record around."""
        return UnfitError(self.reason, self.plain, (name, *self.path))


class DamagedValueError(Exception):
    """Bytes that are no value of the type they were written as. `path` leads inwards to its column."""

    def __init__(self, reason: str, path: Path = ()) -> None:
        super().__init__(f"column {'.'.join(path)!r}: {reason}" if path else reason)
        self.reason = reason
        self.path = path

    def within(self, name: str) -> DamagedValueError:
        """The same seen from the record around."""
        return DamagedValueError(self.reason, (name, *self.path))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without parts, written as a `kind`. `unit` is ms, us or ns if it counts time."""

    arrow: pa.DataType
    kind: str
    unit: str = ""


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
class Listed:
    """An Avro array read as a list."""

    arrow: pa.DataType
    item: Plan


@dataclass(frozen=True, slots=True)
class Mapped:
    """An Avro map."""

    arrow: pa.DataType
    value: Plan


@dataclass(frozen=True, slots=True)
class Paired:
    """An Avro array of records read as a map: `entry` has the two fields key and value."""

    arrow: pa.DataType
    entry: Record


@dataclass(frozen=True, slots=True)
class Constant:
    """A field that was not written: everywhere the reader's default, the one value of an array."""

    arrow: pa.DataType
    value: pa.Array


@dataclass(frozen=True, slots=True)
class Record:
    """A record. `fields` are the reader's: the key of the writer's field (of a `Constant`: empty), and the plan."""

    arrow: pa.DataType
    fields: tuple[tuple[str, Plan], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A value that becomes member `index` of a struct that stands for a general union."""

    arrow: pa.DataType
    index: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Branches:
    """A general union as written: `plans` by the key of the branch, all with the same `arrow`."""

    arrow: pa.DataType
    plans: Mapping[str, Plan]


@dataclass(frozen=True, slots=True)
class Present:
    """A value that was nullable when written and may not be null now."""

    arrow: pa.DataType
    plan: Plan
    path: Path


@dataclass(frozen=True, slots=True)
class Never:
    """What the reader has no type for: an error if a row has such a value."""

    arrow: pa.DataType
    error: UnresolvedError


Plan: TypeAlias = (
    Leaf | Decimal | Symbols | Listed | Mapped | Paired | Constant | Record | Member | Branches | Present | Never
)


def unresolved(plan: Plan) -> UnresolvedError | None:
    """The error for the first values that the reader has no type for, None if it has types for all."""
    match plan:
        case Never():
            return plan.error
        case Record():
            inner = [field for _, field in plan.fields]
        case Branches():
            inner = list(plan.plans.values())
        case Listed():
            inner = [plan.item]
        case Mapped():
            inner = [plan.value]
        case Paired():
            inner = [plan.entry]
        case Member() | Present():
            inner = [plan.plan]
        case _:
            inner = []
    return next((error for each in inner if (error := unresolved(each)) is not None), None)
