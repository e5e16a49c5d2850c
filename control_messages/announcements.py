"""What a tracker announces when messages arrive or time passes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")
AnnouncementType: TypeAlias = Literal["reopened", "active", "watermark", "idle", "endOfStream"]


@dataclass(frozen=True)
class Announcement:
    """What has happened to a partition or stream: its watermark, its end, or whether rows are expected.

    watermark: it has risen to `watermark` (ms since 1970 UTC). endOfStream: no row of the generation will follow; once
    in a generation. reopened: after the end, a higher generation has begun. idle: no row is expected for now, so it is
    to hold no other stream; until `active`, an end or a `reopened`. partition_count: how many partitions the stream
    has; None if its messages do not say.
    """

    type: AnnouncementType
    generation: int
    watermark: int | None = None
    partition_count: int | None = None


def announcements(
    changes: Mapping[AnnouncementType, bool], generation: int, watermark: int | None, partition_count: int | None
) -> tuple[Announcement, ...]:
    """The announcements of what has changed, in this order."""
    return tuple(
        Announcement(kind, generation, watermark if kind == "watermark" else None, partition_count)
        for kind, has_changed in changes.items()
        if has_changed
    )


@dataclass(frozen=True)
class TrackerUpdate(Generic[T]):
    """A tracker after messages or after time has passed, and what is to be announced now, in this order."""

    tracker: T
    announced: tuple[Announcement, ...] = ()

    @property
    def watermark(self) -> int | None:
        """The watermark announced; None if it has not risen."""
        return next((each.watermark for each in self.announced if each.type == "watermark"), None)

    @property
    def end(self) -> bool:
        """Whether an end is announced."""
        return any(each.type == "endOfStream" for each in self.announced)
