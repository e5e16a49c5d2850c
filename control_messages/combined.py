"""The watermark and the end of several inputs as one: the streams of an operator, the partitions of a stream. Pure.

The watermark is the minimum over the inputs that have not ended, once each of them has announced one. The end is
announced when all have ended. When one of them is reopened after that, so is the whole; the others do not hold the
watermark until they are reopened, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from control_messages.announcements import Announcement, TrackerUpdate
from control_messages.errors import ContradictionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from control_messages.announcements import AnnouncementType


@dataclass(frozen=True)
class CombinedTracker:
    """What several inputs have announced, and what has been announced for all of them.

    inputs: their names. watermarks, generations: the last of each input that has announced one. ended: the inputs that
    have ended. watermark, at_end: as announced for all. partition_count: of each stream; None if none has said it.
    """

    inputs: tuple[str, ...]
    watermarks: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    watermark: int | None = None
    at_end: bool = False
    partition_count: int | None = None

    @property
    def generation(self) -> int:
        """The sum over the inputs: it rises when one of them does."""
        return sum(self.generations.values())

    @property
    def waiting(self) -> tuple[str, ...]:
        """The inputs that have announced neither a watermark nor their end."""
        return tuple(name for name in self.inputs if name not in self.watermarks and name not in self.ended)


def receive(tracker: CombinedTracker, announced: Iterable[tuple[str, Announcement]]) -> TrackerUpdate[CombinedTracker]:
    """The tracker after what its inputs have announced in one batch, of each input in its order.

    A batch is one step: an input that was reopened in it holds the watermark in it, whatever the others have announced.
    `ValueError` for another input. `ContradictionError` if the streams have not the same number of partitions: those
    that one of them lacks would have neither a watermark nor an end.
    """
    after, reopened = tracker, False
    for name, announcement in announced:
        if name not in tracker.inputs:
            text = f"{name!r} is not one of the inputs, which are {', '.join(map(repr, tracker.inputs))}."
            raise ValueError(text)
        stated = announcement.partition_count
        if None not in (stated, after.partition_count) and stated != after.partition_count:
            text = (
                f"{name} has {stated} partitions, another stream of {', '.join(tracker.inputs)} has "
                f"{after.partition_count}. Write them again, all with the same number of partitions."
            )
            raise ContradictionError(text)
        after = _apply(after, name, announcement)
        reopened = reopened or announcement.type == "reopened"
    if not (tracker.at_end and reopened):
        return _announce(after)
    step = _announce(replace(after, at_end=False))
    return TrackerUpdate(step.tracker, (_announcement("reopened", after), *step.announced))


def _apply(tracker: CombinedTracker, name: str, announcement: Announcement) -> CombinedTracker:
    generations = {**tracker.generations, name: announcement.generation}
    partition_count = announcement.partition_count or tracker.partition_count
    tracker = replace(tracker, generations=generations, partition_count=partition_count)
    if announcement.type == "endOfStream":
        return replace(tracker, ended=tracker.ended | {name})
    if announcement.type == "reopened":
        return replace(tracker, ended=tracker.ended - {name})
    if announcement.watermark is not None:
        return replace(tracker, watermarks={**tracker.watermarks, name: announcement.watermark})
    return tracker


def _announce(tracker: CombinedTracker) -> TrackerUpdate[CombinedTracker]:
    if tracker.at_end:
        return TrackerUpdate(tracker)
    if tracker.ended.issuperset(tracker.inputs):
        return TrackerUpdate(replace(tracker, at_end=True), (_announcement("endOfStream", tracker),))
    if tracker.waiting:
        return TrackerUpdate(tracker)
    lowest = min(tracker.watermarks[name] for name in tracker.inputs if name not in tracker.ended)
    if tracker.watermark is not None and lowest <= tracker.watermark:
        return TrackerUpdate(tracker)
    return TrackerUpdate(replace(tracker, watermark=lowest), (_announcement("watermark", tracker, lowest),))


def _announcement(kind: AnnouncementType, tracker: CombinedTracker, watermark: int | None = None) -> Announcement:
    return Announcement(kind, tracker.generation, watermark, tracker.partition_count)
