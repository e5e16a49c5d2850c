"""A tracker as plain values, to be saved and restored. Spark checkpoints contain the names of the fields. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from control_messages.partition_tracker import Partition, PartitionTracker


@dataclass(frozen=True)
class EndOfStreamCheckpoint:
    """The ends that a tracker holds, as plain values. tasks: those that have ended."""

    streamId: str  # noqa: N815 - Samza's names, here and below
    totalTasks: int  # noqa: N815
    tasks: list[str]
    generation: int
    ended: bool


@dataclass(frozen=True)
class WatermarkCheckpoint:
    """The watermarks that a tracker holds, as plain values."""

    streamId: str  # noqa: N815
    totalTasks: int  # noqa: N815
    tasksToEventTime: dict[str, int]  # noqa: N815
    generation: int
    timestampOfLastEmission: int | None  # noqa: N815
    idle: list[str]
    heard: dict[str, int]
    since: int
    partitionCount: int  # noqa: N815
    sequences: dict[str, int]
    stale: int
    staleGeneration: int  # noqa: N815
    isIdle: bool  # noqa: N815
    risenAt: int  # noqa: N815
    rowsRead: int  # noqa: N815
    rowsSent: int | None  # noqa: N815
    allCounted: bool  # noqa: N815
    counted: dict[str, int]


def to_checkpoint(tracker: PartitionTracker) -> tuple[EndOfStreamCheckpoint, WatermarkCheckpoint]:
    """The tracker as it is saved. Both parts must be saved in one write with the offsets of the messages.

    If the offsets are saved earlier, a consumer that restarts in between waits for ever for messages that it has read.
    """
    return (
        EndOfStreamCheckpoint(
            tracker.stream, tracker.task_count, sorted(tracker.ended), tracker.generation, tracker.at_end
        ),
        WatermarkCheckpoint(
            tracker.stream,
            tracker.task_count,
            dict(tracker.watermarks),
            tracker.generation,
            tracker.watermark,
            sorted(tracker.idle),
            dict(tracker.last_seen),
            tracker.first_seen,
            tracker.partition_count,
            dict(tracker.sequences),
            tracker.stale,
            tracker.stale_generation,
            tracker.is_idle,
            tracker.risen_at,
            tracker.rows_read,
            tracker.rows_sent,
            tracker.all_counted,
            dict(tracker.counted),
        ),
    )


def restore(end: EndOfStreamCheckpoint, watermark: WatermarkCheckpoint, partition: Partition = 0) -> PartitionTracker:
    """The tracker that was saved.

    end, watermark: its two parts. partition: the one that it is of.

    `ValueError` if the two parts are of different trackers.
    """
    if (end.streamId, end.generation, end.totalTasks) != (
        watermark.streamId,
        watermark.generation,
        watermark.totalTasks,
    ):
        raise ValueError(
            f"The checkpoint of partition {partition} has an end of stream {end.streamId}, generation "
            f"{end.generation}, {end.totalTasks} tasks, and a watermark of stream {watermark.streamId}, generation "
            f"{watermark.generation}, {watermark.totalTasks} tasks. They were not saved in one write."
        )
    return PartitionTracker(
        stream=end.streamId,
        partition=partition,
        generation=end.generation,
        task_count=end.totalTasks,
        watermarks=dict(watermark.tasksToEventTime),
        ended=frozenset(end.tasks),
        idle=frozenset(watermark.idle),
        last_seen=dict(watermark.heard),
        first_seen=watermark.since,
        watermark=watermark.timestampOfLastEmission,
        at_end=end.ended,
        partition_count=watermark.partitionCount,
        sequences=dict(watermark.sequences),
        stale=watermark.stale,
        stale_generation=watermark.staleGeneration,
        is_idle=watermark.isIdle,
        risen_at=watermark.risenAt,
        rows_read=watermark.rowsRead,
        rows_sent=watermark.rowsSent,
        all_counted=watermark.allCounted,
        counted=dict(watermark.counted),
    )
