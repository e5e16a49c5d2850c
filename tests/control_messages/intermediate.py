"""An intermediate stream in miniature: sources, an upstream job, the log, and a consumer with its checkpoint.

    sources ──► upstream tasks ──► log of the stream's partitions ──► consumer
    (records,    (rescaled, restarted     (rows and control            (batches, checkpoint, restart)
     closed)      with replay, zombies)    messages, duplicates)

A *design* is how the consumer keeps its trackers: `Ours` is the code under test, the others are mistakes that the tests
must catch. A record is unsafe if its first delivery comes after a watermark that is later than the record.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from control_messages import stream_tracker
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore, to_checkpoint
from control_messages.messages import ControlMessage, EndOfStream, Watermark
from control_messages.partition_tracker import Step
from control_messages.stream_tracker import StreamTracker

if TYPE_CHECKING:
    from collections.abc import Sequence

STREAM, SOURCES = "by-destination", 2
END = 10**9
"""Later than all records: the watermark of a source or task that has ended."""


@dataclass(frozen=True)
class Record:
    """One record of a source. It always goes to the same partition."""

    source: int
    number: int
    time: int

    def partition(self, partitions: int) -> int:
        return (self.source + self.number) % partitions


@dataclass
class Upstream:
    """One incarnation of the upstream job. Task t reads the sources s with s % tasks == t."""

    generation: int
    tasks: int
    positions: list[int]
    sent: set[ControlMessage] = field(default_factory=set)

    def watermark(self, task: int, pipeline: Pipeline) -> int | None:
        """Of a task: the last time that it has read, of its slowest source. `END` if all have been read to the end."""
        times_read = []
        for source in range(task, SOURCES, self.tasks):
            position, times = self.positions[source], pipeline.sources[source]
            if source in pipeline.closed and position == len(times):
                times_read.append(END)
            elif position == 0:
                return None
            else:
                times_read.append(times[position - 1])
        return min(times_read, default=END)

    def message(self, task: int, pipeline: Pipeline) -> ControlMessage | None:
        at = self.watermark(task, pipeline)
        if at is None:
            return None
        if at == END:
            return EndOfStream(f"Partition {task}", self.tasks, STREAM, self.generation)
        return Watermark(f"Partition {task}", self.tasks, at, self.generation)


@dataclass
class Pipeline:
    """The stream, its producers and its consumer. A safety property that is violated raises AssertionError at once."""

    design: ConsumerDesign
    partitions: int
    generations_rise: bool = True
    seen: Counter[str] = field(default_factory=Counter)
    sources: list[list[int]] = field(default_factory=lambda: [[] for _ in range(SOURCES)])
    closed: set[int] = field(default_factory=set)
    committed: list[int] = field(default_factory=lambda: [0] * SOURCES)
    zombies: list[Upstream] = field(default_factory=list)
    delivered: set[Record] = field(default_factory=set)
    clock: int = 0
    sound: bool = True
    """False after a batch that violated a property."""

    def __post_init__(self) -> None:
        self.upstream = Upstream(0, 1, [0] * SOURCES)
        self.log: list[list[Record | ControlMessage]] = [[] for _ in range(self.partitions)]
        self.configured = 1
        self.offsets = [0] * self.partitions
        self.trackers = self.design.empty(self.partitions)
        self.announced, self.ended = -1, False
        self.highest = [-1] * self.partitions
        self.saved_trackers = self.unsaved_trackers = self.design.save(self.trackers)
        self.saved = (list(self.offsets), self.announced, self.ended)

    # The upstream job

    def add(self, source: int, later: int) -> None:
        """A new record of a source that is not closed."""
        if source not in self.closed:
            times = self.sources[source]
            times.append((times[-1] if times else 0) + later)

    def close(self, source: int) -> None:
        if self.sources[source]:
            self.closed.add(source)

    def read(self, job: Upstream, source: int, count: int) -> None:
        """A task reads so many records and writes them into the stream."""
        for _ in range(count):
            number = job.positions[source]
            if number == len(self.sources[source]):
                return
            record = Record(source, number, self.sources[source][number])
            self.log[record.partition(self.partitions)].append(record)
            job.positions[source] += 1

    def send(self, job: Upstream, task: int) -> None:
        """A task sends every partition its watermark or end, unless it has sent the same before."""
        message = job.message(task, self) if task < job.tasks else None
        if message is None or message in job.sent:
            return
        job.sent.add(message)
        for log in self.log:
            log.append(message)

    def commit_upstream(self) -> None:
        self.committed = list(self.upstream.positions)

    def rescale(self, tasks: int) -> None:
        """From now on there are so many tasks, from the last commit of the job. The old ones still run, as zombies."""
        self.seen["rescaled"] += tasks != self.upstream.tasks
        self.zombies = [*self.zombies, self.upstream][-2:]
        self.upstream = Upstream(self.upstream.generation + self.generations_rise, tasks, list(self.committed))

    def restart_upstream(self) -> None:
        """The same tasks of the same generation, again from the last commit of the job."""
        self.seen["upstream replays"] += self.committed != self.upstream.positions
        self.upstream = Upstream(self.upstream.generation, self.upstream.tasks, list(self.committed))

    def duplicate(self, partition: int, back: int, length: int) -> None:
        """A producer repeats some of the last items that it has written."""
        start = max(0, len(self.log[partition]) - back)
        again = self.log[partition][start : start + length]
        self.seen["duplicates"] += len(again)
        self.log[partition].extend(again)

    # The consumer

    def consume(self, counts: Sequence[int], shuffle: int) -> None:
        """A batch: so many items of each partition; the rows first, then the control messages in any order."""
        self.clock += 1
        self.sound = False
        messages: list[tuple[int, ControlMessage]] = []
        for partition, count in enumerate(counts[: self.partitions]):
            start = self.offsets[partition]
            for item in self.log[partition][start : start + count]:
                self.offsets[partition] += 1
                if isinstance(item, Record):
                    self._deliver(partition, item)
                else:
                    messages.append((partition, item))
        random.Random(shuffle).shuffle(messages)
        self._announce(messages)
        self.sound = True

    def _deliver(self, partition: int, record: Record) -> None:
        if record not in self.delivered:
            self.delivered.add(record)
            before = self.highest[partition]
            assert before < END, f"{record} came after the end"
            assert record.time >= before, f"{record} came after watermark {before}"

    def _announce(self, messages: list[tuple[int, ControlMessage]]) -> None:
        step = self.design.receive(self.trackers, messages, self.clock, self.configured)
        self.trackers = step.tracker
        self.seen["stale"] += step.stale
        for partition, at in enumerate(self.design.announced_watermarks(self.trackers)):
            self.highest[partition] = max(self.highest[partition], at)
        if step.watermark is not None:
            self.seen["watermarks"] += 1
            assert not self.ended, f"watermark {step.watermark} was announced after the end"
            assert step.watermark > self.announced, f"the watermark fell from {self.announced} to {step.watermark}"
            self.announced = step.watermark
        if step.end:
            self.seen["ends"] += 1
            assert not self.ended, "the end was announced twice"
            self.ended = True

    def checkpoint(self) -> None:
        """Save the offsets, and the trackers as the design does."""
        self.saved = (list(self.offsets), self.announced, self.ended)
        self.unsaved_trackers = self.design.save(self.trackers)
        if self.design.saves == "with the offsets":
            self.saved_trackers = self.unsaved_trackers

    def save_later(self) -> None:
        """The second write of a design that saves in two."""
        if self.design.saves == "after the offsets":
            self.saved_trackers = self.unsaved_trackers

    def restart_consumer(self) -> None:
        """A new process with the checkpoint, configured with the present number of tasks."""
        self.seen["consumer replays"] += self.saved[0] != self.offsets
        offsets, self.announced, self.ended = self.saved
        self.offsets = list(offsets)
        self.trackers = self.design.load(self.saved_trackers)
        self.unsaved_trackers = self.saved_trackers
        self.configured = self.upstream.tasks

    # A fair run

    def settle(self) -> None:
        """Every task sends its watermark, and all is consumed: the watermark must be as high as the messages allow."""
        self.seen["histories"] += 1
        self._run_out()
        watermarks = [self.upstream.watermark(task, self) for task in range(self.upstream.tasks)]
        known = [at for at in watermarks if at is not None]
        if len(known) == len(watermarks) and min(known) < END and not self.ended:
            self.seen["settled"] += 1
            assert self.announced >= min(known), f"the watermark is stuck at {self.announced}, not {min(known)}"

    def finish(self) -> None:
        """All sources are closed and read to their ends: the end must be announced."""
        self.closed = set(range(SOURCES))
        for source in range(SOURCES):
            self.read(self.upstream, source, len(self.sources[source]))
        self._run_out()
        assert self.ended, "the end was never announced"

    def _run_out(self) -> None:
        for task in range(self.upstream.tasks):
            self.send(self.upstream, task)
        self.consume([len(log) for log in self.log], 0)


Messages: TypeAlias = "Sequence[tuple[int, ControlMessage]]"
Saves = Literal["with the offsets", "after the offsets", "never"]


@dataclass
class ConsumerDesign:
    """How a consumer keeps its trackers."""

    saves: Saves = "with the offsets"

    def empty(self, partitions: int) -> Any:
        raise NotImplementedError

    def receive(self, trackers: Any, messages: Messages, now: int, configured: int) -> Step[Any]:
        """The trackers after a batch, and what is announced."""
        raise NotImplementedError

    def announced_watermarks(self, trackers: Any) -> list[int]:
        """The watermark that each partition has announced; -1 for none."""
        raise NotImplementedError

    def save(self, trackers: Any) -> str:
        return json.dumps(trackers)

    def load(self, saved: str) -> Any:
        return json.loads(saved)


@dataclass
class Ours(ConsumerDesign):
    """The code under test."""

    def empty(self, partitions: int) -> StreamTracker:
        return StreamTracker.of(STREAM, partitions)

    def receive(self, trackers: StreamTracker, messages: Messages, now: int, configured: int) -> Step[StreamTracker]:
        return stream_tracker.receive(trackers, messages, now)

    def announced_watermarks(self, trackers: StreamTracker) -> list[int]:
        marks = [END if each.at_end else each.watermark for each in trackers.partitions]
        return [-1 if mark is None else mark for mark in marks]

    def save(self, trackers: StreamTracker) -> str:
        return json.dumps([[asdict(part) for part in to_checkpoint(each)] for each in trackers.partitions])

    def load(self, saved: str) -> StreamTracker:
        return StreamTracker(
            tuple(
                restore(EndOfStreamCheckpoint(**end), WatermarkCheckpoint(**watermark), partition)
                for partition, (end, watermark) in enumerate(json.loads(saved))
            )
        )


@dataclass
class Plain(ConsumerDesign):
    """Trackers as plain dicts. The defaults are right; each field turns one mistake on."""

    configured: bool = False
    """The number of tasks is the consumer's configuration, as in Samza, and not the messages'."""
    generations: bool = True
    exact: bool = False
    """The names of all generations are counted, and their number must be equal to the task count."""
    waits: bool = True
    """Nothing is announced before all tasks have sent a message."""
    clamps: bool = True
    reopens: bool = False
    """A new generation may end once more."""

    def empty(self, partitions: int) -> list[dict[str, Any]]:
        return [{"generation": -1, "task_count": 0, "tasks": {}, "out": -1} for _ in range(partitions)]

    def receive(self, trackers: Any, messages: Messages, now: int, configured: int) -> Step[Any]:
        before = min(self.announced_watermarks(trackers))
        stale = sum(not self._apply(trackers[partition], message, configured) for partition, message in messages)
        for partition in {partition for partition, _ in messages}:
            self._announce(trackers[partition])
        after = min(self.announced_watermarks(trackers))
        watermark = after if after not in (before, END) else None
        return Step(trackers, watermark, end=after == END != before, stale=stale)

    def announced_watermarks(self, trackers: Any) -> list[int]:
        return [state["out"] for state in trackers]

    def _apply(self, state: dict[str, Any], message: ControlMessage, configured: int) -> bool:
        """False for a stale message."""
        if self.generations and message.generation != state["generation"]:
            if message.generation < state["generation"]:
                return False
            state.update(generation=message.generation, tasks={})
            if self.reopens and state["out"] == END:
                state["out"] = -1
        at = message.timestamp if isinstance(message, Watermark) else END
        state["tasks"][message.task] = max(at, state["tasks"].get(message.task, -1))
        state["task_count"] = configured if self.configured else message.task_count
        return True

    def _announce(self, state: dict[str, Any]) -> None:
        names = [f"Partition {task}" for task in range(state["task_count"])]
        received = [state["tasks"][name] for name in names if name in state["tasks"]]
        whole = len(state["tasks"]) == state["task_count"] if self.exact else len(received) == state["task_count"]
        if state["out"] == END or not received or (self.waits and not whole):
            return
        state["out"] = max(min(received), state["out"]) if self.clamps else min(received)
