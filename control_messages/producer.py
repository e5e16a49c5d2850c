"""The producer of an intermediate stream: the upstream job, its tasks, and the control messages that they send. Pure.

A watermark is a promise: no row of the task older than that will follow. So it is the latest event time that the task
has seen, less the lateness that the job allows. Every partition gets it, since the task's next row may go to any.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as arrow_is

from control_messages.arrow_memory import I64, MOST_BYTES, binary_array, integer_array, integers, validity
from control_messages.envelopes import wrap
from control_messages.errors import ControlMessageError, listed
from control_messages.messages import (
    EARLIEST,
    LATEST,
    MOST_TASKS,
    ControlMessage,
    EndOfStream,
    Watermark,
    is_integer,
    is_text,
    json_object,
)
from foundation.arguments import Range, checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENVELOPES = pa.schema(
    [pa.field("partition", pa.int32(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)
"""An intermediate stream as rows: the partition of each envelope, and its bytes."""

PRODUCER_METADATA = "control_messages.producer"
"""The key in a Spark column's metadata under which the sink finds the producer whose watermarks it adds."""

_MS_PER_DAY = 86_400_000
FOR_THE_SINK = "for_the_azureblob_sink_only"
"""The only field of the struct that column `value` of `emit(by_sink=True)` is: no other sink takes it for an envelope,
and no reader for a message, so the watermarks that the sink has to add are never missing in silence."""
YEAR_MS = 366 * _MS_PER_DAY
"""How far event times may be ahead of the clock, unless the producer says otherwise."""


Stated = Annotated[int, Range(0, LATEST)]
"""A number that fits a control message."""


