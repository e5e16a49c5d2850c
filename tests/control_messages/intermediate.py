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
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from control_messages import combined, partition_tracker
from control_messages.announcements import Announcement, TrackerUpdate
from control_messages.checkpoints import EndOfStreamCheckpoint, WatermarkCheckpoint, restore, to_checkpoint
from control_messages.combined import CombinedTracker
from control_messages.messages import EARLIEST, ControlMessage, EndOfStream, Watermark
from control_messages.partition_tracker import PartitionTracker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STREAM, SOURCES = "by-destination", 2
END = 10**9
"""Later than all records: the watermark of a source or task that has ended."""
FAR = 10**8
"""From here on times are too far ahead of the clock: they raise no watermark."""


@dataclass(frozen=True)
class Record:
    """One record of a source. It always goes to the same partition."""

    source: int
    number: int
    time: int

    def partition(self, partitions: int) -> int:
        return (self.source + self.number) % partitions


@dataclass(frozen=True)
class Row:
    """A record as an upstream job has written it."""

    record: Record
    generation: int


@dataclass
class OneByOne:
    """What a consumer knows of one partition that reads message by message: the reference for batches.

    highest: the highest watermark that followed from any message so far.
    """

    generation: int = -1
    task_count: int = 0
    watermarks: dict[str | None, int] = field(default_factory=dict)
    ended: set[str | None] = field(default_factory=set)
    last: dict[str | None, tuple[int, bool]] = field(default_factory=dict)
    highest: int = -1

    def read(self, message: ControlMessage) -> None:
        if message.generation > self.generation:
            self.generation, self.watermarks, self.ended, self.last = message.generation, {}, set(), {}
        if message.generation < self.generation or message.sequence is None:
            return
        self.task_count, task = message.task_count, message.task
        if isinstance(message, Watermark):
            self.watermarks[task] = max(message.timestamp, self.watermarks.get(task, message.timestamp))
            self.last[task] = max((message.sequence, message.idle), self.last.get(task, (-1, False)))
        else:
            self.ended.add(task)
        if len(self.watermarks.keys() | self.ended) < self.task_count or len(self.ended) == self.task_count:
            return
        awake = [at for task, at in self.watermarks.items() if task not in self.ended and not self.last[task][1]]
        self.highest = max(self.highest, min(awake) if awake else max(self.watermarks.values()))


@dataclass
class Upstream:
    """One incarnation of the upstream job. Task t reads the sources s with s % tasks == t."""

    generation: int
    tasks: int
    positions: list[int]
    sent: set[ControlMessage] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)

    def watermark(self, task: int, pipeline: Pipeline) -> int | None:
        """Of a task: the last time that it has read, of its slowest source. `END` if all have been read to the end."""
        times_read = []
        for source in range(task, SOURCES, self.tasks):
            position, times = self.positions[source], pipeline.sources[source]
            read = [time for time in times[:position] if time < FAR or not pipeline.limits_times]
            if source in pipeline.closed and position == len(times):
                times_read.append(END)
            elif not read:
                return None
            else:
                times_read.append(max(read))
        return min(times_read, default=END)

    def message(self, task: int, pipeline: Pipeline) -> ControlMessage | None:
        at = self.watermark(task, pipeline)
        if at is None:
            return None
        if at == END:
            return EndOfStream(f"Partition {task}", self.tasks, STREAM, self.generation)
        return Watermark(f"Partition {task}", self.tasks, at, self.generation)

    def has_read_all(self, task: int, pipeline: Pipeline) -> bool:
        """Whether a task has read all records of its sources."""
        return all(self.positions[each] == len(pipeline.sources[each]) for each in range(task, SOURCES, self.tasks))


