"""Spark's types and Arrow's, on every supported pyspark."""

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

# pyspark 4.0–4.2 always take UTC; 4.3 asks for the time zone.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_of(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark hands over, and takes, rows of `schema`; timestamps are in UTC.

    `ConfigurationError` names the first column whose type has no Arrow form.
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


def spark_of(schema: pa.Schema) -> StructType:
    """Spark's schema for rows that are read in this Arrow schema.

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
    # Containers by hand: pyspark before 4.3 forgets whether their elements may be null.
    if pa.types.is_map(arrow):
        return MapType(_type(arrow.key_type), _type(arrow.item_type), arrow.item_field.nullable)
    if pa.types.is_list(arrow):
        return ArrayType(_type(arrow.value_type), arrow.value_field.nullable)
    if pa.types.is_struct(arrow) and not is_variant(arrow):
        return _struct(arrow)
    return from_arrow_type(arrow, prefer_timestamp_ntz=True)
