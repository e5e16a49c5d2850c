"""What a consumer measures of each partition (`foundation.meters`), in Spark's Python workers.

Every value has the attributes `stream` and `partition`. It is set when a batch has control messages of the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from foundation.meters import Meters, Table

if TYPE_CHECKING:
    from control_messages.partition_tracker import PartitionTracker

GAUGES: Table = {
    "watermark": ("ms", "the watermark, since 1970 UTC"),
    "heldSeconds": ("s", "how long the watermark has not risen"),
    "surplusRows": ("{row}", "rows read beyond those that the tasks count; below 0, rows that are missing"),
}
METERS = Meters("control_messages", gauge=GAUGES)


def held_ms(tracker: PartitionTracker, now: int) -> int:
    """How long the watermark of a partition has not risen (ms); 0 once it has ended."""
    return 0 if tracker.at_end else max(0, now - tracker.risen_at)


def measure(tracker: PartitionTracker, now: int) -> None:
    """Set the gauges of a partition."""
    values = {
        "watermark": tracker.watermark,
        "heldSeconds": held_ms(tracker, now) / 1000,
        "surplusRows": tracker.surplus,
    }
    attributes = {"stream": tracker.stream, "partition": str(tracker.partition)}
    for name, value in values.items():
        if value is not None:
            METERS.instrument("gauge", name).set(value, attributes)
