"""Rows/s of the decoder beside fastavro, polars and DataFusion on one core: `python -m benchmarks.decoder`.

Every reader gets a blob (null codec, blocks of about 1 MB or 16 KB) and returns an Arrow table. DataFusion reads files
only, so its file is in memory. The readers take turns, and medians of processor time are compared.
"""

from __future__ import annotations

import io
import os
import statistics
import tempfile
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
from datafusion import SessionConfig, SessionContext
from rich.console import Console

import arrow_avro
from arrow_avro import RowEncoder, block, decode_blob, header
from arrow_avro.decoding.scanners import VARIABLE
from benchmarks.encoder import texts
from benchmarks.report import Report, save, show
from benchmarks.rounds import alternate, on_one_core, processor_seconds, rates
from tools.flights import flights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[bytes, Sequence[str] | None], pa.Table]

SYNC = bytes(range(16))
ROUNDS = 7
SLOW_ROWS = 20_000  # rows given to fastavro, whose rate does not depend on their number
VECTOR, VECTORS = 768, 30_000
SCRATCH = "/dev/shm"  # noqa: S108 - a file in memory, and one of our own

Json = Any


def blob_of(table: pa.Table, rows: int) -> bytes:
    """A container file in blocks of so many rows."""
    avro = arrow_avro.infer(table.schema, name="row", namespace=None)
    encoder = RowEncoder(table.schema, avro)
    pieces: list[Any] = [header(avro.json, "null", SYNC)]
    for batch in table.combine_chunks().to_batches(max_chunksize=rows):
        encoded = encoder.encode(batch)
        pieces += block(batch.num_rows, encoded.data.data[: encoded.offsets[-1]], SYNC)
    return b"".join(pieces)


def vectors(kind: pa.DataType) -> pa.Table:
    """Rows of an id and an array of fixed-width values, as embeddings are."""
    values = np.random.default_rng(1).integers(0, 2, VECTORS * VECTOR)
    offsets = np.arange(0, len(values) + 1, VECTOR, dtype=np.int32)
    item = pa.field("element", kind, nullable=False)
    arrays = pa.ListArray.from_arrays(offsets, pa.array(values).cast(kind), type=pa.list_(item))
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("vector", arrays.type, nullable=False)]
    return pa.table([pa.array(np.arange(VECTORS)), arrays], schema=pa.schema(fields))


def ours(decoder: str) -> Read:
    """A decoder of this project: the one in Python (`pure`) or the compiled one (`native`)."""

    def read(blob: bytes, columns: Sequence[str] | None = None) -> pa.Table:
        os.environ[VARIABLE] = decoder
        return pa.Table.from_batches(decode_blob(blob, blob="b", columns=columns))

    return read


def by_fastavro(blob: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The compiled reader of fastavro, then Arrow. A reader schema selects the columns."""
    reader = fastavro.reader(io.BytesIO(blob))
    schema: Json = reader.writer_schema
    if columns is not None:
        schema = {**schema, "fields": [each for each in schema["fields"] if each["name"] in columns]}
        reader = fastavro.reader(io.BytesIO(blob), schema)
    return pa.Table.from_pylist(list(reader))


def by_polars(blob: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """The Rust library behind polars."""
    return pl.read_avro(io.BytesIO(blob), columns=None if columns is None else list(columns)).to_arrow()


def by_datafusion(blob: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """arrow-avro, through DataFusion, in one thread."""
    with tempfile.NamedTemporaryFile(suffix=".avro", dir=SCRATCH) as file:
        file.write(blob)
        file.flush()
        context = SessionContext(SessionConfig().with_target_partitions(1))
        frame = context.read_avro(file.name)
        return (frame if columns is None else frame.select(*columns)).to_arrow_table()


READERS: dict[str, Read] = {
    "fastavro + Arrow": by_fastavro,
    "polars": by_polars,
    "DataFusion": by_datafusion,
    "this project, pure": ours("pure"),
    "this project, compiled": ours("native"),
}


def speed(title: str, table: pa.Table, block_rows: int, columns: Sequence[str] | None) -> Report:
    """One table of rates."""
    blob, short = blob_of(table, block_rows), blob_of(table.slice(0, SLOW_ROWS), block_rows)

    def contender(read: Read) -> Callable[[], float]:
        data, rows = (short, SLOW_ROWS) if read is by_fastavro else (blob, table.num_rows)
        return lambda: processor_seconds(lambda: read(data, columns), rows)

    taken = alternate(title, {name: contender(read) for name, read in READERS.items()}, ROUNDS)
    lines = rates(1, taken, "fastavro + Arrow")
    fastest = statistics.median(taken["DataFusion"])
    for line in lines:
        line["x DataFusion"] = fastest / statistics.median(taken[str(line["path"])])
    return Report(f"{title}, {table.num_rows:,} rows, {len(blob) / table.num_rows:.0f} bytes each", lines)


def main() -> None:
    """Print all tables."""
    on_one_core()
    tables = {"flights": (flights(), 15_000, 250), "texts": (texts(), 4_000, 70)}
    reports = []
    for name, (table, large, small) in tables.items():
        reports += [
            speed(f"{name}, {table.num_columns} columns, blocks of 1 MB", table, large, None),
            speed(f"{name}, {table.num_columns} columns, blocks of 16 KB", table, small, None),
            speed(f"{name}, 2 of {table.num_columns} columns", table, large, table.column_names[-2:]),
        ]
    for kind in (pa.float32(), pa.float64(), pa.bool_()):
        table = vectors(kind)
        reports.append(speed(f"vectors of {VECTOR} values of type {kind}, blocks of 1 MB", table, 300, None))
    console = Console(width=140)
    for report in reports:
        show(report, console)
    console.print(f"Figures: {save('decoder', reports)}", highlight=False)


if __name__ == "__main__":
    main()
