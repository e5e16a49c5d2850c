"""The tracker of one partition: the watermark and the end of each upstream task, and what follows from them. Pure.

    task "a"  ──► watermark 70 ─┐
    task "b"  ──► watermark 40 ─┼─► tracker ──► the watermark rises to 40
    task "c"  ──► end of stream ┘           ──► the end of the stream, when "a" and "b" have ended too

A partition has a watermark once every task of the generation has sent a message. It is then the minimum over the tasks
that have neither ended nor are idle, and is announced only when it rises, so messages may be repeated. If no task is
left that holds it, the partition is idle, and the watermark is the highest of all tasks. A higher generation (other
tasks, or the same ones started again) replaces the lower ones; the announced watermark stays. If the stream had ended,
the higher generation reopens it: that is the next run of a bounded job. The announcements of a batch hold after all
rows that arrived with the messages; only a `reopened` that comes first holds before them.

A batch is taken write by write, in the order of the sequences: the watermark is the highest that followed from the
messages after any of them. So what is announced depends on the messages alone, not on where batches end nor on the
order within a batch, but for two cases. A generation that begins in the batch in which the one before it ends replaces
it: neither that end nor a `reopened` is announced. And messages without a sequence, or with the same one, are one write
if a batch has them all, and several if a batch ends between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Protocol, TypeAlias

from control_messages.announcements import TrackerUpdate, announcements
from control_messages.errors import ContradictionError, listed
from control_messages.messages import EARLIEST, LATEST, ControlMessage, Drain, EndOfStream, Watermark
from foundation.arguments import Count, Range, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from control_messages.announcements import AnnouncementType

Partition: TypeAlias = int | str | None
"""How the input names a partition."""
ALL = ""
"""The key of messages without a task name, which count for all tasks. No task has this name."""


@checked
@dataclass(frozen=True)
class IdleTimeout:
    """A task without a message for `timeout_ms` does not hold the watermark until its next message.

    The timeout applies only while at least `quorum` of the tasks, and at least one, are active (they have sent a
    message in time), ended, or idle as declared. The end of a stream never follows from a timeout.
    """

    timeout_ms: Count
    quorum: Annotated[float, Range(0, 1)] = 0.5

    def needed(self, task_count: int) -> int:
        """How many of `task_count` tasks must be active, ended or idle for the timeout to apply to the others."""
        return max(1, int(task_count * self.quorum))


@dataclass(frozen=True)
class PartitionTracker:
    """What a consumer knows of the tasks that write to one partition. All times are milliseconds.

    generation: of the tasks below; -1 before the first message.
    task_count, partition_count: how many tasks and partitions there are; 0 before the first message with the count.
    watermarks: the highest of each task that has sent one.
    ended, idle: the tasks that have ended; those that have declared themselves idle.
    sequences: of the last message of each task, if it had one.
    last_seen: when the last message of each task was processed. first_seen: when the first of the generation was.
    watermark: the last one announced. risen_at: when it was; before that, when the first message was processed.
    at_end, is_idle: the end of this generation, or that no task of it holds the watermark, has been announced.
    rows_read: the user messages read. rows_sent: those that the watermarks read count; None if none of them counts.
    all_counted: no watermark without a count was read, so `rows_read` and `rows_sent` can be compared.
    counted: the sequence of the last count of each task; the count of a repeat is no further one.
    stale, stale_generation: how many messages were dropped since a higher generation had begun, and the generation of
    the last.
    """

    stream: str
    partition: Partition = 0
    generation: int = -1
    task_count: int = 0
    watermarks: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    last_seen: Mapping[str, int] = field(default_factory=dict)
    first_seen: int = 0
    watermark: int | None = None
    at_end: bool = False
    partition_count: int = 0
    sequences: Mapping[str, int] = field(default_factory=dict)
    stale: int = 0
    stale_generation: int = -1
    is_idle: bool = False
    risen_at: int = 0
    rows_read: int = 0
    rows_sent: int | None = None
    all_counted: bool = True
    counted: Mapping[str, int] = field(default_factory=dict)

    @property
    def unseen(self) -> int:
        """How many tasks of the generation have not sent a message yet."""
        return self.task_count - _named(self.last_seen)

    @property
    def surplus(self) -> int:
        """How many rows more than the tasks count were read; below 0, how many are missing. 0 if it is not known.

        With a transport that shows a batch in parts, as Kafka does, rows are read before their count.
        """
        return self.rows_read - self.rows_sent if self.all_counted and self.rows_sent is not None else 0


@dataclass(frozen=True)
class TimedOutTasks:
    """The tasks to which an `IdleTimeout` applies at a moment.

    tasks: by name. unseen: the tasks that have never sent a message have timed out, too.
    """

    tasks: frozenset[str] = frozenset()
    unseen: bool = False


NONE_TIMED_OUT = TimedOutTasks()


class _Tasks(Protocol):
    """What the watermark follows from: of a `PartitionTracker`, or of one to which messages are applied."""

    @property
    def task_count(self) -> int: ...
    @property
    def watermarks(self) -> Mapping[str, int]: ...
    @property
    def ended(self) -> AbstractSet[str]: ...
    @property
    def idle(self) -> AbstractSet[str]: ...
    @property
    def unseen(self) -> int: ...


def receive(
    tracker: PartitionTracker,
    messages: Iterable[ControlMessage],
    now: int,
    idle_timeout: IdleTimeout | None = None,
    on_contradiction: Callable[[ControlMessage, ContradictionError], None] | None = None,
    rows: int = 0,
) -> TrackerUpdate[PartitionTracker]:
    """The tracker after all control messages of a batch, in any order. `Drain` messages are ignored.

    rows: how many user messages the batch has.

    Of messages that contradict each other, the one that was sent first is accepted. A contradiction raises
    `ContradictionError`, and no message takes effect; with `on_contradiction` that is called instead, the message is
    ignored, and the others take effect.
    """
    sent = sorted((message for message in messages if not isinstance(message, Drain)), key=_order)
    update, stale = _Update.of(tracker, tracker.generation, now), list[int]()
    for (_, generation, _), written in groupby(sent, key=_write):
        if generation < update.generation:
            stale += [message.generation for message in written]
            continue
        found = update if generation == update.generation else _Update.of(update.result(), generation, now)
        for message in written:
            found.try_to_apply(message, on_contradiction)
        found.raise_watermark()
        update = found if found.accepted else update
    after = replace(
        update.result(),
        rows_read=tracker.rows_read + rows,
        stale=tracker.stale + len(stale),
        stale_generation=stale[-1] if stale else tracker.stale_generation,
    )
    return _announce(tracker, after, now, idle_timeout)


def _order(message: Watermark | EndOfStream) -> tuple[int, int, int, int]:
    """Sorts messages into an order in which their tasks can have sent them.

    Of two with the same sequence, or without one, the one that holds the watermark is later.
    """
    sequence = -1 if message.sequence is None else message.sequence
    if isinstance(message, EndOfStream):
        return (sequence, message.generation, 2, LATEST)
    return (sequence, message.generation, 0 if message.idle else 1, message.timestamp)


def _write(message: Watermark | EndOfStream) -> tuple[int | None, int, bool]:
    """What is the same in the messages of a write. Its watermarks count before its ends."""
    return message.sequence, message.generation, isinstance(message, EndOfStream)


def advance_time(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout) -> TrackerUpdate[PartitionTracker]:
    """The tracker when time has passed without a message. To be called at `next_timeout`; earlier calls do no harm."""
    return _announce(tracker, tracker, now, idle_timeout)


def next_timeout(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout) -> int | None:
    """The first moment after `now` at which another task times out; None if none will.

    Until then, `advance_time` announces nothing that `receive` or `advance_time` at `now` has not announced.
    """
    if tracker.at_end:
        return None
    last = list(_may_time_out(tracker).values())
    if tracker.unseen:
        last.append(tracker.first_seen)
    timeout = idle_timeout.timeout_ms
    return min((at + timeout for at in last if at + timeout > now), default=None)


def next_call(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout) -> int | None:
    """When `advance_time` is to be called, and the tracker saved, at the latest; None if no task can time out.

    A twentieth of the timeout at most: a consumer that starts again knows from what it has saved how long it ran.
    """
    if tracker.at_end or not (tracker.unseen or _may_time_out(tracker)):
        return None
    due, save = next_timeout(tracker, now, idle_timeout), now + max(1, idle_timeout.timeout_ms // 20)
    return save if due is None else min(due, save)


def resume(tracker: PartitionTracker, stopped_ms: int) -> PartitionTracker:
    """The tracker of a consumer that starts again: the time that it was stopped counts for no timeout.

    stopped_ms: from the moment at which the tracker was saved last until now.
    """
    last_seen = {task: at + stopped_ms for task, at in tracker.last_seen.items()}
    return replace(tracker, last_seen=last_seen, first_seen=tracker.first_seen + stopped_ms)


def timed_out(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout | None) -> TimedOutTasks:
    """The tasks that do not hold the watermark because they have timed out; none without a quorum."""
    if idle_timeout is None:
        return NONE_TIMED_OUT
    unseen = tracker.unseen > 0 and now - tracker.first_seen >= idle_timeout.timeout_ms
    found = TimedOutTasks(silent(tracker, now, idle_timeout), unseen)
    known = tracker.task_count - tracker.unseen - len(found.tasks)
    return found if known >= idle_timeout.needed(tracker.task_count) else NONE_TIMED_OUT


def silent(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout) -> frozenset[str]:
    """The tasks whose last message is older than the timeout, without those that have ended or are idle."""
    limit = now - idle_timeout.timeout_ms
    return frozenset(task for task, at in _may_time_out(tracker).items() if at <= limit)


def _may_time_out(tracker: PartitionTracker) -> dict[str, int]:
    """The tasks that can time out, and when their last message was processed."""
    exempt = tracker.ended | tracker.idle | {ALL}
    return {task: at for task, at in tracker.last_seen.items() if task not in exempt}


def computed_watermark(tracker: _Tasks, out: TimedOutTasks) -> int | None:
    """The watermark that follows from the messages, announced or not; None if none does."""
    if _over(tracker):
        return None
    candidates = (tracker.watermarks.get(ALL), _of_tasks(tracker, out))
    return max((at for at in candidates if at is not None), default=None)


def not_holding(tracker: _Tasks, out: TimedOutTasks) -> AbstractSet[str]:
    """The tasks that do not hold the watermark: ended, idle, or timed out; and `ALL`, which is no task."""
    return tracker.ended | tracker.idle | out.tasks | ({ALL} & tracker.watermarks.keys())


def _of_tasks(tracker: _Tasks, out: TimedOutTasks) -> int | None:
    """The watermark by the messages of named tasks."""
    if tracker.task_count == 0 or (tracker.unseen and not out.unseen):
        return None
    ignored = not_holding(tracker, out)
    if not ignored:
        return min(tracker.watermarks.values(), default=None)
    holding = min((at for task, at in tracker.watermarks.items() if task not in ignored), default=None)
    if holding is not None:
        return holding
    # No row is expected for now: as in Flink, nothing waits for the slower tasks.
    return max((at for task, at in tracker.watermarks.items() if task != ALL), default=None)


def _over(tracker: _Tasks) -> bool:
    """Whether all tasks have ended."""
    return ALL in tracker.ended or 0 < tracker.task_count == len(tracker.ended)


def _none_holds(tracker: PartitionTracker, out: TimedOutTasks) -> bool:
    """Whether all tasks have sent a message or timed out, and none of them holds the watermark."""
    if not tracker.last_seen or (tracker.unseen and not out.unseen):
        return False
    return tracker.last_seen.keys() <= tracker.ended | tracker.idle | out.tasks


def _announce(
    before: PartitionTracker, after: PartitionTracker, now: int, idle_timeout: IdleTimeout | None
) -> TrackerUpdate[PartitionTracker]:
    """What has changed, and is to be announced, in this order; a watermark that has risen also before an end."""
    over = after.at_end or _over(after)
    out = NONE_TIMED_OUT if over else timed_out(after, now, idle_timeout)
    watermark = _highest(after.watermark, computed_watermark(after, out))
    rises = watermark != before.watermark
    first = before.generation < 0 <= after.generation
    idle = not over and _none_holds(after, out)
    changes: dict[AnnouncementType, bool] = {
        "reopened": before.at_end and not after.at_end,
        "active": before.is_idle and not idle and not over,
        "watermark": rises,
        "idle": idle and not before.is_idle,
        "endOfStream": over and not after.at_end,
    }
    risen_at = now if rises or first else before.risen_at
    tracker = replace(after, watermark=watermark, risen_at=risen_at, is_idle=idle, at_end=over)
    return TrackerUpdate(
        tracker, announcements(changes, tracker.generation, watermark, tracker.partition_count or None)
    )


def _highest(announced: int | None, computed: int | None) -> int | None:
    """The watermark never falls, and the earliest of all promises nothing."""
    return announced if computed is None or computed <= (EARLIEST if announced is None else announced) else computed


def _named(tasks: Mapping[str, int]) -> int:
    return len(tasks) - (ALL in tasks)


@dataclass
class _Update:
    """A tracker while messages are applied to it.

    intervals: task, sequence and writer of the messages whose rows are counted. sender: of the last message accepted,
    its stream and counts. A message of a known task with the same is no contradiction, so most need no further check.
    """

    before: PartitionTracker
    generation: int
    now: int
    task_count: int
    partition_count: int
    watermarks: dict[str, int]
    ended: set[str]
    idle: set[str]
    sequences: dict[str, int]
    last_seen: dict[str, int]
    watermark: int | None
    rows_sent: int | None
    all_counted: bool
    counted: dict[str, int]
    intervals: set[tuple[str, int | None, int | None]] = field(default_factory=set)
    accepted: int = 0
    sender: tuple[str | None, int, int | None] | None = None

    @classmethod
    def of(cls, tracker: PartitionTracker, generation: int, now: int) -> _Update:
        known = tracker if generation == tracker.generation else PartitionTracker(tracker.stream, tracker.partition)
        return cls(
            before=tracker,
            generation=generation,
            now=now,
            task_count=known.task_count,
            partition_count=tracker.partition_count,
            watermarks=dict(known.watermarks),
            ended=set(known.ended),
            idle=set(known.idle),
            sequences=dict(known.sequences),
            last_seen=dict(known.last_seen),
            watermark=tracker.watermark,
            rows_sent=tracker.rows_sent,
            all_counted=tracker.all_counted,
            counted=dict(known.counted),
        )

    @property
    def unseen(self) -> int:
        """As of `PartitionTracker`."""
        return self.task_count - _named(self.last_seen)

    def raise_watermark(self) -> None:
        """Take over what follows from the messages so far. A timeout is for what follows after the whole batch."""
        self.watermark = _highest(self.watermark, computed_watermark(self, NONE_TIMED_OUT))

    def try_to_apply(
        self,
        message: Watermark | EndOfStream,
        on_contradiction: Callable[[ControlMessage, ContradictionError], None] | None,
    ) -> None:
        """Apply the message, or pass it on if it cannot be true."""
        try:
            self.apply(message)
        except ContradictionError as error:
            if on_contradiction is None:
                raise
            on_contradiction(message, error)

    def apply(self, message: Watermark | EndOfStream) -> None:
        """Take over what the message states. `ContradictionError` if it cannot be true; nothing has changed then."""
        task = message.task or ALL
        sender = (message.stream, message.task_count, message.partition_count)
        if sender != self.sender or task not in self.last_seen:
            self._see(message, task)
            self.sender = sender if task else None
        self.last_seen[task] = self.now
        self.accepted += 1
        if isinstance(message, EndOfStream):
            self.ended.add(task)
            return
        self._count(message, task)
        known = self.watermarks.get(task)
        if known is None or message.timestamp > known:
            self.watermarks[task] = message.timestamp
        if self._is_last(message, task):
            if message.idle:
                self.idle.add(task)
            elif self.idle:
                self.idle.discard(task)

    def _count(self, message: Watermark, task: str) -> None:
        """Add the rows that the message counts, unless it is a repeat. Idle tasks write no rows."""
        if message.rows is None:
            self.all_counted = self.all_counted and message.idle
            return
        interval, sequence = (task, message.sequence, message.writer), message.sequence
        before = self.before.counted.get(task) if self.generation == self.before.generation else None
        if interval in self.intervals or (before is not None and sequence is not None and sequence <= before):
            return
        self.intervals.add(interval)
        self.rows_sent = (self.rows_sent or 0) + message.rows
        if sequence is not None:
            self.counted[task] = max(sequence, self.counted.get(task, sequence))

    def _is_last(self, message: Watermark, task: str) -> bool:
        """Whether the task has sent nothing later, by sequence.

        On a tie, and without sequences, it is not idle: that holds the watermark, which is safe.
        """
        known = self.sequences.get(task)
        if message.sequence is None:
            return known is None or not message.idle
        if known is not None and (message.sequence, not message.idle) < (known, task not in self.idle):
            return False
        self.sequences[task] = message.sequence
        return True

    def _see(self, message: Watermark | EndOfStream, task: str) -> None:
        """Note the counts that the message states. `ContradictionError` if they cannot be true."""
        fault = self._fault(message, task)
        if fault is not None:
            place = f"partition {self.before.partition} of stream {self.before.stream}"
            cause, next_step = fault
            raise ContradictionError(f"{_short(message)} in {place} {cause}. {next_step}")
        if task:
            self.task_count = message.task_count
        self.partition_count = message.partition_count or self.partition_count

    def _fault(self, message: Watermark | EndOfStream, task: str) -> tuple[str, str] | None:
        """What contradicts the messages before it, and what to do."""
        stream, partition, partitions = self.before.stream, self.before.partition, message.partition_count
        if message.stream not in (None, stream):
            return (
                f"is of stream {message.stream!r}, but `reconcile` was called with {stream!r}",
                (
                    f"If the query is to read {message.stream!r}, give this name to `reconcile`; if not, look for what "
                    "copies messages from one stream into another."
                ),
            )
        if message.task_count < 1 or (task and self.task_count not in (0, message.task_count)):
            return (
                (
                    f"has a task count of {message.task_count}, "
                    f"its generation has {self.task_count or 'at least one task'}"
                ),
                "Raise the generation when the number of tasks changes.",
            )
        if partitions is not None and self.partition_count not in (0, partitions):
            return (
                f"has a partition count of {partitions}, the stream has {self.partition_count}",
                "A stream keeps the number of its partitions: write into a new stream to have another.",
            )
        if partitions is not None and isinstance(partition, int) and not 0 <= partition < partitions:
            return (
                f"has a partition count of {partitions}, so there is no such partition",
                "Give `reconcile` the column with the partition that the producer computed.",
            )
        if task and task not in self.last_seen and _named(self.last_seen) >= message.task_count:
            known = listed(sorted(self.last_seen.keys() - {ALL}), 10, _short)
            return (
                f"is from one task more than there are; the tasks of its generation are {known}",
                "Keep the names of the tasks, or raise the generation when they change.",
            )
        return None

    def result(self) -> PartitionTracker:
        return replace(
            self.before,
            generation=self.generation,
            task_count=self.task_count,
            partition_count=self.partition_count,
            watermarks=self.watermarks,
            ended=frozenset(self.ended),
            idle=frozenset(self.idle),
            sequences=self.sequences,
            last_seen=self.last_seen,
            watermark=self.watermark,
            rows_sent=self.rows_sent,
            all_counted=self.all_counted,
            counted=self.counted,
            first_seen=self.now if self.generation > self.before.generation else self.before.first_seen,
            at_end=self.before.at_end and self.generation == self.before.generation,
        )


def _short(value: object, most: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
