"""Bounded jobs on one stream in miniature: every step of a run may fall between the steps of another.

    job ─ begin ─► rows and watermarks, batch by batch ─ finish ─► end ─► stream ─► trackers of a consumer

A run dies at any step, and something else may end a task. A transport makes a batch visible as a whole, or partition by
partition. `Rules` are the code under test; its fields turn mistakes on.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from control_messages import runs
from control_messages.errors import ContradictionError, ControlMessageError
from control_messages.messages import EndOfStream, Watermark
from control_messages.partition_tracker import PartitionTracker, receive
from control_messages.producer import ProducerSpec
from control_messages.runs import FinishRun, Job, NewestGeneration, SentMessages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

STREAM, PARTITIONS = "s", 2


@dataclass(frozen=True)
class Row:
    """A row of a run."""

    partition: int
    job: int
    number: int
    generation: int


@dataclass(frozen=True)
class Written:
    """A control message, and the query that wrote it; None for a batch write."""

    partition: int
    message: Watermark | EndOfStream
    query: str | None


@dataclass(frozen=True)
class Rules:
    """The rules of `control_messages.runs`, or with a mistake."""

    sees_others: bool = True
    takes_any_end: bool = False
    """An end that is there is taken for the end of the run, whoever wrote it."""
    remembers: bool = True
    older_count: bool = True
    """Messages of older generations count when they come after the end."""
    names_all: bool = False
    completes_ends: bool = False
    """A part of an end is taken for that of a run that has died, and completed before the rows of the next run."""

    def newest(self, sent: Iterable[SentMessages]) -> NewestGeneration:
        found = list(sent)
        newest = max(each.generation for each in found)
        return runs.newest_of(each for each in found if self.older_count or each.generation == newest)

    def begin(self, job: Job, newest: NewestGeneration | None) -> int:
        return runs.begin(job, self._seen(newest))

    def finish(self, job: Job, generation: int, newest: NewestGeneration | None) -> FinishRun:
        if self.takes_any_end and newest is not None and newest.ended:
            return FinishRun(None)
        done = runs.finish(job, generation, self._seen(newest))
        return replace(done, nameless=False) if self.names_all else done

    def _seen(self, newest: NewestGeneration | None) -> NewestGeneration | None:
        if newest is None:
            return None
        senders = newest.senders if self.sees_others else frozenset((task, None) for task, _ in newest.senders)
        return replace(newest, senders=senders, written_after=newest.written_after if self.remembers else frozenset())


def sent(
    partition: str, task: str, *, last: int = -1, end: int = -1, query: str | None = None, partitions: int = 1
) -> SentMessages:
    """What a query has sent for one of two tasks."""
    return SentMessages(partition, 3, task, query, 1 if task == "" else 2, partitions, last, end)


@dataclass
class Stream:
    """The stream, and what has happened. deaths: of runs, with the errors that they had to raise.

    atomic: a batch is visible as a whole, as `azureblob` shows it. Else a run may die between two partitions.
    """

    items: list[Row | Written] = field(default_factory=list)
    deaths: int = 0
    atomic: bool = True
    seen: Counter[str] = field(default_factory=Counter)

    def newest(self, rules: Rules) -> NewestGeneration | None:
        """The newest generation, as `run_bounded` reads it."""
        sent = [self._sent(each, position) for position, each in enumerate(self.items) if isinstance(each, Written)]
        return rules.newest(sent) if sent else None

    def _sent(self, written: Written, position: int) -> SentMessages:
        message, is_end = written.message, isinstance(written.message, EndOfStream)
        last, end = (-1, position) if is_end else (position, -1)
        task, count = message.task or "", message.task_count
        of = (str(written.partition), message.generation, task, written.query, count, PARTITIONS)
        return SentMessages(*of, last, end)

    def write(self, messages: Iterable[Watermark | EndOfStream], query: str | None) -> Iterator[None]:
        """Messages to every partition; a step after each, unless a batch is atomic."""
        sent = list(messages)
        for partition in range(PARTITIONS):
            self.items += [Written(partition, message, query) for message in sent]
            if not self.atomic:
                yield

    def consumed(self, partition: int, *, keeps: bool) -> tuple[PartitionTracker, int]:
        """The tracker of a consumer that reads item by item, and how many rows no end covers.

        keeps: it leaves contradictions out (`on_bad="keep"`), as it has to after a job has failed with one.
        """
        tracker, open_rows = PartitionTracker(STREAM, partition), 0
        for item in self.items:
            if item.partition != partition:
                continue
            if isinstance(item, Row):
                open_rows += 1
                continue
            step = receive(tracker, [item.message], 0, on_contradiction=(lambda *_: None) if keeps else None)
            tracker = step.tracker
            if step.end:
                open_rows = 0
        return tracker, open_rows


@dataclass
class BoundedJob:
    """A job with a checkpoint. read: how many of its rows it has written."""

    stream: Stream
    number: int
    producer: ProducerSpec
    rules: Rules
    rows: int = 0
    read: int = 0
    query: str | None = None

    def run(self) -> Iterator[None]:
        """The steps of a run. Returns when it has succeeded; raises ControlMessageError."""
        newest = self.stream.newest(self.rules)
        generation = self.rules.begin(Job(self.producer, self.query), newest)
        yield
        part_of_an_end = newest is not None and bool(newest.ended) and not newest.over
        self.stream.seen["began after a part of an end"] += part_of_an_end
        if newest is not None and part_of_an_end and self.rules.completes_ends:
            yield from self._end(newest.generation, nameless=True)
            generation = newest.generation + 1
        run = replace(self.producer, generation=generation)
        self.query = self.query or f"query {self.number}"
        while self.read < self.rows:
            self.stream.items.append(Row(self.read % PARTITIONS, self.number, self.read, generation))
            sent = [run.watermark(task, self.read) for task in run.names[: 1 + self.read]]
            self.read += 1
            yield from self.stream.write(sent, self.query)
            yield
        done = self.rules.finish(Job(self.producer, self.query), generation, self.stream.newest(self.rules))
        yield
        if done.ends is not None:
            yield from self._end(done.ends, nameless=done.nameless)
        if done.error is not None:
            raise done.error

    def _end(self, generation: int, *, nameless: bool) -> Iterator[None]:
        """The end that a run writes, for all tasks. A consumer may stop at it."""
        assert self.read == self.rows, f"a run announces the end before {self.rows - self.read} of its rows"
        ending = replace(self.producer, generation=generation)
        ends = [EndOfStream(None, 1, STREAM, generation)] if nameless else ending.end_of_stream()
        yield from self.stream.write(ends, None)


def history(seed: int, rules: Rules, seen: Counter[str]) -> None:
    """Two jobs run at once, some die, all is repeated as the errors say. AssertionError for a broken promise."""
    rng = random.Random(seed)
    stream = Stream(seen=seen, atomic=rng.random() < 0.7)
    shape = rng.choice(["same tasks", "other names"])
    jobs = [BoundedJob(stream, number, _producer(shape, number), rules) for number in range(2)]
    failed = False
    for _ in range(rng.randint(1, 3)):
        for job in jobs:
            job.rows += rng.randint(0, 3)
        failed |= _night(rng, stream, jobs)
    seen[shape] += 1
    seen["a night failed"] += failed
    if not failed:
        _check(stream, "all runs succeeded", keeps=shape == "other names" and stream.deaths > 0)
        return
    for job in jobs:
        _until_it_succeeds(job, stream)
    for job in jobs:
        job.rows += 1
        _until_it_succeeds(job, stream)
    _check(stream, "the advice was followed", keeps=True)


def _producer(shape: str, number: int) -> ProducerSpec:
    return ProducerSpec(STREAM, PARTITIONS, ["a", "b"] if shape == "same tasks" else [f"task {number}"])


def _night(rng: random.Random, stream: Stream, jobs: list[BoundedJob]) -> bool:
    """Every job runs once, some again for new rows, and again after it has died. Returns whether one has failed."""
    failed, running = False, {job.number: job.run() for job in jobs}
    overlaps, pace = rng.random() < 0.7, rng.choice([(1, 1), (1, 6), (6, 1)])
    while running:
        waiting = list(running)
        number = rng.choices(waiting, [pace[each] for each in waiting])[0] if overlaps else min(waiting)
        job, chance = jobs[number], rng.random()
        if chance < 0.05:
            stream.seen["died"] += 1
            stream.deaths += 1
            running[number] = job.run()
        elif chance < 0.07 and stream.items:
            stream.seen["stray end"] += 1
            newest = stream.newest(job.rules)
            generation = 0 if newest is None else newest.generation
            ended = replace(job.producer, generation=generation).end_of_stream([rng.choice(job.producer.names)])
            stream.items += [Written(partition, end, None) for partition in range(PARTITIONS) for end in ended]
            failed = True  # for what something else ends, no job is to blame
        try:
            next(running[number])
        except StopIteration:
            stream.seen["succeeded"] += 1
            del running[number]
            if running and rng.random() < 0.4:
                stream.seen["ran again beside the other"] += 1
                job.rows += rng.randint(0, 2)
                running[number] = job.run()
        except ControlMessageError:
            stream.seen["refused"] += 1
            failed = True
            del running[number]
    return failed


def _until_it_succeeds(job: BoundedJob, stream: Stream) -> None:
    """Run the job alone, then as its error says: in a generation above."""
    for _ in range(4):
        error = _error_of(job)
        if error is None:
            return
        newest = stream.newest(job.rules)
        assert newest is not None
        if f"generation={newest.generation + 1})" in str(error):
            stream.seen["took over"] += 1
            job.producer = replace(job.producer, generation=newest.generation + 1)
    raise AssertionError("the advice does not work")


def _error_of(job: BoundedJob) -> ControlMessageError | None:
    """What a run of the job alone fails with."""
    try:
        for _ in job.run():
            pass
    except ControlMessageError as error:
        return error
    return None


def _check(stream: Stream, when: str, *, keeps: bool) -> None:
    rows = sum(isinstance(item, Row) for item in stream.items)
    ends = sum(isinstance(item, Written) for item in stream.items)
    for partition in range(PARTITIONS):
        try:
            tracker, open_rows = stream.consumed(partition, keeps=keeps)
        except ContradictionError as error:
            raise AssertionError(f"{when}: a contradiction ({error})") from error
        assert open_rows == 0, f"{when}: {open_rows} of {rows} rows come after the last end"
        assert tracker.at_end or not ends, f"{when}: the stream does not end"
    stream.seen["checked"] += 1
