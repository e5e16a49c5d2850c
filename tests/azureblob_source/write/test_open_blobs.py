from __future__ import annotations

import gzip
import io
import time
import tracemalloc
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import fastavro
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arrow_avro import EncodedRows, blocks, codec, read_header
from arrow_avro.varint import encode
from azureblob_source.log.entry import BlobEntry
from azureblob_source.write.open_blobs import BlobFormat, BlobIds, BlobLimits, OpenBlobs, RowRanges, SealedBlock
from azureblob_source.write.routing import Route
from foundation.clock import ManualClock

SCHEMA = '{"type":"record","name":"row","fields":[{"name":"v","type":"bytes"}]}'
START = datetime(2013, 1, 1, tzinfo=UTC)
FLIGHTS = Route("flights")


def encoded(values: list[bytes]) -> EncodedRows:
    datums = [encode(len(value)) + value for value in values]
    ends = np.cumsum([0, *map(len, datums)], dtype=np.int64)
    return EncodedRows(np.frombuffer(b"".join(datums), np.uint8), ends)


class NumberedIds(BlobIds):
    def __init__(self) -> None:
        self.number = 0

    def suffix(self) -> str:
        self.number += 1
        return f"{self.number:08x}"

    def attempt(self) -> str:
        return f"{self.number:016x}"

    def sync(self) -> bytes:
        return self.number.to_bytes(16, "big")


@dataclass
class Task:
    """A task under test, and all that it has yielded."""

    limits: BlobLimits
    codec_name: str = "null"
    gzipped: bool = False
    clock: ManualClock = field(default_factory=lambda: ManualClock(START.timestamp()))
    blocks: dict[str, list[SealedBlock]] = field(default_factory=lambda: defaultdict(list))
    finished: list[BlobEntry] = field(default_factory=list)
    most_buffered: int = 0

    def __post_init__(self) -> None:
        self.blob_format = BlobFormat(SCHEMA, "f" * 16, codec(self.codec_name), self.gzipped)
        self.open = OpenBlobs(
            self.limits,
            self.blob_format,
            NumberedIds(),
            self.clock,
        )

    def append(self, route: Route, values: list[bytes], event_range: tuple[int, int] | None = None) -> None:
        rows = encoded(values)
        self.take(self.open.append(route, rows, 0, len(values), RowRanges(event_range)))

    def take(self, outputs: Any) -> None:
        for output in outputs:
            self.most_buffered = max(self.most_buffered, self.open.buffered)
            if isinstance(output, SealedBlock):
                assert output.blob not in {blob.name for blob in self.finished}
                self.blocks[output.blob].append(output)
            else:
                self.finished.append(output)
        self.most_buffered = max(self.most_buffered, self.open.buffered)

    def close(self) -> None:
        self.take(self.open.close())
        assert 0 == self.open.buffered
        assert list(self.blocks.keys() - {blob.name for blob in self.finished}) == []

    def content(self, blob: BlobEntry) -> bytes:
        return b"".join(block.render(self.blob_format) for block in self.blocks[blob.name])


def by_fastavro(data: bytes) -> list[bytes]:
    return [row["v"] for row in fastavro.reader(io.BytesIO(data))]


def bodies(data: bytes) -> list[tuple[int, bytes]]:
    """Row count and decompressed body of each Avro block, from our own reader."""
    header = read_header(data)
    assert SCHEMA == header.schema_json
    return [(b.rows, bytes(codec(header.codec).decompress(b.body))) for b in blocks(data, header)]


# --- any sequence of rows, under any limits ---------------------------------------------------------------------------

steps = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 40) | st.just(300), max_size=12), st.integers(0, 3)),
    max_size=12,
)
limits = st.builds(
    BlobLimits,
    block_bytes=st.sampled_from([1, 60, 200, 10_000]),
    blob_bytes=st.none() | st.sampled_from([1, 100, 400]),
    blob_rows=st.none() | st.sampled_from([1, 2, 7]),
    blob_age=st.none() | st.just(4.0),
    blob_blocks=st.sampled_from([1, 2, 50_000]),
    memory_budget=st.sampled_from([1, 150, 1000, 100_000]),
    avro_block=st.sampled_from([1, 50, 120]),
)


