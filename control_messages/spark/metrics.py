"""What a consumer measures of each partition (`foundation.meters`) and logs, in Spark's Python workers.

Every value has the attributes `stream` and `partition`. It is set when a batch has control messages of the partition.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from foundation.meters import Meters, Table

if TYPE_CHECKING:
    from control_messages.partition_tracker import PartitionTracker

GAUGES: Table = {
    "watermark": ("ms", "the watermark, since 1970 UTC"),
    "heldSeconds": ("s", "how long the watermark has not risen"),
    "surplusRows": ("{row}", "rows read beyond those that the tasks count; below 0, rows that are missing"),
}
logger = logging.getLogger("control_messages")

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


_QUIET_MS = 60_000
_logged: dict[str, int] = {}
"""When a rise was last logged, by stream: watermarks may rise in each batch, and in each of many partitions."""


def log_rise(tracker: PartitionTracker, now: int) -> None:
    """Log that the watermark of a partition has risen, once a minute for each stream."""
    if now - _logged.get(tracker.stream, now - _QUIET_MS) >= _QUIET_MS:
        _logged[tracker.stream] = now
        watermark = np.datetime64(tracker.watermark, "ms")
        logger.info("stream %s: the watermark of partition %s is %sZ", tracker.stream, tracker.partition, watermark)
