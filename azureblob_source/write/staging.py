"""A task's work: Arrow batches in, staged blobs out. Knows nothing of Spark.

    batches ─ gather ─ route ─ encode ─ open_blobs ─ upload        all on one task; nothing is visible afterwards

`stage` reads in this order. Control messages (options `envelopeColumn`, `emission`) go the same way behind all other
rows. In the mode `at-least-once` the task also commits each blob when it is finished, which is what the Samza proposal
does.
"""

from __future__ import annotations

import json
import string
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from azure_account.errors import ConfigurationError
from azureblob_source.arrow_values import stored_values, validity
from azureblob_source.avro import schema as avro_schema
from azureblob_source.avro.encoding.encode import RowEncoder, raw_rows
from azureblob_source.avro.encoding.validate import validate_datums
from azureblob_source.avro.files.block_codecs import codec
from azureblob_source.log.entry import BlobEntry
from azureblob_source.write.control_records import HeldControl, is_bytes, stored_rows
from azureblob_source.write.open_blobs import BlobFormat, Block, OpenBlobs
from azureblob_source.write.routing import slices
from azureblob_source.write.upload import Uploader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from azure_account.account import BlobContainer
    from azureblob_source.avro.encoding.pieces import EncodedRows
    from azureblob_source.avro.schema import AvroSchema
    from azureblob_source.write.open_blobs import Names
    from azureblob_source.write.options import SinkOptions
    from azureblob_source.write.routing import RoutedBatch, Router

GATHERED_ROWS = 32_768
GATHERED_BYTES = 16 << 20
"""Arrow batches are encoded together up to these sizes: Spark's 10,000 rows are too few to pay for a numpy call."""

