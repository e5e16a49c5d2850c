"""Manifests: live blobs as Iceberg's Avro files, with what this package needs beside Iceberg's fields. Pure.

    live table ─► rows of `manifest_entry` ─► Avro, a block for each 256 blobs
                    ├ Iceberg's: status, sequence number = version + 1, data_file (path, partition, counts, bounds)
                    └ own, from field id 10000 on: attempt, blocks, schema, times

All blobs of a manifest have one partition field (see `iceberg.partition`), whose values `data_file` has.

Iceberg's readers leave the own fields out. Format: https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from arrow_avro import (
    SYNC_SIZE,
    RowEncoder,
    arrow_schema,
    block,
    codec,
    decode_blob,
    header,
    header_schema,
    read_header,
)
from azureblob_source.iceberg.partition import UNPARTITIONED, PartitionField, partition_spec
from azureblob_source.log.checkpoint.live_table import LIVE
from azureblob_source.log.naming import NOT_DATA, partition_value
from foundation.errors import CorruptError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from arrow_avro import AvroSchema, FileHeader

CODEC = "deflate"
_ROWS_OF_A_BLOCK = 256
_EXISTING = 0
_UNMARKED = bytes(SYNC_SIZE)
_NAME_DIGITS = 16
_OWN_IDS = 10000
_VALUE = "value"
FIELD = "partition_field"
"""The column of a live table by which manifests are divided."""
ROOT = "azureblob.root"
"""Header metadata: what stands before the name of a blob in `file_path`."""
REBUILD = "Make it again: `python -m azureblob_source checkpoint … --rebuild`. The log has all that it says."


def optional(kind: Any) -> Any:
    """The Avro type with null."""
    return ["null", kind]


def field(name: str, id_: int, kind: Any) -> dict[str, Any]:
    """An Avro field with Iceberg's id."""
    found: dict[str, Any] = {"name": name, "type": kind, "field-id": id_}
    return found | {"default": None} if isinstance(kind, list) else found


_OWN = (
    ("partition", optional("string")),
    ("attempt", "string"),
    ("blocks", "long"),
    ("uncompressed", "long"),
    ("schema", "string"),
    ("rolled_by", "string"),
    ("min_event_time", optional("long")),
    ("max_event_time", optional("long")),
    ("first_version", optional("long")),
    ("moved_in", optional("long")),
    ("committed", "long"),
    ("earliest", optional("long")),
    ("latest", "long"),
    ("partition_field", optional("string")),
    ("etag", optional("string")),
)


def _map(key: int, value: int) -> dict[str, Any]:
    """The Avro type of a map from field ids to bytes, by the ids of its keys and values."""
    members = [field("key", key, "int"), field("value", value, "bytes")]
    items = {"type": "record", "name": f"k{key}_v{value}", "fields": members}
    return {"type": "array", "logicalType": "map", "items": items}


_DATA_FILE = (
    field("content", 134, "int"),
    field("file_path", 100, "string"),
    field("file_format", 101, "string"),
    field("record_count", 103, "long"),
    field("file_size_in_bytes", 104, "long"),
    field("lower_bounds", 125, optional(_map(126, 127))),
    field("upper_bounds", 128, optional(_map(129, 130))),
)
_OF_FILE = {
    "name": "file_path",
    "rows": "record_count",
    "size": "file_size_in_bytes",
    "lower_bounds": "lower_bounds",
    "upper_bounds": "upper_bounds",
}
"""Columns of a live table that are fields of `data_file`."""


@lru_cache(maxsize=8)
def _schema(of: PartitionField | None = None) -> AvroSchema:
    """The Avro schema of a manifest of blobs with this partition field."""
    fields = [] if of is None else [field(_VALUE, of.id, optional(of.avro))]
    partition = field("partition", 102, {"type": "record", "name": "r102", "fields": fields})
    data_file = {"type": "record", "name": "r2", "fields": [*_DATA_FILE, partition]}
    entry = [
        field("status", 0, "int"),
        field("snapshot_id", 1, optional("long")),
        field("sequence_number", 3, optional("long")),
        field("file_sequence_number", 4, optional("long")),
        field("data_file", 2, data_file),
        *(field(name, _OWN_IDS + place, kind) for place, (name, kind) in enumerate(_OWN)),
    ]
    return header_schema(json.dumps({"type": "record", "name": "manifest_entry", "fields": entry}), blob="a manifest")


