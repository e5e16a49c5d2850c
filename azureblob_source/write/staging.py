"""What one task does: Arrow batches in, staged blobs out. Independent of Spark.

    batches ─ coalesce ─ route ─ encode ─ open_blobs ─ upload

`stage` reads in this order. Control messages (options `envelopeColumn`, `emission`) take the same path after all other
rows. With `deliveryGuarantee` `at-least-once` the task also publishes each finished blob, as Samza's proposal does;
else nothing is visible when a task ends.
"""

from __future__ import annotations

import json
import string
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import arrow_avro
from arrow_avro import RowEncoder, codec, raw_rows, stored_values, validate_datums, validity
from azure_account.clock import SYSTEM_CLOCK
from azure_account.errors import ConfigurationError
from azureblob_source.log.entry import BlobEntry
from azureblob_source.metrics import blob_counts
from azureblob_source.write.coalescing import coalesce
from azureblob_source.write.control_records import EnvelopeRouter, is_binary, plain_envelopes, stored_rows
from azureblob_source.write.open_blobs import BlobFormat, OpenBlobs, SealedBlock
from azureblob_source.write.routing import slices
from azureblob_source.write.upload import Uploader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from arrow_avro import AvroSchema, EncodedRows
    from azure_account.account import BlobContainer
    from azure_account.clock import Clock
    from azureblob_source.write.open_blobs import BlobNames, FinishedBlob
    from azureblob_source.write.options import SinkOptions
    from azureblob_source.write.routing import RoutedBatch