@checked
@dataclass(frozen=True)
class ProducerSpec:
    """An upstream job and the intermediate stream that it writes. `ConfigurationError` names the field that is wrong.

    stream: the stream's name.
    partitions: how many partitions it has.
    tasks: the names of the tasks that write to it; or their number, with the names that Samza gives, "Partition 0". If
    the names are not known beforehand, give a number, and let `task_of` compute the task of a row.
    generation: to be raised when the tasks change or start again; consumers then forget the tasks of lower ones.
    lateness_ms: how much older than the latest row of a task its later rows may be.
    ahead_ms: how far event times may be ahead of the clock. A later one, such as of the year 9999, raises no watermark:
    no row after it would be in time. By default a year.
    counts: the watermarks of a write say how many rows it has, so that consumers notice a lost or a doubled one.
    """

    stream: str
    partitions: Annotated[int, Range(1, 2**31 - 1)]
    tasks: Annotated[int, Range(1, MOST_TASKS)] | Sequence[str] = 1
    generation: Stated = 0
    lateness_ms: Stated = 0
    ahead_ms: Stated = YEAR_MS
    counts: bool = True

    def __post_init__(self) -> None:
        if not is_text(self.stream):
            raise ConfigurationError(f"stream is {self.stream!r}, give it a name.")
        if isinstance(self.tasks, (tuple, list)):
            object.__setattr__(self, "tasks", tuple(self.tasks))
            if not self.tasks or not all(map(is_text, self.tasks)) or len(set(self.tasks)) < len(self.tasks):
                text = f"tasks are {listed(self.tasks)}; give at least one name, no empty one and none twice."
                raise ConfigurationError(text)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tasks. The number of a task is its position among them."""
        if isinstance(self.tasks, int):
            return tuple(f"Partition {number}" for number in range(self.tasks))
        return tuple(self.tasks)

    def to_json(self) -> str:
        """The value of the sink's option `emission`; ASCII."""
        fields = {
            "stream": self.stream,
            "partitions": self.partitions,
            "tasks": self.tasks,
            "generation": self.generation,
            "latenessMs": self.lateness_ms,
            **({} if self.ahead_ms == YEAR_MS else {"aheadMs": self.ahead_ms}),
            **({} if self.counts else {"counts": False}),
        }
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ProducerSpec:
        """What `to_json` has written; only stream and partitions are required. `ValueError` names what is wrong."""
        fields = json_object(text)
        known = {"stream", "partitions", "tasks", "generation", "latenessMs", "aheadMs", "counts"}
        if unknown := fields.keys() - known:
            reason = f"a producer has no {listed(sorted(unknown))}; its fields are {listed(sorted(known))}."
            raise ControlMessageError(reason)
        if missing := {"stream", "partitions"} - fields.keys():
            reason = f"a producer needs {listed(sorted(missing))}."
            raise ControlMessageError(reason)
        tasks = fields.get("tasks", 1)
        return cls(
            fields["stream"],
            fields["partitions"],
            tasks,
            fields.get("generation", 0),
            fields.get("latenessMs", 0),
            fields.get("aheadMs", YEAR_MS),
            fields.get("counts", True),
        )

    def watermark(self, task: str | int, timestamp: int, *, idle: bool = False) -> Watermark:
        """A watermark of a task.

        task: its name or number. timestamp: milliseconds since 1970 UTC. idle: the task has no rows for now.
        """
        name = self.names[self.number_of(task)]
        return Watermark(name, len(self.names), timestamp, self.generation, idle, self.stream, self.partitions)

    def end_of_stream(self, tasks: Iterable[str | int] | None = None) -> list[EndOfStream]:
        """The end of the given tasks, by name or number; by default of all, which ends the stream."""
        names = self.names if tasks is None else [self.names[self.number_of(task)] for task in tasks]
        return [EndOfStream(name, len(self.names), self.stream, self.generation, self.partitions) for name in names]

    def idle(self, tasks: Iterable[str | int], up_to_ms: int = EARLIEST) -> list[Watermark]:
        """Declares the given tasks, by name or number, idle: they hold no watermark until their next one.

        up_to_ms: the tasks have written all rows up to this time.
        """
        return [self.watermark(task, up_to_ms, idle=True) for task in tasks]

    def envelopes(
        self, messages: Iterable[ControlMessage], sequence: int | None = None, rows: RowsWritten | None = None
    ) -> pa.RecordBatch:
        """Every message for every partition, within a partition in the order given; schema `ENVELOPES`.

        sequence: of the messages that have none: greater than that of every earlier message of their tasks in this
        generation, and the same when they are sent again. The time of the batch in milliseconds is one.
        rows: of the messages, which are then watermarks without.

        `ValueError` for a message of another producer, and if the envelopes exceed 2 GiB.
        """
        wrapped = [wrap(self._own(message, sequence)) for message in messages]
        longest = 0 if rows is None else len(rows.field(LATEST))
        size = sum(len(each) + longest for each in wrapped) * self.partitions
        if size > MOST_BYTES:
            text = f"{len(wrapped)} messages for {self.partitions} partitions of {self.stream} are {size} bytes."
            raise ValueError(f"{text} A batch holds {MOST_BYTES}: give fewer messages at a time.")
        sent = wrapped * self.partitions if rows is None else rows.added_to(wrapped)
        partitions = np.repeat(np.arange(self.partitions, dtype=np.int32), len(wrapped))
        offsets = np.zeros(len(sent) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, sent), np.int32, len(sent)), out=offsets[1:])
        values = binary_array(offsets, b"".join(sent))
        return pa.RecordBatch.from_arrays([integer_array(partitions), values], schema=ENVELOPES)

    def number_of(self, task: str | int | None) -> int:
        """The number of the task given by name or number. `ControlMessageError` if there is no such task."""
        if isinstance(task, str) and task in self._numbers:
            return self._numbers[task]
        if is_integer(task, 0, len(self.names) - 1):
            return task
        known = f"0 to {len(self.names) - 1}" if is_integer(task, EARLIEST, LATEST) else listed(self.names)
        raise ControlMessageError(
            f"{self.stream} has no task {task!r}. Its {len(self.names)} tasks are {known}. Name every task in `tasks`, "
            "or give their number and compute the task of a row with `task_of`."
        )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def _own(self, message: ControlMessage, sequence: int | None) -> ControlMessage:
        """The message with all that identifies its producer."""
        if message.task is not None:
            self.number_of(message.task)
        tasks = 1 if message.task is None else len(self.names)
        stated = (message.task_count, message.generation, message.stream, message.partition_count)
        expected = (tasks, self.generation, self.stream, self.partitions)
        if any(one not in (None, other) for one, other in zip(stated, expected, strict=True)):
            raise ControlMessageError(
                f"{message} is not of {self.stream}, which has {tasks} tasks and {self.partitions} partitions in "
                f"generation {self.generation}."
            )
        return replace(
            message,
            stream=self.stream,
            partition_count=self.partitions,
            sequence=sequence if message.sequence is None else message.sequence,
        )


