"""Changes of stores for tests, from plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from adjunct_store.encoding.schema import StoreSchema

AIRPORTS = StoreSchema(
    pa.schema([("faa", pa.string())]), pa.schema([("name", pa.string()), ("alt", pa.int64())]), partitions=1
)
ORDERED = StoreSchema(AIRPORTS.keys, AIRPORTS.values, partitions=1, ordered=True)


def batch_of(schema: StoreSchema, rows: Sequence[tuple[Any, ...]], *, as_given: bool = False) -> pa.RecordBatch:
    """Rows of (key column, …, value or None[, order]), sorted by key and order unless they are wanted as given."""
    count = len(schema.keys)
    ordered = rows if as_given else sorted(rows, key=lambda row: (*row[:count], *row[count + 1 :]))
    columns = [pa.array([row[at] for row in ordered], field.type) for at, field in enumerate(schema.keys)]
    columns.append(pa.array([row[count] for row in ordered], pa.struct(list(schema.values))))
    names = [*schema.keys.names, "value"]
    if schema.ordered:
        columns.append(pa.array([row[count + 1] for row in ordered], pa.int64()))
        names.append("order")
    return pa.RecordBatch.from_arrays(columns, names=names)


def named(name: str | None, alt: int = 0) -> dict[str, Any]:
    """A value of `AIRPORTS`."""
    return {"name": name, "alt": alt}
