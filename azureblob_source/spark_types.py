"""Spark's types and Arrow's, on every supported pyspark."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from azure_account.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

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
    """Spark's schema for rows that are read in this Arrow schema."""
    spark: StructType = from_arrow_schema(schema)
    return spark
