"""Values as Avro datums, and back. Column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro import SYNC_SIZE, AvroBlock, FileHeader, ReadLimits, RowEncoder, decode_blocks
from foundation.errors import ConfigurationError, CorruptError

if TYPE_CHECKING:
    from adjunct_store.encoding.schema import StoreSchema


def encode_values(values: pa.RecordBatch, schema: StoreSchema) -> pa.Array:
    """The datum of each row, as `large_binary`. `ConfigurationError` for a value that its column cannot hold."""
    rows = RowEncoder(values.schema, schema.avro).encode(values)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(rows.offsets)), pa.py_buffer(rows.data)]
    return pa.Array.from_buffers(pa.large_binary(), len(rows), buffers)


def decode_values(datums: pa.Array, schema: StoreSchema, store: str) -> pa.StructArray:
    """The inverse: structs of `schema.value_type`. The datums have no nulls.

    store: what they are, for the `CorruptError` of datums that are not of the schema.
    """
    offsets = np.frombuffer(datums.buffers()[1], np.int64)[datums.offset : datums.offset + len(datums) + 1]
    body = memoryview(datums.buffers()[2] or b"")[offsets[0] : offsets[-1]]
    header = FileHeader(schema.avro.json, "null", bytes(SYNC_SIZE), 0)
    block = AvroBlock(0, len(datums), body, len(body))
    try:
        limits = ReadLimits(batch_rows=len(datums))
        batches = list(decode_blocks(header, [block], blob=store, reader=schema.avro, limits=limits))
    except (CorruptError, ConfigurationError) as error:  # of blobs, with other advice
        cause = "some are not of the store's schema, though the files are as they were published"
        step = "`python -m adjunct_store verify --deep` shows which; rebuild the store from its source (rebuild=True)."
        raise CorruptError("decode", store, cause, step) from error
    arrays = [batch.to_struct_array() for batch in batches]
    return pa.concat_arrays(arrays) if arrays else pa.nulls(0, schema.value_type)
