"""Which outputs of a program hold the values of which place of the writer's type. Pure values.

A place within others has as many values as those have: the items of all lists one after the other, the fields of all
records that are not null. Arrow's arrays are laid out like that, too.

The row of `plan` is read into the outputs `n0` to `n4`. Its fields are

    'f0': Number(slot=Slot(output='n0', first=0), wide=False)
    'f1': Text(lengths=Slot(output='n1', first=0), data='n2')
    'f2': Nullable(tags=Slot(output='n3', first=0), present=1, dense=False,
                   inner=Number(slot=Slot(output='n4', first=0), wide=False))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arrow_avro.decoding.instructions import Code

INT32_MAX = 2**31 - 1


class Slot(NamedTuple):
    """Where the numbers of one place are: every k-th of an output, from number `first`; k is in `Program.strides`."""

    output: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class NoOutput:
    """A null, or a value that is skipped."""


@dataclass(frozen=True, slots=True)
class Number:
    """An int, a long or an enum's index. If it was read as `wide`, it is still zig-zagged."""

    slot: Slot
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Primitive:
    """A boolean, a float or a double, in an output of that type. Booleans may be bits."""

    output: str
    in_bits: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes or a string: the lengths and, in another output, the bytes of all."""

    lengths: Slot
    data: str


@dataclass(frozen=True, slots=True)
class EndedText:
    """Bytes or a string: where each ends in the bytes of all, which are in another output."""

    ends: str
    data: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """The bytes of all values, `size` for each."""

    data: str
    size: int


@dataclass(frozen=True, slots=True)
class Nullable:
    """The number of each value's branch, its tag. If `dense`, all tags are `present`. `inner` are values not null."""

    tags: Slot
    present: int
    dense: bool
    inner: Node


@dataclass(frozen=True, slots=True)
class NullableColumn:
    """The validity of each value, in bits. `inner` are all values; where a null is, its value does not count."""

    valid: str
    inner: Node


@dataclass(frozen=True, slots=True)
class TaggedUnion:
    """Any other union: the tag of each value, and the values of each branch. `null` is the tag of null, or -1."""

    tags: Slot
    branches: tuple[Node, ...]
    null: int


@dataclass(frozen=True, slots=True)
class Items:
    """An array or a map: the number of items in each. If `empty`, items have no bytes."""

    counts: Slot
    item: Node
    empty: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """A record, by the keys of its fields, or the entries of a map, by `key` and `value`."""

    fields: Mapping[str, Node]


Node: TypeAlias = (
    NoOutput | Number | Primitive | Text | EndedText | Fixed | Nullable | NullableColumn | TaggedUnion | Items | Fields
)


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a program takes for granted: which nullable values are never null, and which longs may be wide.

    A wide long has ten bytes. Places are numbered in the order of the type. If `wide` is None, every long may be wide.
    budget: bytes that all items of arrays and maps may take. If None, they are not counted.
    """

    dense: frozenset[int] = frozenset()
    wide: frozenset[int] | None = frozenset()
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions, and what their outputs mean.

    outputs: the numpy types of the outputs, by name. strides: the slots in each output of varints.
    bounds: the numbers that a slot may have, inclusive. records: what `SkipRecord` calls.

    `nullable` and `longs` are the places that an `Assumption` is about: the slot of the tag and the tag that is not
    null; the slot of a long, None if it is skipped.
    """

    code: Code
    records: tuple[Code, ...]
    assumed: Assumption
    root: Node
    outputs: Mapping[str, str]
    strides: Mapping[str, int]
    bounds: Mapping[Slot, tuple[int, int]]
    nullable: Mapping[int, tuple[Slot, int]]
    longs: Mapping[int, Slot | None]
