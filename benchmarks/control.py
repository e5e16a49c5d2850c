"""Control messages without Spark, on one core: wrapping and unwrapping envelopes, and the trackers of a consumer.

Envelopes come in batches as Spark sends them, with one control message for 99 rows: either all after the rows, as tasks
write them for every partition; or spread among the rows and all different, which is the worst case.
In a batch of reconciliation, each of n tasks sends m partitions one watermark: n x m envelopes, m trackers, m
checkpoints.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from benchmarks.flights import BATCH_ROWS
from benchmarks.report import Report
from benchmarks.rounds import alternate, processor_seconds
from control_messages import envelopes
from control_messages.checkpoints import to_checkpoint
from control_messages.envelopes import unwrap, unwrap_all, wrap
from control_messages.messages import Watermark
from control_messages.partition_tracker import PartitionTracker, receive
from control_messages.producer import ProducerSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Line: TypeAlias = dict[str, str | float]

AIM = 5_000_000
"""Envelopes a second that one core should unwrap."""

PAYLOAD_BYTES = (20, 200)
BATCHES = 30
TASKS = PARTITIONS = 10
"""Of the envelopes; each batch has TASKS × PARTITIONS control messages, 1 % of its rows."""

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
    """Lines for payloads of one size."""
    producer = ProducerSpec("benchmark", PARTITIONS, TASKS)
    messages = [Watermark(name, TASKS, START_MS + at) for at, name in enumerate(producer.names)]
    payloads = [_payloads(size, BATCH_ROWS - TASKS * PARTITIONS, seed) for seed in range(BATCHES)]
    control_last = [
        pa.concat_arrays([pa.array(_wrapped(batch)), producer.envelopes(messages).column(1)]) for batch in payloads
    ]
    single_envelopes = [envelope for batch in control_last for envelope in batch.to_pylist()]
    decoders: dict[str, Callable[[], object]] = {
        "unwrap, one by one": lambda: [unwrap(each) for each in single_envelopes],
        "unwrap_all, control last": partial(_unwrapped, control_last),
        "unwrap_all, control spread": partial(_unwrapped, [_spread(batch, messages[0]) for batch in payloads]),
    }
    acts = {name: partial(processor_seconds, act) for name, act in decoders.items()}
    return _rates(size, alternate(f"envelopes of {size} B", acts, rounds))


def _wrapped(payloads: pa.Array) -> list[bytes]:
    return [wrap(payload) for payload in payloads.to_pylist()]


def _payloads(size: int, rows: int, seed: int) -> pa.Array:
    data = np.random.default_rng(seed).bytes(size * rows)
    offsets = np.arange(0, len(data) + 1, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _spread(payloads: pa.Array, message: Watermark) -> pa.Array:
    """Envelopes with a control message after every 99, each with another timestamp."""
    users = _wrapped(payloads)
    rows: list[bytes] = []
    for at, first in enumerate(range(0, len(users), 99)):
        rows += users[first : first + 99]
        rows.append(wrap(Watermark(message.task, message.task_count, START_MS + at)))
    return pa.array(rows, pa.binary())


def _unwrapped(batches: Sequence[pa.Array]) -> None:
    for batch in batches:
        envelopes._cached.cache_clear()  # noqa: SLF001 - the messages of the next batch are new
        unwrapped = unwrap_all(batch)
        if (len(unwrapped.payloads), len(unwrapped.messages)) != (BATCH_ROWS * 99 // 100, BATCH_ROWS // 100):
            raise AssertionError(
                f"{len(unwrapped.payloads)} payloads and {len(unwrapped.messages)} messages came back."
            )


def _rates(size: int, taken: Mapping[str, Sequence[float]]) -> list[Line]:
    """Rates of each path. The first one is one by one, to which the others are compared."""
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
    """n tasks that send each of m partitions a watermark in every batch, and the trackers of the consumer. Mutable."""

    tasks: int
    partitions: int
    trackers: list[PartitionTracker] = field(init=False)
    turn: int = 0

    def __post_init__(self) -> None:
        self.trackers = [PartitionTracker("benchmark", partition) for partition in range(self.partitions)]

    def batch(self) -> tuple[float, float, float]:
        """Processor seconds of the next batch: to unwrap it, to apply it to the trackers, to make their checkpoints."""
        self.turn += 1
        envelopes = watermarks(self.tasks, self.partitions, self.turn)
        partitions, values = envelopes.column(0).to_numpy(), envelopes.column(1)
        begin = time.process_time()
        unwrapped = unwrap_all(values)
        bounds = np.searchsorted(partitions[unwrapped.control_rows], np.arange(self.partitions + 1)).tolist()
        decoded = time.process_time()
        by_partition = (unwrapped.messages[first:last] for first, last in pairwise(bounds))
        steps = [
            receive(tracker, messages, self.turn) for tracker, messages in zip(self.trackers, by_partition, strict=True)
        ]
        applied = time.process_time()
        self.trackers = [step.tracker for step in steps]
        saved = [to_checkpoint(tracker) for tracker in self.trackers]
        end = time.process_time()
        risen = {step.watermark for step in steps}
        if risen != {START_MS + 1000 * self.turn} or len(saved) != self.partitions:
            raise AssertionError(f"batch {self.turn} of {self.tasks} tasks announced {risen}.")
        return decoded - begin, applied - decoded, end - applied


def watermarks(tasks: int, partitions: int, turn: int) -> pa.RecordBatch:
    """The watermarks of all tasks for all partitions in a batch, different for each task. A turn is a second later."""
    producer = ProducerSpec("benchmark", partitions, tasks)
    return producer.envelopes(
        Watermark(name, tasks, START_MS + 1000 * turn + at) for at, name in enumerate(producer.names)
    )


def _reconciliation(rounds: int) -> Report:
    upstreams = {f"{tasks} x {partitions}": Upstream(tasks, partitions) for tasks, partitions in SIZES}
    taken = alternate("trackers", {name: upstream.batch for name, upstream in upstreams.items()}, rounds)
    lines = [_batch_line(upstreams[name], each) for name, each in taken.items()]
    note = (
        f"Processor time, medians of {rounds} batches after the first. Each task sends every partition one watermark."
    )
    return Report("Reconciliation of one batch in one Python process, without Spark", lines, note)


def _batch_line(upstream: Upstream, taken: Iterable[tuple[float, float, float]]) -> Line:
    decoding, trackers, checkpoints = (1000 * statistics.median(part) for part in zip(*taken, strict=True))
    messages, total = upstream.tasks * upstream.partitions, decoding + trackers + checkpoints
    return {
        "tasks": upstream.tasks,
        "partitions": upstream.partitions,
        "messages": messages,
        "decode, ms": decoding,
        "trackers, ms": trackers,
        "checkpoints, ms": checkpoints,
        "batch, ms": total,
        "µs/message": 1000 * total / messages,
    }