@dataclass(frozen=True)
class RowsWritten:
    """How many rows of some tasks the Spark task `writer` has written to each partition: an array for each task."""

    writer: int
    counts: I64

    def field(self, count: int) -> bytes:
        """The last fields of a watermark's JSON, with its closing brace."""
        return b',"writer":%d,"rows":%d}' % (self.writer, count)

    def added_to(self, envelopes: list[bytes]) -> list[bytes]:
        """The envelopes of the watermarks of these tasks for every partition, each with its count."""
        heads = [envelope[:-1] for envelope in envelopes]
        return [
            head + self.field(count)
            for of_partition in self.counts.T.tolist()
            for head, count in zip(heads, of_partition, strict=True)
        ]


class TaskWatermarks:
    """The watermarks of a producer's tasks, from the event times of their rows. Mutable; one per Spark task.

    now: the time of the batch (ms). Times more than `ahead_ms` after it are ignored, as nulls are; None for no limit.
    writer: the number of the Spark task.
    """

    def __init__(self, producer: ProducerSpec, now: int | None = None, writer: int = 0) -> None:
        self._producer, self._now, self._writer = producer, now, writer
        self._limit = None if now is None else now + producer.ahead_ms
        self._latest = np.full(len(producer.names), EARLIEST, np.int64)
        self._seen = np.zeros(len(producer.names), np.bool_)
        self._places = np.full(len(producer.names), -1, np.int64)
        self._counts = np.zeros((0, producer.partitions), np.int64)  # a line for each task with rows

    def observe(self, tasks: pa.Array | None, times: pa.Array, partitions: pa.Array) -> None:
        """Take note of rows, each with a task, an event time and a partition.

        tasks: numbers or names; None if the producer has only one task.
        times: timestamps of any unit, or dates; without a zone they are UTC. A null says only that the task has a row.
        partitions: integers from 0 to `producer.partitions` - 1.

        `ControlMessageError` for an unknown task, a null task, and a time outside 64 bits of milliseconds; nothing has
        changed then. `TypeError` for columns of other types.
        """
        ticks = _ticks(times)
        valid = validity(times) if times.null_count else np.ones(len(times), np.bool_)
        if self._limit is not None:
            valid &= ticks <= _in_ticks(self._limit, times.type)
        if tasks is None:
            if len(self._latest) > 1:
                text = f"{self._producer.stream} has {len(self._latest)} tasks: name the task of each row."
                raise ControlMessageError(text)
            numbers = np.zeros(len(times), np.int64)
        else:
            numbers = self._numbers(tasks)
        latest = np.full_like(self._latest, EARLIEST)
        np.maximum.at(latest, numbers[valid], ticks[valid])
        timed = np.flatnonzero(latest != EARLIEST)
        self._latest[timed] = np.maximum(self._latest[timed], _milliseconds(latest[timed], times.type))
        self._seen[numbers] = True
        if self._producer.counts:
            self._count(numbers, integers(partitions))

    def envelopes(self) -> pa.RecordBatch:
        """The watermarks for every partition, with the counts of their rows; schema `ENVELOPES`."""
        counted = self._producer.counts
        rows = RowsWritten(self._writer, self._counts[self._places[self._seen]]) if counted else None
        return self._producer.envelopes(self.watermarks(), self._now, rows)

    def watermarks(self) -> list[Watermark]:
        """For every task with a row: its latest time less the lateness, rounded down to a millisecond.

        If all of its times are null, that is the earliest of all: it promises nothing, but says that the task is there.
        """
        producer = self._producer
        return [
            producer.watermark(task, max(EARLIEST, int(self._latest[task]) - producer.lateness_ms))
            for task in np.flatnonzero(self._seen).tolist()
        ]

    def _count(self, numbers: I64, partitions: npt.NDArray[Any]) -> None:
        """Add rows to the counts of their tasks."""
        fresh, known = np.flatnonzero(self._seen & (self._places < 0)), len(self._counts)
        if len(fresh):
            self._places[fresh] = np.arange(known, known + len(fresh))
            self._counts = np.concatenate([self._counts, np.zeros((len(fresh), self._producer.partitions), np.int64)])
        cells = self._places[numbers] * self._producer.partitions + partitions
        self._counts += np.bincount(cells, minlength=self._counts.size).reshape(self._counts.shape)

    def _numbers(self, tasks: pa.Array) -> I64:
        if tasks.null_count:
            self._producer.number_of(None)
        if arrow_is.is_string(tasks.type) or arrow_is.is_large_string(tasks.type):
            encoded = tasks.dictionary_encode()
            numbers = np.array([self._producer.number_of(name.as_py()) for name in encoded.dictionary], np.int64)
            return np.asarray(numbers[integers(encoded.indices)])
        if not arrow_is.is_integer(tasks.type):
            raise TypeError(f"tasks are integers or strings, these are {tasks.type}.")
        numbers = integers(tasks)
        for number in (numbers.min(), numbers.max()) if len(numbers) else ():
            self._producer.number_of(int(number))
        return numbers.astype(np.int64)


