"""What one task does: Arrow batches in, staged blobs out. Independent of Spark.

    batches ─ coalesce ─ route ─ encode ─ open_blobs ─ upload

`stage` reads in this order. Control messages (options `envelopeColumn`, `emission`) take the same path after all other
rows. With `deliveryGuarantee` `at-least-once` the task also publishes each finished blob, as Samza's proposal does;
else nothing is visible when a task ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro import RowEncoder, raw_rows, stored_values, validate_datums, validity, well_formed
from azureblob_source.metrics import blob_counts
from azureblob_source.write.control_records import EnvelopeRouter, plain_envelopes
from azureblob_source.write.open_blobs import BlobIds, OpenBlobs, RowRanges, SealedBlock
from azureblob_source.write.routing import coalesce, slices
from azureblob_source.write.row_counts import RowCounts, check_blob
from azureblob_source.write.staged_task import StagedTask
from azureblob_source.write.upload import BlockUploader, Staged
from foundation.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from arrow_avro import EncodedRows
    from azure_account.container import BlobContainer
    from azureblob_source.log.entry import BlobEntry
    from azureblob_source.write.planning import WritePlan
    from azureblob_source.write.routing import RoutedBatch
    from foundation.clock import Clock

_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class StreamCalls:
    """What a task calls for the streams of its rows.

    admit: called with each stream, before the first block is staged for it.
    publish: called with each blob when all its blocks are staged; only `at-least-once` has it.
    """

    admit: Callable[[str], object] | None = None
    publish: Callable[[BlobEntry], object] | None = None


_NO_CALLS = StreamCalls()


def stage(
    batches: Iterable[pa.RecordBatch],
    plan: WritePlan,
    container: BlobContainer,
    *,
    names: BlobIds,
    clock: Clock = SYSTEM_CLOCK,
    calls: StreamCalls = _NO_CALLS,
) -> StagedTask:
    """Stage all rows of one task. Nothing is visible until the driver commits.

    After an error the staged blocks stay, until Azure drops them after seven days.
    """
    options = plan.options
    open_blobs = OpenBlobs(options.limits, plan.blob_format, names, clock)
    encode, envelopes, bounds = _encoder(plan), _envelope_router(plan), plan.column_bounds
    counts = RowCounts()
    started, failed_before = clock.monotonic(), container.failed_attempts
    with BlockUploader(container, plan.blob_format, options.threads, options.queue, options.flush_timeout) as uploader:
        outputs = _Outputs(uploader, plan, calls)
        received = map(well_formed, counts.of_spark(batches))
        larger = coalesce(received if envelopes is None else map(plain_envelopes, received))
        for routed in map(options.router.route, larger) if envelopes is None else envelopes.routed(larger):
            rows = encode(routed.batch)
            counts.encoded += len(rows)
            ranges = _event_ranges(routed, options.event_time_column), bounds.of_groups(routed.batch, routed.starts)
            parts = list(zip(slices(routed), map(RowRanges, *ranges), strict=True))
            del routed  # the batch is encoded, and its memory may be much of the task's
            for (route, first, last), of_rows in parts:
                counts.routed += last - first
                outputs.take(open_blobs.append(route, rows, first, last, of_rows))
            del rows
        outputs.take(open_blobs.close())
        uploader.drain()
    blobs = tuple(map(outputs.entry, outputs.finished))
    counts.staged = sum(blob.rows for blob in blobs)
    counts.added = 0 if envelopes is None else envelopes.added
    metrics = {
        **blob_counts(blobs),
        "blobCommits": 0 if calls.publish is None else len(blobs),
        "connectionErrors": container.failed_attempts - failed_before,
    }
    writer = {"durationMs": round((clock.monotonic() - started) * 1000)}
    return StagedTask(counts.check(), blobs, metrics, writer, () if envelopes is None else envelopes.messages)


@dataclass
class _Outputs:
    """What comes out of `OpenBlobs`: blocks, which are uploaded, and finished blobs."""

    uploader: BlockUploader
    plan: WritePlan
    calls: StreamCalls
    finished: list[BlobEntry] = field(default_factory=list)
    admitted: set[str] = field(default_factory=set)

    def take(self, outputs: Iterable[SealedBlock | BlobEntry]) -> None:
        """Upload and keep what comes next."""
        for output in outputs:
            if isinstance(output, SealedBlock):
                self._admit(output.stream)
                self.uploader.submit(output)
            else:
                self.finished.append(output)
                if self.calls.publish is not None:
                    self.uploader.drain()
                    self.calls.publish(self.entry(output))

    def _admit(self, stream: str) -> None:
        if self.calls.admit is not None and stream not in self.admitted:
            self.calls.admit(stream)
            self.admitted.add(stream)

    def entry(self, blob: BlobEntry) -> BlobEntry:
        """The blob with its stored size and partition column, if its blocks had its rows when they were staged."""
        staged = self.uploader.staged.get(blob.name, Staged())
        check_blob(blob.name, blob.rows, staged.rows)
        return replace(blob, size=staged.size, partition_column=self.plan.partition_column)


def _envelope_router(plan: WritePlan) -> EnvelopeRouter | None:
    options = plan.options
    if options.envelope_column is None:
        return None
    return EnvelopeRouter(options.envelope_column, options.router, options.emission, plan.sequence, plan.task)


def _encoder(plan: WritePlan) -> Callable[[pa.RecordBatch], EncodedRows]:
    options = plan.options
    column = options.value_column
    if column is None:
        return RowEncoder(options.router.written_schema(plan.arrow), plan.avro).encode

    def pass_through(batch: pa.RecordBatch) -> EncodedRows:
        rows = raw_rows(batch.column(column))
        if options.validate_datums:
            validate_datums(rows, plan.avro)
        return rows

    return pass_through


def _event_ranges(routed: RoutedBatch, column: str | None) -> list[tuple[int, int] | None]:
    """For each route the least and greatest event time of its rows, in microseconds; None if all are null."""
    if column is None:
        return [None] * len(routed.routes)
    times = routed.batch.column(column)
    micros = times.cast(pa.timestamp("us", times.type.tz), safe=False).view(pa.int64())
    starts = routed.starts[:-1]
    values, valid = stored_values(micros, np.int64), validity(micros)
    least = np.minimum.reduceat(values if valid is None else np.where(valid, values, _LATEST), starts)
    greatest = np.maximum.reduceat(values if valid is None else np.where(valid, values, _EARLIEST), starts)
    return [
        None if low == _LATEST else (low, high) for low, high in zip(least.tolist(), greatest.tolist(), strict=True)
    ]
