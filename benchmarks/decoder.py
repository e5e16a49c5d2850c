"""Rows/s of the decoder beside fastavro, polars and DataFusion on one core: `python -m benchmarks.decoder`.

Every reader gets a blob (null codec, blocks of about 1 MB or 16 KB) and returns an Arrow table. DataFusion reads files
only, so its file is in memory. The readers take turns, and medians of processor time are compared. A last table shows
which types each of them reads correctly.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import polars as pl
import pyarrow as pa
from datafusion import SessionConfig, SessionContext
from rich.console import Console

import arrow_avro
from arrow_avro import RowEncoder, block, decode_blob, header, read_header
from arrow_avro.decoding.scanners import VARIABLE
from benchmarks.encoder import texts
from benchmarks.report import Report, save, show
from benchmarks.rounds import alternate, rates
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


def processor_seconds(act: Callable[[], object], rows: int) -> float:
    """The processor time of `act` for each row."""
    begin = time.process_time()
    act()
    return (time.process_time() - begin) / rows


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


# --- which types are read correctly -----------------------------------------------------------------------------------


def logical(kind: str, name: str, **more: Json) -> Json:
    """A type with a logical one."""
    return {"type": kind, "logicalType": name, **more}


POINT = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}
ENUM = {"type": "enum", "name": "suit", "symbols": ["hearts", "spades"]}
PAIR = {"type": "fixed", "name": "pair", "size": 2}
DECIMAL = {"type": "fixed", "name": "money", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}

# Name, schema, values as fastavro writes them once logical types are left out, and as Arrow should show them.
TYPES: list[tuple[str, Json, list[Json], list[Json] | None]] = [
    ("long of 10 bytes", "long", [2**62, -(2**63)], None),
    ("nullable long, null last", ["long", "null"], [1, None], None),
    ("nullable float", ["null", "float"], [0.5, None], None),
    ("bytes", "bytes", [b"\0\xff", b""], None),
    ("fixed", PAIR, [b"ab", b"cd"], None),
    ("enum", ENUM, ["spades", "hearts"], None),
    ("array", {"type": "array", "items": ["null", "int"]}, [[1, None], []], None),
    ("map", {"type": "map", "values": "int"}, [{"a": 1}, {}], [[("a", 1)], []]),
    ("record", ["null", POINT], [{"x": 1, "y": "a"}, None], None),
    ("array of records", {"type": "array", "items": POINT}, [[{"x": 1, "y": "a"}], []], None),
    ("union of two types", ["int", "string"], [1, "a"], None),
    ("decimal, bytes", logical("bytes", "decimal", precision=6, scale=2), [b"\x04\xd2", b"\xff"], ["12.34", "-0.01"]),
    ("decimal, fixed", DECIMAL, [b"\0\0\0\x04\xd2", b"\xff" * 5], ["12.34", "-0.01"]),
    ("date", logical("int", "date"), [1, -1], ["1970-01-02", "1969-12-31"]),
    ("time-millis", logical("int", "time-millis"), [1000], ["00:00:01"]),
    ("timestamp-millis", logical("long", "timestamp-millis"), [1000], ["1970-01-01 00:00:01+00:00"]),
    ("timestamp-micros", logical("long", "timestamp-micros"), [10**6], ["1970-01-01 00:00:01+00:00"]),
    ("local-timestamp-micros", logical("long", "local-timestamp-micros"), [10**6], ["1970-01-01 00:00:01"]),
    ("uuid", logical("string", "uuid"), ["00000000-0000-0000-0000-000000000001"], None),
]
CODECS = ("deflate", "snappy", "zstandard", "bzip2", "xz")


def row_of(**fields: Json) -> Json:
    """A record schema."""
    return {"type": "record", "name": "row", "fields": [{"name": key, "type": avro} for key, avro in fields.items()]}


def bare(avro: Json) -> Json:
    """The type without its logical type, so that fastavro writes values as they are given."""
    return {key: each for key, each in avro.items() if key != "logicalType"} if isinstance(avro, dict) else avro


def stored(schema: Json, written_as: Json, rows: list[Json], codec: str = "null") -> bytes:
    """A file with `schema` in its header, and rows that fastavro wrote as another schema of the same bytes."""
    stream = io.BytesIO()
    fastavro.writer(stream, written_as, rows, codec=codec, sync_marker=SYNC)
    blob = stream.getvalue()
    return header(json.dumps(schema), codec, SYNC) + blob[read_header(blob).size :]


def verdict(read: Read, blob: bytes, expected: list[Json]) -> str:
    """Whether a reader returns the values of column `v`, else what it returns or raises."""
    try:
        values = read(blob, None).column("v").to_pylist()
    except BaseException as error:  # noqa: BLE001 - a panic of Rust is no Exception
        return f"no: {type(error).__name__}"
    values = [member_of(value) for value in values]
    shown = [str(value) if isinstance(want, str) else value for value, want in zip(values, expected, strict=True)]
    return "yes" if shown == expected else f"other: {values[0]!r}"[:40]


def member_of(value: Json) -> Json:
    """The value itself, if it is a member of Spark's struct for a union."""
    if isinstance(value, dict) and "member0" in value:
        return next(member for member in value.values() if member is not None)
    return value


def correctness() -> Report:
    """Types and codecs."""
    cases: list[tuple[str, bytes, list[Json]]] = []
    for name, avro, values, expected in TYPES:
        blob = stored(row_of(v=avro), row_of(v=bare(avro)), [{"v": value} for value in values])
        cases.append((name, blob, expected or values))
    long = row_of(v="long")
    cases += [(codec, stored(long, long, [{"v": 1}], codec), [1]) for codec in CODECS]
    readers = {name: read for name, read in READERS.items() if read is not by_fastavro}
    lines: list[dict[str, str | float]] = [
        {"type or codec": name, **{each: verdict(read, blob, expected) for each, read in readers.items()}}
        for name, blob, expected in cases
    ]
    return Report("What is read correctly", lines)


def main() -> None:
    """Print all tables."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
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
    reports.append(correctness())
    console = Console(width=140)
    for report in reports:
        show(report, console)
    console.print(f"Figures: {save('decoder', reports)}", highlight=False)


if __name__ == "__main__":
    main()