@dataclass
class Pipeline:
    """The stream, its producers and its consumer. A safety property that is violated raises AssertionError at once."""

    design: ConsumerDesign
    partitions: int
    generations_rise: bool = True
    limits_times: bool = True
    counts_partitions: bool = True
    """The messages say how many partitions there are; Samza's do not."""
    seen: Counter[str] = field(default_factory=Counter)
    sources: list[list[int]] = field(default_factory=lambda: [[] for _ in range(SOURCES)])
    closed: set[int] = field(default_factory=set)
    committed: list[int] = field(default_factory=lambda: [0] * SOURCES)
    zombies: list[Upstream] = field(default_factory=list)
    delivered: set[Record] = field(default_factory=set)
    may_be_late: set[int] = field(default_factory=set)
    """Sources of tasks that have been idle: their next records do not hold the watermark."""
    run_begins: int = 0
    """The latest record of the runs before: no record of the present run is older."""
    sends: int = 0
    sends_again: bool = True
    clock: int = 0
    sound: bool = True
    """False after a batch that violated a property."""

    def __post_init__(self) -> None:
        self.upstream = Upstream(0, 1, [0] * SOURCES)
        self.log: list[list[Row | ControlMessage]] = [[] for _ in range(self.partitions)]
        self.configured = 1
        self.offsets = [0] * self.partitions
        self.trackers = self.design.empty(self.partitions)
        self.announced, self.ended = -1, False
        self.highest = [-1] * self.partitions
        self.ends: list[int | None] = [None] * self.partitions
        self.one_by_one = [OneByOne() for _ in range(self.partitions)]
        self.saved_trackers = self.unsaved_trackers = self.design.save(self.trackers)
        self.saved = (list(self.offsets), self.announced, self.ended)

    # The upstream job

    def add(self, source: int, later: int, *, far: bool = False) -> None:
        """A new record of a source that is not closed; `far`: with a time of the year 9999."""
        if source not in self.closed:
            times = self.sources[source]
            self.seen["far times"] += far
            before = max((time for time in times if time < FAR), default=0)
            times.append(max(before, self.run_begins) + later + far * FAR)

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
            self.log[record.partition(self.partitions)].append(Row(record, job.generation))
            job.positions[source] += 1

    def send(self, job: Upstream, task: int) -> None:
        """A task sends every partition its watermark or end, unless it has sent the same before."""
        message = job.message(task, self) if task < job.tasks else None
        if message is None or (message in job.sent and task not in job.idle):
            return
        job.sent.add(message)
        job.idle.discard(task)
        self._append(message)

    def declare_idle(self, job: Upstream, task: int, *, states_watermark: bool) -> None:
        """A task that has read all of its sources declares itself idle, and perhaps states its watermark again."""
        if task < job.tasks and job.has_read_all(task, self):
            at = job.watermark(task, self) if states_watermark else None
            self.seen["idle"] += 1
            self.may_be_late |= set(range(task, SOURCES, job.tasks))
            job.idle.add(task)
            up_to = EARLIEST if at in (None, END) else at
            self._append(Watermark(f"Partition {task}", job.tasks, up_to, job.generation, idle=True))

    def _append(self, message: ControlMessage) -> None:
        """Write a message to every partition. Its sequence is the time at which it is sent."""
        self.sends += 1
        count = self.partitions if self.counts_partitions else None
        self.seen["without partitionCount"] += count is None
        sent = replace(message, stream=STREAM, partition_count=count, sequence=self.sends)
        for log in self.log:
            log.append(sent)

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
                if isinstance(item, Row):
                    self._deliver(partition, item)
                else:
                    messages.append((partition, item))
                    self.one_by_one[partition].read(item)
        self._count(messages)
        random.Random(shuffle).shuffle(messages)
        self._announce(messages)
        self.sound = True

    def _count(self, messages: list[tuple[int, ControlMessage]]) -> None:
        """Count the batches in which a task is idle and awake."""
        marks = [(partition, m) for partition, m in messages if isinstance(m, Watermark)]
        idle, awake = ({(p, m.generation, m.task) for p, m in marks if m.idle is flag} for flag in (True, False))
        self.seen["idle and awake in a batch"] += bool(idle & awake)

    def _deliver(self, partition: int, row: Row) -> None:
        record = row.record
        if record not in self.delivered:
            self.delivered.add(record)
            end, before = self.ends[partition], self.highest[partition]
            assert end is None or row.generation > end, f"{row} came after the end"
            assert record.source in self.may_be_late or record.time >= before, f"{row} came after watermark {before}"

    def _announce(self, messages: list[tuple[int, ControlMessage]]) -> None:
        stale = self.design.stale(self.trackers)
        step = self.design.receive(self.trackers, messages, self.clock, self.configured)
        self.trackers = step.tracker
        self.seen["stale"] += self.design.stale(self.trackers) - stale
        self.ends = self.design.ends(self.trackers)
        for partition, at in enumerate(self.design.announced_watermarks(self.trackers)):
            self.highest[partition] = max(self.highest[partition], at)
            allowed = self.one_by_one[partition].highest
            assert at <= allowed, f"watermark {at} came after {allowed}, the highest that any message allows"
        for announcement in step.announced:
            self._heed(announcement)

    def _heed(self, announcement: Announcement) -> None:
        """Check an announcement for the whole stream against those before it."""
        self.seen[announcement.type] += 1
        match announcement.type:
            case "reopened":
                assert self.ended, "a stream was reopened that had not ended"
                self.ended = False
            case "endOfStream":
                assert not self.ended, "the end was announced twice"
                self.ended = True
            case "watermark":
                assert not self.ended, f"after the end {announcement}"
                at = announcement.watermark
                assert at is not None and at > self.announced, f"the watermark fell from {self.announced} to {at}"
                self.announced = at

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
        self.ends = self.design.ends(self.trackers)
        self.unsaved_trackers = self.saved_trackers
        self.configured = self.upstream.tasks

    def some_ended(self) -> bool:
        """Whether a task of the present job has sent its end."""
        return any(isinstance(message, EndOfStream) for message in self.upstream.sent)

    def vacuum(self) -> None:
        """All that was written is deleted, and a new consumer begins. As advised, the tasks send again what is gone."""
        self.seen["vacuumed ends"] += self.some_ended()
        self.offsets = [len(log) for log in self.log]
        self.trackers = self.design.empty(self.partitions)
        self.announced, self.ended = -1, False
        self.highest = [-1] * self.partitions
        self.ends = [None] * self.partitions
        self.one_by_one = [OneByOne() for _ in range(self.partitions)]
        self.saved_trackers = self.unsaved_trackers = self.design.save(self.trackers)
        self.saved = (list(self.offsets), self.announced, self.ended)
        if self.sends_again:
            self.upstream.sent.clear()

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
        newest = [self.upstream.generation] * self.partitions
        assert self.ended and newest == self.design.ends(self.trackers), "the end was never announced"

    def run_again(self, tasks: int, later: Sequence[int]) -> None:
        """The job ends, and has run: its next run is a new generation, with later records of some sources."""
        self.finish()
        self.commit_upstream()
        self.closed = set()
        self.rescale(tasks)
        self.zombies = []  # a job that has ended does not write
        self.run_begins = max((time for times in self.sources for time in times if time < FAR), default=0)
        for source, more in enumerate(later):
            self.add(source, more)

    def _run_out(self) -> None:
        for task in range(self.upstream.tasks):
            self.send(self.upstream, task)
        self.consume([len(log) for log in self.log], 0)