_SUFFIX_CHARACTERS = string.digits + string.ascii_lowercase
_EARLIEST, _LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class StagedTask:
    """What one task attempt has done; the commit message. `metrics` has the names of `metrics.COUNTERS`.

    control: the control messages in the blobs, as in a log entry, each with its stream.
    """

    blobs: tuple[BlobEntry, ...] = ()
    metrics: dict[str, int] = field(default_factory=dict)
    writer: dict[str, Any] = field(default_factory=dict)
    control: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> str:
        """As text, for the way from worker to driver."""
        document: dict[str, Any] = {"blobs": [asdict(blob) for blob in self.blobs], "metrics": self.metrics}
        return json.dumps({**document, "writer": self.writer, "control": self.control}, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> StagedTask:
        """The inverse of `to_json`."""
        document = json.loads(text)
        blobs = tuple(BlobEntry(**blob) for blob in document["blobs"])
        return StagedTask(blobs, document["metrics"], document["writer"], tuple(document["control"]))


class RandomNames:
    """Names of one task: suffixes and ids out of a source of random bytes, such as `os.urandom`."""

    def __init__(self, random_bytes: Callable[[int], bytes], *, suffixed: bool) -> None:
        self._random_bytes = random_bytes
        self._suffixed = suffixed

    def suffix(self) -> str | None:
        """Eight digits or small letters (41 bits), or None where names are to have no suffix."""
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
    """What all tasks of one write have in common, checked on the driver against the rows' schema.

    arrow: what is routed and stored of the rows: all of them, unless there is an emission.
    """

    options: SinkOptions
    arrow: pa.Schema
    avro: AvroSchema

    @property
    def form(self) -> BlobFormat:
        """How the blobs' bytes are made."""
        return BlobFormat(self.avro.json, self.avro.fingerprint, codec(self.options.codec), self.options.gzipped)


def plan_write(options: SinkOptions, rows: pa.Schema) -> WritePlan:
    """Check options against the schema of the rows. `ConfigurationError` names what does not fit."""
    if options.emission is not None:
        rows = stored_rows(options.emission, rows)
    options.router.check(rows)
    written = options.router.written_schema(rows)
    if options.event_time_column is not None:
        _check_column("eventTimeColumn", options.event_time_column, written, pa.types.is_timestamp, "a timestamp")
    if options.value_column is not None:
        _check_column("valueColumn", options.value_column, written, is_bytes, "binary")
    if options.envelope_column is not None:
        _check_column("envelopeColumn", options.envelope_column, written, is_bytes, "binary")
    if options.value_column is not None and options.avro_schema is not None:
        return WritePlan(options, rows, options.avro_schema)
    if not len(written):
        message = (
            "no column is left to write. Keep one beside the routing columns, or set `dropRoutingColumns` to false."
        )
        raise ConfigurationError(message)
    avro = options.avro_schema or avro_schema.infer(
        written, name=options.record_name, namespace=options.record_namespace
    )
    avro_schema.check_writable(written, avro)
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


def stage(  # noqa: PLR0913 - the task's inputs, and its time and randomness
    batches: Iterable[pa.RecordBatch],
    plan: WritePlan,
    container: BlobContainer,
    *,
    names: Names,
    utc: Callable[[], datetime],
    clock: Callable[[], float],
    publish: Callable[[BlobEntry], object] | None = None,
) -> StagedTask:
    """Write all rows of one task as staged blocks. Nothing is visible until the driver commits, if ever.

    `publish` is called with every finished blob; only `at-least-once` has it. On an error the staged blocks are left to
    expire, which Azure does after seven days.
    """
    options = plan.options
    blobs = OpenBlobs(options.limits, plan.form, names, utc, clock)
    encode, held = _encoder(plan), _held_control(plan)
    finished: list[BlobEntry] = []
    started, failed_before, plain = clock(), container.failed_attempts, 0
    with Uploader(container, plan.form, options.threads, options.queue, options.flush_timeout) as uploader:

        def take(events: Iterator[Block | BlobEntry]) -> None:
            for event in events:
                if isinstance(event, Block):
                    uploader.submit(event)
                else:
                    finished.append(event)
                    if publish is not None:
                        uploader.drain()
                        publish(event)

        for routed in _routed(gather(batches), options.router, held):
            rows = encode(routed.batch)
            plain += len(rows.data)
            ranges = _event_ranges(routed, options.event_time_column)
            for (route, first, last), events in zip(slices(routed), ranges, strict=True):
                take(blobs.append(route, rows, first, last, events))
        take(blobs.close())
        uploader.drain()
    stored = tuple(replace(blob, size=uploader.stored[blob.name]) for blob in finished)
    metrics = {
        "messagesSent": sum(blob.rows for blob in stored),
        "bytesSent": plain,
        "bytesCompressed": sum(blob.size for blob in stored),
        "blockUploads": uploader.blocks,
        "blobCommits": 0 if publish is None else len(stored),
        "connectionErrors": container.failed_attempts - failed_before,
    }
    writer = {"durationMs": round((clock() - started) * 1000)}
    return StagedTask(stored, metrics, writer, () if held is None else held.messages)


def _held_control(plan: WritePlan) -> HeldControl | None:
    options = plan.options
    if options.envelope_column is None:
        return None
    return HeldControl(options.envelope_column, options.router, options.emission)


def _routed(batches: Iterable[pa.RecordBatch], router: Router, held: HeldControl | None) -> Iterator[RoutedBatch]:
    """The batches by route: as they come, but control messages behind all others."""
    if held is None:
        yield from map(router.route, batches)
        return
    for batch in batches:
        user = held.user_rows(batch)
        if user.num_rows:
            yield router.route(user)
    for batch in gather(held.control_rows()):
        routed = router.route(batch)
        held.tell(routed)
        yield routed


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches, each up to `GATHERED_ROWS` rows or `GATHERED_BYTES` bytes."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GATHERED_ROWS or size >= GATHERED_BYTES:
            yield _one(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch of several. `pyarrow.concat_batches` would do it from version 19 on."""
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


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
    """For every route the least and greatest event time of its rows, in microseconds; None if all are null."""
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