@settings(max_examples=300)
@given(limits, steps, st.sampled_from(["null", "deflate", "snappy"]), st.booleans())
@example(BlobLimits(block_bytes=60, avro_block=50, blob_rows=7), [(0, [40] * 12, 0)], "null", True)
@example(
    BlobLimits(block_bytes=60, avro_block=50, blob_blocks=1, memory_budget=150), [(0, [300] * 3, 0)], "deflate", False
)
def test_every_blob_is_an_avro_file_within_its_limits_and_no_row_is_lost(
    limits: BlobLimits, steps: list[tuple[int, list[int], int]], codec_name: str, gzipped: bool
) -> None:
    task = Task(limits, codec_name, gzipped)
    expected: dict[str, list[bytes]] = defaultdict(list)
    largest = number = 0
    for which, sizes, wait in steps:
        values = [f"{(number := number + 1):04x}".encode() + b"." * size for size in sizes]
        size = sum(len(value) + 2 for value in values)
        task.append(Route(f"s{which}"), values)
        expected[f"s{which}"] += values
        largest = max(largest, *(len(value) + 2 for value in values), 0)
        assert task.open.buffered <= limits.memory_budget
        assert task.most_buffered <= limits.memory_budget + size
        task.most_buffered = 0
        task.clock.advance(wait)
    task.close()
    found: dict[str, list[bytes]] = defaultdict(list)
    for blob in task.finished:
        rows = check_blob(task, blob, largest)
        check_reason(limits, blob, rows, expected[blob.stream], len(found[blob.stream]))
        found[blob.stream] += rows
    assert {stream: rows for stream, rows in expected.items() if rows} == found


def check_blob(task: Task, blob: BlobEntry, largest: int) -> list[bytes]:
    """Assert that the blob is complete and readable, and that `blob` describes it. Returns its rows."""
    limits = task.limits
    blocks = task.blocks[blob.name]
    assert blob.block_ids == [block.id for block in blocks]
    assert 1 <= blob.blocks <= limits.blob_blocks
    assert [block.is_first for block in blocks] == [True] + [False] * (len(blocks) - 1)
    rendered = [block.render(task.blob_format) for block in blocks]
    data = b"".join(rendered)
    if task.gzipped:
        assert [one_member(part) for part in rendered] == [gzip.decompress(part) for part in rendered]
        data = gzip.decompress(data)
    rows = by_fastavro(data)
    stored = bodies(data)
    assert (blob.rows, blob.uncompressed) == (len(rows), sum(len(body) for _, body in stored))
    assert blob.rows == sum(count for count, _ in stored)
    assert min(count for count, _ in stored) > 0
    assert max(len(body) for _, body in stored) < limits.body_bytes + largest
    assert [sum(len(body) for _, body in block.bodies) for block in blocks] == [block.uncompressed for block in blocks]
    assert max(block.uncompressed for block in blocks) < limits.block_bytes + limits.body_bytes + largest
    return rows


def one_member(data: bytes) -> bytes:
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    plain = stream.decompress(data)
    assert (True, b"") == (stream.eof, stream.unused_data)
    return plain


def check_reason(limits: BlobLimits, blob: BlobEntry, rows: list[bytes], all_rows: list[bytes], before: int) -> None:
    """Assert that the limit in `rolled_by` was reached, and that no limit was exceeded."""
    assert blob.rows <= (limits.blob_rows or blob.rows)
    assert blob.rows == 1 or blob.uncompressed <= (limits.blob_bytes or blob.uncompressed)
    follows = all_rows[before + len(rows) :]
    match blob.rolled_by:
        case "end":
            assert [] == follows
        case "messages":
            assert blob.rows == limits.blob_rows
        case "size":
            assert limits.blob_bytes is not None
            assert blob.uncompressed + len(encode(len(follows[0]))) + len(follows[0]) > limits.blob_bytes
        case "blocks":
            assert blob.blocks == limits.blob_blocks
        case "age":
            assert limits.blob_age is not None
        case other:
            pytest.fail(f"unknown reason {other}")


# --- single rules -----------------------------------------------------------------------------------------------------


def test_a_blob_is_named_by_the_time_of_its_first_row() -> None:
    task = Task(BlobLimits(blob_rows=1))
    task.clock.advance(3725.0)
    task.append(Route("flights", "EWR"), [b"x"])
    task.clock.advance(9999.0 - 3725.0)
    task.close()
    assert ["flights/EWR/2013/01/01/01/02-05-00000001.avro"] == [blob.name for blob in task.finished]


def test_a_blob_rolls_at_its_age_when_the_next_row_comes() -> None:
    task = Task(BlobLimits(blob_age=10.0))
    for seconds, value in [(0.0, b"a"), (9.75, b"b"), (0.25, b"c"), (9.75, b"d")]:
        task.clock.advance(seconds)
        task.append(FLIGHTS, [value])
    task.close()
    assert [([b"a", b"b"], "age"), ([b"c", b"d"], "end")] == [
        (by_fastavro(task.content(blob)), blob.rolled_by) for blob in task.finished
    ]


