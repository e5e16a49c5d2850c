"""The book that a consumer keeps of one partition: what each upstream task has said, and what follows from it. Pure.

    task "a"  ──► watermark 70 ─┐
    task "b"  ──► watermark 40 ─┼─► book ──► the watermark rises to 40
    task "c"  ──► has ended    ─┘       ──► the end, when "a" and "b" have ended too

A watermark counts once all tasks of the generation have spoken, and is then the lowest of those that have not ended.
It is announced only when it rises, so messages may come twice, late, or in any order. A higher generation (other
tasks, or the same ones over again) makes the lower ones void; what was announced stands. Whatever is announced
belongs behind all the rows that arrived with the messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from control_messages.errors import ContradictionError, listed
from control_messages.messages import EARLIEST, ControlMessage, Drain, EndOfStream, Watermark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Partition: TypeAlias = int | str | None
"""How the log names a partition."""
ALL = ""
"""The key of messages without a task name, which speak for all tasks. No task has this name."""

B = TypeVar("B")


@dataclass(frozen=True)
class IdleRule:
    """A task that was not heard for `timeout_ms` is left out of the watermark until it speaks again.

    That is a guess, and it is made only while the consumer knows how it stands with `quorum` of the tasks, at least
    one: heard in time, ended, or idle by their own word. The end of a stream is never guessed.
    """

    timeout_ms: int
    quorum: float = 0.5

    def __post_init__(self) -> None:
        if self.timeout_ms < 1 or not 0 <= self.quorum <= 1:
            text = f"{self}: the timeout is 1 ms at least, and the quorum a share from 0 to 1."
            raise ValueError(text)

    def needed(self, total: int) -> int:
        """How many of `total` tasks must be known for the others to be left out."""
        return max(1, int(total * self.quorum))


@dataclass(frozen=True)
class Book:
    """What is known of the tasks that write to one partition. All times are milliseconds.

    generation: of the tasks below; -1 before the first message.
    total: how many tasks there are; 0 until one has told.
    watermarks: the highest of each task that has sent one.
    ended, idle: tasks that have ended; tasks that have nothing to write, as they say.
    heard: when each task that has said anything was last heard; `since`: when the generation was first heard.
    emitted: the watermark announced last. at_end: the end has been announced.
    """

    stream: str
    partition: Partition = 0
    generation: int = -1
    total: int = 0
    watermarks: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    heard: Mapping[str, int] = field(default_factory=dict)
    since: int = 0
    emitted: int | None = None
    at_end: bool = False

    @property
    def unheard(self) -> int:
        """How many tasks of the generation have never spoken."""
        return self.total - _named(self.heard)


@dataclass(frozen=True)
class Step(Generic[B]):
    """A book after messages, or after time has passed, and what is to be announced now.

    watermark: what the watermark has risen to. end: the stream has ended; true once in the life of a book.
    stale: how many messages were of lower generations and changed nothing.
    """

    book: B
    watermark: int | None = None
    end: bool = False
    stale: int = 0


@dataclass(frozen=True)
class LeftOut:
    """The tasks that an `IdleRule` leaves out at a moment: by name, and those that have never spoken."""

    silent: frozenset[str] = frozenset()
    unheard: bool = False


NOBODY = LeftOut()


def receive(
    book: Book,
    messages: Iterable[ControlMessage],
    now: int,
    rule: IdleRule | None = None,
    on_contradiction: Callable[[ControlMessage, ContradictionError], None] | None = None,
) -> Step[Book]:
    """The book after all control messages of a batch, in any order. `Drain` is no business of it.

    Order counts in two cases: of an idle task, what it says last; of messages that contradict each other, the first.
    `ContradictionError` for a message that cannot be true, and then nothing has changed; with `on_contradiction`
    the message goes there instead, is left out, and the others count.
    """
    told = [message for message in messages if not isinstance(message, Drain)]
    newest = book.generation
    for message in told:
        if message.generation > newest and message.tasks > 0 and not _foreign(book, message):
            newest = message.generation
    draft = _Draft.of(book, newest, now)
    stale = 0
    for message in told:
        if message.generation < newest:
            stale += 1
            continue
        try:
            draft.hear(message)
        except ContradictionError as error:
            if on_contradiction is None:
                raise
            on_contradiction(message, error)
    return replace(_announce(draft.book(), now, rule), stale=stale)


def expire(book: Book, now: int, rule: IdleRule) -> Step[Book]:
    """The book when time has passed without a message. To be called at `next_expiry`, or when it pleases."""
    return _announce(book, now, rule)


def next_expiry(book: Book, now: int, rule: IdleRule) -> int | None:
    """The first moment after `now` at which one more task counts as silent; None if none will.

    Until then, `expire` announces nothing that `receive` or `expire` at `now` has not.
    """
    if book.at_end:
        return None
    last = list(_watched(book).values())
    if book.unheard:
        last.append(book.since)
    return min((at + rule.timeout_ms for at in last if at + rule.timeout_ms > now), default=None)


def resume(book: Book, now: int) -> Book:
    """The book of a consumer that was away until `now`: no task was silent while nobody listened."""
    return replace(book, heard=dict.fromkeys(book.heard, now), since=now)


@dataclass(frozen=True)
class EndOfStreamCheckpoint:
    """The part of a book that tells of the end, in plain values. tasks: those that have ended."""

    streamId: str  # noqa: N815 - the proposal's names, here and below
    totalTasks: int  # noqa: N815
    tasks: list[str]
    generation: int
    ended: bool


@dataclass(frozen=True)
class WatermarkCheckpoint:
    """The part of a book that tells of the watermark, in plain values."""

    streamId: str  # noqa: N815
    totalTasks: int  # noqa: N815
    tasksToEventTime: dict[str, int]  # noqa: N815
    generation: int
    timestampOfLastEmission: int | None  # noqa: N815
    idle: list[str]
    heard: dict[str, int]
    since: int


def checkpoint(book: Book) -> tuple[EndOfStreamCheckpoint, WatermarkCheckpoint]:
    """The book as it is saved, in one write with the offsets of the messages that are in it.

    Saved otherwise, a consumer that restarts waits for ever for messages that its offsets are past.
    """
    return (
        EndOfStreamCheckpoint(book.stream, book.total, sorted(book.ended), book.generation, book.at_end),
        WatermarkCheckpoint(
            book.stream,
            book.total,
            dict(book.watermarks),
            book.generation,
            book.emitted,
            sorted(book.idle),
            dict(book.heard),
            book.since,
        ),
    )


def restore(end: EndOfStreamCheckpoint, watermark: WatermarkCheckpoint, partition: Partition = 0) -> Book:
    """The book that was saved. `ValueError` for two parts that are not of one book."""
    if (end.streamId, end.generation, end.totalTasks) != (
        watermark.streamId,
        watermark.generation,
        watermark.totalTasks,
    ):
        text = (
            f"The checkpoint of partition {partition} has an end of stream {end.streamId}, generation "
            f"{end.generation}, {end.totalTasks} tasks, and a watermark of stream {watermark.streamId}, generation "
            f"{watermark.generation}, {watermark.totalTasks} tasks. They were not saved in one write."
        )
        raise ValueError(text)
    return Book(
        stream=end.streamId,
        partition=partition,
        generation=end.generation,
        total=end.totalTasks,
        watermarks=dict(watermark.tasksToEventTime),
        ended=frozenset(end.tasks),
        idle=frozenset(watermark.idle),
        heard=dict(watermark.heard),
        since=watermark.since,
        emitted=watermark.timestampOfLastEmission,
        at_end=end.ended,
    )


def left_out(book: Book, now: int, rule: IdleRule | None) -> LeftOut:
    """The tasks that the rule leaves out of the watermark."""
    if rule is None:
        return NOBODY
    out = LeftOut(silent(book, now, rule), unheard=book.unheard > 0 and now - book.since >= rule.timeout_ms)
    known = book.total - book.unheard - len(out.silent)
    return out if known >= rule.needed(book.total) else NOBODY


def silent(book: Book, now: int, rule: IdleRule) -> frozenset[str]:
    """The tasks that have spoken, but not for the rule's time, and have neither ended nor declared themselves idle."""
    limit = now - rule.timeout_ms
    return frozenset(task for task, at in _watched(book).items() if at <= limit)


