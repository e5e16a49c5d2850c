"""Blobs of Avro to Arrow batches of the reader's schema. Pure.

The data flow of a blob and of the two schemas::

    blob ─► blocks (container_file, compression) ─► bodies ─► scan: numpy arrays ─► arrays: Arrow
    header's schema + reader's schema ─► resolve ─► plan ─► program ─┘                │
                                                     └────────────────────────────────┘

A batch is read in one run, from as many blocks as it needs; of the last block perhaps only the first rows are read. One
row with its bytes is followed through all steps in `plan`, `program`, `forth`, `forth_scan` and `arrays`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from arrow_avro.decoding.batches import BatchAssembler, Body, UnreadableBlockError, run_budget
from arrow_avro.decoding.error_position import error_position
from arrow_avro.decoding.legacy_calendar import LegacyCalendar
from arrow_avro.decoding.plan import Record, ValueRules
from arrow_avro.decoding.resolve import followed, resolve
from arrow_avro.decoding.scanners import Scanner, scanner_class
from arrow_avro.decoding.superset import superset
from arrow_avro.decoding.value_errors import DamagedValueError, UnrepresentableValueError, UnresolvedError
from arrow_avro.files import block_codecs
from arrow_avro.files.container_file import InMemorySource, blocks, read_header
from arrow_avro.files.gzipped import GunzippedSource, is_gzip
from arrow_avro.limits import (
    DEFAULT_LIMITS,
    INVALID_UTF8,
    MAX_BATCH_BYTES,
    MAX_BLOCK_BYTES,
    RECURSIVE_FIELD_MAX_DEPTH,
    BeyondLimitError,
    ReadLimits,
)
from arrow_avro.schema import AvroSchema, arrow_schema, header_schema
from arrow_avro.types import has_no_bytes
from foundation.errors import AzureBlobError, ConfigurationError, CorruptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from arrow_avro.files.container_file import AvroBlock, Bytes, FileHeader
    from arrow_avro.types import AvroType

__all__ = ["decode_blob", "decode_blocks", "superset"]

_MAX_EMPTY_ROWS = 1 << 24  # of a block whose rows have no bytes
_RESTART = "Start the query again: it then reads by the schemas that the stream has now."
_DEEPER = f"Raise option {RECURSIVE_FIELD_MAX_DEPTH}, or leave the column out with option columns."
_REPORT = "Report this with the header of the blob; leave the blob out until then."
_NOT_UTF8 = (
    f"Set option {INVALID_UTF8} to replace, to read it as Java does; or give option avroSchema with plain bytes for "
    "that column, or leave it out with option columns. If the blob is damaged, restore it, or skip what follows with "
    "option ignoreCorruptBlobs."
)
_SKIP = "Restore the blob, or skip it with option ignoreCorruptBlobs."


def decode_blob(
    data: Bytes,
    *,
    blob: str,
    reader: AvroSchema | None = None,
    columns: Sequence[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a whole blob, gzipped or not, in batches of `arrow_schema(reader)`.

    data: the bytes of the blob; an empty blob has no rows.
    blob: its name, for errors.
    reader: the schema to read the rows as; by default the writer's.
    columns: the Arrow names of the columns to read, by default all; the others are skipped.
    limits: of the memory that the rows may take.

    `CorruptError`, which names blob and byte, for bytes that are no rows. `ConfigurationError`, which names blob and
    column, for rows that do not resolve to `reader`, have a value that its types cannot hold, or exceed the limits.
    """
    whole = InMemorySource(memoryview(data))
    plain = GunzippedSource(whole, blob) if is_gzip(data) else whole
    if plain.clip(1):
        header = read_header(plain, blob=blob)
        framed = blocks(plain, header, blob=blob, most=limits.block_bytes)
        yield from decode_blocks(header, framed, blob=blob, reader=reader, columns=columns, limits=limits)


