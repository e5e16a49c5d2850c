"""Rows to Avro datums: whole columns at a time, or row by row with fastavro where a schema demands it.

The modules of this package explain each step with one example, two rows of nullable columns, in hexadecimal::

    {"id": 3, "name": "Ada Lovelace", "note": None}     02 06 | 02 18 41 64 61 20 4c 6f 76 65 6c 61 63 65 | 00
    {"id": 5, "name": "Alan", "note": None}             02 0a | 02 08 41 6c 61 6e                         | 00

Each column has the type `["null", "int"]` or `["null", "string"]`. A value begins with the varint of its branch, 02 for
the second, and null is that of the first, 00. Then 06 is the varint of 3, and 18 that of 12, the length of the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro.arrow_values import list_offsets, plain_array
from arrow_avro.encoding.choice import AmbiguousUnionError, record_encoder
from arrow_avro.encoding.column_encoder import UnwritableValueError
from arrow_avro.encoding.nested import RecordEncoder, encode_rows
from arrow_avro.encoding.pieces import EncodedRows
from arrow_avro.schema import AvroSchema, check_writable
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from arrow_avro.encoding.row_by_row import RowByRowEncoder


class RowEncoder:
    """Encodes record batches of one Arrow schema as datums of one Avro schema.

    Raises ConfigurationError if the schemas do not agree. If the branch of a union depends on each value, `vectorised`
    is False: fastavro then encodes every row, some thirty times slower.
    """

    def __init__(self, arrow: pa.Schema, avro: AvroSchema) -> None:
        check_writable(arrow, avro)
        self._avro = avro
        self._encoder: RecordEncoder | RowByRowEncoder
        try:
            self._encoder = record_encoder(list(arrow), avro.type)
        except AmbiguousUnionError:
            from arrow_avro.encoding.row_by_row import RowByRowEncoder  # noqa: PLC0415 - few schemas are so

            self._encoder = RowByRowEncoder(arrow, avro)

    @property
    def vectorised(self) -> bool:
        """Whether whole columns are encoded at a time, not row by row."""
        return isinstance(self._encoder, RecordEncoder)

    def encode(self, batch: pa.RecordBatch) -> EncodedRows:
        """The datums of all rows of `batch`, which must have the encoder's Arrow schema.

        Raises ConfigurationError naming column and row of a value that does not fit the Avro schema.
        """
        if not isinstance(self._encoder, RecordEncoder):
            return self._encoder.encode(batch)
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