def _watched(book: Book) -> dict[str, int]:
    """The tasks whose silence counts, and when they were last heard."""
    known = book.ended | book.idle | {ALL}
    return {task: at for task, at in book.heard.items() if task not in known}


def standing(book: Book, out: LeftOut) -> int | None:
    """The watermark as the messages in the book give it, announced or not; None if they give none."""
    given = (book.watermarks.get(ALL), _lowest(book, out))
    return max((at for at in given if at is not None), default=None)


def _lowest(book: Book, out: LeftOut) -> int | None:
    if book.total == 0 or (book.unheard and not out.unheard):
        return None
    passed = book.ended | book.idle | out.silent | ({ALL} & book.watermarks.keys())
    if not passed:
        return min(book.watermarks.values(), default=None)
    return min((at for task, at in book.watermarks.items() if task not in passed), default=None)


def _announce(book: Book, now: int, rule: IdleRule | None) -> Step[Book]:
    if book.at_end:
        return Step(book)
    if ALL in book.ended or 0 < book.total == len(book.ended):
        return Step(replace(book, at_end=True), end=True)
    risen = standing(book, left_out(book, now, rule))
    if risen is None or risen <= (EARLIEST if book.emitted is None else book.emitted):
        return Step(book)
    return Step(replace(book, emitted=risen), watermark=risen)