def decode_blocks(
    header: FileHeader,
    framed: Iterable[AvroBlock],
    *,
    blob: str,
    reader: AvroSchema | None = None,
    columns: Sequence[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of some blocks of a blob.

    header: of the blob.
    framed: the blocks, in order.
    blob, reader, columns, limits: as for `decode_blob`, with its errors.
    """
    given = reader is not None and reader.given
    with _named_errors(blob, "its schema", given=given):
        rules = ValueRules(limits.replace_invalid_utf8, LegacyCalendar.of(header.metadata))
        decoder = _decoder(header.schema_json, reader, None if columns is None else tuple(columns), rules, blob)
        budget = run_budget(decoder.avro, decoder.plan, limits.batch_rows, limits.batch_bytes)
    with decoder.scanner() as scanner:
        batches = BatchAssembler(scanner, decoder.plan, decoder.arrow, budget)
        for block in framed:
            with _named_errors(blob, f"the block from byte {block.offset}"):
                batches.add(_body(header, block, decoder, blob, limits.block_bytes))
            while batches.full:
                yield from _next(decoder, batches, blob)
        while not batches.empty:
            yield from _next(decoder, batches, blob)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """How the rows of one writer schema are read, and scanners that are not in use.

    `given` if the reader schema is that of option avroSchema.
    """

    avro: AvroType
    plan: Record
    arrow: pa.Schema
    given: bool
    scan_with: type[Scanner]
    idle: list[Scanner] = field(default_factory=list)

    @contextmanager
    def scanner(self) -> Iterator[Scanner]:
        """A scanner for one reader at a time. The next reader uses what it has learnt."""
        try:
            scanner = self.idle.pop()
        except IndexError:
            scanner = self.scan_with(self.avro, self.plan)
        try:
            yield scanner
        finally:
            self.idle.append(scanner)


def _decoder(
    writer_json: str, reader: AvroSchema | None, columns: tuple[str, ...] | None, rules: ValueRules, blob: str
) -> _Decoder:
    writer = header_schema(writer_json, blob=blob)
    try:
        reader = reader or superset([writer], columns)
        return _resolved(writer, reader, reader.given, columns, rules, scanner_class())  # type: ignore[arg-type] # a class is hashable
    except ConfigurationError as cause:
        raise ConfigurationError("read", f"blob {blob}", cause.failure, cause.next_step) from cause


@lru_cache(maxsize=64)
def _resolved(
    writer: AvroSchema,
    reader: AvroSchema,
    given: bool,
    columns: tuple[str, ...] | None,
    rules: ValueRules,
    scan_with: type[Scanner],
) -> _Decoder:
    arrow = arrow_schema(reader)
    plan = resolve(writer.row, reader.row, rules)
    if not isinstance(plan, Record):
        raise TypeError(f"a record was resolved to {plan}")
    if columns is not None:
        places = [arrow.get_field_index(name) for name in columns]
        missing = [name for name, place in zip(columns, places, strict=True) if place < 0]
        if missing:
            known = ", ".join(arrow.names)
            raise ConfigurationError(f"there is no column {', '.join(missing)} among {known}. Correct option columns.")
        arrow = pa.schema([arrow.field(place) for place in places])
        plan = replace(plan, arrow=pa.struct(list(arrow)), fields=tuple(plan.fields[place] for place in places))
    return _Decoder(followed(writer.row, plan), plan, arrow, given, scan_with)


def _body(header: FileHeader, block: AvroBlock, decoder: _Decoder, blob: str, most: int) -> Body:
    try:
        body = block_codecs.codec(header.codec).decompress(block.body, most)
    except CorruptError as cause:
        raise _corrupt(blob, block.offset, str(cause)) from cause
    except BeyondLimitError as cause:
        raise _beyond(blob, block.offset, cause) from cause
    except ConfigurationError as cause:
        step = "Write the blob again in another codec."
        raise ConfigurationError("read", f"blob {blob}", cause.failure, step) from cause
    if block.rows > _MAX_EMPTY_ROWS and has_no_bytes(decoder.avro):
        raise _corrupt(blob, block.offset, f"it claims {block.rows} rows that have no bytes")
    if block.rows > len(body) and not has_no_bytes(decoder.avro):
        raise _corrupt(blob, block.offset, f"it claims {block.rows} rows, but it has {len(body)} bytes")
    return Body(block.offset, block.rows, memoryview(body))


def _next(decoder: _Decoder, batches: BatchAssembler, blob: str) -> list[pa.RecordBatch]:
    """The next batch, if it has rows."""
    try:
        with _named_errors(blob, f"the block from byte {batches.offset}, or one after it,", given=decoder.given):
            batch = batches.next()
    except UnreadableBlockError as unreadable:
        raise _unreadable(decoder, unreadable, blob) from unreadable.reason
    return [batch] if batch.num_rows else []


def _unreadable(decoder: _Decoder, unreadable: UnreadableBlockError, blob: str) -> AzureBlobError:
    """The error for a block that cannot be read, which names its first damaged row."""
    body, reason = unreadable.body, unreadable.reason
    if isinstance(reason, BeyondLimitError):
        return _beyond(blob, body.offset, reason, f"row {body.rows_before}: ")
    with _named_errors(blob, f"the block from byte {body.offset}"):
        place = error_position(decoder.avro, decoder.plan, unreadable.failed, body.rows_before)
    if isinstance(reason, DamagedValueError):  # which names its column, and those within it
        return _corrupt(blob, body.offset, f"{place.partition('column')[0]}{reason}", _NOT_UTF8)
    return _corrupt(blob, body.offset, f"{place}{reason}")


@contextmanager
def _named_errors(blob: str, what: str, *, given: bool = False) -> Iterator[None]:
    """Turns every error of the body into one of this project that names the blob, with the error as its cause.

    `what` was being read. `given` if the reader schema is that of option avroSchema.
    """
    try:
        yield
    except (AzureBlobError, UnreadableBlockError):
        raise
    except UnresolvedError as cause:
        raise _unresolved(blob, cause, given=given) from cause
    except UnrepresentableValueError as cause:
        raise _unrepresentable(blob, cause) from cause
    except BeyondLimitError as cause:
        raise ConfigurationError("read", f"blob {blob}", str(cause), cause.step) from cause
    except MemoryError as cause:
        step = f"Lower options {MAX_BLOCK_BYTES} and {MAX_BATCH_BYTES}, or give the workers more memory."
        raise ConfigurationError("read", f"blob {blob}", f"{what} takes more memory than there is", step) from cause
    except pa.ArrowException as cause:
        held = UnrepresentableValueError(f"Arrow cannot hold a value ({cause})", "")
        raise _unrepresentable(blob, held) from cause
    except Exception as cause:
        kind = f"{what} cannot be read ({type(cause).__name__}: {cause})"
        raise ConfigurationError("read", f"blob {blob}", kind, _REPORT) from cause


def _corrupt(blob: str, offset: int, cause: str, step: str = _SKIP) -> CorruptError:
    return CorruptError("read", f"blob {blob}", f"in the block from byte {offset}, {cause}", step)


def _unresolved(blob: str, cause: UnresolvedError, *, given: bool) -> ConfigurationError:
    step = "Change option avroSchema, or leave it out." if given else _DEEPER if cause.recursive else _RESTART
    return ConfigurationError("read", f"blob {blob}", str(cause), step)


def _unrepresentable(blob: str, cause: UnrepresentableValueError) -> ConfigurationError:
    plain = f"Give option avroSchema with plain {cause.plain} for that column, or leave it out with option columns."
    step = plain if cause.plain else "Leave the column out with option columns."
    return ConfigurationError("read", f"blob {blob}", str(cause), step)


def _beyond(blob: str, offset: int, cause: BeyondLimitError, place: str = "") -> ConfigurationError:
    target = f"blob {blob}, block from byte {offset},"
    return ConfigurationError("read", target, f"{place}{cause}", cause.step)
