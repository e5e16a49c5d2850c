"""Why a watermark does not rise: which tasks hold it, where they stand, and since when they are silent. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from control_messages.books import ALL, left_out, silent, standing
from control_messages.errors import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from control_messages.books import Book, IdleRule, LeftOut, Partition


@dataclass(frozen=True)
class TaskStanding:
    """Where a task stands. task: its name; None speaks for all. heard: when it was last heard (ms)."""

    task: str | None
    watermark: int | None
    heard: int

    @property
    def name(self) -> str:
        """The task as people call it."""
        return "the speaker for all tasks" if self.task is None else repr(self.task)


@dataclass(frozen=True)
class Hold:
    """What holds the watermark of one partition at the moment `now`; as a text for people, `str(hold)`.

    watermark: announced last. unheard: how many tasks have never spoken; their names nobody knows.
    lowest: the tasks whose watermark is the lowest of those that count. idle: those that are so by their own word.
    left_out: the silent tasks that the rule leaves out; `unheard_left_out`: it leaves out those never heard, too.
    silent: those that it would leave out if `needed` tasks were known: heard in time, ended, or idle.
    """

    stream: str
    partition: Partition
    generation: int
    total: int
    watermark: int | None
    at_end: bool
    now: int
    since: int
    unheard: int
    unheard_left_out: bool
    lowest: tuple[TaskStanding, ...]
    left_out: tuple[TaskStanding, ...]
    silent: tuple[TaskStanding, ...]
    idle: tuple[TaskStanding, ...]
    ended: int
    needed: int

    def __str__(self) -> str:
        place = f"Partition {self.partition} of {self.stream}"
        if self.at_end:
            return f"{place} has ended."
        stands = "has no watermark yet" if self.watermark is None else f"stands at {_time(self.watermark)}"
        if self.generation < 0:
            return f"{place} {stands}: no control message was read."
        return f"{place} {stands} (generation {self.generation}): " + "; ".join(self._reasons()) + "."

    def _reasons(self) -> Iterable[str]:
        if self.unheard and not self.unheard_left_out:
            yield f"{self.unheard} of {self.total} tasks have not spoken in the {_age(self.now - self.since)} of it"
        if self.lowest:
            yield f"lowest is {_time(self.lowest[0].watermark)}, of {self._names(self.lowest)}"
        if self.silent:
            fewer = "nobody else is" if self.needed == 1 else f"fewer than {self.needed} tasks are"
            yield f"silent, but not left out since {fewer} known to be well: {self._names(self.silent)}"
        if self.left_out:
            yield f"left out for their silence: {self._names(self.left_out)}"
        if self.unheard_left_out:
            yield f"left out since they never spoke: {self.unheard} of {self.total} tasks"
        if self.idle:
            yield f"idle by their own word: {self._names(self.idle)}"
        if self.ended:
            yield f"{self.ended} of {self.total} tasks have ended" if self.total else "all have ended"

    def _names(self, tasks: Sequence[TaskStanding], most: int = 5) -> str:
        return listed(tasks, most, lambda task: f"{task.name} (heard {_age(self.now - task.heard)} ago)")


def why_held(book: Book, now: int, rule: IdleRule | None = None) -> Hold:
    """What holds the watermark of a partition. Tasks are sorted, those not heard for longest first."""
    out = left_out(book, now, rule)
    waiting = frozenset() if rule is None else silent(book, now, rule) - out.silent
    return Hold(
        stream=book.stream,
        partition=book.partition,
        generation=book.generation,
        total=book.total,
        watermark=book.emitted,
        at_end=book.at_end,
        now=now,
        since=book.since,
        unheard=book.unheard,
        unheard_left_out=out.unheard,
        lowest=_standings(book, _lowest(book, out)),
        left_out=_standings(book, out.silent),
        silent=_standings(book, waiting),
        idle=_standings(book, book.idle - book.ended),
        ended=len(book.ended),
        needed=0 if rule is None else rule.needed(book.total),
    )


def _lowest(book: Book, out: LeftOut) -> Iterable[str]:
    given = standing(book, out)
    passed = book.ended | book.idle | out.silent
    speakers = {task: at for task, at in book.watermarks.items() if task not in passed}
    if ALL in speakers and speakers[ALL] == given:
        return [ALL]
    speakers.pop(ALL, None)
    lowest = min(speakers.values(), default=None)
    return [task for task, at in speakers.items() if at == lowest]


def _standings(book: Book, tasks: Iterable[str]) -> tuple[TaskStanding, ...]:
    found = [TaskStanding(task or None, book.watermarks.get(task), book.heard[task]) for task in tasks]
    return tuple(sorted(found, key=lambda each: (each.heard, each.task or "")))


def _time(milliseconds: int | None) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds or 0)
    except OverflowError:
        return f"{milliseconds} ms"
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", " UTC")


def _age(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
