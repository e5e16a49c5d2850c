"""Whether a stream can still be read as a whole when rows of one more writer schema are in it. Pure.

Readers resolve all rows of a stream to the superset of its writer schemas. So a schema is refused if there would be no
superset, or if Spark would take two of its columns for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arrow_avro import arrow_schema, difference, names_alike, superset
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from arrow_avro import AvroSchema

_NOT_BOTH = (
    "Cast the column to the stream's type (option `avroSchema` of a read can give it another one), or write to another "
    "stream."
)
_RENAME = "Rename one of the two in the query (`withColumnRenamed`), or leave it out."
_UNREADABLE = "Write to another stream, or overwrite this one."
_FIXED = "Leave the change out, or set option `schemaEvolution` to `addColumns`."


@dataclass(frozen=True)
class Refusal:
    """Why a writer schema does not fit a stream, and what its user can do."""

    cause: str
    next_step: str


def check_names(written: AvroSchema) -> None:
    """`ConfigurationError` if two columns of one write, or two fields of one struct in it, differ by case only."""
    alike = names_alike(written)
    if alike is not None:
        raise ConfigurationError(f"The rows have {_alike(*alike)}. {_RENAME}")


def refusal(known: Sequence[AvroSchema], written: AvroSchema, *, fixed: bool) -> Refusal | None:
    """Why rows of `written` cannot go to a stream of the schemas `known`; None if they can.

    fixed: the stream's columns must stay as they are. A schema that the stream has already, or the first one, fits.
    """
    if not known or written in known:
        return None
    before = read_as(known)
    if isinstance(before, Refusal):
        return Refusal(f"the stream cannot be read as a whole already: {before.cause}", _UNREADABLE)
    different = difference([*known, written])
    if different is not None:
        there = f"column {different.column!r} is {different.earlier} in the stream and {different.later} in this write"
        return Refusal(f"{there}, and no type holds both", _NOT_BOTH)
    after = read_as([*known, written])
    if isinstance(after, Refusal):
        return after
    change = _change(before, after) if fixed else None
    return None if change is None else Refusal(f"option `schemaEvolution` is `none`, and this write {change}", _FIXED)


def read_as(schemas: Sequence[AvroSchema]) -> pa.Schema | Refusal:
    """The columns that rows of these schemas are read as, or why they cannot be read."""
    try:
        merged = superset(schemas)
        columns = arrow_schema(merged)
    except ConfigurationError as cause:
        return Refusal(str(cause), _UNREADABLE)
    alike = names_alike(merged)
    return columns if alike is None else Refusal(f"the stream then has {_alike(*alike)}", _RENAME)


def _alike(one: str, other: str) -> str:
    return f"columns {one!r} and {other!r}, which differ by case only: Spark takes them for one"


def _change(before: pa.Schema, after: pa.Schema) -> str | None:
    """How the columns change, None if they do not."""
    new = [name for name in after.names if name not in before.names]
    if new:
        return f"adds column {new[0]!r}"
    for was, becomes in zip(before, after, strict=True):
        if was.type != becomes.type:
            return f"changes column {was.name!r} from {was.type} to {becomes.type}"
        if was.nullable != becomes.nullable:
            return f"makes column {was.name!r} nullable"
    return None
