"""The runs of the bounded jobs of a stream: which generation a run writes, and whether it may write the end. Pure.

    begin ─► rows and watermarks of the run ─► finish ─► the end of all tasks

Both look at the control messages of the newest generation, and at what was written after its end. A stream has one job
at a time. Two jobs see each other only in what they have written, so a run that finds messages of another query, or an
end, that it has not written raises. Its rows must not stay behind an end that came too early: then it writes another
end, in the next generation, and raises.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from control_messages.errors import ControlMessageError, listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from control_messages.producer import ProducerSpec

ALL = ""
"""The task of messages without a task name, which count for all tasks."""


@dataclass(frozen=True)
class SentMessages:
    """The messages of a generation that a query has written for a task into a partition.

    last, end: the positions in the partition of the last message that is no end, and of the last end; -1 for none.
    Positions rise in the order in which messages were written; if that is not known, all are 0.
    """

    partition: str | None
    generation: int
    task: str
    query: str | None
    task_count: int
    partitions: int
    last: int
    end: int


@dataclass(frozen=True)
class NewestGeneration:
    """The highest generation of a stream, by its control messages.

    partitions: how many the stream has; 0 if the messages do not say.
    task_count: how many tasks the generation has.
    senders: each task that has sent a message, with the query that wrote it, None if that is not known.
    ended, ended_everywhere: the tasks that have ended in some partition, in all partitions. They differ if a job died
    while it wrote an end, and the transport makes a batch visible bit by bit, as Kafka does.
    written_after: the queries that have written messages of any generation after all ends of this one.
    """

    generation: int
    partitions: int
    task_count: int
    senders: frozenset[tuple[str, str | None]] = frozenset()
    ended: frozenset[str] = frozenset()
    ended_everywhere: frozenset[str] = frozenset()
    written_after: frozenset[str | None] = frozenset()

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks that have sent a message."""
        return frozenset(task for task, _ in self.senders) - {ALL}

    @property
    def over(self) -> bool:
        """Whether all tasks have ended in all partitions."""
        return ALL in self.ended_everywhere or 0 < self.task_count <= len(self.ended_everywhere - {ALL})


def newest_of(sent: Iterable[SentMessages]) -> NewestGeneration:
    """The newest generation by its messages; at least one. Those of others count for `written_after` only."""
    messages = list(sent)
    generation = max(each.generation for each in messages)
    found = [each for each in messages if each.generation == generation]
    ends: dict[str, set[str | None]] = defaultdict(set)
    last_end: dict[str | None, int] = defaultdict(lambda: -1)
    for each in found:
        if each.end >= 0:
            ends[each.task].add(each.partition)
            last_end[each.partition] = max(each.end, last_end[each.partition])
    stated = max(each.partitions for each in found)
    expected = max(stated, len({each.partition for each in found}))
    return NewestGeneration(
        generation,
        stated,
        max(each.task_count for each in found),
        frozenset((each.task, each.query) for each in found),
        frozenset(ends),
        frozenset(task for task, places in ends.items() if len(places) >= expected),
        frozenset(each.query for each in messages if each.last > last_end[each.partition]),
    )


@dataclass(frozen=True)
class Job:
    """A bounded job. query: the id of its streaming query; None if that has never run."""

    producer: ProducerSpec
    query: str | None = None

    def same_tasks(self, newest: NewestGeneration) -> bool:
        """Whether the generation has the tasks of the job."""
        return newest.task_count in (0, len(self.producer.names)) and newest.tasks <= set(self.producer.names)

    def others(self, newest: NewestGeneration) -> frozenset[str]:
        """The tasks whose messages another query has written."""
        return frozenset(task for task, query in newest.senders if query not in (None, self.query))


@dataclass(frozen=True)
class FinishRun:
    """ends: the generation in which the end of the own tasks is to be written; None if there is nothing to write.

    nameless: it is to be one end for all tasks, without their names. For a run without rows, which others cannot see
    before this end: another job may end the same generation with tasks of other names. error: to be raised after that.
    """

    ends: int | None
    error: ControlMessageError | None = None
    nameless: bool = False


def begin(job: Job, newest: NewestGeneration | None) -> int:
    """The generation of the rows of a run; `newest` is None for a stream without control messages.

    Ends in a generation that is not over are of a job that died while it wrote its end, or of single tasks. Either way
    rows may follow, so these get a generation of their own, and the run itself writes no end before them.

    `ValueError` if the stream has another number of partitions. `ControlMessageError` if another query has written the
    newest generation, which has not ended.
    """
    producer = job.producer
    if newest is None:
        return producer.generation
    if newest.partitions not in (0, producer.partitions):
        raise ValueError(
            f"stream {producer.stream} has {newest.partitions} partitions, not {producer.partitions}. A stream keeps "
            "their number, since its consumers keep their state by partition: write into a new stream."
        )
    if newest.over:
        return max(producer.generation, newest.generation + 1)
    if producer.generation > newest.generation:
        return producer.generation
    if job.others(newest):
        raise _written_by_another(job, newest)
    return newest.generation + bool(newest.ended or not job.same_tasks(newest))


def finish(job: Job, generation: int, newest: NewestGeneration | None) -> FinishRun:
    """What is to be done after a run has written its rows in `generation`.

    What is wrong is raised in the end, so that each row is before some end: that of another job which still writes, or
    one of this run, above the one that came too early.
    """
    if newest is None:
        return FinishRun(generation, nameless=True)
    if newest.generation < generation:  # the run had no rows
        if newest.over and job.query in newest.written_after:  # but one that died had
            return FinishRun(generation, _ended_by_another(job, newest, generation))
        return FinishRun(None) if newest.over else FinishRun(generation, nameless=True)
    if newest.over:  # and this run has written no end yet
        return FinishRun(newest.generation + 1, _ended_by_another(job, newest, newest.generation + 1))
    if newest.generation > generation:
        return FinishRun(None, _replaced(job, generation, newest))
    if job.others(newest):
        return FinishRun(None, _written_by_another(job, newest))
    if newest.ended:
        return FinishRun(generation, _ended_by_another(job, newest, generation))
    return FinishRun(generation)


def _written_by_another(job: Job, newest: NewestGeneration) -> ControlMessageError:
    return _error(
        job,
        f"another query has written {listed(sorted(job.others(newest)), 5)} in generation {newest.generation}, as "
        "this job would",
        "If the other job runs, let it end, then run this one again. If it is gone for good, or fails with this error "
        f"too, run this one with `ProducerSpec(generation={newest.generation + 1})`, which replaces it.",
    )


def _replaced(job: Job, generation: int, newest: NewestGeneration) -> ControlMessageError:
    return _error(
        job,
        f"generation {newest.generation} began while the job ran in generation {generation}, so its watermarks are "
        "dropped",
        f"Its rows are written, and the end of generation {newest.generation} will come after them.",
    )


def _ended_by_another(job: Job, newest: NewestGeneration, generation: int) -> ControlMessageError:
    ended = listed(sorted(newest.ended - {ALL}), 5) if newest.ended - {ALL} else "all tasks"
    return _error(
        job,
        f"while the job ran, something else has written the end of {ended} in generation {newest.generation}; "
        "consumers may have taken rows for late, or the stream for ended",
        f"All rows of the job are written, and then an end of its own, in generation {generation}.",
    )


def _error(job: Job, cause: str, next_step: str) -> ControlMessageError:
    return ControlMessageError(
        f"bounded job of stream {job.producer.stream}: {cause}. {next_step} Only one job at a time writes a stream "
        "and its end: run one after the other, or give each a stream of its own, and reconcile both."
    )
