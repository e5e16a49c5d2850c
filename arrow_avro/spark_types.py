"""Conversions between Spark's types and Arrow's, on every supported pyspark."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, is_variant, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

# pyspark 4.0–4.2 always use UTC; 4.3 has a parameter for the time zone.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_of(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark passes and accepts rows of `schema`; timestamps are in UTC.

    `ConfigurationError` names the first column whose type Arrow does not have.
    """
    for field in schema:
        try:
            to_arrow_schema(StructType([field]), **_IN_UTC)
        except PySparkException as error:  # noqa: PERF203 - a handful of columns
            message = (
                f"column {field.name!r} has type {field.dataType.simpleString()}, which has no Avro form. "
                "Cast or drop it in the query."
            )
            raise ConfigurationError(message) from error
    return to_arrow_schema(schema, **_IN_UTC)


def well_formed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """`batch` with offsets in all its arrays.

    Spark 4.0's Arrow library omits the offsets of an empty array, in a column as in a list or map. Whatever reads the
    offsets, pyarrow included, then reads beyond the buffer and crashes the worker.
    """
    if not any(pa.types.is_nested(kind) for kind in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([_with_offsets(column) for column in batch.columns], schema=batch.schema)


def _with_offsets(array: pa.Array) -> pa.Array:
    if not len(array):
        return pa.array([], array.type)
    if not pa.types.is_nested(array.type):
        return array
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(array.type):
        fields = [_with_offsets(array.field(place)) for place in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(array.type), mask=nulls)
    if pa.types.is_map(array.type):
        keys, items = _with_offsets(array.keys), _with_offsets(array.items)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=array.type, mask=nulls)
    return pa.ListArray.from_arrays(array.offsets, _with_offsets(array.values), type=array.type, mask=nulls)


def spark_of(schema: pa.Schema) -> StructType:
    """The Spark schema of rows in this Arrow schema.

    `ConfigurationError` names the first column whose type this version of Spark does not have.
    """
    return _struct(schema)


def _struct(fields: Iterable[pa.Field]) -> StructType:
    return StructType([StructField(field.name, _named_type(field), field.nullable) for field in fields])


def _named_type(field: pa.Field) -> DataType:
    try:
        return _type(field.type)
    except PySparkException as error:
        message = (
            f"column {field.name!r} is stored as {field.type}, for which this version of Spark has no type. "
            "Read with a later Spark, or name the other columns in the option `columns`."
        )
        raise ConfigurationError(message) from error


def _type(arrow: pa.DataType) -> DataType:
    # Nested types are converted here: pyspark before 4.3 loses whether their elements may be null.
    if pa.types.is_map(arrow):
        return MapType(_type(arrow.key_type), _type(arrow.item_type), arrow.item_field.nullable)
    if pa.types.is_list(arrow):
        return ArrayType(_type(arrow.value_type), arrow.value_field.nullable)
    if pa.types.is_struct(arrow) and not is_variant(arrow):
        return _struct(arrow)
    return from_arrow_type(arrow, prefer_timestamp_ntz=True)