@lru_cache(maxsize=8)
def _reader(columns: tuple[str, ...] | None) -> AvroSchema:
    """The schema by which manifests are read, whatever the partitions of the table are."""
    needed = {of for name, of in _OF_FILE.items() if columns is None or name in columns}
    file_fields = [each for each in _DATA_FILE if each["name"] in needed]
    entry = [
        field("sequence_number", 3, optional("long")),
        field("data_file", 2, {"type": "record", "name": "r2", "fields": file_fields}),
        *(
            field(name, _OWN_IDS + place, kind)
            for place, (name, kind) in enumerate(_OWN)
            if columns is None or name in columns
        ),
    ]
    return header_schema(json.dumps({"type": "record", "name": "manifest_entry", "fields": entry}), blob="a manifest")


def manifest_bytes(table: pa.Table, root: str, columns: Mapping[str, Any] | None = None) -> bytes:
    """A manifest of a live table whose blobs have one partition field, as the blob that is stored.

    columns: Iceberg's schema of the blobs; None if it has none. `CorruptError` if the table is from a forged manifest.
    """
    try:
        fields = [None if text is None else PartitionField.parse(text) for text in pc.unique(table[FIELD]).to_pylist()]
        (of,) = fields or [None]
        rows = _entries(table.combine_chunks(), root, of)
    except (ValueError, OverflowError) as error:
        raise CorruptError("write", "a manifest", f"{error!r}", REBUILD) from error
    of_table = {} if columns is None else _of_table(columns, UNPARTITIONED if of is None else of.column_id)
    return avro_file(rows, _schema(of), {ROOT: root.encode(), "format-version": b"2", "content": b"data", **of_table})


def _of_table(columns: Mapping[str, Any], spec_id: int) -> dict[str, bytes]:
    """What the header says of the table."""
    names = {each["id"]: each["name"] for each in columns["fields"]}
    spec = partition_spec(spec_id, names.get(spec_id, ""))
    return {
        "schema": json.dumps(columns).encode(),
        "schema-id": str(columns["schema-id"]).encode(),
        "partition-spec": json.dumps(spec["fields"]).encode(),
        "partition-spec-id": str(spec_id).encode(),
    }


def avro_file(rows: pa.RecordBatch, schema: AvroSchema, metadata: Mapping[str, bytes]) -> bytes:
    """The rows as a container file. The same rows always give the same bytes.

    Its sync marker is the digest of all other bytes: see `checked_header`.
    """
    encoder, compress = RowEncoder(rows.schema, schema), codec(CODEC).compress
    bodies = []
    for start in range(0, rows.num_rows, _ROWS_OF_A_BLOCK):
        encoded = encoder.encode(rows.slice(start, _ROWS_OF_A_BLOCK))
        bodies.append((len(encoded), compress(encoded.data.tobytes())))

    def marked(sync: bytes) -> bytes:
        parts: list[Any] = [header(schema.json, CODEC, sync, metadata)]
        for count, body in bodies:
            parts += block(count, body, sync)
        return b"".join(parts)

    return marked(_digest(marked(_UNMARKED)))


def checked_header(data: bytes, name: str) -> FileHeader:
    """The header of a file of `avro_file`. `CorruptError` unless all its bytes are those that were written."""
    found = read_header(data, blob=name)
    if _digest(data.replace(found.sync, _UNMARKED)) != found.sync:
        raise CorruptError("read", name, "its bytes are not those that were written", REBUILD)
    return found


def digest_of(data: bytes) -> str:
    """What the name of a manifest says of its bytes."""
    return read_header(data).sync.hex()[:_NAME_DIGITS]


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:SYNC_SIZE]


