"""Why a watermark does not rise: which tasks hold it, their watermarks, and the age of their last messages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from control_messages.errors import listed
from control_messages.messages import EARLIEST
from control_messages.partition_tracker import ALL, computed_watermark, not_holding, silent, timed_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from control_messages.partition_tracker import IdleTimeout, Partition, PartitionTracker, TimedOutTasks


@dataclass(frozen=True)
class TaskState:
    """What is known of a task. task: its name; None for messages without one, which count for all tasks.

    watermark: its highest; None if it has sent none. last_seen: when its last message was processed (ms).
    """

    task: str | None
    watermark: int | None
    last_seen: int

    @property
    def name(self) -> str:
        """The task as a text for people."""
        return "the sender for all tasks" if self.task is None else repr(self.task)


@dataclass(frozen=True)
class Hold:
    """What holds the watermark of one partition at the moment `now`; `str(hold)` is a text for people.

    watermark: the last one announced. first_seen: when the first message of the generation was processed.
    seen: the tasks that have sent a message. unseen: how many have not yet, so their names are not known.
    lowest: of the tasks that count, those with the lowest watermark. idle: those that have declared themselves idle.
    timed_out: the tasks that do not hold the watermark because they have timed out. unseen_timed_out: the unseen tasks
    have timed out, too. silent: those that would have timed out if `needed` tasks were active, ended or idle.
    stale: how many messages of lower generations were dropped, the last one of `stale_generation`.
    rows_sent, surplus: how many rows the tasks count, and how many more were read; below 0, how many are missing.
    """

    stream: str
    partition: Partition
    generation: int
    task_count: int
    watermark: int | None
    at_end: bool
    now: int
    first_seen: int
    seen: tuple[str, ...]
    unseen: int
    unseen_timed_out: bool
    lowest: tuple[TaskState, ...]
    timed_out: tuple[TaskState, ...]
    silent: tuple[TaskState, ...]
    idle: tuple[TaskState, ...]
    ended: int
    needed: int
    stale: int = 0
    stale_generation: int = -1
    rows_sent: int | None = None
    surplus: int = 0

    def __str__(self) -> str:
        place = f"Partition {self.partition} of {self.stream}"
        if self.at_end:
            return "; ".join([f"{place} has ended", *self._rows()]) + "."
        state = "has no watermark yet" if self.watermark is None else f"is at {_time(self.watermark)}"
        if self.generation < 0:
            return f"{place} {state}: no control message was read."
        return f"{place} {state} (generation {self.generation}): " + "; ".join(self._reasons()) + "."

    def _reasons(self) -> Iterable[str]:
        if self.unseen and not self.unseen_timed_out:
            age = _age(self.now - self.first_seen)
            heard = f" (these have: {listed(self.seen, 10)})" if self.seen else ""
            yield (
                f"{self.unseen} of {self.task_count} tasks have sent no message since it began {age} ago{heard} (if "
                "they have ended, and retention or a vacuum has deleted that, append it again: "
                "`control_envelopes(spark, producer, producer.end_of_stream([...]))`)"
            )
        if self.lowest and self.lowest[0].watermark == EARLIEST:
            yield f"without an event time so far, or with none in the limit (`ahead_ms`): {self._names(self.lowest)}"
        elif self.lowest:
            yield f"lowest is {_time(self.lowest[0].watermark)}, of {self._names(self.lowest)}"
        if self.silent:
            known = "no task is" if self.needed == 1 else f"fewer than {self.needed} tasks are"
            yield f"silent, but not timed out since {known} active, ended or idle: {self._names(self.silent)}"
        if self.timed_out:
            yield f"timed out: {self._names(self.timed_out)}"
        if self.unseen_timed_out:
            yield f"timed out without a message: {self.unseen} of {self.task_count} tasks"
        if self.idle:
            yield f"idle as declared: {self._names(self.idle)}"
        if self.ended:
            yield f"{self.ended} of {self.task_count} tasks have ended" if self.task_count else "all have ended"
        if self.stale:
            yield (
                f"{self.stale} messages of lower generations were dropped, the last of generation "
                f"{self.stale_generation}: a producer that is to go on needs a generation above {self.generation}"
            )
        yield from self._rows()

    def _rows(self) -> Iterable[str]:
        """How the rows that were read differ from those that the tasks count."""
        if self.surplus < 0:
            yield f"{-self.surplus} of the {self.rows_sent} rows that its tasks count were not read: they are lost"
        elif self.surplus:
            yield (
                f"{self.surplus} rows more were read than the {self.rows_sent} that its tasks count: they are doubled, "
                "or written without `emit` (or, in Kafka, not counted yet)"
            )

    def _names(self, tasks: Sequence[TaskState], most: int = 5) -> str:
        return listed(tasks, most, lambda task: f"{task.name} (last message {_age(self.now - task.last_seen)} ago)")


@dataclass(frozen=True)
class NoControlMessages:
    """Partitions of a stream without any control message, so without a watermark; `str` is a text for people.

    partitions: their names; none if not even their number is known. messages: user messages read from the stream.
    first_batch: the query has not finished its first batch yet.
    """

    stream: str
    partitions: tuple[str, ...]
    messages: int
    first_batch: bool = False

    def __str__(self) -> str:
        if self.first_batch:
            return f"Of {self.stream} nothing is known yet: the query has not finished its first batch."
        which = f"Partitions {listed(self.partitions, 10, str)} of" if self.partitions else "All partitions of"
        look = (
            "sends control messages (`emit`), of this stream, and to these partitions" if self.messages else "has run"
        )
        return (
            f"{which} {self.stream} have no watermark: no control message was read, and {self.messages} user messages "
            f"in the last batches. Look whether the job that writes the stream {look}. If retention or a vacuum has "
            "deleted its end, run it again, or append the end again (`control_envelopes`)."
        )


def why_held(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout | None = None) -> Hold:
    """What holds the watermark of a partition. Tasks are sorted by the age of their last messages, oldest first.

    now: milliseconds since 1970 UTC. idle_timeout: of silent tasks; by default none times out.
    """
    out = timed_out(tracker, now, idle_timeout)
    waiting = frozenset() if idle_timeout is None else silent(tracker, now, idle_timeout) - out.tasks
    return Hold(
        stream=tracker.stream,
        partition=tracker.partition,
        generation=tracker.generation,
        task_count=tracker.task_count,
        watermark=tracker.watermark,
        at_end=tracker.at_end,
        now=now,
        first_seen=tracker.first_seen,
        seen=tuple(sorted(task for task in tracker.last_seen if task != ALL)),
        unseen=tracker.unseen,
        unseen_timed_out=out.unseen,
        lowest=_states(tracker, _lowest(tracker, out)),
        timed_out=_states(tracker, out.tasks),
        silent=_states(tracker, waiting),
        idle=_states(tracker, tracker.idle - tracker.ended),
        ended=len(tracker.ended),
        needed=0 if idle_timeout is None else idle_timeout.needed(tracker.task_count),
        stale=tracker.stale,
        stale_generation=tracker.stale_generation,
        rows_sent=tracker.rows_sent,
        surplus=tracker.surplus,
    )


def _lowest(tracker: PartitionTracker, out: TimedOutTasks) -> Iterable[str]:
    """The tasks whose watermark is the partition's, or would be if all tasks had sent one."""
    for_all = tracker.watermarks.get(ALL)
    if for_all is not None and ALL not in tracker.ended | tracker.idle and for_all == computed_watermark(tracker, out):
        return [ALL]
    ignored = not_holding(tracker, out)
    watermarks = {task: at for task, at in tracker.watermarks.items() if task not in ignored}
    lowest = min(watermarks.values(), default=None)
    return [task for task, at in watermarks.items() if at == lowest]


def _states(tracker: PartitionTracker, tasks: Iterable[str]) -> tuple[TaskState, ...]:
    found = [TaskState(task or None, tracker.watermarks.get(task), tracker.last_seen[task]) for task in tasks]
    return tuple(sorted(found, key=lambda each: (each.last_seen, each.task or "")))


def _time(milliseconds: int | None) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds or 0)
    except OverflowError:
        return f"{milliseconds} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _age(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
