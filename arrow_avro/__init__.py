"""Avro from and to Arrow: schemas, the column-wise encoder, the decoder with schema resolution, container files.

It knows nothing of storage accounts; of the packages beside it, it imports the errors alone. Others import it from
here: a name loads the modules that it needs when it is asked for, so that options load no Arrow, and rows no Spark.

schema    schema_parser ─► types ─► schema; defaults, compatibility (Arrow and Avro), limits
writing   encoding: choice ─► columns, numbers, nested ─► pieces ─► assembly; encode is the entry point
reading   files: container_file, splitting, block_codecs ─► decoding: resolve ─► plan ─► program ─► scan ─► arrays
joining   joining: container files of one schema as one, without decoding rows; files.placing: whose rows are where
values    arrow_values: the buffers of Arrow arrays; nested_arrays: nested ones built again, with their rows and nulls;
          spark_types: Spark's types and Arrow's, the one module with Spark

Pure. But spark_types asks Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arrow_avro.arrow_values import I64, first_not_utf8, int64_array, spans, stored_values, validity
    from arrow_avro.decoding.decode import decode_blob, decode_blocks
    from arrow_avro.decoding.plan import unresolved
    from arrow_avro.decoding.resolve import resolve
    from arrow_avro.decoding.superset import difference, superset
    from arrow_avro.encoding.encode import RowEncoder, raw_rows
    from arrow_avro.encoding.pieces import EncodedRows
    from arrow_avro.encoding.validate import invalid_row, validate_datums
    from arrow_avro.files.block_codecs import CODECS, Codec, codec
    from arrow_avro.files.buffered_ranges import BufferedRanges
    from arrow_avro.files.container_file import (
        SYNC_SIZE,
        AvroBlock,
        FileHeader,
        Source,
        block,
        blocks,
        header,
        read_header,
    )
    from arrow_avro.files.gzipped import GunzippedSource, is_gzip
    from arrow_avro.files.placing import Placement, placed_blocks
    from arrow_avro.files.splitting import is_splittable, split_blocks
    from arrow_avro.joining import JoinedFormat, join_files, joined_sync
    from arrow_avro.limits import (
        BATCH_BYTES,
        BLOCK_BYTES,
        DEFAULT_LIMITS,
        INVALID_UTF8,
        MAX_BATCH_BYTES,
        MAX_BLOCK_BYTES,
        MAX_DEPTH,
        RECURSIVE_FIELD_MAX_DEPTH,
        ReadLimits,
    )
    from arrow_avro.nested_arrays import batch_of, retyped, same_rows, well_formed
    from arrow_avro.schema import AvroSchema, arrow_schema, check_writable, header_schema, infer, names_alike, parse
    from arrow_avro.spark_types import arrow_of, spark_of
    from arrow_avro.types import AvroField, AvroType

__all__ = [
    "BATCH_BYTES",
    "BLOCK_BYTES",
    "CODECS",
    "DEFAULT_LIMITS",
    "I64",
    "INVALID_UTF8",
    "MAX_BATCH_BYTES",
    "MAX_BLOCK_BYTES",
    "MAX_DEPTH",
    "RECURSIVE_FIELD_MAX_DEPTH",
    "SYNC_SIZE",
    "AvroBlock",
    "AvroField",
    "AvroSchema",
    "AvroType",
    "BufferedRanges",
    "Codec",
    "EncodedRows",
    "FileHeader",
    "GunzippedSource",
    "JoinedFormat",
    "Placement",
    "ReadLimits",
    "RowEncoder",
    "Source",
    "arrow_of",
    "arrow_schema",
    "batch_of",
    "block",
    "blocks",
    "check_writable",
    "codec",
    "decode_blob",
    "decode_blocks",
    "difference",
    "first_not_utf8",
    "header",
    "header_schema",
    "infer",
    "int64_array",
    "invalid_row",
    "is_gzip",
    "is_splittable",
    "join_files",
    "joined_sync",
    "names_alike",
    "parse",
    "placed_blocks",
    "raw_rows",
    "read_header",
    "resolve",
    "retyped",
    "same_rows",
    "spans",
    "spark_of",
    "split_blocks",
    "stored_values",
    "superset",
    "unresolved",
    "validate_datums",
    "validity",
    "well_formed",
]

_NAMES = {
    "arrow_values": "I64 first_not_utf8 int64_array spans stored_values validity",
    "decoding.decode": "decode_blob decode_blocks",
    "decoding.plan": "unresolved",
    "decoding.resolve": "resolve",
    "decoding.superset": "difference superset",
    "encoding.encode": "RowEncoder raw_rows",
    "encoding.pieces": "EncodedRows",
    "encoding.validate": "invalid_row validate_datums",
    "files.block_codecs": "CODECS Codec codec",
    "files.buffered_ranges": "BufferedRanges",
    "files.container_file": "SYNC_SIZE AvroBlock FileHeader Source block blocks header read_header",
    "files.gzipped": "GunzippedSource is_gzip",
    "files.placing": "Placement placed_blocks",
    "files.splitting": "is_splittable split_blocks",
    "joining": "JoinedFormat join_files joined_sync",
    "limits": "BATCH_BYTES BLOCK_BYTES DEFAULT_LIMITS INVALID_UTF8 MAX_BATCH_BYTES MAX_BLOCK_BYTES MAX_DEPTH "
    "RECURSIVE_FIELD_MAX_DEPTH ReadLimits",
    "nested_arrays": "batch_of retyped same_rows well_formed",
    "schema": "AvroSchema arrow_schema check_writable header_schema infer names_alike parse",
    "spark_types": "arrow_of spark_of",
    "types": "AvroField AvroType",
}
"""The names of each module, the same as in the imports above, which mypy and import-linter read."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The value of a name that is asked for the first time."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
