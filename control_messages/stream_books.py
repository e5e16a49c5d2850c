"""The books of all partitions of a stream as one, and what several streams come to. Pure.

The watermark of a stream is the lowest that its partitions have announced, once all have announced one; its end comes
when all have ended. So it is for the streams of a job, and both rules are `input_watermark` and `all_ended`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from control_messages import books, holds
from control_messages.books import Book, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from control_messages.books import IdleRule
    from control_messages.errors import ContradictionError
    from control_messages.holds import Hold
    from control_messages.messages import ControlMessage


class Announced(Protocol):
    """A `Book` or a `StreamBook`."""

    @property
    def emitted(self) -> int | None:
        """The watermark announced last."""

    @property
    def at_end(self) -> bool:
        """The end has been announced."""


def input_watermark(inputs: Iterable[Announced]) -> int | None:
    """The lowest watermark announced by several partitions or streams. Those that have ended hold nobody back.

    None while one of them has announced none, and when all have ended. It never falls, as none of them does.
    """
    open_inputs = [each.emitted for each in inputs if not each.at_end]
    announced = [watermark for watermark in open_inputs if watermark is not None]
    return min(announced, default=None) if len(announced) == len(open_inputs) else None


def all_ended(inputs: Iterable[Announced]) -> bool:
    """Whether all of several partitions or streams have ended."""
    return all(each.at_end for each in inputs)


@dataclass(frozen=True)
class StreamBook:
    """The books of a stream's partitions, by number."""

    books: tuple[Book, ...]

    @classmethod
    def of(cls, stream: str, partitions: int) -> StreamBook:
        """The book of a stream nothing of which has been read. `ValueError` for no partitions."""
        if partitions < 1:
            text = f"Stream {stream} has {partitions} partitions; a stream has one at least."
            raise ValueError(text)
        return cls(tuple(Book(stream, partition) for partition in range(partitions)))

    @property
    def emitted(self) -> int | None:
        """The watermark announced last; None before the first, and at the end."""
        return input_watermark(self.books)

    @property
    def at_end(self) -> bool:
        """All partitions have ended."""
        return all_ended(self.books)


def receive(
    book: StreamBook,
    messages: Iterable[tuple[int, ControlMessage]],
    now: int,
    rule: IdleRule | None = None,
    on_contradiction: Callable[[ControlMessage, ContradictionError], None] | None = None,
) -> Step[StreamBook]:
    """As `books.receive`, of (partition, message) pairs. `ValueError` for a partition that the stream has not."""
    told: defaultdict[int, list[ControlMessage]] = defaultdict(list)
    for partition, message in messages:
        told[partition].append(message)
    wrong = sorted(told.keys() - range(len(book.books)))
    if wrong:
        text = (
            f"Stream {book.books[0].stream} has {len(book.books)} partitions, and messages came from partition "
            f"{wrong[0]}. Give the consumer the number of partitions."
        )
        raise ValueError(text)
    steps = [
        books.receive(each, told[partition], now, rule, on_contradiction)
        if partition in told
        else _wait(each, now, rule)
        for partition, each in enumerate(book.books)
    ]
    return _announce(book, steps)


def expire(book: StreamBook, now: int, rule: IdleRule) -> Step[StreamBook]:
    """As `books.expire`."""
    return _announce(book, [books.expire(each, now, rule) for each in book.books])


def next_expiry(book: StreamBook, now: int, rule: IdleRule) -> int | None:
    """As `books.next_expiry`."""
    moments = [books.next_expiry(each, now, rule) for each in book.books]
    return min((moment for moment in moments if moment is not None), default=None)


def resume(book: StreamBook, now: int) -> StreamBook:
    """As `books.resume`."""
    return StreamBook(tuple(books.resume(each, now) for each in book.books))


def why_held(book: StreamBook, now: int, rule: IdleRule | None = None) -> tuple[Hold, ...]:
    """The partitions that hold the watermark: those that have announced none, else those with the lowest."""
    lowest = book.emitted
    return tuple(
        holds.why_held(each, now, rule) for each in book.books if not each.at_end and each.emitted in (None, lowest)
    )


def _wait(book: Book, now: int, rule: IdleRule | None) -> Step[Book]:
    return Step(book) if rule is None else books.expire(book, now, rule)


def _announce(before: StreamBook, steps: list[Step[Book]]) -> Step[StreamBook]:
    after = StreamBook(tuple(step.book for step in steps))
    risen = None if after.emitted == before.emitted else after.emitted
    return Step(after, risen, after.at_end and not before.at_end, sum(step.stale for step in steps))
