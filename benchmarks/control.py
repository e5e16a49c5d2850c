"""Control messages without Spark, on one core: envelopes in and out, and the books of a consumer.

Envelopes come in batches as Spark sends them, with one control message for 99 rows: behind the rows, where tasks put
what each of them tells every partition; or spread among them and all different, which is the worst case.
A batch of reconciliation is what n tasks tell m partitions at once: n x m envelopes, m books, m checkpoints.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from benchmarks.flights import BATCH_ROWS
from benchmarks.report import Report
from benchmarks.rounds import alternate
from control_messages import envelopes
from control_messages.books import Book, checkpoint, receive
from control_messages.emission import Emission
from control_messages.envelopes import unwrap, unwrap_all, wrap, wrap_payloads
from control_messages.messages import Watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Line: TypeAlias = dict[str, str | float]

AIM = 5_000_000
"""Envelopes a second that one core should encode, and decode."""

PAYLOAD_BYTES = (20, 200)
BATCHES = 30
TASKS = PARTITIONS = 10
"""Of the envelopes: together 1 % of a batch."""

SIZES = ((10, 10), (100, 100), (300, 300), (1_000, 1_000))
"""Tasks and partitions of the reconciliation."""

START_MS = 1_356_998_400_000


def tables(rounds: int) -> list[Report]:
    """One table of envelopes, one of reconciliation."""
    lines = [line for size in PAYLOAD_BYTES for line in _envelopes(size, rounds)]
    note = (
        f"Processor time, medians of {rounds}. One by one: Python bytes in and out. Else: Arrow in batches of 10,000."
    )
    return [
        Report("Envelopes with 1 % control, one core", lines, note),
        _reconciliation(rounds),
    ]


# envelopes ------------------------------------------------------------------------------------------------------------


def _envelopes(size: int, rounds: int) -> list[Line]:
    """Lines of both directions for payloads of one size."""
    emission = Emission("benchmark", PARTITIONS, TASKS)
    told = [Watermark(name, TASKS, START_MS + at) for at, name in enumerate(emission.names)]
    payloads = [_payloads(size, BATCH_ROWS - TASKS * PARTITIONS, seed) for seed in range(BATCHES)]
    singles = [payload for batch in payloads for payload in batch.to_pylist()]
    behind = [pa.concat_arrays([wrap_payloads(batch), emission.envelopes(told).column(1)]) for batch in payloads]
    single_envelopes = [envelope for batch in behind for envelope in batch.to_pylist()]
    encoders: dict[str, Callable[[], object]] = {
        "wrap, one by one": lambda: [wrap(each) for each in chain(singles, told * (PARTITIONS * BATCHES))],
        "wrap_payloads": lambda: [(wrap_payloads(batch), emission.envelopes(told)) for batch in payloads],
    }
    decoders: dict[str, Callable[[], object]] = {
        "unwrap, one by one": lambda: [unwrap(each) for each in single_envelopes],
        "unwrap_all, control behind": partial(_unwrapped, behind),
        "unwrap_all, control among": partial(_unwrapped, [_among(batch, told[0]) for batch in payloads]),
    }
    taken = [
        alternate(
            f"envelopes of {size} B", {name: partial(_processor_seconds, act) for name, act in each.items()}, rounds
        )
        for each in (encoders, decoders)
    ]
    return [line for each in taken for line in _rates(size, each)]


def _payloads(size: int, rows: int, seed: int) -> pa.Array:
    data = np.random.default_rng(seed).bytes(size * rows)
    offsets = np.arange(0, len(data) + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _among(payloads: pa.Array, message: Watermark) -> pa.Array:
    """Envelopes with a control message behind every 99, each at another time."""
    users = wrap_payloads(payloads).to_pylist()
    rows: list[bytes] = []
    for at, first in enumerate(range(0, len(users), 99)):
        rows += users[first : first + 99]
        rows.append(wrap(Watermark(message.task, message.tasks, START_MS + at)))
    return pa.array(rows, pa.binary())


def _unwrapped(batches: Sequence[pa.Array]) -> None:
    for batch in batches:
        envelopes._remembered.cache_clear()  # noqa: SLF001 - the messages of a stream's next batch are new ones
        unwrapped = unwrap_all(batch)
        if (len(unwrapped.payloads), len(unwrapped.messages)) != (BATCH_ROWS * 99 // 100, BATCH_ROWS // 100):
            raise AssertionError(
                f"{len(unwrapped.payloads)} payloads and {len(unwrapped.messages)} messages came back."
            )


def _processor_seconds(act: Callable[[], object]) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin


def _rates(size: int, taken: Mapping[str, Sequence[float]]) -> list[Line]:
    """The first path is the one by one, which the others are compared with."""
    rows = BATCHES * BATCH_ROWS
    medians = {name: statistics.median(each) for name, each in taken.items()}
    single = next(iter(medians))
    return [
        {
            "payload, B": size,
            "path": name,
            "M envelopes/s": rows / median / 1e6,
            "slowest": rows / max(taken[name]) / 1e6,
            "x one by one": medians[single] / median,
            f"aim: {AIM / 1e6:.0f} M/s": "" if name == single else "met" if rows / median >= AIM else "MISSED",
        }
        for name, median in medians.items()
    ]


# reconciliation -------------------------------------------------------------------------------------------------------


@dataclass
class Upstream:
    """n tasks that tell m partitions a watermark each time, and the books of the consumer. Mutable."""

    tasks: int
    partitions: int
    books: list[Book] = field(init=False)
    turn: int = 0

    def __post_init__(self) -> None:
        self.books = [Book("benchmark", partition) for partition in range(self.partitions)]

    def batch(self) -> tuple[float, float, float]:
        """Processor seconds of the next batch: to decode it, to enter it into the books, to make their checkpoints."""
        self.turn += 1
        envelopes = watermarks(self.tasks, self.partitions, self.turn)
        partitions, values = envelopes.column(0).to_numpy(), envelopes.column(1)
        begin = time.process_time()
        unwrapped = unwrap_all(values)
        bounds = np.searchsorted(partitions[unwrapped.control_rows], np.arange(self.partitions + 1)).tolist()
        decoded = time.process_time()
        told = (unwrapped.messages[first:last] for first, last in pairwise(bounds))
        steps = [receive(book, messages, self.turn) for book, messages in zip(self.books, told, strict=True)]
        entered = time.process_time()
        self.books = [step.book for step in steps]
        saved = [checkpoint(book) for book in self.books]
        end = time.process_time()
        risen = {step.watermark for step in steps}
        if risen != {START_MS + 1000 * self.turn} or len(saved) != self.partitions:
            raise AssertionError(f"batch {self.turn} of {self.tasks} tasks announced {risen}.")
        return decoded - begin, entered - decoded, end - entered


def watermarks(tasks: int, partitions: int, turn: int) -> pa.RecordBatch:
    """What every task tells every partition in a batch; a second later in each, and no two tasks the same."""
    emission = Emission("benchmark", partitions, tasks)
    return emission.envelopes(
        Watermark(name, tasks, START_MS + 1000 * turn + at) for at, name in enumerate(emission.names)
    )


def _reconciliation(rounds: int) -> Report:
    upstreams = {f"{tasks} x {partitions}": Upstream(tasks, partitions) for tasks, partitions in SIZES}
    taken = alternate("books", {name: upstream.batch for name, upstream in upstreams.items()}, rounds)
    lines = [_batch_line(upstreams[name], each) for name, each in taken.items()]
    note = (
        f"Processor time, medians of {rounds} batches after the first. Each task tells every partition one watermark."
    )
    return Report("Reconciliation of one batch in one Python process, without Spark", lines, note)


def _batch_line(upstream: Upstream, taken: Iterable[tuple[float, float, float]]) -> Line:
    decoding, books, checkpoints = (1000 * statistics.median(part) for part in zip(*taken, strict=True))
    messages, total = upstream.tasks * upstream.partitions, decoding + books + checkpoints
    return {
        "tasks": upstream.tasks,
        "partitions": upstream.partitions,
        "messages": messages,
        "decode, ms": decoding,
        "books, ms": books,
        "checkpoints, ms": checkpoints,
        "batch, ms": total,
        "µs/message": 1000 * total / messages,
    }