def _write(sent: tuple[int, ControlMessage]) -> tuple[int, int, bool]:
    """What is the same in the messages of a write, in the order of writes."""
    _, message = sent
    sequence = -1 if message.sequence is None else message.sequence
    return sequence, message.generation, isinstance(message, EndOfStream)


Messages: TypeAlias = "Sequence[tuple[int, ControlMessage]]"
Saves = Literal["with the offsets", "after the offsets", "never"]


@dataclass
class ConsumerDesign:
    """How a consumer keeps its trackers."""

    saves: Saves = "with the offsets"

    def empty(self, partitions: int) -> Any:
        raise NotImplementedError

    def receive(self, trackers: Any, messages: Messages, now: int, configured: int) -> TrackerUpdate[Any]:
        """The trackers after a batch, and what is announced."""
        raise NotImplementedError

    def announced_watermarks(self, trackers: Any) -> list[int]:
        """The last watermark that each partition has announced; -1 for none."""
        raise NotImplementedError

    def ends(self, trackers: Any) -> list[int | None]:
        """The generation whose end each partition has announced last, if it has not been reopened."""
        raise NotImplementedError

    def stale(self, trackers: Any) -> int:
        """How many messages have been dropped for their generation, if the design counts them."""
        return 0

    def save(self, trackers: Any) -> str:
        return json.dumps(trackers)

    def load(self, saved: str) -> Any:
        return json.loads(saved)


@dataclass
class Ours(ConsumerDesign):
    """The code under test: a tracker for each partition, and one of all of them."""

    def empty(self, partitions: int) -> tuple[list[PartitionTracker], CombinedTracker]:
        names = tuple(map(str, range(partitions)))
        return [PartitionTracker(STREAM, partition) for partition in range(partitions)], CombinedTracker(names)

    def receive(self, trackers: Any, messages: Messages, now: int, configured: int) -> TrackerUpdate[Any]:
        before, whole = trackers
        after, announced = [], []
        for partition, tracker in enumerate(before):
            own = [message for of, message in messages if of == partition]
            step = partition_tracker.receive(tracker, own, now)
            after.append(step.tracker)
            announced += [(str(partition), announcement) for announcement in step.announced]
        both = combined.receive(whole, announced)
        return TrackerUpdate((after, both.tracker), both.announced)

    def announced_watermarks(self, trackers: Any) -> list[int]:
        return [-1 if each.watermark is None else each.watermark for each in trackers[0]]

    def ends(self, trackers: Any) -> list[int | None]:
        return [each.generation if each.at_end else None for each in trackers[0]]

    def stale(self, trackers: Any) -> int:
        return sum(each.stale for each in trackers[0])

    def save(self, trackers: Any) -> str:
        partitions, whole = trackers
        parts = [[asdict(part) for part in to_checkpoint(each)] for each in partitions]
        return json.dumps([parts, {**vars(whole), "ended": sorted(whole.ended), "idle": sorted(whole.idle)}])

    def load(self, saved: str) -> Any:
        parts, whole = json.loads(saved)
        partitions = [
            restore(EndOfStreamCheckpoint(**end), WatermarkCheckpoint(**watermark), partition)
            for partition, (end, watermark) in enumerate(parts)
        ]
        named = {"inputs": tuple(whole["inputs"]), **{name: frozenset(whole[name]) for name in ("ended", "idle")}}
        return partitions, CombinedTracker(**{**whole, **named})


