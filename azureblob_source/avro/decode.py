"""Blobs of Avro to Arrow batches of the reader's schema. Pure.

What becomes of a blob and of the two schemas::

    blob ─► framing (container_file, codecs) ─► rows of wire values (fastavro) ─► columns (arrays)
    header's schema + reader's schema ─► resolve ─► plan ─────────────────────────┘
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from azure_account.errors import ConfigurationError, CorruptError, describe
from azureblob_source.avro import compression as codecs
from azureblob_source.avro.arrays import columns as build_columns
from azureblob_source.avro.container_file import blocks, is_gzip, read_header, ungzip
from azureblob_source.avro.plan import Record, UnresolvedError
from azureblob_source.avro.resolve import read_aliases, resolve
from azureblob_source.avro.schema import AvroSchema, arrow_schema, parse
from azureblob_source.avro.superset import superset
from azureblob_source.avro.wire import wire_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from azure_account.account import Bytes
    from azureblob_source.avro.container_file import Block, FileHeader

__all__ = ["decode_blob", "decode_blocks", "superset"]

_BATCH_BYTES = 64 << 20
_SKIP = "Restore the blob, or skip it with option ignoreCorruptBlobs."
_WRONG_DATUM = (EOFError, IndexError, ValueError, OverflowError, MemoryError, struct.error)


def decode_blob(
    data: Bytes,
    *,
    blob: str,
    reader: AvroSchema | None = None,
    batch_rows: int = 10_000,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a whole blob, gzipped or not, in batches of `arrow_schema(reader)`; without a reader, the writer's.

    `columns` are the Arrow names of those wanted, by default all; the others are skipped unread. An empty blob has no
    rows. Raises CorruptError, naming blob and byte, and ConfigurationError if the rows do not resolve to `reader`.
    """
    plain = ungzip(data, blob=blob) if is_gzip(data) else data
    if len(plain):
        header = read_header(plain, blob=blob)
        framed = blocks(plain, header, blob=blob)
        yield from decode_blocks(header, framed, blob=blob, reader=reader, batch_rows=batch_rows, columns=columns)


def decode_blocks(
    header: FileHeader,
    framed: Iterable[Block],
    *,
    blob: str,
    reader: AvroSchema | None = None,
    batch_rows: int = 10_000,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of some blocks of a blob; the rest as in `decode_blob`."""
    decoder = _decoder(header.schema_json, reader, None if columns is None else tuple(columns), blob)
    for offset, rows in _rows(header, framed, decoder, blob, batch_rows):
        yield _batch(decoder, rows, blob, offset)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """How the rows of one writer schema are read. `wanted` lacks the fields of `wire` that fastavro is to skip."""

    wire: Any
    wanted: Any
    plan: Record
    arrow: pa.Schema


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
    wire = wire_schema(writer.type)
    keys = {key for key, _ in plan.fields}
    wanted = {**wire, "fields": [field for field in wire["fields"] if field["name"] in keys]}
    skips = len(wanted["fields"]) < len(wire["fields"])
    return _Decoder(fastavro.parse_schema(wire), fastavro.parse_schema(wanted) if skips else None, plan, arrow)


def _rows(
    header: FileHeader, framed: Iterable[Block], decoder: _Decoder, blob: str, batch_rows: int
) -> Iterator[tuple[int, list[Any]]]:
    """Rows for one batch after the other, each with the offset of the block in which it ends."""
    waiting: list[Any] = []
    offset = header.size
    for block in framed:
        offset = block.offset
        body = _body(header, block, blob)
        limit = min(batch_rows, max(1, _BATCH_BYTES * block.rows // max(len(body), 1)))
        stream, left = BytesIO(body), block.rows
        while left:
            taken = min(left, max(limit - len(waiting), 1))
            waiting += _datums(stream, taken, decoder, blob, offset)
            left -= taken
            if len(waiting) >= limit:
                yield offset, waiting
                waiting = []
        if stream.tell() != len(body):
            surplus = len(body) - stream.tell()
            raise CorruptError(_corrupt(blob, offset, f"{surplus} bytes are left behind its {block.rows} rows"))
    if waiting:
        yield offset, waiting


def _body(header: FileHeader, block: Block, blob: str) -> Bytes:
    try:
        return codecs.codec(header.codec).decompress(block.body)
    except CorruptError as cause:
        raise CorruptError(_corrupt(blob, block.offset, str(cause))) from cause
    except ConfigurationError as cause:
        message = describe("read", f"blob {blob}", str(cause), "Write the blob anew in another codec.")
        raise ConfigurationError(message) from cause


def _datums(stream: BytesIO, count: int, decoder: _Decoder, blob: str, offset: int) -> list[Any]:
    read, wire, wanted = fastavro.schemaless_reader, decoder.wire, decoder.wanted
    try:
        return [read(stream, wire, wanted) for _ in range(count)]
    except _WRONG_DATUM as cause:
        raise CorruptError(_corrupt(blob, offset, f"a row is unreadable ({cause!r})")) from cause


def _batch(decoder: _Decoder, rows: list[Any], blob: str, offset: int) -> pa.RecordBatch:
    try:
        arrays = build_columns(decoder.plan, rows)
    except UnresolvedError as cause:
        raise ConfigurationError(_unresolved(blob, cause)) from cause
    except (pa.ArrowException, OverflowError) as cause:
        raise CorruptError(_corrupt(blob, offset, f"a value does not have its type ({cause})")) from cause
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), decoder.plan.arrow))
    return pa.RecordBatch.from_arrays(arrays, schema=decoder.arrow)


def _corrupt(blob: str, offset: int, cause: str) -> str:
    return describe("read", f"blob {blob}", f"in the block from byte {offset}, {cause}", _SKIP)


def _unresolved(blob: str, cause: UnresolvedError) -> str:
    return describe("read", f"blob {blob}", str(cause), "Change option avroSchema, or leave it out.")
