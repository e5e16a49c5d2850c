"""Control messages in Spark: the door. Every name that a job needs, by the order in which data pass.

    rows ─ emit ─► envelopes ─► any sink        announce: control messages alone, as the end of a stream
    any source ─► envelopes ─ reconcile ─► flow ─ process ─► flow ─ forward ─► envelopes of the next stream

`run_until_end` stops a query when its input has ended; `read_books` and `why_held` tell what it waits for.
"""

from control_messages.books import IdleRule
from control_messages.emission import Emission
from control_messages.emit import announce, emit, forward, partition_of
from control_messages.ending import read_books, run_until_end, why_held
from control_messages.process import EventTimeProcessor, process
from control_messages.reconcile import reconcile

__all__ = [
    "Emission",
    "EventTimeProcessor",
    "IdleRule",
    "announce",
    "emit",
    "forward",
    "partition_of",
    "process",
    "read_books",
    "reconcile",
    "run_until_end",
    "why_held",
]
