"""Blobs of Avro to Arrow batches of the reader's schema. Pure.

What becomes of a blob and of the two schemas::

    blob ─► framing (container_file, codecs) ─► parts of bodies ─► scan: numpy arrays ─► arrays: Arrow
    header's schema + reader's schema ─► resolve ─► plan ─► program ─┘                      │
                                                     └──────────────────────────────────────┘

A batch is read in one run, out of as many blocks as it needs, the last of them perhaps in part.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from azure_account.errors import ConfigurationError, CorruptError, describe
from azureblob_source.avro import compression as codecs
from azureblob_source.avro.arrays import columns as build_columns
from azureblob_source.avro.container_file import Whole, blocks, read_header
from azureblob_source.avro.gzipped import Inflated, is_gzip
from azureblob_source.avro.limits import DEFAULT_LIMITS, BeyondLimitError, ReadLimits
from azureblob_source.avro.plan import Record, UnresolvedError
from azureblob_source.avro.resolve import read_aliases, resolve
from azureblob_source.avro.scan import Part, Scanner
from azureblob_source.avro.schema import AvroSchema, arrow_schema, parse
from azureblob_source.avro.superset import superset
from azureblob_source.avro.wire import has_no_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from azure_account.account import Bytes
    from azureblob_source.avro.container_file import Block, FileHeader
    from azureblob_source.avro.types import AvroType

__all__ = ["decode_blob", "decode_blocks", "superset"]

BATCH_ROWS = 32_768
_BATCH_BYTES = 64 << 20
_MAX_FREE_ROWS = 1 << 24  # of a block whose rows have no bytes
_SKIP = "Restore the blob, or skip it with option ignoreCorruptBlobs."


def decode_blob(
    data: Bytes,
    *,
    blob: str,
    reader: AvroSchema | None = None,
    batch_rows: int = BATCH_ROWS,
    columns: Sequence[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of a whole blob, gzipped or not, in batches of `arrow_schema(reader)`; without a reader, the writer's.

    `columns` are the Arrow names of those wanted, by default all; the others are skipped. An empty blob has no
    rows. Raises CorruptError, naming blob and byte, and ConfigurationError if the rows do not resolve to `reader` or
    take more memory than `limits` allow.
    """
    whole = Whole(memoryview(data))
    plain = Inflated(whole, blob) if is_gzip(data) else whole
    if plain.cut(1):
        header = read_header(plain, blob=blob)
        framed = blocks(plain, header, blob=blob, most=limits.block_bytes)
        yield from decode_blocks(
            header, framed, blob=blob, reader=reader, batch_rows=batch_rows, columns=columns, limits=limits
        )


def decode_blocks(  # noqa: PLR0913 - the settings of a read, by name
    header: FileHeader,
    framed: Iterable[Block],
    *,
    blob: str,
    reader: AvroSchema | None = None,
    batch_rows: int = BATCH_ROWS,
    columns: Sequence[str] | None = None,
    limits: ReadLimits = DEFAULT_LIMITS,
) -> Iterator[pa.RecordBatch]:
    """The rows of some blocks of a blob; the rest as in `decode_blob`."""
    decoder = _decoder(header.schema_json, reader, None if columns is None else tuple(columns), blob)
    waiting: list[_Body] = []
    rows = size = 0
    with decoder.scanner() as scanner:
        for block in framed:
            waiting.append(_body(header, block, decoder, blob, limits.block_bytes))
            rows, size = rows + waiting[-1].rows, size + len(waiting[-1].data)
            while rows >= batch_rows or size >= _BATCH_BYTES:
                batch, waiting = _next_batch(decoder, scanner, waiting, batch_rows, blob)
                yield batch
                rows, size = sum(body.rows for body in waiting), sum(len(body.data) for body in waiting)
        while waiting:
            batch, waiting = _next_batch(decoder, scanner, waiting, batch_rows, blob)
            if batch.num_rows:
                yield batch


@dataclass(frozen=True, slots=True)
class _Body:
    """What is left of a block, no longer in the file's codec. `offset` is the block's."""

    offset: int
    rows: int
    data: memoryview


@dataclass(frozen=True, slots=True)
class _Decoder:
    """How the rows of one writer schema are read, and scanners that nobody uses now."""

    avro: AvroType
    plan: Record
    arrow: pa.Schema
    idle: list[Scanner] = field(default_factory=list)

    @contextmanager
    def scanner(self) -> Iterator[Scanner]:
        """A scanner for the use of one reader alone; what it learns serves the next one."""
        try:
            scanner = self.idle.pop()
        except IndexError:
            scanner = Scanner(self.avro, self.plan)
        try:
            yield scanner
        finally:
            self.idle.append(scanner)


def _decoder(writer_json: str, reader: AvroSchema | None, columns: tuple[str, ...] | None, blob: str) -> _Decoder:
    try:
        writer = parse(writer_json)
    except ConfigurationError as cause:
        raise CorruptError(describe("read", f"blob {blob}", f"the schema in its header: {cause}", _SKIP)) from cause
    try:
        return _resolved(writer, reader or writer, columns)
    except UnresolvedError as cause:
        raise ConfigurationError(_unresolved(blob, cause)) from cause


