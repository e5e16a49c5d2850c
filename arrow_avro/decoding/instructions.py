"""The instructions of a program that reads datums, in terms of Avro. `forth` renders them. Pure values.

Outputs are known by names. Each Read instruction appends the values that it reads to its outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

MAX_EMPTY_ITEMS = 1 << 20
"""Items without bytes (nulls, records without fields, fixed of size 0) that an array may claim to have."""


@dataclass(frozen=True, slots=True)
class ReadVarints:
    """A run of `count` ints, longs, enum indices or branches that follow each other. Each has at most nine bytes."""

    output: str
    count: int


@dataclass(frozen=True, slots=True)
class ReadWideLong:
    """A long of up to ten bytes. The output has its zig-zagged 64 bits."""

    output: str


@dataclass(frozen=True, slots=True)
class ReadPrimitive:
    """A boolean, a float or a double, as `kind` says."""

    output: str
    kind: str


@dataclass(frozen=True, slots=True)
class ReadFixed:
    """`size` bytes."""

    output: str
    size: int


@dataclass(frozen=True, slots=True)
class ReadText:
    """Bytes or a string: its length to one output, its bytes to the other."""

    lengths: str
    data: str


@dataclass(frozen=True, slots=True)
class ReadNullable:
    """The branch of a union of null and another type, and if the branch is `present`, the value."""

    tags: str
    present: int
    value: Code


@dataclass(frozen=True, slots=True)
class ReadUnion:
    """The branch of any other union, and its value."""

    tags: str
    branches: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class ReadItems:
    """An array or a map: the number of its items, and each item. Without an `item`, items have no bytes.

    item_bytes: what one item takes of the program's budget, None if it has no budget.
    """

    counts: str
    item: Code
    item_bytes: int | None


@dataclass(frozen=True, slots=True)
class SkipVarint:
    """Steps over an int, an enum index or a long of at most nine bytes. `low` and `high` bound the first two."""

    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True)
class SkipWideLong:
    """Steps over a long of up to ten bytes."""


@dataclass(frozen=True, slots=True)
class SkipFixed:
    """Steps over `size` bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class SkipText:
    """Steps over bytes or a string."""


@dataclass(frozen=True, slots=True)
class SkipUnion:
    """Steps over a union."""

    branches: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class SkipItems:
    """Steps over an array or a map. Without an `item`, items have no bytes."""

    item: Code


@dataclass(frozen=True, slots=True)
class SkipRecord:
    """Steps over a record that contains itself: `Program.records[number]`."""

    number: int


ReadInstruction: TypeAlias = (
    ReadVarints | ReadWideLong | ReadPrimitive | ReadFixed | ReadText | ReadNullable | ReadUnion | ReadItems
)
SkipInstruction: TypeAlias = SkipVarint | SkipWideLong | SkipFixed | SkipText | SkipUnion | SkipItems | SkipRecord
Code: TypeAlias = tuple[ReadInstruction | SkipInstruction, ...]
