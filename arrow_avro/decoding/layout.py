"""Which outputs of a program hold the values of which place of the writer's type. Pure values.

A place within others has as many values as those have: the items of all lists one after the other, the fields of all
records that are not null. Arrow's arrays are laid out like that, too.

The fields of the row of `plan` are read into these outputs:

    'f0': Number(output='w0')
    'f1': Text(ends='w1', data='b0')
    'f2': Nullable(valid='b1', inner=Number(output='l0'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class NoOutput:
    """A null, or a value that is skipped."""


@dataclass(frozen=True, slots=True)
class Number:
    """An int, a long or an enum's index."""

    output: str


@dataclass(frozen=True, slots=True)
class Primitive:
    """A boolean, a float or a double, in an output of that type. Booleans may be bits."""

    output: str
    in_bits: bool = False


@dataclass(frozen=True, slots=True)
class Text:
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
    """Whether each value is not null, as a byte. `inner` are the values that are not."""

    valid: str
    inner: Node


@dataclass(frozen=True, slots=True)
class NullableColumn:
    """The validity of each value, in bits. `inner` are all values; where a null is, its value does not count."""

    valid: str
    inner: Node


@dataclass(frozen=True, slots=True)
class TaggedUnion:
    """Any other union: the tag of each value, and the values of each branch. `null` is the tag of null, or -1."""

    tags: str
    branches: tuple[Node, ...]
    null: int


@dataclass(frozen=True, slots=True)
class Items:
    """An array or a map: the number of items in each. If `empty`, items have no bytes."""

    counts: str
    item: Node
    empty: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """A record, by the keys of its fields, or the entries of a map, by `key` and `value`."""

    fields: Mapping[str, Node]


Node: TypeAlias = (
    NoOutput | Number | Primitive | Text | Fixed | Nullable | NullableColumn | TaggedUnion | Items | Fields
)
