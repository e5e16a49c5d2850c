"""Records that contain themselves, written out to a number of levels, as Spark's `avro` reads them. Pure.

With a depth of 1 the places where a record is within itself are left out; with 2 it is written out there once, and so
on. What is left without a type by that (an array of such records, a union with null) is left out as well. Of a union of
several types the other branches stay; a row that has the one that is left out cannot be read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from arrow_avro.limits import MAX_DEPTH, RECURSIVE_FIELD_MAX_DEPTH
from arrow_avro.schema_parser import MAX_TYPES
from arrow_avro.types import AvroType, walk
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from arrow_avro.schema import AvroSchema


def contains_itself(avro: AvroType) -> bool:
    """Whether a record in `avro` contains itself."""
    return any(one.kind == "reference" for one in walk(avro))


def records_by_name(avro: AvroType) -> dict[str, AvroType]:
    """The records in `avro`, which references name."""
    return {one.name: one for one in walk(avro) if one.kind == "record"}


def written_out(row: AvroType, schema: AvroSchema, depth: int) -> AvroType:
    """The record `row`, some fields of that of `schema`, without references.

    Raises ConfigurationError, which names record and column, for a record that contains itself if `depth` is 0.
    """
    writing = _WritingOut(records_by_name(schema.type), depth)
    above = {row.name: 1} if schema.type.kind == "record" else {}
    found = ((member, writing.type(member.type, above, member.column)) for member in row.fields)
    return replace(row, fields=tuple(replace(member, type=avro) for member, avro in found if avro is not None))


class _WritingOut:
    """`above` counts how often a place is within each record, by its name."""

    def __init__(self, records: Mapping[str, AvroType], depth: int) -> None:
        self._records = records
        self._depth = depth
        self._left = MAX_TYPES

    def type(self, avro: AvroType, above: Mapping[str, int], column: str) -> AvroType | None:
        """The type, None if it is left out."""
        self._left -= 1
        if self._left < 0:
            cause = f"is more than {MAX_TYPES:,} types with option {RECURSIVE_FIELD_MAX_DEPTH}={self._depth}"
            raise ConfigurationError(f"a record that contains itself {cause}. Lower it.")
        match avro.kind:
            case "record" | "reference":
                return self._record(self._records[avro.name], above, column)
            case "union":
                branches = tuple(found for one in avro.branches if (found := self.type(one, above, column)) is not None)
                gone = len(branches) < len(avro.branches)
                only_null = all(one.kind == "null" for one in branches)
                return None if gone and only_null else replace(avro, branches=branches)
            case "array" | "map":
                items = self.type(avro.element, above, column)
                return None if items is None else replace(avro, items=items)
        return avro

    def _record(self, avro: AvroType, above: Mapping[str, int], column: str) -> AvroType | None:
        levels = above.get(avro.name, 0)
        if levels and not self._depth:
            step = (
                f"Name the other columns in option columns, or set option {RECURSIVE_FIELD_MAX_DEPTH} from 1, which "
                f"leaves out what is within itself, to {MAX_DEPTH} levels of it."
            )
            raise ConfigurationError(f"in column {column!r}, record {avro.name} contains itself. {step}")
        if levels and levels >= self._depth:
            return None
        within = {**above, avro.name: levels + 1}
        fields = tuple(
            replace(member, type=found)
            for member in avro.fields
            if (found := self.type(member.type, within, column)) is not None
        )
        return None if avro.fields and not fields else replace(avro, fields=fields)
