"""Rows/s of the encoder, fastavro and pyruhvro on one core: `python -m benchmarks.encoder`.

Each of them makes the bytes of Avro blocks (null codec: row count, size, datums, sync marker) from Arrow batches. They
alternate within one run, and medians of processor time are compared: a busy machine slows all of them.
"""

from __future__ import annotations

import io
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro
from rich.console import Console
from rich.table import Table

import arrow_avro
from arrow_avro import RowEncoder, varint
from tools.flights import flights

BLOCK_BYTES = 1 << 20
SYNC = bytes(range(16))
ROUNDS = 9
SLOW_ROWS = 20_000  # rows for fastavro, whose rate does not depend on their number
BATCH_ROWS = 50_000

Encode = Callable[[pa.RecordBatch], list[bytes | memoryview]]


def texts(rows: int = 100_000) -> pa.Table:
    """Eight columns of about 250 bytes together, mostly sentences of several lengths."""
    random = np.random.default_rng(13)
    words = np.array(
        [
            "the",
            "of",
            "a",
            "spark",
            "blob",
            "stream",
            "flight",
            "delayed",
            "departure",
            "gate",
            "weather",
            "réseau",
            "naïve",
            "airport",
            "storm",
        ]
    )

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


@dataclass(frozen=True)
class Rate:
    """The median rate of one encoder on one table, over all rounds."""

    encoder: str
    rows: float
    megabytes: float


def measure(table: pa.Table, encoders: dict[str, tuple[Encode, int]]) -> list[Rate]:
    """Alternate the encoders for one round to warm up and ROUNDS measured ones."""
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    sizes: dict[str, float] = {}
    for turn in range(ROUNDS + 1):
        for name, (run, rows) in encoders.items():
            batches = table.slice(0, rows).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
            begin = time.process_time()
            size = sum(len(piece) for batch in batches for piece in run(batch))
            if turn:
                seconds[name].append((time.process_time() - begin) / rows)
            sizes[name] = size / rows
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    return [Rate(name, 1 / medians[name], sizes[name] / medians[name] / 1e6) for name in encoders]


def show(title: str, rates: list[Rate]) -> Table:
    """The rates, with their ratios to the other encoders of the same run."""
    table = Table("encoder", "M rows/s", "MB/s", "x fastavro", "x pyruhvro", title=title)
    reached = {rate.encoder: rate.rows for rate in rates}
    for rate in rates:
        others = (reached.get("to_pylist + fastavro"), reached.get("pyruhvro"))
        ratios = [f"{rate.rows / other:.2f}" if other else "-" for other in others]
        table.add_row(rate.encoder, f"{rate.rows / 1e6:.3f}", f"{rate.megabytes:.0f}", *ratios)
    return table


def main() -> None:
    """Print both tables."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    for title, table in (("flights, 19 columns", flights()), ("texts, 8 columns", texts())):
        encoders = {
            "to_pylist + fastavro": (by_fastavro(table.schema), SLOW_ROWS),
            "pyruhvro": (by_pyruhvro(table.schema), table.num_rows),
            "this project": (by_columns(table.schema), table.num_rows),
        }
        Console(width=100).print(show(f"{title}, {table.num_rows} rows", measure(table, encoders)))


if __name__ == "__main__":
    main()
