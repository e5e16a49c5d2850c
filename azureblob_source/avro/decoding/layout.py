"""What a program puts out: for each place of a writer's type, which items of which outputs are its values. Pure.

A place within others has as many values as those have: the items of all lists, the fields of all records that are not
null, one behind the other. That is how Arrow lays them out, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from azureblob_source.avro.decoding.instructions import Code

INT32_MAX = 2**31 - 1


class Slot(NamedTuple):
    """The numbers of one place: every k-th of an output, beginning with number `first`."""

    output: str
    first: int = 0


@dataclass(frozen=True, slots=True)
class Nothing:
    """A null, or what nobody asked for."""


@dataclass(frozen=True, slots=True)
class Number:
    """An int, a long or an enum's index. If `wide`, it is still zig-zagged."""

    slot: Slot
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Raw:
    """A boolean, a float or a double, as an output of that type."""

    output: str


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes or a string: the lengths and, in another output, the bytes of all."""

    lengths: Slot
    data: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of one size, one behind the other."""

    data: str
    size: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value if the tag is `present`, else null. If `dense`, there is no null."""

    tags: Slot
    present: int
    inner: Node
    dense: bool


@dataclass(frozen=True, slots=True)
class Union:
    """A union of any other kind. `null` is the tag of null, or -1."""

    tags: Slot
    branches: tuple[Node, ...]
    null: int


@dataclass(frozen=True, slots=True)
class Items:
    """An array or a map. If `free`, its items have no bytes."""

    counts: Slot
    item: Node
    free: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A record by the keys of its wanted fields, or the entry of a map."""

    fields: Mapping[str, Node]


Node: TypeAlias = Nothing | Number | Raw | Text | Fixed | Optional | Union | Items | Row


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a program takes for granted: which nullable values are never null, and which longs may be wide.

    A wide long has ten bytes. Places are numbers in the order of the type. Without `wide`, all longs may be wide.
    `budget` is what all items of arrays and maps may take, in bytes. Without it they are not counted.
    """

    dense: frozenset[int] = frozenset()
    wide: frozenset[int] | None = frozenset()
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions, and how their outputs are to be read.

    `outputs` are the numpy types of the outputs by name, `strides` the slots in each output of varints, `bounds`
    (inclusive) what the numbers of a slot may be. `records` skip the records that contain themselves.

    `nullable` and `longs` describe by their numbers the places that an `Assumption` speaks of: the tags and the tag
    that is not null; the slot of a long, or None if it is skipped.
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
