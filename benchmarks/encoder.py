"""Rows/s of the encoder, fastavro and pyruhvro on one core: `python -m benchmarks.encoder`.

Each of them makes the bytes of Avro blocks (null codec: row count, size, datums, sync marker) from Arrow batches. They
alternate within one run, and medians of processor time are compared: a busy machine slows all of them.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Iterator

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro
from rich.console import Console

import arrow_avro
from arrow_avro import RowEncoder, varint
from benchmarks.report import Report, save, show
from benchmarks.rounds import alternate, on_one_core, processor_seconds, rates
from tools.flights import flights

BLOCK_BYTES = 1 << 20
SYNC = bytes(range(16))
ROUNDS = 9
PEER = "to_pylist + fastavro"
WORDS = "the of a spark blob stream flight delayed departure gate weather réseau naïve airport storm"
SLOW_ROWS = 20_000  # rows for fastavro, whose rate does not depend on their number
BATCH_ROWS = 50_000

Encode = Callable[[pa.RecordBatch], list[bytes | memoryview]]


def texts(rows: int = 100_000) -> pa.Table:
    """Eight columns of about 250 bytes together, mostly sentences of several lengths."""
    random = np.random.default_rng(13)
    words = np.array(WORDS.split())

    def sentences(low: int, high: int) -> pa.Array:
        counts = random.integers(low, high, rows)
        return pa.array([" ".join(random.choice(words, count)) for count in counts.tolist()])

    return pa.table(
        {
            "id": pa.array(np.arange(rows) * 7919),
            "title": sentences(3, 8),
            "author": sentences(2, 3),
            "abstract": sentences(8, 20),
            "url": pa.array([f"https://example.org/articles/{n * 7919 % 10**9:09d}" for n in range(rows)]),
            "language": pa.array(random.choice(["en", "fr", "de"], rows)),
            "comment": pc.if_else(pa.array(random.random(rows) < 0.2), None, sentences(4, 12)),
            "source": sentences(1, 4),
        }
    )


def framed(count: int, body: memoryview) -> list[bytes | memoryview]:
    """One block of an object container file."""
    return [varint.encode(count) + varint.encode(len(body)), body, SYNC]


def by_columns(schema: pa.Schema) -> Encode:
    """The encoder of this project."""
    encoder = RowEncoder(schema, arrow_avro.infer(schema, name="row", namespace=None))

    def run(batch: pa.RecordBatch) -> list[bytes | memoryview]:
        rows = encoder.encode(batch)
        body = rows.data.data
        return [
            piece
            for low, high in cuts(rows.offsets)
            for piece in framed(high - low, body[rows.offsets[low] : rows.offsets[high]])
        ]

    return run


def by_fastavro(schema: pa.Schema) -> Encode:
    """`to_pylist`, then fastavro's compiled writer."""
    parsed = fastavro.parse_schema(arrow_avro.infer(schema, name="row", namespace=None).root)

    def run(batch: pa.RecordBatch) -> list[bytes | memoryview]:
        out = io.BytesIO()
        fastavro.writer(out, parsed, batch.to_pylist(), codec="null", sync_interval=BLOCK_BYTES, sync_marker=SYNC)
        return [out.getvalue()]

    return run


def by_pyruhvro(schema: pa.Schema) -> Encode:
    """The Rust library, which returns datums as an Arrow binary array."""
    text = arrow_avro.infer(schema, name="row", namespace=None).json

    def run(batch: pa.RecordBatch) -> list[bytes | memoryview]:
        blocks: list[bytes | memoryview] = []
        for datums in pyruhvro.serialize_record_batch(batch, text, 1):
            _, starts, data = datums.buffers()
            offsets = np.frombuffer(starts, np.int32)[datums.offset : datums.offset + len(datums) + 1]
            body = memoryview(data)
            blocks += [
                piece for low, high in cuts(offsets) for piece in framed(high - low, body[offsets[low] : offsets[high]])
            ]
        return blocks

    return run


def cuts(offsets: np.ndarray) -> Iterator[tuple[int, int]]:
    """The first and last row of each block of about BLOCK_BYTES."""
    low, last = 0, len(offsets) - 1
    while low < last:
        high = int(np.searchsorted(offsets, offsets[low] + BLOCK_BYTES))
        yield low, min(max(high, low + 1), last)
        low = min(max(high, low + 1), last)


def speed(title: str, table: pa.Table) -> Report:
    """The rates of all encoders on one table."""
    encoders = {
        PEER: (by_fastavro(table.schema), SLOW_ROWS),
        "pyruhvro": (by_pyruhvro(table.schema), table.num_rows),
        "this project": (by_columns(table.schema), table.num_rows),
    }

    def contender(encode: Encode, rows: int) -> Callable[[], float]:
        batches = table.slice(0, rows).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        return lambda: processor_seconds(lambda: [encode(batch) for batch in batches], rows)

    taken = alternate(title, {name: contender(*each) for name, each in encoders.items()}, ROUNDS)
    lines = rates(1, taken, PEER)
    for line in lines:
        line["x pyruhvro"] = statistics.median(taken["pyruhvro"]) / statistics.median(taken[str(line["path"])])
    return Report(f"{title}, {table.num_rows:,} rows", lines)


def main() -> None:
    """Print both tables."""
    on_one_core()
    reports = [speed("flights, 19 columns", flights()), speed("texts, 8 columns", texts())]
    console = Console(width=120)
    for report in reports:
        show(report, console)
    console.print(f"Figures: {save('encoder', reports)}", highlight=False)


if __name__ == "__main__":
    main()