def test_a_row_larger_than_block_blob_and_memory_is_written_alone() -> None:
    task = Task(BlobLimits(block_bytes=100, blob_bytes=200, memory_budget=50))
    task.append(FLIGHTS, [b"small", b"x" * 5000, b"last"])
    task.close()
    assert [(1, "size"), (1, "size"), (1, "end")] == [(blob.rows, blob.rolled_by) for blob in task.finished]
    assert [b"small", b"x" * 5000, b"last"] == [row for b in task.finished for row in by_fastavro(task.content(b))]


def test_blocks_smaller_than_an_avro_block_are_respected() -> None:
    task = Task(BlobLimits(block_bytes=100))
    task.append(FLIGHTS, [b"." * 9] * 100)
    task.close()
    assert [100] * 10 == [block.uncompressed for blocks in task.blocks.values() for block in blocks]


def test_no_rows_make_no_blob() -> None:
    task = Task(BlobLimits())
    task.append(FLIGHTS, [])
    task.close()
    assert ([], {}) == (task.finished, task.blocks)


def test_rows_whose_encoding_is_empty_are_counted() -> None:
    task = Task(BlobLimits())
    schema = '{"type":"record","name":"row","fields":[{"name":"v","type":"null"}]}'
    task.blob_format = task.open.blob_format = BlobFormat(schema, "f" * 16, codec("null"))
    rows = EncodedRows(np.empty(0, np.uint8), np.zeros(6, np.int64))
    task.take(task.open.append(FLIGHTS, rows, 0, 5))
    task.close()
    (blob,) = task.finished
    assert (5, 1) == (blob.rows, blob.blocks)
    assert [{"v": None}] * 5 == list(fastavro.reader(io.BytesIO(task.content(blob))))


def test_only_the_requested_rows_are_added() -> None:
    task = Task(BlobLimits())
    rows = encoded([b"a", b"b", b"c", b"d"])
    task.take(task.open.append(FLIGHTS, rows, 1, 3))
    task.close()
    assert [b"b", b"c"] == by_fastavro(task.content(task.finished[0]))


def test_event_times_bound_the_rows_of_every_blob() -> None:
    task = Task(BlobLimits(blob_rows=2))
    task.append(FLIGHTS, [b"a"], (50, 60))
    task.append(FLIGHTS, [b"b", b"c"], (10, 20))
    task.append(FLIGHTS, [b"d"], None)
    task.append(FLIGHTS, [b"e"], None)
    task.close()
    assert [(10, 60), (10, 20), (None, None)] == [(blob.min_event_time, blob.max_event_time) for blob in task.finished]


def test_large_runs_of_rows_are_not_copied() -> None:
    task = Task(BlobLimits())
    rows = encoded([bytes(1000)] * 3000)
    task.take(task.open.append(FLIGHTS, rows, 0, 3000))
    task.close()
    (block,) = [block for blocks in task.blocks.values() for block in blocks]
    assert [memoryview, memoryview, bytearray] == [type(body) for _, body in block.bodies]
    assert [bytes(1000)] * 3000 == by_fastavro(task.content(task.finished[0]))


def test_a_small_part_of_a_batch_does_not_keep_the_whole_batch_in_memory() -> None:
    task = Task(BlobLimits(avro_block=100, block_bytes=100_000))
    rows = encoded([bytes(10)] * 1000)
    task.take(task.open.append(FLIGHTS, rows, 0, 100))
    task.close()
    (block,) = [block for blocks in task.blocks.values() for block in blocks]
    assert {bytearray} == {type(body) for _, body in block.bodies}


# --- ten thousand routes ----------------------------------------------------------------------------------------------


def write_to(routes: int, memory: int) -> Task:
    task = Task(BlobLimits(memory_budget=memory))
    rows = encoded([b"." * 98] * routes)
    for _ in range(5):
        for number in range(routes):
            task.take(task.open.append(Route("s", f"{number:05d}"), rows, number, number + 1))
    return task


def test_ten_thousand_routes_share_one_budget() -> None:
    budget = 1 << 20
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    task = Task(BlobLimits(memory_budget=budget))
    rows = encoded([b"." * 98] * 10_000)
    for _ in range(3):
        for number in range(10_000):
            for output in task.open.append(Route("s", f"{number:05d}"), rows, number, number + 1):
                assert isinstance(output, SealedBlock)
            assert task.open.buffered <= budget
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert used < 2 * budget + rows.data.nbytes + 10_000 * 1500


def test_time_grows_with_the_rows_and_not_with_the_open_blobs() -> None:
    def seconds(routes: int) -> float:
        started = time.process_time()
        write_to(routes, 128 * routes).close()
        return time.process_time() - started

    few = min(seconds(500) for _ in range(3))
    many = min(seconds(4000) for _ in range(3))  # a busy machine slows single runs
    assert many < few * 40, "linear is 8 times as long and more cache misses, quadratic is 64 times as long"
