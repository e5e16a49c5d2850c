"""Short forms of control messages, and of what a tracker makes of batches of them."""

from __future__ import annotations

from control_messages.messages import EARLIEST, ControlMessage, EndOfStream, Watermark
from control_messages.partition_tracker import (
    IdleTimeout,
    PartitionTracker,
    receive,
)
from tests.control_messages.intermediate import STREAM

EMPTY = PartitionTracker(STREAM)
TIMEOUT = IdleTimeout(timeout_ms=100)


def at(task: str | None, timestamp: int, task_count: int = 2, generation: int = 0) -> Watermark:
    return Watermark(task, task_count, timestamp, generation)


def end(task: str | None, task_count: int = 2, generation: int = 0) -> EndOfStream:
    return EndOfStream(task, task_count, STREAM, generation)


def idle(task: str, task_count: int = 2, generation: int = 0) -> Watermark:
    return Watermark(task, task_count, EARLIEST, generation, idle=True)


def after(
    *batches: list[ControlMessage], tracker: PartitionTracker = EMPTY, idle_timeout: IdleTimeout | None = None
) -> PartitionTracker:
    """The tracker after the batches, at the moments 0, 1, 2..."""
    for now, batch in enumerate(batches):
        tracker = receive(tracker, batch, now, idle_timeout).tracker
    return tracker


def announced(*batches: list[ControlMessage], tracker: PartitionTracker = EMPTY) -> list[int | str | None]:
    """What each batch announces: a watermark, "end" or None."""
    found: list[int | str | None] = []
    for now, batch in enumerate(batches):
        step = receive(tracker, batch, now)
        tracker = step.tracker
        found.append("end" if step.end else step.watermark)
    return found
