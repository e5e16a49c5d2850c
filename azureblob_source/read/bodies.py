"""The events of Event Hubs Capture, whose column `Body` has one Avro datum in each row, as structs.

Body: binary ─► the datums behind each other are one block ─► decode_blocks ─► Body: struct
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from arrow_avro import AvroBlock, FileHeader, arrow_schema, decode_blocks, invalid_row, raw_rows, validity
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arrow_avro import AvroSchema, ReadLimits

BODY = "Body"
_SCHEMA = "Set option `bodySchema` to the schema by which the events were written"


def with_bodies(schema: pa.Schema, body: AvroSchema, columns: Sequence[str] | None) -> pa.Schema:
    """The schema with `Body` as a struct, unless it is not among the columns that are read (None: all).

    `ConfigurationError` unless it is a binary column.
    """
    if BODY not in (columns or [BODY]):
        return schema
    place = schema.get_field_index(BODY)
    kind = "there is none" if place < 0 else f"it is {schema.field(place).type}"
    if kind not in ("it is binary", "it is large_binary"):
        raise ConfigurationError(f"Option `bodySchema` is for a binary column `{BODY}`: {kind}. Leave the option out.")
    return schema.set(place, schema.field(place).with_type(_struct(body)))


def decoded_bodies(batch: pa.RecordBatch, body: AvroSchema, blob: str, limits: ReadLimits) -> pa.RecordBatch:
    """The batch with `Body` as a struct, null where it is null; as it is without such a column.

    `ConfigurationError`, which names the blob, if a value is not exactly one datum of the schema.
    """
    place = batch.schema.get_field_index(BODY)
    if place < 0:
        return batch
    column = batch.column(place)
    valid = validity(column)
    there = column if valid is None else column.drop_null()
    structs = _decoded(there, body, blob, limits)
    if valid is not None:
        structs = structs.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
    schema = batch.schema.set(place, batch.schema.field(place).with_type(structs.type))
    columns = [structs if at == place else each for at, each in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decoded(values: pa.Array, body: AvroSchema, blob: str, limits: ReadLimits) -> pa.StructArray:
    rows = raw_rows(values)
    try:
        wrong = invalid_row(rows, body)
    except RecursionError as error:
        raise ConfigurationError("read", f"blob {blob}", f"a `{BODY}` is nested too deeply", _SCHEMA + ".") from error
    if wrong is not None:
        size = int(rows.offsets[wrong + 1] - rows.offsets[wrong])
        step = f"{_SCHEMA}; leave it out if they begin with the header of a registry, and decode `{BODY}` in the query."
        cause = f"a `{BODY}` of {size} bytes is not one datum of option `bodySchema`"
        raise ConfigurationError("read", f"blob {blob}", cause, step)
    start, end = int(rows.offsets[0]), int(rows.offsets[-1])
    block = AvroBlock(0, len(values), rows.data[start:end].data, end - start)
    header = FileHeader(body.json, "null", b"", 0)
    structs = [batch.to_struct_array() for batch in decode_blocks(header, [block], blob=blob, limits=limits)]
    return pa.concat_arrays(structs) if structs else pa.array([], _struct(body))


def _struct(body: AvroSchema) -> pa.DataType:
    return pa.struct(list(arrow_schema(body)))
