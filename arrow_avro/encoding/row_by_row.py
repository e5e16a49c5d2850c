"""Rows to Avro datums one by one with fastavro, for schemas with a union whose branch depends on each value.

Few writes need it, so `encode` imports this module, and with it fastavro, when such a schema comes.
"""

from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa
from pyarrow import types as arrow_is

from arrow_avro.compatibility import is_compatible, member_branches
from arrow_avro.encoding.pieces import EncodedRows
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from arrow_avro.schema import AvroSchema
    from arrow_avro.types import AvroType


class RowByRowEncoder:
    """Encodes record batches of one Arrow schema, which `avro` is compatible with."""

    def __init__(self, arrow: pa.Schema, avro: AvroSchema) -> None:
        self._record = pa.struct(list(arrow))
        self._type = avro.type
        self._parsed = fastavro.parse_schema(avro.root)

    def encode(self, batch: pa.RecordBatch) -> EncodedRows:
        """The datums of all rows. Raises ConfigurationError naming the row of a value that does not fit."""
        out = io.BytesIO()
        offsets = [0]
        for row, values in enumerate(batch.to_pylist()):
            try:
                value = _python_value(values, self._record, self._type)
                fastavro.schemaless_writer(out, self._parsed, value, strict_allow_default=True)
            except (ValueError, TypeError, OverflowError, LookupError) as cause:
                raise ConfigurationError(
                    f"row {row} of its batch does not fit option avroSchema: {cause}. Change the value or the schema."
                ) from cause
            offsets.append(out.tell())
        return EncodedRows(np.frombuffer(out.getvalue(), np.uint8), np.array(offsets, np.int64))


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
