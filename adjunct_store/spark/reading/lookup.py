"""Looks keys up in an expression: a column of value structs for columns of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone calls it
from pyspark.sql.types import StructType

from adjunct_store.spark.partitioning import column_of
from adjunct_store.spark.reading.join import picked, values_of
from adjunct_store.spark.reading.pinning import kept, plan
from adjunct_store.spark.reading.settings import ReadSettings
from arrow_avro import arrow_of, retyped, same_rows, spark_of
from azure_account.location import Location
from foundation.arguments import checked
from foundation.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adjunct_store.spark.reading.task_reader import StoreReadSpec


@checked
def lookup(
    store: Location,
    *keys: Column | str,
    streaming: bool = True,
    settings: ReadSettings = ReadSettings(),
) -> Column:
    """The value of each row's key in the store, as a struct; null where the store has no entry.

    store: where the store is.
    keys: columns in the order of the store's keys, of their types. Tasks fail if a type is another one.
    streaming: whether the column is used in a streaming query. If not, the version is pinned now.
    settings: version, form, cache directory.

    Needs Spark 4.1: use `join` with Spark 4.0. Errors: see `join`.
    """
    planned = plan(store, settings, streaming=streaming)
    fields = planned.schema.keys
    if len(keys) != len(fields):
        text = (
            f"Function lookup got {len(keys)} columns; store {store} has {len(fields)} keys: {', '.join(fields.names)}."
        )
        raise ConfigurationError(text)
    arrow_udf: Any = getattr(F, "arrow_udf", None)
    if arrow_udf is None:
        raise ConfigurationError("Function lookup needs Spark 4.1, which has functions over Arrow columns. Use join.")
    values = StructType(list(spark_of(planned.schema.values)))
    columns = [column_of(each) if isinstance(each, str) else each for each in keys]
    found: Column = arrow_udf(_looker(kept(planned), fields, planned.schema.values), values)(*columns)
    return found


def _looker(store: StoreReadSpec, fields: pa.Schema, values: pa.Schema) -> Callable[..., pa.Array]:
    returned = pa.struct(list(arrow_of(spark_of(values))))

    def find(*columns: pa.Array) -> pa.Array:
        found = values_of(store, columns, fields)
        values_found = pa.StructArray.from_arrays(picked(found, values), fields=list(values), mask=found.is_null())
        same_rows(len(found), len(values_found), "the values of a look-up")
        return retyped(values_found, returned)

    # Spark reads how the function is called from its annotations.
    find.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    return find
