"""The trackers of all partitions of a stream as one, and the watermark of several streams. Pure.

The watermark of a stream is the minimum over its partitions that have not ended, once all have announced one. The
stream ends when all partitions have ended. The same two rules, `input_watermark` and `all_ended`, apply to the streams
that a job reads.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from control_messages import holds, partition_tracker
from control_messages.partition_tracker import PartitionTracker, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from control_messages.errors import ContradictionError
    from control_messages.holds import Hold
    from control_messages.messages import ControlMessage
    from control_messages.partition_tracker import IdleTimeout


class Tracker(Protocol):
    """A `PartitionTracker` or a `StreamTracker`."""

    @property
    def watermark(self) -> int | None:
        """The last watermark announced."""

    @property
    def at_end(self) -> bool:
        """The end has been announced."""


def input_watermark(inputs: Iterable[Tracker]) -> int | None:
    """The minimum of the watermarks announced by several partitions or streams, without those that have ended.

    None while one of them has announced none, and when all have ended. It never falls, since none of them does.
    """
    watermarks = [each.watermark for each in inputs if not each.at_end]
    announced = [watermark for watermark in watermarks if watermark is not None]
    return min(announced, default=None) if len(announced) == len(watermarks) else None


def all_ended(inputs: Iterable[Tracker]) -> bool:
    """Whether all of several partitions or streams have ended."""
    return all(each.at_end for each in inputs)


@dataclass(frozen=True)
class StreamTracker:
    """The trackers of a stream's partitions, by number."""

    partitions: tuple[PartitionTracker, ...]

    @classmethod
    def of(cls, stream: str, partitions: int) -> StreamTracker:
        """The tracker before the first message. `ValueError` for no partitions."""
        if partitions < 1:
            text = f"Stream {stream} has {partitions} partitions; a stream has at least one."
            raise ValueError(text)
        return cls(tuple(PartitionTracker(stream, partition) for partition in range(partitions)))

    @property
    def watermark(self) -> int | None:
        """The last watermark announced; None before the first, and at the end."""
        return input_watermark(self.partitions)

    @property
    def at_end(self) -> bool:
        """All partitions have ended."""
        return all_ended(self.partitions)


def receive(
    tracker: StreamTracker,
    messages: Iterable[tuple[int, ControlMessage]],
    now: int,
    idle_timeout: IdleTimeout | None = None,
    on_contradiction: Callable[[ControlMessage, ContradictionError], None] | None = None,
) -> Step[StreamTracker]:
    """As `partition_tracker.receive`, of (partition, message) pairs. `ValueError` for an unknown partition."""
    by_partition: defaultdict[int, list[ControlMessage]] = defaultdict(list)
    for partition, message in messages:
        by_partition[partition].append(message)
    unknown = sorted(by_partition.keys() - range(len(tracker.partitions)))
    if unknown:
        text = (
            f"Stream {tracker.partitions[0].stream} has {len(tracker.partitions)} partitions, and messages came from "
            f"partition {unknown[0]}. Give the consumer the number of partitions."
        )
        raise ValueError(text)
    steps = [
        partition_tracker.receive(each, by_partition[partition], now, idle_timeout, on_contradiction)
        if partition in by_partition
        else _wait(each, now, idle_timeout)
        for partition, each in enumerate(tracker.partitions)
    ]
    return _announce(tracker, steps)


def advance_time(tracker: StreamTracker, now: int, idle_timeout: IdleTimeout) -> Step[StreamTracker]:
    """As `partition_tracker.advance_time`."""
    return _announce(tracker, [partition_tracker.advance_time(each, now, idle_timeout) for each in tracker.partitions])


def next_timeout(tracker: StreamTracker, now: int, idle_timeout: IdleTimeout) -> int | None:
    """As `partition_tracker.next_timeout`."""
    moments = [partition_tracker.next_timeout(each, now, idle_timeout) for each in tracker.partitions]
    return min((moment for moment in moments if moment is not None), default=None)


def resume(tracker: StreamTracker, now: int) -> StreamTracker:
    """As `partition_tracker.resume`."""
    return StreamTracker(tuple(partition_tracker.resume(each, now) for each in tracker.partitions))


def why_held(tracker: StreamTracker, now: int, idle_timeout: IdleTimeout | None = None) -> tuple[Hold, ...]:
    """The partitions that hold the watermark: those that have announced none, else those with the lowest."""
    lowest = tracker.watermark
    return tuple(
        holds.why_held(each, now, idle_timeout)
        for each in tracker.partitions
        if not each.at_end and each.watermark in (None, lowest)
    )


def _wait(tracker: PartitionTracker, now: int, idle_timeout: IdleTimeout | None) -> Step[PartitionTracker]:
    return Step(tracker) if idle_timeout is None else partition_tracker.advance_time(tracker, now, idle_timeout)


def _announce(before: StreamTracker, steps: list[Step[PartitionTracker]]) -> Step[StreamTracker]:
    after = StreamTracker(tuple(step.tracker for step in steps))
    risen = None if after.watermark == before.watermark else after.watermark
    return Step(after, risen, after.at_end and not before.at_end, sum(step.stale for step in steps))