@dataclass
class OrderedByTime(Ours):
    """A mistake: the messages of a batch are taken in the order of their timestamps."""

    received: int = 0

    def receive(self, trackers: Any, messages: Messages, now: int, configured: int) -> TrackerUpdate[Any]:
        in_order = sorted(messages, key=lambda each: self._time(each[1]))
        renumbered = [
            (partition, replace(message, sequence=self.received + number))
            for number, (partition, message) in enumerate(in_order)
        ]
        self.received += len(messages)
        return super().receive(trackers, renumbered, now, configured)

    def _time(self, message: ControlMessage) -> tuple[int, bool]:
        return (message.timestamp, message.idle) if isinstance(message, Watermark) else (END, True)


@dataclass
class Plain(ConsumerDesign):
    """Trackers as plain dicts, without idle tasks. The defaults are right; each field turns one mistake on."""

    configured: bool = False
    """The number of tasks is the consumer's configuration, as in Samza, and not the messages'."""
    generations: bool = True
    exact: bool = False
    """The names of all generations are counted, and their number must be equal to the task count."""
    waits: bool = True
    """Nothing is announced before all tasks have sent a message."""
    clamps: bool = True
    reopens: Literal["by a new generation", "by any message", "never"] = "by a new generation"

    def empty(self, partitions: int) -> dict[str, Any]:
        page = {"generation": -1, "task_count": 0, "out": -1, "end": None, "reopened": False}
        return {"pages": [{**page, "tasks": {}} for _ in range(partitions)], "out": -1, "ended": False}

    def receive(self, trackers: Any, messages: Messages, now: int, configured: int) -> TrackerUpdate[Any]:
        pages = trackers["pages"]
        for _, write in groupby(sorted(messages, key=_write), key=_write):
            sent = list(write)
            for partition, message in sent:
                self._apply(pages[partition], message, configured)
            for partition in {partition for partition, _ in sent}:
                self._announce(pages[partition])
        return TrackerUpdate(trackers, tuple(self._whole(trackers)))

    def _whole(self, trackers: Any) -> Iterator[Announcement]:
        pages = trackers["pages"]
        open_pages = [page for page in pages if page["end"] is None]
        reopened = any(page["reopened"] for page in pages)  # one may have ended again in the same batch
        for page in pages:
            page["reopened"] = False
        if trackers["ended"] and (open_pages or reopened):
            trackers["ended"] = False
            yield Announcement("reopened", 0)
        lowest = min((page["out"] for page in open_pages), default=-1)
        if not open_pages and not trackers["ended"]:
            trackers["ended"] = True
            yield Announcement("endOfStream", 0)
        elif lowest > trackers["out"] or (0 <= lowest < trackers["out"] and not self.clamps):
            trackers["out"] = lowest
            yield Announcement("watermark", 0, lowest)

    def announced_watermarks(self, trackers: Any) -> list[int]:
        return [page["out"] for page in trackers["pages"]]

    def ends(self, trackers: Any) -> list[int | None]:
        return [page["end"] for page in trackers["pages"]]

    def _apply(self, page: dict[str, Any], message: ControlMessage, configured: int) -> None:
        if self.generations and message.generation != page["generation"]:
            if message.generation < page["generation"]:
                return
            page.update(generation=message.generation, tasks={})
            if self.reopens == "by a new generation":
                page.update(reopened=page["reopened"] or page["end"] is not None, end=None)
        if self.reopens == "by any message" and page["end"] is not None:
            page.update(end=None, tasks={})
        at = message.timestamp if isinstance(message, Watermark) else END
        page["tasks"][message.task] = max(at, page["tasks"].get(message.task, -1))
        page["task_count"] = configured if self.configured else message.task_count

    def _announce(self, page: dict[str, Any]) -> None:
        names = [f"Partition {task}" for task in range(page["task_count"])]
        received = [page["tasks"][name] for name in names if name in page["tasks"]]
        whole = len(page["tasks"]) == page["task_count"] if self.exact else len(received) == page["task_count"]
        if page["end"] is not None or not received or (self.waits and not whole):
            return
        lowest = min(received)
        if lowest == END:
            page["end"] = page["generation"]
        else:
            page["out"] = max(lowest, page["out"]) if self.clamps else lowest
