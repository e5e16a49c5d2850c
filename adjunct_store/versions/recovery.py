"""Whether a fill may continue the generation that it finds. Pure.

    store                                               a fill
    none                                                registers the first generation
    of the same source, schema and partitions           continues it
    the same, but too old, or not persistent            registers another generation of it
    a data set that is not whole, or before this one    registers another generation
    of another source, or with other columns            is refused, unless it is told to rebuild the store

A new generation begins where the options of its source say, never at the last offset: it would lack each key that does
not change again (decision 16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adjunct_store.versions.manifest import Generation


@dataclass(frozen=True)
class StoreDefinition:
    """The store that a fill builds.

    schema: as JSON.
    partitions: how many the store has, at least 1.
    source: what it is filled from, compared by equality.
    bounded: the source is a data set that ends. Readers wait until all of it is there; the next data set may have other
    columns and partitions.
    """

    schema: Mapping[str, Any]
    partitions: int
    source: str
    bounded: bool = False


def difference(generation: Generation, wanted: StoreDefinition) -> str:
    """How this generation differs from the store that is wanted, such that a fill may not replace it; "" if it may."""
    if generation.source != wanted.source:
        return f"it is filled from {generation.source}, not from {wanted.source}"
    if wanted.bounded:
        return ""
    if generation.schema != wanted.schema:
        return "its schema has changed"
    if generation.partitions != wanted.partitions:
        return f"it has {generation.partitions} partitions, not {wanted.partitions}"
    return ""


def may_continue(generation: Generation, wanted: StoreDefinition, *, age: float, max_age: float | None = None) -> bool:
    """Whether a fill may continue a generation of the same source.

    age: seconds since the last publication. max_age: from which age on the fill may have missed changes; None: never.
    """
    same = (generation.schema, generation.partitions) == (wanted.schema, wanted.partitions)
    whole = generation.sealed or not wanted.bounded
    return same and whole and (max_age is None or age < max_age)