_SUFFIX_CHARACTERS = string.digits + string.ascii_lowercase
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class StagedTask:
    """What one task attempt has staged: its message to the driver. `metrics` has names of `metrics.COUNTERS`.

    writer: the task and its batch, for the log entry; `durationMs` at least.
    control: the control messages in the blobs, as in a log entry, each with its stream.
    """

    blobs: tuple[BlobEntry, ...] = ()
    metrics: dict[str, int] = field(default_factory=dict)
    writer: dict[str, Any] = field(default_factory=dict)
    control: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> str:
        """As JSON, which the driver reads."""
        document: dict[str, Any] = {"blobs": [asdict(blob) for blob in self.blobs], "metrics": self.metrics}
        return json.dumps({**document, "writer": self.writer, "control": self.control}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> StagedTask:
        """The inverse of `to_json`."""
        document = json.loads(text)
        blobs = tuple(BlobEntry(**blob) for blob in document["blobs"])
        return StagedTask(blobs, document["metrics"], document["writer"], tuple(document["control"]))


class RandomNames:
    """The `BlobNames` of a task, from a source of random bytes such as `os.urandom`."""

    def __init__(self, random_bytes: Callable[[int], bytes], *, suffixed: bool) -> None:
        self._random_bytes = random_bytes
        self._suffixed = suffixed

    def suffix(self) -> str | None:
        """Eight digits or lower-case letters (41 bits), or None if `suffixRandomStringToBlobName` is false."""
        if not self._suffixed:
            return None
        number = int.from_bytes(self._random_bytes(8), "big")
        return "".join(_SUFFIX_CHARACTERS[number // 36**place % 36] for place in range(8))

    def attempt(self) -> str:
        """Sixteen hexadecimal characters."""
        return self._random_bytes(8).hex()

    def sync(self) -> bytes:
        """An Avro sync marker."""
        return self._random_bytes(16)


@dataclass(frozen=True)
class WritePlan:
    """What all tasks of one write share, validated on the driver against the schema of the rows.

    arrow: the columns that are routed and stored: all of the rows', unless option `emission` is set.
    sequence: with option `emission`, of the watermarks that are added: the time of this write (ms).
    """

    options: SinkOptions
    arrow: pa.Schema
    avro: AvroSchema
    sequence: int | None = None

    @property
    def blob_format(self) -> BlobFormat:
        """How the blobs are serialized."""
        return BlobFormat(self.avro.json, self.avro.fingerprint, codec(self.options.codec), self.options.gzipped)


def plan_write(options: SinkOptions, rows: pa.Schema) -> WritePlan:
    """Validate the options against the schema of the rows. `ConfigurationError` names the option that does not fit."""
    if options.emission is not None:
        rows = stored_rows(options.emission, rows)
    options.router.check(rows)
    written = options.router.written_schema(rows)
    if options.event_time_column is not None:
        _check_column("eventTimeColumn", options.event_time_column, written, pa.types.is_timestamp, "a timestamp")
    if options.value_column is not None:
        _check_column("valueColumn", options.value_column, written, is_binary, "binary")
    if options.envelope_column is not None:
        _check_column("envelopeColumn", options.envelope_column, written, is_binary, "binary")
    if options.value_column is not None and options.avro_schema is not None:
        return WritePlan(options, rows, options.avro_schema)
    if not len(written):
        message = "no column is left to write. Select another column too, or set `dropRoutingColumns` to false."
        raise ConfigurationError(message)
    avro = options.avro_schema or arrow_avro.infer(
        written, name=options.record_name, namespace=options.record_namespace
    )
    arrow_avro.check_writable(written, avro)
    return WritePlan(options, rows, avro)


def _check_column(
    option: str, column: str, schema: pa.Schema, fits: Callable[[pa.DataType], bool], expected: str
) -> None:
    if schema.get_field_index(column) < 0:
        message = f"option `{option}` names column {column!r}; the rows to write have {', '.join(schema.names)}."
        raise ConfigurationError(message)
    kind = schema.field(column).type
    if not fits(kind):
        message = f"option `{option}`: column {column!r} is {kind}, it must be {expected}. Cast it in the query."
        raise ConfigurationError(message)


def stage(
    batches: Iterable[pa.RecordBatch],
    plan: WritePlan,
    container: BlobContainer,
    *,
    names: BlobNames,
    clock: Clock = SYSTEM_CLOCK,
    publish: Callable[[BlobEntry], object] | None = None,
) -> StagedTask:
    """Stage all rows of one task. Nothing is visible until the driver commits.

    `publish` is called with each blob when all its blocks are staged; only `at-least-once` has it. After an error the
    staged blocks stay, until Azure drops them after seven days.
    """
    options = plan.options
    open_blobs = OpenBlobs(options.limits, plan.blob_format, names, clock)
    encode, envelopes = _encoder(plan), _envelope_router(plan)
    finished: list[FinishedBlob] = []
    started, failed_before = clock.monotonic(), container.failed_attempts
    with Uploader(container, plan.blob_format, options.threads, options.queue, options.flush_timeout) as uploader:

        def take(outputs: Iterable[SealedBlock | FinishedBlob]) -> None:
            for output in outputs:
                if isinstance(output, SealedBlock):
                    uploader.submit(output)
                else:
                    finished.append(output)
                    if publish is not None:
                        uploader.drain()
                        publish(output.entry(uploader.stored[output.name]))

        larger = coalesce(batches if envelopes is None else map(plain_envelopes, batches))
        for routed in map(options.router.route, larger) if envelopes is None else envelopes.routed(larger):
            rows = encode(routed.batch)
            event_ranges = _event_ranges(routed, options.event_time_column)
            for (route, first, last), event_range in zip(slices(routed), event_ranges, strict=True):
                take(open_blobs.append(route, rows, first, last, event_range))
        take(open_blobs.close())
        uploader.drain()
    blobs = tuple(blob.entry(uploader.stored[blob.name]) for blob in finished)
    counts = {
        **blob_counts(blobs),
        "blobCommits": 0 if publish is None else len(blobs),
        "connectionErrors": container.failed_attempts - failed_before,
    }
    writer = {"durationMs": round((clock.monotonic() - started) * 1000)}
    return StagedTask(blobs, counts, writer, () if envelopes is None else envelopes.messages)


def _envelope_router(plan: WritePlan) -> EnvelopeRouter | None:
    options = plan.options
    if options.envelope_column is None:
        return None
    return EnvelopeRouter(options.envelope_column, options.router, options.emission, plan.sequence)


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