@lru_cache(maxsize=64)
def _resolved(writer: AvroSchema, reader: AvroSchema, columns: tuple[str, ...] | None) -> _Decoder:
    arrow = arrow_schema(reader)
    plan = resolve(writer.type, reader.type, read_aliases(reader.root))
    if not isinstance(plan, Record):
        raise UnresolvedError((), f"what was written is a {writer.type}, not a record, so its datums are not rows")
    if columns is not None:
        places = [arrow.get_field_index(name) for name in columns]
        missing = [name for name, place in zip(columns, places, strict=True) if place < 0]
        if missing:
            known = ", ".join(arrow.names)
            raise ConfigurationError(f"there is no column {', '.join(missing)} among {known}. Correct option columns.")
        arrow = pa.schema([arrow.field(place) for place in places])
        plan = replace(plan, arrow=pa.struct(list(arrow)), fields=tuple(plan.fields[place] for place in places))
    return _Decoder(writer.type, plan, arrow)


def _body(header: FileHeader, block: Block, decoder: _Decoder, blob: str, most: int) -> _Body:
    if block.rows > _MAX_FREE_ROWS and has_no_bytes(decoder.avro):
        raise CorruptError(_corrupt(blob, block.offset, f"it claims {block.rows} rows that have no bytes"))
    try:
        body = codecs.codec(header.codec).decompress(block.body, most)
    except CorruptError as cause:
        raise CorruptError(_corrupt(blob, block.offset, str(cause))) from cause
    except BeyondLimitError as cause:
        raise _beyond(blob, block.offset, cause) from cause
    except ConfigurationError as cause:
        message = describe("read", f"blob {blob}", str(cause), "Write the blob anew in another codec.")
        raise ConfigurationError(message) from cause
    return _Body(block.offset, block.rows, memoryview(body))


def _next_batch(
    decoder: _Decoder, scanner: Scanner, waiting: list[_Body], batch_rows: int, blob: str
) -> tuple[pa.RecordBatch, list[_Body]]:
    """A batch out of the first bodies, and what is left of all."""
    parts = _parts(waiting, batch_rows)
    batch, end = _read(decoder, scanner, waiting, parts, blob)
    left = waiting[len(parts) :]
    if not parts[-1].whole:
        last = waiting[len(parts) - 1]
        left.insert(0, _Body(last.offset, last.rows - parts[-1].rows, last.data[end:]))
    return batch, left


def _parts(waiting: list[_Body], batch_rows: int) -> list[Part]:
    """As many rows as fit into a batch, at least one; how large they are is guessed by the average of their block."""
    parts: list[Part] = []
    rows, size = batch_rows, _BATCH_BYTES
    for body in waiting:
        fit = min(body.rows, rows, size * body.rows // max(len(body.data), 1))
        if not parts:
            fit = max(fit, min(body.rows, 1))
        if fit or not body.rows:
            parts.append(Part(body.data, fit, fit == body.rows))
        rows, size = rows - fit, size - len(body.data)
        if fit < body.rows or rows <= 0 or size <= 0:
            break
    return parts


def _read(
    decoder: _Decoder, scanner: Scanner, bodies: Sequence[_Body], parts: Sequence[Part], blob: str
) -> tuple[pa.RecordBatch, int]:
    """The rows of all parts as a batch, and where the last part ended."""
    try:
        scan = scanner.scan(parts)
        arrays = build_columns(decoder.plan, scan)
    except UnresolvedError as cause:
        raise ConfigurationError(_unresolved(blob, cause)) from cause
    except (CorruptError, pa.ArrowException) as cause:
        if len(parts) > 1:  # the first that is broken by itself is to blame
            for body, part in zip(bodies, parts, strict=False):
                _read(decoder, scanner, [body], [part], blob)
        reason = str(cause) if isinstance(cause, CorruptError) else f"a value does not have its type ({cause})"
        raise CorruptError(_corrupt(blob, bodies[0].offset, reason)) from cause
    if not arrays:
        rows = pa.Array.from_buffers(decoder.plan.arrow, scan.rows, [None], 0)
        return pa.RecordBatch.from_struct_array(rows), scan.end
    return pa.RecordBatch.from_arrays(arrays, schema=decoder.arrow), scan.end


def _corrupt(blob: str, offset: int, cause: str) -> str:
    return describe("read", f"blob {blob}", f"in the block from byte {offset}, {cause}", _SKIP)


def _beyond(blob: str, offset: int, cause: BeyondLimitError) -> ConfigurationError:
    return ConfigurationError(describe("read", f"blob {blob}, block from byte {offset},", str(cause), cause.step))


def _unresolved(blob: str, cause: UnresolvedError) -> str:
    return describe("read", f"blob {blob}", str(cause), "Change option avroSchema, or leave it out.")
