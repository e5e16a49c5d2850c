"""What a fill does with the store that it finds: the proposal's table, and when a store is valid. Pure.

persistent      no store                    invalid                        valid
bootstrap       create, force bootstrap     re-create, force bootstrap     continue from the last offset
not bootstrap   create                      re-create                      continue from the last offset

not persistent
bootstrap       create, force bootstrap     re-create, force bootstrap     re-create, force bootstrap
not bootstrap   create                      re-create                      re-create

What is created begins where the options of its source say. The proposal has it go on from the last offset without a
bootstrap, so it would lack every key that is not changed again (decision 16).

A store of another source, or with other columns, is not in the table: a fill replaces it only if it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adjunct_store.versions.manifest import Generation


class Found(Enum):
    """The store as it is found."""

    NONE = "no store"
    OTHER = "another store"
    INVALID = "invalid"
    VALID = "valid"


class Action(Enum):
    """What becomes of it. `CREATE` and `RECREATE` make a new generation, `CONTINUE` goes on with the one there is."""

    CREATE = "create"
    RECREATE = "re-create"
    CONTINUE = "continue"


@dataclass(frozen=True)
class Recovery:
    """What a fill does. force_bootstrap: readers wait until it publishes `bootstrapped`.

    The filling query keeps its checkpoint directory with `CONTINUE`; otherwise it needs a new one.
    """

    action: Action
    force_bootstrap: bool


@dataclass(frozen=True)
class Wanted:
    """The store that a fill is to build. schema: as JSON. source: what it is filled from, compared by equality.

    bounded: from a data set that ends, so readers wait until all of it is there.
    """

    schema: Mapping[str, Any]
    partitions: int
    source: str
    bounded: bool = False


def recovery(persistent: bool, found: Found, bootstrap: bool) -> Recovery:
    """The proposal's table. bootstrap: whether readers of a new store wait until it has all of its source."""
    if persistent and found is Found.VALID:
        return Recovery(Action.CONTINUE, force_bootstrap=False)
    action = Action.CREATE if found is Found.NONE else Action.RECREATE
    return Recovery(action, force_bootstrap=bootstrap)


def validity(
    generation: Generation | None,
    wanted: Wanted,
    *,
    age: float | None = None,
    max_age: float | None = None,
    rebuild: bool = False,
) -> tuple[Found, str]:
    """Whether a fill can continue this generation, and why.

    `OTHER`: it has another source or, unless data sets follow each other, other columns or partitions; `recovery` is
    not asked then. rebuild: the fill is told to replace whatever is there. age: seconds since the last publication.
    max_age: from which age on too much may have been missed; None for never.
    """
    if generation is None:
        return Found.NONE, "there is no generation"
    if rebuild:
        return Found.INVALID, "a rebuild is asked for"
    if generation.source != wanted.source:
        return Found.OTHER, f"it is filled from {generation.source}, not from {wanted.source}"
    columns = Found.INVALID if wanted.bounded else Found.OTHER
    if generation.schema != wanted.schema:
        return columns, "its schema has changed"
    if generation.partitions != wanted.partitions:
        return columns, f"it has {generation.partitions} partitions, not {wanted.partitions}"
    if wanted.bounded and not generation.sealed:
        return Found.INVALID, "it was not sealed, so it is not a whole data set"
    if max_age is not None and age is not None and age >= max_age:
        return Found.INVALID, f"nothing was published for {age:.0f} s, and at most {max_age:.0f} s are allowed"
    return Found.VALID, "its schema and source are the same"
