"""Conversions between Spark's types and Arrow's, on every supported pyspark."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, is_variant, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

# pyspark 4.0–4.2 always use UTC; 4.3 has a parameter for the time zone.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


_NOT_IN_ARROW = (PySparkException, ValueError, TypeError, NotImplementedError, pa.ArrowException)
"""What pyspark and pyarrow raise of a type; not all of it is their own."""


def arrow_of(schema: StructType) -> pa.Schema:
    """The Arrow schema in which Spark passes and accepts rows of `schema`; timestamps are in UTC.

    `ConfigurationError` names the first column, or field in one, whose type Arrow does not have.
    """
    try:
        return _arrow_of(schema)
    except _NOT_IN_ARROW as error:
        path, kind = next(found for field in schema if (found := _without_arrow(field.name, field.dataType)))
        message = (
            f"column {path!r} has type {kind.simpleString()}, which has no Avro form. Cast or drop it in the query."
        )
        raise ConfigurationError(message) from error


def _arrow_of(schema: StructType) -> pa.Schema:
    return to_arrow_schema(_with_void_elements(schema), **_IN_UTC)


def _without_arrow(path: str, kind: DataType) -> tuple[str, DataType] | None:
    """The innermost type, with its path, that Arrow does not have."""
    for name, inner in _inner_types(kind):
        found = _without_arrow(f"{path}.{name}", inner)
        if found is not None:
            return found
    try:
        _arrow_of(StructType([StructField("value", kind)]))
    except _NOT_IN_ARROW:
        return path, kind
    return None


def _inner_types(kind: DataType) -> list[tuple[str, DataType]]:
    match kind:
        case StructType():
            return [(field.name, field.dataType) for field in kind]
        case ArrayType():
            return [("element", kind.elementType)]
        case MapType():
            return [("key", kind.keyType), ("value", kind.valueType)]
    return []


def _with_void_elements(kind: Any) -> Any:
    """The type with voids that may be null: that of `array()` may not in Spark, and must in Arrow."""
    match kind:
        case StructType():
            return StructType(
                [
                    StructField(each.name, _with_void_elements(each.dataType), each.nullable or _is_void(each.dataType))
                    for each in kind
                ]
            )
        case ArrayType():
            inner = kind.elementType
            return ArrayType(_with_void_elements(inner), kind.containsNull or _is_void(inner))
        case MapType():
            key, value = kind.keyType, kind.valueType
            return MapType(
                _with_void_elements(key), _with_void_elements(value), kind.valueContainsNull or _is_void(value)
            )
    return kind


def _is_void(kind: DataType) -> bool:
    return isinstance(kind, NullType)


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
        raise ConfigurationError(
            f"column {field.name!r} is stored as {field.type}, for which this version of Spark has no type. "
            "Read with a later Spark, or name the other columns in the option `columns`."
        ) from error


def _type(arrow: pa.DataType) -> DataType:
    # Nested types are converted here: pyspark before 4.3 loses whether their elements may be null.
    if pa.types.is_map(arrow):
        return MapType(_type(arrow.key_type), _type(arrow.item_type), arrow.item_field.nullable)
    if pa.types.is_list(arrow):
        return ArrayType(_type(arrow.value_type), arrow.value_field.nullable)
    if pa.types.is_struct(arrow) and not is_variant(arrow):
        return _struct(arrow)
    return from_arrow_type(arrow, prefer_timestamp_ntz=True)
