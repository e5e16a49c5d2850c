"""The watermark and the end of several inputs as one: the streams of an operator, the partitions of a stream. Pure.

The watermark is the minimum over the inputs that have neither ended nor are idle, once each of them has announced one.
If none of them is left, it is the highest of all inputs, and the whole is idle. The end is announced when all have
ended. When one of them is reopened after that, so is the whole; the others do not hold the watermark until they are
reopened, too. Rows of an input that was idle or had ended may be late when it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from control_messages.announcements import Announcement, TrackerUpdate, announcements
from control_messages.errors import ContradictionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from control_messages.announcements import AnnouncementType


@dataclass(frozen=True)
class CombinedTracker:
    """What several inputs have announced, and what has been announced for all of them.

    inputs: their names. watermarks, generations: the last of each input that has announced one. ended, idle: the inputs
    that are. watermark, at_end, is_idle: as announced for all. partition_count: of each stream; None if none has said
    it.
    """

    inputs: tuple[str, ...]
    watermarks: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    watermark: int | None = None
    at_end: bool = False
    is_idle: bool = False
    partition_count: int | None = None

    @property
    def generation(self) -> int:
        """The sum over the inputs: it rises when one of them does."""
        return sum(self.generations.values())

    @property
    def holding(self) -> frozenset[str]:
        """The inputs whose rows are waited for."""
        return frozenset(self.inputs) - self.ended - self.idle


def receive(tracker: CombinedTracker, announced: Iterable[tuple[str, Announcement]]) -> TrackerUpdate[CombinedTracker]:
    """The tracker after what its inputs have announced in one batch, of each input in its order.

    A batch is one step: an input that was reopened in it holds the watermark in it, whatever the others have announced.
    `ValueError` for another input. `ContradictionError` if the streams have not the same number of partitions: those
    that one of them lacks would have neither a watermark nor an end.
    """
    found, after, ends = list(announced), tracker, []
    for name, announcement in found:
        if name not in tracker.inputs:
            raise ValueError(f"{name!r} is not one of the inputs, which are {', '.join(map(repr, tracker.inputs))}.")
        stated = announcement.partition_count
        if None not in (stated, after.partition_count) and stated != after.partition_count:
            raise ContradictionError(
                f"{name} has {stated} partitions, another stream of {', '.join(tracker.inputs)} has "
                f"{after.partition_count}. Write them again, all with the same number of partitions."
            )
        if announcement.type == "endOfStream":  # an input holds the watermark up to its end
            ends.append((name, announcement))
        else:
            after = _apply(after, name, announcement)
    reopened = tracker.at_end and any(announcement.type == "reopened" for _, announcement in found)
    after = _raise(replace(after, at_end=tracker.at_end and not reopened))
    for name, announcement in ends:
        after = _apply(after, name, announcement)
    return _announce(tracker, _raise(after), reopened=reopened)


def _apply(tracker: CombinedTracker, name: str, announcement: Announcement) -> CombinedTracker:
    generations = {**tracker.generations, name: announcement.generation}
    partition_count = announcement.partition_count or tracker.partition_count
    tracker = replace(tracker, generations=generations, partition_count=partition_count)
    match announcement.type:
        case "endOfStream":
            return replace(tracker, ended=tracker.ended | {name}, idle=tracker.idle - {name})
        case "reopened":
            return replace(tracker, ended=tracker.ended - {name})
        case "active":
            return replace(tracker, idle=tracker.idle - {name})
        case "idle":
            return replace(tracker, idle=tracker.idle | {name})
        case "watermark":
            watermark = announcement.watermark
            return replace(
                tracker, watermarks={**tracker.watermarks, **({} if watermark is None else {name: watermark})}
            )
        case _:
            assert_never(announcement.type)


def _raise(tracker: CombinedTracker) -> CombinedTracker:
    """The tracker with the watermark that follows from those of its inputs, if that is higher."""
    holding = tracker.holding
    if tracker.at_end or tracker.ended.issuperset(tracker.inputs) or not holding <= tracker.watermarks.keys():
        return tracker
    known = tracker.watermarks
    computed = min(map(known.__getitem__, holding)) if holding else max(known.values(), default=None)
    rises = computed is not None and (tracker.watermark is None or computed > tracker.watermark)
    return replace(tracker, watermark=computed) if rises else tracker


def _announce(before: CombinedTracker, after: CombinedTracker, *, reopened: bool) -> TrackerUpdate[CombinedTracker]:
    """What has changed, and is to be announced, in this order."""
    over = after.ended.issuperset(after.inputs)
    idle = not over and not after.holding
    changes: dict[AnnouncementType, bool] = {
        "reopened": reopened,
        "active": before.is_idle and not idle and not over,
        "watermark": after.watermark != before.watermark,
        "idle": idle and not before.is_idle,
        "endOfStream": over and not after.at_end,
    }
    tracker = replace(after, at_end=over, is_idle=idle)
    return TrackerUpdate(
        tracker, announcements(changes, tracker.generation, tracker.watermark, tracker.partition_count)
    )