def with_watermarks(producer: ProducerSpec, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The columns partition and value of the batches, and after them the watermarks of the tasks seen.

    The batches have the columns task, eventTime, sequence and writer as well; the last two are the same in all rows.
    Runs in Spark's workers, so it imports neither pyspark nor pandas.
    """
    watermarks: TaskWatermarks | None = None
    for batch in batches:
        if watermarks is None and batch.num_rows:
            sequence, writer = (batch.column(name)[0].as_py() for name in ("sequence", "writer"))
            watermarks = TaskWatermarks(producer, sequence, writer)
        if watermarks is not None:
            watermarks.observe(batch.column("task"), batch.column("eventTime"), batch.column("partition"))
        yield _envelopes(batch)
    yield _envelopes((watermarks or TaskWatermarks(producer)).envelopes())


def _envelopes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The two columns with one schema for all batches: Spark requires the same nullability."""
    return pa.RecordBatch.from_arrays([batch.column("partition"), batch.column("value")], ["partition", "value"])


def _ticks(times: pa.Array) -> I64:
    """The times as they are stored: days, or units of a timestamp."""
    if not (arrow_is.is_timestamp(times.type) or arrow_is.is_date(times.type)):
        raise TypeError(f"times are timestamps or dates, these are {times.type}.")
    storage = pa.int32() if arrow_is.is_date32(times.type) else pa.int64()
    return integers(times.view(storage)).astype(np.int64)


def _in_ticks(milliseconds: int, kind: pa.DataType) -> int:
    """The last tick of an Arrow type that is not after the time."""
    if arrow_is.is_date32(kind):
        return milliseconds // _MS_PER_DAY
    if arrow_is.is_date64(kind):
        return min(LATEST, milliseconds)
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    return min(LATEST, milliseconds * per_second // 1_000)


def _milliseconds(ticks: I64, kind: pa.DataType) -> I64:
    """Ticks of an Arrow type in milliseconds, rounded down."""
    if arrow_is.is_date32(kind):
        return ticks * _MS_PER_DAY  # 32 bits times 27 bits
    if arrow_is.is_date64(kind) or kind.unit == "ms":
        return ticks
    if kind.unit != "s":
        return ticks // {"us": 1_000, "ns": 1_000_000}[kind.unit]
    if len(ticks) and not EARLIEST // 1_000 < ticks.min() <= ticks.max() <= LATEST // 1_000:
        text = f"A time of {ticks.min()} to {ticks.max()} seconds does not fit 64 bits of milliseconds."
        raise ControlMessageError(text)
    return ticks * 1_000
