"""Control messages in Spark: every name that a job needs, in the order in which data pass.

    rows ─ emit ─► envelopes ─► any sink
    control messages alone, such as the end of a stream ─ control_envelopes ─► envelopes ─► any sink
    any source ─► envelopes ─ reconcile ─► flow ─ process ─► flow ─ forward ─► envelopes of the next stream

`run_bounded` writes the rows of a bounded input, then the end of the stream. `run_until_end` stops a query when its
inputs have ended. `start_bounded` and `stop_at_end` do the same and return at once, for who has to watch the query.
`read_trackers` and `why_held` show what holds its watermarks.
"""

from control_messages.partition_tracker import IdleTimeout
from control_messages.producer import ProducerSpec
from control_messages.spark.bounded import AzureBlobTransport, BoundedRun, KafkaTransport, run_bounded, start_bounded
from control_messages.spark.columns import EmitColumns, EnvelopeColumns
from control_messages.spark.event_time import EventTimeProcessor, process
from control_messages.spark.progress import EndingQuery, read_trackers, run_until_end, stop_at_end, why_held
from control_messages.spark.reconciliation import reconcile
from control_messages.spark.upstream import control_envelopes, emit, forward, partition_of, task_of

__all__ = [
    "AzureBlobTransport",
    "BoundedRun",
    "EmitColumns",
    "EndingQuery",
    "EnvelopeColumns",
    "EventTimeProcessor",
    "IdleTimeout",
    "KafkaTransport",
    "ProducerSpec",
    "control_envelopes",
    "emit",
    "forward",
    "partition_of",
    "process",
    "read_trackers",
    "reconcile",
    "run_bounded",
    "run_until_end",
    "start_bounded",
    "stop_at_end",
    "task_of",
    "why_held",
]
