"""Rows to Avro datums: whole columns at a time, or row by row with fastavro where a schema demands it.

The modules of this package explain each step with one example, two rows of nullable columns, in hexadecimal::

    {"id": 3, "name": "Ada Lovelace", "note": None}     02 06 | 02 18 41 64 61 20 4c 6f 76 65 6c 61 63 65 | 00
    {"id": 5, "name": "Alan", "note": None}             02 0a | 02 08 41 6c 61 6e                         | 00

Each column has the type `["null", "int"]` or `["null", "string"]`. A value begins with the varint of its branch, 02 for
the second, and null is that of the first, 00. Then 06 is the varint of 3, and 18 that of 12, the length of the name.
"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro.arrow_values import list_offsets, plain_array
from arrow_avro.compatibility import is_compatible, member_branches
from arrow_avro.encoding.choice import AmbiguousUnionError, record_encoder
from arrow_avro.encoding.column_encoder import UnwritableValueError
from arrow_avro.encoding.nested import RecordEncoder, encode_rows
from arrow_avro.encoding.pieces import EncodedRows
from arrow_avro.schema import AvroSchema, check_writable
from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    from arrow_avro.types import AvroType


class RowEncoder:
    """Encodes record batches of one Arrow schema as datums of one Avro schema.

    Raises ConfigurationError if the schemas do not agree. If the branch of a union depends on each value, `vectorised`
    is False: fastavro then encodes every row, some thirty times slower.
    """

    def __init__(self, arrow: pa.Schema, avro: AvroSchema) -> None:
        check_writable(arrow, avro)
        self._arrow = arrow
        self._avro = avro
        self._encoder: RecordEncoder | None
        try:
            self._encoder = record_encoder(list(arrow), avro.type)
        except AmbiguousUnionError:
            self._encoder = None
            self._parsed = fastavro.parse_schema(avro.root)

    @property
    def vectorised(self) -> bool:
        """Whether whole columns are encoded at a time, not row by row."""
        return self._encoder is not None

    def encode(self, batch: pa.RecordBatch) -> EncodedRows:
        """The datums of all rows of `batch`, which must have the encoder's Arrow schema.

        Raises ConfigurationError naming column and row of a value that does not fit the Avro schema.
        """
        if self._encoder is None:
            return self._encode_each(batch)
        try:
            return encode_rows(self._encoder.prepare_fields(batch.columns, batch.num_rows), batch.num_rows)
        except OverflowError as cause:
            raise ConfigurationError(f"a batch of {batch.num_rows} rows is too large: {cause}. Send fewer.") from cause
        except UnwritableValueError as cause:
            step = "the type in option avroSchema" if self._avro.given else "give option avroSchema with another type"
            raise ConfigurationError(
                f"column {'.'.join(cause.path)!r}, row {cause.row} of its batch: {cause.reason}. "
                f"Change the value, or {step}."
            ) from cause

    def _encode_each(self, batch: pa.RecordBatch) -> EncodedRows:
        out = io.BytesIO()
        offsets = [0]
        record = pa.struct(list(self._arrow))
        for row, values in enumerate(batch.to_pylist()):
            try:
                value = _python_value(values, record, self._avro.type)
                fastavro.schemaless_writer(out, self._parsed, value, strict_allow_default=True)
            except (ValueError, TypeError, OverflowError, LookupError) as cause:
                raise ConfigurationError(
                    f"row {row} of its batch does not fit option avroSchema: {cause}. Change the value or the schema."
                ) from cause
            offsets.append(out.tell())
        return EncodedRows(np.frombuffer(out.getvalue(), np.uint8), np.array(offsets, np.int64))


def raw_rows(column: pa.Array) -> EncodedRows:
    """The rows of a column of encoded datums, not copied. Raises ConfigurationError at a null or another type."""
    column = plain_array(column)
    if not (arrow_is.is_binary(column.type) or arrow_is.is_large_binary(column.type)):
        column = _as_binary(column)
    if column.null_count:
        row = column.is_null().index(pa.scalar(value=True)).as_py()
        raise ConfigurationError(f"the valueColumn is null in row {row} of its batch. Filter such rows out first.")
    data = column.buffers()[2]
    return EncodedRows(np.frombuffer(data if data is not None else b"", np.uint8), list_offsets(column))


def _as_binary(column: pa.Array) -> pa.Array:
    if not arrow_is.is_fixed_size_binary(column.type):
        raise ConfigurationError(f"the valueColumn is of Arrow type {column.type}, but encoded datums are binary.")
    return column.cast(pa.large_binary())


def _python_value(value: Any, arrow: pa.DataType, avro: AvroType) -> Any:
    """A value of `to_pylist` in the form that fastavro expects."""
    if value is None:
        return None
    match avro.kind:
        case "union":
            return _union_value(value, arrow, avro)
        case "record":
            kinds = {field.name: field.type for field in arrow}
            members = [member for member in avro.fields if member.column in kinds]
            return {m.name: _python_value(value[m.column], kinds[m.column], m.type) for m in members}
        case "array" if avro.logical == "map" and arrow_is.is_map(arrow):
            key, item = avro.element.fields
            keys = [_python_value(one, arrow.key_type, key.type) for one, _ in value]
            items = [_python_value(one, arrow.item_type, item.type) for _, one in value]
            return [{"key": one, "value": other} for one, other in zip(keys, items, strict=True)]
        case "array":
            return [_python_value(item, arrow.value_type, avro.element) for item in value]
        case "map":
            return {key: _python_value(item, arrow.item_type, avro.element) for key, item in value}
        case "long" if isinstance(value, timedelta):
            return value // timedelta(microseconds=1)
    return value


def _union_value(value: Any, arrow: pa.DataType, avro: AvroType) -> Any:
    members = member_branches(arrow, avro)
    if members is not None:
        present = [(f, i) for f, i in zip(list(arrow), members, strict=True) if value[f.name] is not None]
        return next((_python_value(value[f.name], f.type, avro.branches[i]) for f, i in present), None)
    branch = next(branch for branch in avro.branches if branch.kind != "null" and is_compatible(arrow, branch))
    return _python_value(value, arrow, branch)