def _entries(table: pa.Table, root: str, of: PartitionField | None = None) -> pa.RecordBatch:
    """The rows of a manifest. Each blob states the snapshot that has added it: that of its version."""
    count = table.num_rows
    schema = arrow_schema(_schema(of))
    kind = schema.field("data_file").type

    def column(name: str) -> pa.Array:
        found = table[name].combine_chunks()
        return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found

    def constant(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), count)

    sequence = pc.add(column("version"), 1)
    of_file = {
        "content": constant(0, pa.int32()),
        "file_path": pc.binary_join_element_wise(root, column("name"), ""),
        "file_format": constant("AVRO", pa.string()),
        "partition": _partitions(column("partition"), of, kind.field("partition").type),
        "record_count": column("rows"),
        "file_size_in_bytes": column("size"),
        "lower_bounds": column("lower_bounds"),
        "upper_bounds": column("upper_bounds"),
    }
    arrays = {
        "status": constant(_EXISTING, pa.int32()),
        "snapshot_id": sequence,
        "sequence_number": sequence,
        "file_sequence_number": sequence,
        "data_file": pa.StructArray.from_arrays([of_file[each.name] for each in kind], fields=list(kind)),
        **{name: column(name) for name, _ in _OWN},
    }
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _partitions(levels: pa.Array, of: PartitionField | None, kind: pa.StructType) -> pa.StructArray:
    """The partitions of blobs with these levels in their names, as Iceberg's values."""
    if of is None:
        return pa.StructArray.from_buffers(kind, len(levels), [None])
    encoded = levels.dictionary_encode()
    distinct = [of.value(partition_value(level)) for level in encoded.dictionary.to_pylist()]
    values = pa.array(distinct, kind.field(_VALUE).type).take(encoded.indices)
    return pa.StructArray.from_arrays([values], fields=list(kind))


def manifest_table(data: bytes, name: str, stream: str, columns: Sequence[str] | None = None) -> pa.Table:
    """The live blobs that the manifest `name` has, as a table with these columns, by default all of `LIVE`.

    `CorruptError` if it is damaged or another one, or names a blob that is no data of the stream.
    """
    file_header = checked_header(data, name)
    if not name.endswith(f"-{file_header.sync.hex()[:_NAME_DIGITS]}.avro"):
        raise CorruptError("read", f"manifest {name}", "it has the bytes of another one", REBUILD)
    root = file_header.metadata.get(ROOT, b"").decode(errors="replace")
    reader = _reader(None if columns is None else tuple(columns))
    found = pa.Table.from_batches(decode_blob(data, blob=name, reader=reader), arrow_schema(reader))
    file = found["data_file"].combine_chunks()
    arrays = []
    for each in LIVE:
        if columns is not None and each.name not in columns:
            continue
        if each.name == "version":
            values = pc.subtract(found["sequence_number"], 1)
        elif each.name in _OF_FILE:
            values = pc.struct_field(file, _OF_FILE[each.name])
        else:
            values = found[each.name]
        if each.name == "name":
            values = _names(values, root, name, stream)
        arrays.append(values)
    wanted = [each for each in LIVE if columns is None or each.name in columns]
    return pa.Table.from_arrays(arrays, schema=pa.schema(wanted))


def _names(paths: pa.Array, root: str, manifest: str, stream: str) -> pa.Array:
    """The names of blobs by their paths."""
    names = pc.utf8_slice_codeunits(paths, len(root))
    own = pc.and_(
        pc.starts_with(paths, f"{root}{stream}/"), pc.invert(pc.match_substring_regex(names, NOT_DATA.pattern))
    )
    if pc.all(own, min_count=0).as_py():
        return names
    first = names.filter(pc.invert(own))[0].as_py()
    cause = f"it names {first!r}, which is no data of {stream}"
    raise CorruptError("read", f"manifest {manifest}", cause, REBUILD)


def without(
    table: pa.Table, *, versions: Collection[int] = (), names: Collection[str] = (), kept_from: int = 0
) -> pa.Table:
    """The table without the blobs of some versions, of those below `kept_from`, and without some blobs by name.

    A blob with moved rows stays if some of its versions are gone: what removes a part of one names it.
    """
    keep = pc.greater_equal(table["version"], kept_from)
    for column, gone in (("version", versions), ("name", names)):
        if gone:
            found = pc.is_in(table[column], value_set=pa.array(gone, table.schema.field(column).type))
            if column == "version":
                found = pc.and_(found, pc.is_null(table["moved_in"]))
            keep = pc.and_(keep, pc.invert(found))
    return table if pc.all(keep).as_py() else table.filter(keep)