def _named(tasks: Mapping[str, int]) -> int:
    return len(tasks) - (ALL in tasks)


def _foreign(book: Book, message: Watermark | EndOfStream) -> bool:
    return isinstance(message, EndOfStream) and message.stream not in (None, book.stream)


@dataclass
class _Draft:
    """A book while messages are entered into it."""

    old: Book
    generation: int
    now: int
    total: int
    watermarks: dict[str, int]
    ended: set[str]
    idle: set[str]
    heard: dict[str, int]

    @classmethod
    def of(cls, book: Book, generation: int, now: int) -> _Draft:
        if generation > book.generation:
            return cls(book, generation, now, 0, {}, set(), set(), {})
        watermarks, heard = dict(book.watermarks), dict(book.heard)
        return cls(book, generation, now, book.total, watermarks, set(book.ended), set(book.idle), heard)

    def hear(self, message: Watermark | EndOfStream) -> None:
        task = message.task or ALL
        if isinstance(message, Watermark):
            self._enter(message, task)
            known = self.watermarks.get(task)
            if known is None or message.timestamp > known:
                self.watermarks[task] = message.timestamp
            if message.idle:
                self.idle.add(task)
            elif self.idle:
                self.idle.discard(task)
        else:
            if _foreign(self.old, message):
                raise self._contradiction(
                    message, "ends another stream", "Look for what copies messages from one stream into another."
                )
            self._enter(message, task)
            self.ended.add(task)

    def _enter(self, message: Watermark | EndOfStream, task: str) -> None:
        if message.tasks < 1 or (task and message.tasks != self.total):
            self._learn_total(message)
        if task and task not in self.heard and _named(self.heard) >= message.tasks:
            known = listed(sorted(self.heard.keys() - {ALL}), 10, _short)
            raise self._contradiction(
                message,
                f"is by one task more than there are; those of its generation are {known}",
                "Keep the names of the tasks, or let the generation rise when they change.",
            )
        self.heard[task] = self.now

    def _learn_total(self, message: Watermark | EndOfStream) -> None:
        if self.total or message.tasks < 1:
            raise self._contradiction(
                message,
                f"tells of {message.tasks} tasks, while its generation has {self.total or 'one at least'}",
                "Let the generation rise when the number of tasks changes.",
            )
        self.total = message.tasks

    def _contradiction(self, message: Watermark | EndOfStream, cause: str, next_step: str) -> ContradictionError:
        place = f"partition {self.old.partition} of stream {self.old.stream}"
        return ContradictionError(f"{_short(message)} in {place} {cause}. {next_step}")

    def book(self) -> Book:
        return replace(
            self.old,
            generation=self.generation,
            total=self.total,
            watermarks=self.watermarks,
            ended=frozenset(self.ended),
            idle=frozenset(self.idle),
            heard=self.heard,
            since=self.now if self.generation > self.old.generation else self.old.since,
        )


def _short(value: object, most: int = 200) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
