"""The schema that a streaming query was started with, and whether rows of later writer schemas fit it. Pure.

Spark fixes the columns of a query when the query is built. If a writer adds a column afterwards, or makes a type wider,
only a new query can read the new column or type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import arrow_avro
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

    from arrow_avro import AvroSchema

_RESTART = (
    "Start the query again from its checkpoint, on a new DataFrame of `spark.readStream…load()`: it goes on "
    "with this version"
)


@dataclass(frozen=True)
class Misfit:
    """Why a query cannot read rows of a writer schema without loss, and what its user can do."""

    cause: str
    next_step: str


@dataclass(frozen=True)
class QuerySchema:
    """What a running query reads.

    reader: the Avro schema that rows are resolved to. columns: those of its columns that Spark reads, None for all.
    depth: the levels of records that contain themselves.
    strict: a change of these columns is a misfit, and so is a new column if all are read; otherwise new columns are
    left out, and only rows that cannot be resolved are a misfit.
    """

    reader: AvroSchema
    columns: tuple[str, ...] | None
    strict: bool
    depth: int = 0

    def misfit(self, writer: AvroSchema) -> Misfit | None:
        """Why rows of `writer` cannot be read; None if they can."""
        if writer.json == self.reader.json:
            return None
        try:
            merged = arrow_avro.superset([self.reader, writer], self.columns, self.depth)
        except ConfigurationError as cause:
            step = "Then start the query again from its checkpoint."
            return Misfit(str(cause), step) if self.strict else self._unresolved(writer)
        return self._change(arrow_avro.arrow_schema(self.reader), arrow_avro.arrow_schema(merged)) or self._unresolved(
            writer
        )

    def _change(self, before: pa.Schema, after: pa.Schema) -> Misfit | None:
        """How the query's columns would have to change to hold the new rows."""
        new = [name for name in after.names if name not in before.names]
        if new and self.strict and self.columns is None:
            step = f"{_RESTART} and has {_them(new)}. To do without, set option `schemaEvolution` to `ignore`."
            return Misfit(f"it adds {_columns(new)}, which the query was started without", step)
        for name in before.names:
            if self.columns is not None and name not in self.columns:
                continue
            was, becomes = before.field(name), after.field(name)
            if becomes.nullable > was.nullable:
                return Misfit(f"it changes column {name!r}, which may be null now", f"{_RESTART}.")
            if self.strict and was != becomes:
                return Misfit(f"it changes column {name!r} from {was.type} to {becomes.type}", f"{_RESTART}.")
        return None

    def _unresolved(self, writer: AvroSchema) -> Misfit | None:
        error = arrow_avro.unresolved(arrow_avro.resolve(writer.row, self.reader.row))
        return None if error is None else Misfit(f"its rows do not fit the query's schema: {error}", f"{_RESTART}.")


def _columns(names: list[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def _them(names: list[str]) -> str:
    return "them" if len(names) > 1 else "it"
